"""The fabric of a Kria KV260: QGemm in integers alone, by kernels in Vitis HLS C++ behind XRT.

Everything else stays on the A53: what needs floating point does not become a circuit here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.targets import HARDWARE, KERNELS, ItemCode, KernelCompiler, Launch, too_deep
from harness.targets.vitis import code, fabric
from harness.targets.vitis.build import COMPILER
from harness.targets.vitis.unconfirmed import UNCONFIRMED

SIMULATION = "host-simulation of Vitis HLS (C++)"  # in simulators/vitis, too
EMULATION = "XCL_EMULATION_MODE"  # in kernels/vitis/xrt.cpp, too: XRT then plays the device itself

together = True
unconfirmed = UNCONFIRMED
taken_for_granted = (
    "It is a kernel for the fabric, of which the next sentence does not speak. Its source has each loop of a layer "
    "once, for the network and for the parts that are asked here; that what has compiled it or made a circuit of it "
    "has kept them one and made of them what C++ says, is not shown, nor that a circuit meets its timing at every "
    "temperature. Where in a record a layer finds its inputs, only whole runs show."
)


def refusal(layer: Layer) -> str | None:
    """Why this target cannot compute `layer` exactly; None if it can."""
    if not isinstance(layer, QGemm):
        return "it has kernels for QGemm; others need floating point, which no kernel here uses"
    if layer.accumulator_bounds()[1].max() == np.iinfo(np.int32).max:
        return "an accumulator can be 2^31 - 1, which stands for a code that is never reached"
    return too_deep(layer)


def folders() -> tuple[Path, ...]:
    """Folders of fixed sources; the kernels scale accumulators as target c does."""
    return (KERNELS / "vitis", KERNELS / "c")


def headers() -> tuple[str, ...]:
    """The headers that the generated C code needs."""
    return ("vitis.h",)


def generate(item: str, launches: Sequence[Launch]) -> ItemCode:
    """The code of an item: on the A53 in C, in the fabric in C++."""
    return code.generate(item, launches)


def compiler() -> KernelCompiler:
    """What builds against XRT, or against its double."""
    return COMPILER


def ran_on(profile: Profile) -> str:
    """`hardware`, or the simulation."""
    return SIMULATION if profile.simulated else HARDWARE


def contradiction(profile: Profile, device: str) -> str | None:
    """A double in the place of XRT, or the other way round; or XRT's own emulation in the place of a device."""
    emulated = EMULATION in device and not profile.simulated
    if device.startswith(SIMULATION) == profile.simulated and not emulated:
        return None
    expected = "its double" if profile.simulated else "a Kria's"
    return f"the FPGA on board {profile.name} calls itself {device!r}, but {expected} should be there"


def shortage(launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG001 - every Kria has a K26
    """What of the fabric these launches need together and a K26 does not have; None if they fit."""
    return fabric.shortage(fabric.count(launches))


def forecast(launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:
    """What they take of the fabric, and how many cycles."""
    return fabric.forecast(launches, profile.vitis.clock_mhz)
