"""The double of XRT with kernels in it, and Debian's real XRT: a program built for each, and what it says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.targets import KERNELS, SIMULATORS
from harness.targets.vitis import xclbin

ROOM = KERNELS / "vitis"
DOUBLE = SIMULATORS / "vitis"
DRIVER = Path(__file__).with_name("xrt_driver.cpp")
SIMULATED = Path(__file__).with_name("xrt_kernels.cpp")
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pthread", "-g")
LIBRARY = "libxrt_coreutil.so.2"
WORDS = 8  # of a vector
STRICT = 4

FIRST, SECOND = NAMES = ("first_kernel", "second_kernel")
DIGEST = "0123456789abcdef" * 4
WHOLE, IDENTITY = 0, 4

HEADERS = Path("/usr/include/xrt")
NOOP = Path("/usr/lib/x86_64-linux-gnu/libxrt_noop.so.2")
UUID = Path("/usr/include/uuid/uuid.h")


@dataclass(frozen=True)
class Said:
    """What the driver said: standard output by lines, the double's own lines, how it ended."""

    lines: tuple[str, ...]
    double: tuple[str, ...]
    status: int

    @property
    def threw(self) -> str:
        """The words of the exception that ended it, or nothing."""
        found = [line.removeprefix("threw: ") for line in self.lines if line.startswith("threw: ")]
        return found[0] if found else ""

    @property
    def state(self) -> int:
        """Of the last run (ert_cmd_state); 0: none."""
        found = [int(line.removeprefix("state: ")) for line in self.lines if line.startswith("state: ")]
        return found[-1] if found else 0

    @property
    def words(self) -> list[int]:
        """What was made."""
        return [int(word) for word in self.lines[-1].split()]


@dataclass(frozen=True)
class Built:
    """A driver, and what it must find in its environment."""

    program: Path
    environment: dict[str, str]

    def drive(
        self,
        file: Path,
        misuse: str = "",
        *,
        kernel: str = FIRST,
        part: int = WHOLE,
        layer: int = 0,
        vectors: int = 2,
        fault: str = "",
        **environment: str,
    ) -> Said:
        """Run it with this xclbin."""
        given = {**os.environ, **self.environment, **environment} | ({"HARNESS_DOUBLE_FAULT": fault} if fault else {})
        command = [str(self.program), str(file), kernel, str(part), str(layer), str(vectors), misuse]
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)
        if "ThreadSanitizer: unexpected memory mapping" in done.stderr:
            pytest.skip("ThreadSanitizer cannot run with this kernel's address layout")
        double = [line for line in done.stderr.splitlines() if line.startswith("XRT double: ")]
        if "double" in self.program.name:
            assert "\n".join(double) == done.stderr.rstrip(), done.stderr
        lines = tuple(done.stdout.splitlines())
        return Said(lines, tuple(line.removeprefix("XRT double: ") for line in double), done.returncode)


def build_double(folder: Path, *flags: str, compiler: str = "g++", link: Sequence[str] = ()) -> Built:
    """The double with the tests' kernels, and the driver for it; AssertionError if the compiler says a word."""
    folder.mkdir(parents=True, exist_ok=True)
    shared = ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}", "-Wl,-z,defs", "-o", LIBRARY]
    common = [compiler, *FLAGS, *flags, f"-I{DOUBLE}"]
    run([*common, *map(str, sorted(DOUBLE.glob("*.cpp"))), str(SIMULATED), *shared, *link], folder)
    run([*common, f"-I{ROOM}", str(DRIVER), LIBRARY, "-Wl,-rpath,$ORIGIN", "-o", "double_driver", *link], folder)
    return Built(folder / "double_driver", {})


def build_real(folder: Path) -> Built:
    """The driver for Debian's XRT, in its emulation without a device."""
    folder.mkdir(parents=True, exist_ok=True)
    libraries = ["-lxrt_coreutil", "-luuid"]
    run(["g++", *FLAGS, f"-isystem{HEADERS}", f"-I{ROOM}", str(DRIVER), "-o", "real_driver", *libraries], folder)
    (folder / "xrt").mkdir()
    (folder / "xrt" / "lib").symlink_to(NOOP.parent)
    return Built(
        folder / "real_driver", {"XILINX_XRT": str(folder / "xrt"), "XCL_EMULATION_MODE": "noop", "HOME": str(folder)}
    )


def write(path: Path, *without: str, kernels: Sequence[str] = NAMES, digest: str = DIGEST) -> Path:
    """An xclbin of these kernels."""
    path.write_bytes(xclbin.write(kernels, digest, without=without))
    return path


def given(vectors: int) -> list[int]:
    """What the driver gives to the kernel."""
    return [3 * i - 7 for i in range(vectors * WORDS)]


def run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
