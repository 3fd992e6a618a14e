"""The same program on Debian's real XRT, which here emulates no device at all, and on the double.

XRT (2.13, XCL_EMULATION_MODE=noop) reads the file, finds kernels, memories and arguments, takes buffers and says of
each run that it is done; it computes nothing.  What it answers with an exception the double answers with one, or ends
the process where a board would crash; what it overlooks the double does not.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.targets.vitis import xclbin
from harness.targets.vitis.signature import ARGUMENTS
from tests.simulators.vitis.xrt_double import (
    DIGEST,
    DRIVER,
    HEADERS,
    LIBRARY,
    NAMES,
    NOOP,
    ROOM,
    STRICT,
    UUID,
    Built,
    Said,
    build_double,
    build_real,
    write,
)

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(
        not ((HEADERS / "xrt" / "xrt_device.h").exists() and NOOP.exists() and UUID.exists()),
        reason="no XRT here: apt-get install --no-install-recommends libxrt-dev libxrt1 uuid-dev",
    ),
]

COMPLETES, THROWS, CRASHES, UNDEFINED = "completes", "throws", "crashes", "one or the other"


@dataclass(frozen=True)
class Both:
    """The driver built for the real XRT, and for the double."""

    real: Built
    double: Built


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("xrt")
    return Both(build_real(folder / "real"), build_double(folder / "double", "-O1"))


def outcome(said: Said) -> str:
    if said.status < 0:
        return CRASHES
    if said.threw:
        return THROWS
    return COMPLETES if said.state == 4 else f"status {said.status}"


def test_both_read_the_same_in_the_same_file_and_complete(both: Both, tmp_path: Path) -> None:
    path = write(tmp_path / "network.xclbin")
    real, double = both.real.drive(path, DRIVER_RUNS="3"), both.double.drive(path, DRIVER_RUNS="3")
    assert (real.status, double.status) == (0, 0)
    assert real.lines[3] == "device: without a name"
    assert double.lines[3] == "device: host-simulation of Vitis HLS (C++)"
    assert real.lines[:3] + real.lines[4:-1] == double.lines[:3] + double.lines[4:-1]
    assert real.lines[-2] == "state: 4"


def test_what_was_built_for_one_cannot_run_with_the_other(both: Both, tmp_path: Path) -> None:
    """Both libraries have one name: a program must not take the double for XRT, or the other way round."""
    library = both.double.program.with_name(LIBRARY)
    command = [
        "g++",
        f"-isystem{HEADERS}",
        f"-I{ROOM}",
        "-std=c++17",
        str(DRIVER),
        str(library),
        "-luuid",
        "-o",
        str(tmp_path / "a"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "undefined reference to `xrt::device::device(unsigned int)'" in done.stderr
    loaded = subprocess.run(
        [both.double.program, "file", "kernel", "0", "0", "1"],
        env=os.environ | {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu", "LD_PRELOAD": f"{NOOP.parent}/{LIBRARY}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode != 0
    assert "symbol lookup error" in loaded.stderr


# What a file lacks: the words of the real one, and those of the double (an exception), or of its end.
FILES = {
    "EMBEDDED_METADATA": (THROWS, "No such kernel 'first_kernel'", THROWS, "No such kernel 'first_kernel'"),
    "MEM_TOPOLOGY": (THROWS, "vector::_M_range_check", THROWS, "argument 1 of kernel first_kernel reaches no memory"),
    "IP_LAYOUT": (THROWS, "No compute units matching", THROWS, "No compute units matching 'first_kernel'"),
    "CONNECTIVITY": (THROWS, "vector::_M_range_check", "told", "has no section CONNECTIVITY"),
}


@pytest.mark.parametrize("section", FILES)
def test_a_missing_section(both: Both, tmp_path: Path, section: str) -> None:
    path = write(tmp_path / "network.xclbin", section)
    expected_real, real_words, expected, words = FILES[section]
    real, double = both.real.drive(path), both.double.drive(path)
    assert outcome(real) == expected_real
    assert real.threw.startswith(real_words)
    assert (outcome(double) if double.status != STRICT else "told") == expected
    assert words in (double.threw or double.double[0])


def test_a_file_that_is_none(both: Both, tmp_path: Path) -> None:
    absent, text, nothing = (tmp_path / name for name in ("absent", "text", "nothing"))
    text.write_bytes(b"text" * 300)
    nothing.touch()
    assert (
        both.real.drive(absent).threw
        == both.double.drive(absent).threw
        == f"Failed to open file '{absent}' for reading"
    )
    assert both.real.drive(text).threw == "Invalid xclbin"
    assert both.double.drive(text).threw == f"Invalid xclbin '{text}'"
    assert (outcome(both.real.drive(nothing)), outcome(both.double.drive(nothing))) == (CRASHES, THROWS)


def test_metadata_that_end_too_early(both: Both, tmp_path: Path) -> None:
    path = write(tmp_path / "network.xclbin")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"</project>", b"<        >"))
    assert outcome(both.real.drive(path)) == THROWS
    path.write_bytes(whole.replace(b"<instance name=", b"<instance name "))
    assert (outcome(both.real.drive(path)), outcome(both.double.drive(path))) == (THROWS, THROWS)


def test_a_kernel_that_is_not_there(both: Both, tmp_path: Path) -> None:
    path = write(tmp_path / "network.xclbin")
    real, double = (each.drive(path, kernel="third_kernel") for each in (both.real, both.double))
    assert (outcome(real), outcome(double)) == (THROWS, THROWS)
    assert real.threw.startswith(double.threw)
    assert double.threw == "No such kernel 'third_kernel'"


def test_another_arity(both: Both, tmp_path: Path) -> None:
    """XRT itself does not see an argument that nobody sets."""
    path = tmp_path / "network.xclbin"
    path.write_bytes(xclbin.write(NAMES, DIGEST, arguments=ARGUMENTS[:-1]))
    real, double = both.real.drive(path), both.double.drive(path)
    assert (outcome(real), real.threw.startswith("vector::_M_range_check: __n (which is 7)")) == (THROWS, True)
    assert (double.status, "tells of 7 arguments" in double.double[0]) == (STRICT, True)
    path.write_bytes(xclbin.write(NAMES, DIGEST, arguments=[*ARGUMENTS, ARGUMENTS[-1]]))
    assert outcome(both.real.drive(path)) == COMPLETES
    assert "tells of 9 arguments" in both.double.drive(path).double[0]


# What XRT answers to a program's mistake, and, where the double does not throw too, that the double tells it.
MISTAKES = {
    "one argument more": (THROWS, THROWS),
    "argument before the first": (THROWS, THROWS),
    "group of a scalar": (THROWS, THROWS),
    "group of one argument more": (THROWS, THROWS),
    "other group": (THROWS, THROWS),
    "no such group": (THROWS, THROWS),
    "kernel before load": (THROWS, THROWS),
    "other loaded, kernel": (THROWS, THROWS),
    "buffer for scalar": (UNDEFINED, "told"),  # it writes behind the argument, and mostly crashes
    "no buffer": (CRASHES, "told"),
    "scalar too large": (COMPLETES, "told"),
    "scalar too small": (COMPLETES, "told"),
    "scalar for buffer": (COMPLETES, "told"),
    "argument not set": (COMPLETES, "told"),
    "scalar not set": (COMPLETES, "told"),
    "one buffer twice": (COMPLETES, "told"),
    "no bytes": (COMPLETES, "told"),
    "buffer before load": (COMPLETES, "told"),
    "sync beyond": (COMPLETES, "told"),
    "sync what nobody made": (COMPLETES, "told"),
    "start with a destroyed buffer": (UNDEFINED, "told"),
    "sync while running": (COMPLETES, "told"),
    "leak a run": (COMPLETES, "told"),
    "no sync": (COMPLETES, "told"),
    "too many bytes": (COMPLETES, THROWS),
    "another device": (COMPLETES, THROWS),
    "sync nothing": (COMPLETES, COMPLETES),
    "same xclbin again": (COMPLETES, COMPLETES),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake(both: Both, tmp_path: Path, mistake: str) -> None:
    path, other = write(tmp_path / "network.xclbin"), write(tmp_path / "other.xclbin", digest="f" * 64)
    again = path if mistake == "same xclbin again" else other
    real, double = (each.drive(path, mistake, DRIVER_OTHER=str(again)) for each in (both.real, both.double))
    expected_real, expected = MISTAKES[mistake]
    assert ("told" if double.status == STRICT else outcome(double)) == expected
    assert expected_real in (outcome(real), UNDEFINED)


def test_a_buffer_in_another_memory(both: Both, tmp_path: Path) -> None:
    """XRT throws, with words that tell nobody what is wrong."""
    path = tmp_path / "network.xclbin"
    path.write_bytes(xclbin.write(NAMES, DIGEST, memories=("HP0", "HP1")))
    real, double = both.real.drive(path, "other group"), both.double.drive(path, "other group")
    assert (outcome(real), double.status) == (THROWS, STRICT)
    assert re.match("set_arg: buffer 3 lies in memory group 1", double.double[0])
