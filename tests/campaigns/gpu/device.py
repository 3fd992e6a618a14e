"""The GPU that the tests of this folder and the benchmark use: this machine's or, on request, its simulation."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.core.errors import unknown_name
from harness.targets.cuda import SIMULATION, nvrtc
from harness.targets.cuda.build import STAND_IN
from tests.simulators.cuda.driver_api import Gpu

REQUEST = "HARNESS_GPU_TESTS"
DRIVER = "libcuda.so.1"
CLOCK_KHZ, MULTIPROCESSORS, MEMORY_CLOCK_KHZ, MEMORY_BITS = 13, 16, 36, 37  # CU_DEVICE_ATTRIBUTE_...
CAPABILITY = 75, 76


class NoGpu(Exception):
    """This machine has none that can be used; the message says why."""


@dataclass(frozen=True)
class Device:
    """A GPU as its driver describes it, and the board of `boards.yaml` that reaches it; `arch` is sm_90 or so."""

    name: str
    arch: str
    driver: str
    board: str
    simulated: bool

    @property
    def description(self) -> str:
        """In words."""
        return f"{self.name}, {self.arch}, driver for CUDA {self.driver}"


# What the stand-in of the board `host` calls itself.
STAND_IN_DEVICE = Device(SIMULATION, "sm_72", "11.4", "host", simulated=True)


def find(environment: Mapping[str, str] = os.environ) -> Device:
    """The first GPU of this machine; NoGpu if the driver is missing, sees none, or is a simulation.

    Where HARNESS_GPU_TESTS=simulated the simulation is asked for.
    """
    request = environment.get(REQUEST, "")
    if request not in {"", "simulated"}:
        raise unknown_name(f"value of {REQUEST}", request, ["simulated"])
    return STAND_IN_DEVICE if request else _first_device()


def _first_device() -> Device:
    try:
        driver = Driver(DRIVER)
    except OSError as error:
        raise NoGpu(f"no NVIDIA driver: {error}") from error
    failed = driver.call("cuInit", 0)
    if failed:
        raise NoGpu(f"the NVIDIA driver finds no GPU: cuInit gives {driver.error_name(failed)} ({failed})")
    if driver.number("cuDeviceGetCount") == 0:
        raise NoGpu("the NVIDIA driver counts no GPU")
    found = driver.describe("local-gpu")
    if found.name.startswith(SIMULATION):
        raise NoGpu(f"{DRIVER} is a {SIMULATION}, no driver of a GPU; {REQUEST}=simulated tries the tests with it")
    return found


class Driver(Gpu):
    """The driver's library itself, of this machine or of a bundle's stand-in: not a copy with a state of its own."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.module = self.stream = self.context = self.room = 0
        self.allocated: list[int] = []

    def number(self, function: str, *arguments: Any) -> int:
        """The int that a function writes first."""
        value = ctypes.c_int()
        self.do(function, ctypes.byref(value), *arguments)
        return value.value

    def attribute(self, which: int) -> int | None:
        """Of the first GPU; None if the driver does not tell."""
        value = ctypes.c_int()
        failed = self.call("cuDeviceGetAttribute", ctypes.byref(value), which, 0)
        return None if failed else value.value

    def error_name(self, error: int) -> str:
        """As CUDA calls it."""
        name = ctypes.c_char_p()
        failed = self.call("cuGetErrorName", error, ctypes.byref(name))
        return "an error unknown to the driver" if failed or name.value is None else name.value.decode()

    def describe(self, board: str) -> Device:
        """The first GPU, as the program on the board describes it."""
        name = ctypes.create_string_buffer(128)
        self.do("cuDeviceGetName", name, len(name), self.number("cuDeviceGet", 0))
        major, minor = (self.attribute(which) for which in CAPABILITY)
        version = self.number("cuDriverGetVersion")
        driver = f"{version // 1000}.{version % 1000 // 10}"
        return Device(name.value.decode(), f"sm_{major}{minor}", driver, board, name.value == SIMULATION.encode())

    def allocate(self, size: int) -> int:
        """Memory that `close` frees."""
        self.allocated.append(super().allocate(size))
        return self.allocated[-1]

    def close(self) -> None:
        """Give all back."""
        for address in self.allocated:
            self.do("cuMemFree_v2", address)
        self.do("cuStreamDestroy_v2", self.stream)
        self.do("cuModuleUnload", self.module)
        self.do("cuCtxDestroy_v2", self.context)


@contextmanager
def opened(bundle: Path, device: Device) -> Iterator[Driver]:
    """The driver with the code of a bundle loaded as its program does."""
    stand_in = bundle / STAND_IN
    assert stand_in.exists() == device.simulated, f"{bundle} is not for {device.name}"
    driver = Driver(str(stand_in) if device.simulated else DRIVER)
    driver.open(image(bundle, device.arch))
    try:
        yield driver
    finally:
        driver.close()


def image(bundle: Path, arch: str) -> bytes:
    """The cubin for `arch`, or else the PTX, for the driver to compile."""
    cubin = bundle / "device" / f"network_{arch}.cubin"
    return (cubin if cubin.exists() else bundle / "device/network.ptx").read_bytes()


def file_name(device: Device) -> str:
    """The GPU's name as part of a file's."""
    return re.sub(r"[^A-Za-z0-9]+", "-", device.name).strip("-")


def changed(board: Profile, **settings: Any) -> Profile:
    """The board with other settings of `cuda`."""
    return board.model_copy(update={"cuda": board.section("cuda") | settings})


def narrowed(board: Profile, arch: str) -> Profile:
    """The board with code for this GPU alone, which is less to compile; as it is, where the compiler has none."""
    return changed(board, archs=(arch,)) if arch in nvrtc.supported() else board
