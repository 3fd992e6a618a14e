"""LiteRT on a core: an item is a TFLite file for each launch, run by libLiteRt.so of a pinned wheel.

`litert:xnnpack` computes with XNNPACK: codes have the bits of the specification, on x86-64 and on aarch64; float sums
have another order and lie within a bound.  `litert:builtin` computes codes with LiteRT's own kernels, which round twice
(ruy): a run names the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.targets.base import KERNELS, Claim, KernelCompiler, Target, core_environment
from harness.targets.generated import ItemCode, Launch
from harness.targets.litert import code
from harness.targets.litert.build import COMPILER
from harness.targets.litert.code import Kernels
from harness.targets.litert.convert import Lowerings
from harness.targets.litert.lowering import LiteRtLowering
from harness.targets.litert.settings import LiteRtSettings

VARIANTS = {"xnnpack": Kernels("XNNPACK", None), "builtin": Kernels("built-in kernels for codes", 0)}


class LiteRt(Target):
    """The target with one kind of kernels."""

    name = "litert"
    variants = tuple(VARIANTS)
    Settings = LiteRtSettings
    lowering = LiteRtLowering
    restriction = "others have no form in TFLite here, or, as Exp, one that is too far from the specification"
    fuses_tasks = True
    has_stages = False

    @property
    def reports_times(self) -> bool:
        """False: LiteRT runs on the item's own core."""
        return False

    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the code that calls LiteRT."""
        return (KERNELS / "litert",)

    def headers(self) -> tuple[str, ...]:
        """Return the headers of the generated C code."""
        return ("litert.h",)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """Return the code of an item, with its TFLite files."""
        return code.generate(item, launches, VARIANTS[self.variant], cast(Lowerings, self.lowerings))

    def claim(self, layer: Layer) -> Claim:
        """Return whether the layer has the specification's bits, or lies within its tolerance."""
        lowering: LiteRtLowering[Layer] = self.lowering_of(layer)
        return lowering.claim_of(layer)

    def compiler(self) -> KernelCompiler:
        """Return the build with the library."""
        return COMPILER

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the emulated CPU."""
        return core_environment(profile)
