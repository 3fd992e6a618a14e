"""The cores of a TI TDA4VM under TIOVX: the operators that need no floating point, in integers only.

`tiovx:c7x` computes on the C7x DSP, by kernels in its firmware; `tiovx:mpu` on the A72 itself, by the same kernels in
the program's own process, which needs no firmware: the first step in a laboratory.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.boards.profile import Profile
from harness.targets.base import HARDWARE, KERNELS, KernelCompiler, Target
from harness.targets.generated import ItemCode, Launch, copied_bytes
from harness.targets.tiovx import code
from harness.targets.tiovx.build import COMPILER
from harness.targets.tiovx.code import TiovxLowering
from harness.targets.tiovx.settings import TiovxSettings

DOUBLE = "host-simulation of TIOVX (double)"  # in simulators/tiovx, too
CORES = {"c7x": "TIVX_TARGET_DSP_C7_1", "mpu": "TIVX_TARGET_MPU_0"}
"""Name of the core in TIOVX, by variant."""
INSTANCES, USER_DATA_OBJECTS, TENSORS = 64, 194, 256
"""The most objects of TIOVX: one instance and one object with constants a layer, one object more at the start."""


class Tiovx(Target):
    """The target on one of the cores."""

    name = "tiovx"
    variants = tuple(CORES)
    Settings = TiovxSettings
    lowering = TiovxLowering
    restriction = "others need floating point, which no kernel here uses"
    fuses_tasks = True
    hardware_checklist = (
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

    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the kernels."""
        return (KERNELS / "tiovx",)

    def headers(self) -> tuple[str, ...]:
        """Return the headers of the generated C code."""
        return ("tiovx.h",)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """Return the code of an item on the A72; the constants configure the core's kernels."""
        return code.generate(item, launches, CORES[self.variant], self.lowering_of)

    def device_bytes(self, launches: Sequence[Launch]) -> int:
        """Return the bytes of the tensors that the DSP reads and writes."""
        return copied_bytes(launches)

    def resource_shortage(self, launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG002 - of TIOVX
        """Return which objects of TIOVX are too few for these graphs (tivx_config_j721e.h)."""
        nodes = sum(map(len, launches))
        counts = (
            (nodes, INSTANCES, "instances of target kernels"),
            (nodes + 1, USER_DATA_OBJECTS, "user data objects"),
            (code.tensors(launches), TENSORS, "tensors"),
        )
        short = (f"needs {count} {name}, TIOVX has {limit}" for count, limit, name in counts if count > limit)
        return next(short, None)

    def kernels_of(self, code: ItemCode) -> Mapping[str, Sequence[str]]:
        """Return the kernels on the core, which are the same for all networks."""
        found: dict[str, list[str]] = {}
        for layer, _ in code.kernels.layers:
            name = self.lowering_of(layer).kernel_of(layer).removeprefix("KERNEL_").lower()
            found.setdefault(f"harness_{name}", []).append(layer.name)
        return found

    def compiler(self) -> KernelCompiler:
        """Return the build against TIOVX, or against its double."""
        return COMPILER

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the double."""
        return DOUBLE if profile.simulated else HARDWARE

    def check_device(self, profile: Profile, device: str) -> str | None:
        """Find a double in the place of TIOVX, the reverse, or TI's emulation for PCs, which has TIOVX's name."""
        if device.startswith(DOUBLE) != profile.simulated:
            expected = "its double" if profile.simulated else "TI's"
            return f"the TIOVX on board {profile.name} calls itself {device!r}, but {expected} should be there"
        if not profile.simulated and profile.local and platform.machine() != "aarch64":
            return f"board {profile.name} is this machine, and TIOVX on {platform.machine()} is TI's emulation for PCs"
        return None
