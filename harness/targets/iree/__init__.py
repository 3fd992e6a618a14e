"""IREE on a core: the layers are MLIR functions that the pinned iree-compile turns into object code for the program.

`iree:static` links this object code into the board program, without IREE's runtime.  All layers have the bits of the
specification: LLVM would contract products and sums of float32 (no flag of IREE turns it off), but each product passes
an operation that keeps both apart.  The build disassembles the code and refuses contracted sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.targets.base import KERNELS, KernelCompiler, Target, core_environment
from harness.targets.generated import ItemCode, Launch
from harness.targets.iree import static
from harness.targets.iree.build import COMPILER
from harness.targets.iree.lowering import IreeLowering
from harness.targets.iree.module import Lowerings
from harness.targets.iree.settings import IreeSettings

ASSUMPTIONS = (
    "The functions that IREE has compiled stay inside the buffers that they are given: step 0 shows that they touch "
    "nothing but these and their own frame, not that an index stays inside a buffer."
)


class Iree(Target):
    """The target with object code that is linked."""

    name = "iree"
    variants = ("static",)
    Settings = IreeSettings
    lowering = IreeLowering
    restriction = "others have no form in MLIR here"
    assumptions = ASSUMPTIONS

    @property
    def reports_times(self) -> bool:
        """False: the code runs on the item's own core."""
        return False

    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the interface of IREE's objects."""
        return (KERNELS / "iree",)

    def headers(self) -> tuple[str, ...]:
        """Return no headers: the generated code declares what it calls."""
        return ()

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:  # noqa: ARG002 - layers have their own names
        """Return the code of an item, with its MLIR modules."""
        return static.generate(launches, cast(Lowerings, self.lowerings))

    def unsupported(self, layer: Layer) -> str | None:
        """Refuse, besides layers without a lowering, activations too large for a stack."""
        if super().unsupported(layer) is None and static.frame_bytes(layer) > static.FRAME_LIMIT:
            return f"its activations take {static.frame_bytes(layer):,} bytes, of at most {static.FRAME_LIMIT:,}"
        return super().unsupported(layer)

    def compiler(self) -> KernelCompiler:
        """Return the build with IREE's compiler."""
        return COMPILER

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the emulated CPU."""
        return core_environment(profile)
