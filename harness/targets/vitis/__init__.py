"""The fabric of a Kria KV260: layers on codes in integers only, by kernels in Vitis HLS C++ that XRT runs.

All other operators stay on the A53: none that needs floating point becomes a circuit here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.boards.profile import Profile
from harness.targets.base import HARDWARE, KERNELS, KernelCompiler, Target
from harness.targets.generated import ItemCode, Launch
from harness.targets.vitis import circuit, code, fabric, records
from harness.targets.vitis.build import COMPILER
from harness.targets.vitis.settings import VitisSettings

SIMULATION = "host-simulation of Vitis HLS (C++)"  # in simulators/vitis, too
EMULATION = "XCL_EMULATION_MODE"  # in kernels/vitis/xrt.cpp, too: XRT then plays the device itself


WORD_BYTES = 4
FOLD = "fold"  # `vitis:fold4`: four products share a multiplier

CHECKLIST = (
    "Vitis HLS takes network.cpp as it stands, and reports II=1 for every pipelined loop (`harness firmware` shows it)",
    "Vivado meets the timing at clock_mhz (WNS, WHS and WPWS are not negative; `harness firmware` refuses otherwise)",
    "the clock that reaches the kernels is clock_mhz: measured time over predicted cycles, for a large block, agrees",
    "the overlay suits the platform: port widths (config-afi), clocks, and where the kernels' interrupts end",
    "xmutil listapps shows the application active, and dmesg shows that zocl has probed without a warning of its own",
    "the kernels name themselves with the digest of these sources: `item network runs on` above, from the fabric",
    "group ids: xrt::kernel::group_id names a memory that the port can reach, for `given` and for `made`",
    "100,000 vectors and a proof (harness prove) are identical on the fabric, with --block 1 too",
    "a run after a reboot, after another application, and beside a load on the other cores, is identical: caches hold",
    "a kernel that does not end is noticed after vitis.timeout_s, named, and gone after xmutil unloadapp and loadapp",
    "times of kernels and transfers (times_<item>.jsonl) are plausible: kernels not below the predicted cycles",
)
ASSUMPTIONS = (
    "It is a kernel for the fabric, of which the next sentence does not speak. Its source has each loop of a layer "
    "once, for the network and for the parts that are asked here; that what has compiled it or made a circuit of it "
    "has kept them one and made of them what C++ says, is not shown, nor that a circuit meets its timing at every "
    "temperature. Where in a record a layer finds its inputs, only whole runs show."
)


class Vitis(Target):
    """The target; its variants fold products, so that they take fewer multipliers and more cycles."""

    name = "vitis"
    variants = ("", *(f"{FOLD}{fold}" for fold in fabric.FOLDS[1:]))
    lowering = circuit.VitisLowering
    Settings = VitisSettings
    restriction = "others need floating point, which no kernel here uses"
    fuses_tasks = True
    hardware_checklist = CHECKLIST
    assumptions = ASSUMPTIONS

    @property
    def fold(self) -> int:
        """The number of products that share a multiplier in time."""
        return int(self.variant.removeprefix(FOLD) or 1)

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the kernels, which scale accumulators as target c does."""
        return (KERNELS / "vitis", KERNELS / "c")

    def headers(self) -> tuple[str, ...]:
        """Return the headers of the generated C code."""
        return ("vitis.h",)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """Return the code of an item: on the A53 in C, in the fabric in C++."""
        return code.generate(item, launches, self.fold)

    def kernels_of(self, code: ItemCode) -> Mapping[str, Sequence[str]]:
        """Return the kernels in the fabric."""
        return {kernel.name: [circuit.layer.name for circuit in kernel.circuits] for kernel in code.kernels}

    def compiler(self) -> KernelCompiler:
        """Return the build against XRT, or against its double."""
        return COMPILER

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the simulation."""
        return SIMULATION if profile.simulated else HARDWARE

    def check_device(self, profile: Profile, device: str) -> str | None:
        """Find a double in the place of XRT, the reverse, or XRT's own emulation in the place of a device."""
        emulated = EMULATION in device and not profile.simulated
        if device.startswith(SIMULATION) == profile.simulated and not emulated:
            return None
        expected = "its double" if profile.simulated else "a Kria's"
        return f"the FPGA on board {profile.name} calls itself {device!r}, but {expected} should be there"

    def resource_shortage(self, launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG002
        """Return the resources of the fabric that exceed those of a K26, which every Kria has; None if they suffice."""
        return fabric.shortage(launches, self.fold)

    def device_bytes(self, launches: Sequence[Launch]) -> int:
        """Return the bytes of the records that move between A53 and fabric: a word of 32 bits for each value."""
        return sum(WORD_BYTES * sum(records.most_words(launch)) for launch in launches)

    def estimate(self, launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:
        """Return the resources of the fabric, and the predicted cycles."""
        return fabric.estimate(launches, profile.settings("vitis", VitisSettings).clock_mhz, self.fold)
