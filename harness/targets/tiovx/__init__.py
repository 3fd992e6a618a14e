"""The cores of a TI TDA4VM under TIOVX: the operators that need no floating point, in integers alone.

`tiovx:c7x` computes on the C7x DSP, by kernels in its firmware; `tiovx:mpu` on the A72 itself, by the same kernels in
the program's own process, which needs no firmware: the first step in a laboratory.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets import HARDWARE, KERNELS, ItemCode, KernelCompiler, Launch, too_deep
from harness.targets.tiovx import code
from harness.targets.tiovx.build import COMPILER

DOUBLE = "host-simulation of TIOVX (double)"  # in simulators/tiovx, too

UNCONFIRMED = (
    "the image is the one that the program was built against, and its firmware is of the same SDK",
    "every RTOS core runs: cat /sys/class/remoteproc/*/state says `running`",
    "tiovx:mpu is identical on this board (--items c,tiovx:mpu) before tiovx:c7x is tried",
    "the DSP names itself with the digest of these kernels: `item network runs on` above, from its firmware",
    "the compiler of the firmware was cl7x with strict arithmetic; its listing shows VDOTP4SUBW in dot_products",
    "100,000 vectors and a proof (harness prove) are identical on the DSP, with --block 1 too",
    "a run after a reboot, and one beside a load on the other cores, is identical: caches are kept coherent",
    "node times (times_<item>.jsonl) are plausible: below the graph's, and in whole microseconds",
    "standard output of the program has JSON lines only, whatever TIOVX prints",
)


@dataclass(frozen=True)
class Tiovx:
    """The target on one of the cores, by TIOVX's name for it in C."""

    core: str
    together: bool = True
    unconfirmed: tuple[str, ...] = UNCONFIRMED
    taken_for_granted: str = ""

    def refusal(self, layer: Layer) -> str | None:
        """Why this target cannot compute `layer` exactly; None if it can."""
        if not isinstance(layer, QuantizeLinear | QGemm):
            return "it has kernels for QuantizeLinear and QGemm; others need floating point, which no kernel here uses"
        if isinstance(layer, QGemm) and layer.accumulator_bounds()[1].max() == np.iinfo(np.int32).max:
            return "an accumulator can be 2^31 - 1, which stands for a code that is never reached"
        return too_deep(layer)

    def folders(self) -> tuple[Path, ...]:
        """Folders of fixed sources."""
        return (KERNELS / "tiovx",)

    def headers(self) -> tuple[str, ...]:
        """The headers that the generated C code needs."""
        return ("tiovx.h",)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """The code of an item on the A72; what the core computes is in the constants."""
        return code.generate(item, launches, self.core)

    def compiler(self) -> KernelCompiler:
        """What builds against TIOVX, or against its double."""
        return COMPILER

    def ran_on(self, profile: Profile) -> str:
        """`hardware`, or the double."""
        return DOUBLE if profile.simulated else HARDWARE

    def contradiction(self, profile: Profile, device: str) -> str | None:
        """A double in the place of TIOVX, or the other way round; TI's emulation for PCs, of the same name as TIOVX."""
        if device.startswith(DOUBLE) != profile.simulated:
            expected = "its double" if profile.simulated else "TI's"
            return f"the TIOVX on board {profile.name} calls itself {device!r}, but {expected} should be there"
        if not profile.simulated and profile.local and platform.machine() != "aarch64":
            return f"board {profile.name} is this machine, and TIOVX on {platform.machine()} is TI's emulation for PCs"
        return None

    def shortage(self, launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG002 - of the interface
        """None: what a core has no memory for, TIOVX refuses."""
        return None

    def forecast(self, launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - of the interface
        """Nothing."""
        return ()


VARIANTS = {"c7x": Tiovx("TIVX_TARGET_DSP_C7_1"), "mpu": Tiovx("TIVX_TARGET_MPU_0")}
