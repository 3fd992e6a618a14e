"""The double of XRT: programs and kernels compute right on it, and whatever they do wrong is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.targets.vitis import xclbin
from harness.targets.vitis.signature import ARGUMENTS
from tests.simulators.vitis.xrt_double import (
    DIGEST,
    FIRST,
    IDENTITY,
    NAMES,
    SECOND,
    STRICT,
    Built,
    build_double,
    given,
    write,
)

pytestmark = pytest.mark.campaign  # the stand-in itself; what runs on it is tested in make test

COMPLETED, ERROR, TIMEOUT = 4, 5, 8
POISON = int.from_bytes(b"\xa5" * 4, "little", signed=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_double(tmp_path_factory.mktemp("double"), "-O1")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("files") / "network.xclbin")


@pytest.fixture(scope="module")
def other(file: Path) -> Path:
    return write(file.with_name("other.xclbin"), digest="f" * 64)


# Values


@pytest.mark.parametrize("vectors", [1, 2, 511, 512, 513, 5000])
def test_a_kernel_computes_on_what_was_synced(built: Built, file: Path, vectors: int) -> None:
    said = built.drive(file, part=3, vectors=vectors)
    assert (said.status, said.double, said.state) == (0, (), COMPLETED)
    assert said.words == [2 * word + 3 for word in given(vectors)]


def test_each_kernel_is_found_by_its_name(built: Built, file: Path) -> None:
    assert built.drive(file, kernel=SECOND).words == [-word for word in given(2)]


def test_the_program_is_told_what_it_runs_on_and_what_is_in_the_file(built: Built, file: Path) -> None:
    lines = built.drive(file).lines
    arguments = " ".join(f"{argument.name} {argument.size}" for argument in ARGUMENTS)
    assert lines[:4] == (
        *(f"kernel {name}: {arguments}" for name in NAMES),
        f"uuid: {xclbin.uuid_of(DIGEST)}",
        "device: host-simulation of Vitis HLS (C++)",
    )
    assert lines[4] == "groups: 0 0"


def test_a_run_can_be_started_again(built: Built, file: Path) -> None:
    said = built.drive(file, DRIVER_RUNS="20")
    assert said.status == 0
    assert said.lines.count("state: 4") == 20
    assert said.words == [2 * word for word in given(2)]


def test_start_returns_at_once_and_wait_waits_no_longer_than_it_is_told(built: Built, file: Path) -> None:
    said = built.drive(file, layer=7, DRIVER_TIMEOUT_MS="1")
    assert (said.state, said.status, said.double) == (TIMEOUT, 2, ())
    assert built.drive(file, layer=7, DRIVER_TIMEOUT_MS="20000").state == COMPLETED


def test_the_same_xclbin_may_be_loaded_again(built: Built, file: Path) -> None:
    assert built.drive(file, "same xclbin again", DRIVER_OTHER=str(file)).words == [2 * word for word in given(2)]


@pytest.mark.parametrize("vectors", [2, 5000])
def test_parts_are_synced_one_by_one(built: Built, file: Path, vectors: int) -> None:
    assert built.drive(file, "sync in two parts", vectors=vectors).words == [2 * word for word in given(vectors)]


@pytest.mark.parametrize("what", ["sync nothing", "sync nothing but that"])
def test_nothing_to_sync_is_no_mistake(built: Built, file: Path, what: str) -> None:
    assert built.drive(file, what).words == [2 * word for word in given(2)]


def test_results_that_were_not_synced_back_are_poison(built: Built, file: Path) -> None:
    assert built.drive(file, "no sync back").words == [POISON] * 16


def test_a_fresh_buffer_is_poison(built: Built, file: Path) -> None:
    assert f"fresh: {POISON}" in built.drive(file, "read a fresh buffer").lines


def test_results_of_the_run_before_are_poison_too(built: Built, file: Path) -> None:
    assert built.drive(file, "results of the run before").words == [POISON] * 16


def test_the_device_s_memory_is_poison_below_what_was_synced(built: Built, file: Path) -> None:
    words = built.drive(file, "sync the end").words
    assert words[:-1] == [((2 * POISON + 2**31) % 2**32) - 2**31] * 15
    assert words[-1] == 2 * given(2)[-1]


# What a program does wrong, and is told of

MISUSES = {
    "scalar too large": "set_arg: 'vectors' of first_kernel has 4 bytes; given were 8",
    "scalar too small": "set_arg: 'vectors' of first_kernel has 4 bytes; given were 2",
    "scalar for buffer": "set_arg: 'given' of first_kernel is a buffer, not a scalar",
    "word for buffer": "set_arg: 'given' of first_kernel is a buffer, not a scalar",
    "buffer for scalar": "set_arg: 'vectors' of first_kernel is a scalar, not a buffer",
    "no buffer": "set_arg: the buffer for 'given' was made of nothing",
    "argument not set": "start of first_kernel: argument 'given' was never set",
    "scalar not set": "start of first_kernel: argument 'made_width' was never set",
    "one buffer twice": "start of first_kernel: buffer 1 is two of its arguments, and it writes to one",
    "start with a destroyed buffer": "start of first_kernel: the buffer for 'given' is destroyed",
    "buffer before load": "a buffer is made before an xclbin is loaded, which says what memories there are",
    "no bytes": "a buffer is made of no bytes",
    "sync too much": "sync to the device: 68 bytes from byte 0 on of buffer 1, which has 64",
    "sync beyond": "sync to the device: 4 bytes from byte 64 on of buffer 1, which has 64",
    "sync what nobody made": "sync from the device: byte 0 of buffer 2 was neither synced to it nor written",
    "touch behind": "touches mapped memory at byte 64 of buffer 1, which has 64",
    "touch a destroyed buffer": "touches the mapped memory of buffer 1, which is destroyed",
    "wait before start": "wait: the run of first_kernel was never started",
    "start twice": "start: a run of first_kernel is started, and wait has not told the end of it before",
    "argument while running": "set_arg: argument 2 of a run of first_kernel, of which wait has not told the end",
    "sync while running": "sync to the device: buffer 1 is with a run of first_kernel, of which wait has not told",
    "results while running": "sync from the device: buffer 2 is with a run of first_kernel, of which wait has not told",
    "touch while running": "touches mapped memory, byte 0 of buffer 1, while it is with a run of first_kernel",
    "destroy a buffer while running": "buffer 1 is destroyed while it is with a run of first_kernel, of which wait has",
    "destroy while running": "a run of first_kernel is destroyed, and wait has not told its end",
    "another run while running": "start of first_kernel: buffer 2 is with another run, of first_kernel, and one of",
    "read while written": "start of first_kernel: buffer 2 is with another run, of first_kernel, and one of",
    "write while read": "start of first_kernel: buffer 1 is with another run, of first_kernel, and one of",
    "other loaded, start": "start: another xclbin than .*network.xclbin was loaded since it was made",
    "other loaded, run": "run: another xclbin than .*network.xclbin was loaded since it was made",
    "other loaded, group": "group_id: another xclbin than .*network.xclbin was loaded since it was made",
    "other loaded, sync": "size: another xclbin than .*network.xclbin was loaded since it was made",
    "other loaded, map": "map: another xclbin than .*network.xclbin was loaded since it was made",
    "leak a buffer": r"not given back when the program ends: buffer 2 \(64 bytes\)$",
    "leak a run": "not given back when the program ends: run of first_kernel$",
    "no sync": "kernel first_kernel: reads byte 0 of buffer 1; only 0 bytes were ever synced to the device",
    "sync nothing but the end": "kernel first_kernel: reads byte 0 of buffer 1; only 0 bytes were ever synced to",
    "sync too little": "kernel first_kernel: reads byte 60 of buffer 1; only 60 bytes were ever synced to the device",
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_program_s_mistake_ends_it(built: Built, file: Path, other: Path, misuse: str) -> None:
    said = built.drive(file, misuse, DRIVER_OTHER=str(other))
    assert said.status == STRICT
    assert len(said.double) == 1
    assert re.match(MISUSES[misuse], said.double[0]), said.double[0]


def test_a_buffer_in_another_memory_than_the_argument_reaches(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "two.xclbin"
    path.write_bytes(xclbin.write(NAMES, DIGEST, memories=("HP0", "HP1")))
    said = built.drive(path, "other group")
    assert said.double == ("set_arg: buffer 3 lies in memory group 1; 'given' of first_kernel reaches 0",)


# What XRT answers with an exception

THROWN = {
    "one argument more": "No such argument 8 of kernel first_kernel",
    "argument before the first": "No such argument -1 of kernel first_kernel",
    "group of a scalar": "argument 2 of kernel first_kernel reaches no memory",
    "group of one argument more": "No such argument 8 of kernel first_kernel",
    "other group": "No such memory group 1",
    "no such group": "No such memory group 7",
    "too many bytes": "no memory",
    "another device": "Could not open device with index '1'",
    "kernel before load": "No such kernel 'first_kernel'",
    "other loaded, kernel": f"xclbin id mismatch: {xclbin.uuid_of(DIGEST)}",
}


@pytest.mark.parametrize("misuse", THROWN)
def test_what_xrt_throws_the_double_throws(built: Built, file: Path, other: Path, misuse: str) -> None:
    said = built.drive(file, misuse, DRIVER_OTHER=str(other))
    assert (said.status, said.threw, said.double) == (1, THROWN[misuse], ())


# Kernels

KERNEL_MISTAKES = {
    1: "kernel first_kernel: touches byte 64 of buffer 1, which has 64",
    2: "kernel first_kernel: touches byte 20064 of buffer 1, which has 64",
    3: "kernel first_kernel: writes to byte 4 of buffer 1, which it may only read",
    4: "kernel first_kernel: touches byte 64 of buffer 2, which has 64",
    5: "kernel first_kernel: writes next to buffer 2",
    6: "kernel first_kernel: touches byte -20000 of buffer 1, which has 64",
}


@pytest.mark.parametrize("layer", KERNEL_MISTAKES)
def test_a_kernel_s_mistake_ends_the_process(built: Built, file: Path, layer: int) -> None:
    said = built.drive(file, layer=layer)
    assert (said.status, said.double) == (STRICT, (KERNEL_MISTAKES[layer],))


def test_a_kernel_reads_before_what_was_synced(built: Built, file: Path) -> None:
    said = built.drive(file, "sync the first word", layer=6, vectors=5000)
    assert said.double == ("kernel first_kernel: touches byte -20000 of buffer 1, which has 160000",)


def test_a_fault_that_is_not_the_double_s_is_left_to_the_system(built: Built, file: Path) -> None:
    said = built.drive(file, layer=8)
    assert (said.status, said.double) == (-11, ())


# Files


def test_files_that_are_none(built: Built, file: Path, tmp_path: Path) -> None:
    cut, text = tmp_path / "cut.xclbin", tmp_path / "text.xclbin"
    cut.write_bytes(file.read_bytes()[:-1])
    text.write_bytes(b"no xclbin" * 100)
    assert built.drive(cut).threw == f"Invalid xclbin '{cut}': it is cut off"
    assert built.drive(text).threw == f"Invalid xclbin '{text}'"
    assert built.drive(tmp_path / "absent").threw == f"Failed to open file '{tmp_path / 'absent'}' for reading"


def test_every_cut_of_a_file_is_an_exception(built: Built, file: Path, tmp_path: Path) -> None:
    whole, cut = file.read_bytes(), tmp_path / "cut.xclbin"
    for size in [*range(0, 620, 41), *range(620, len(whole), 499)]:
        cut.write_bytes(whole[:size])
        assert built.drive(cut).threw.startswith(f"Invalid xclbin '{cut}'"), size


@pytest.mark.parametrize("field", [24, 32])
def test_a_section_must_lie_in_the_file(built: Built, file: Path, tmp_path: Path, field: int) -> None:
    """Its place, or its size, is too large."""
    for value in (file.stat().st_size, 2**64 - 8):
        content, changed = bytearray(file.read_bytes()), tmp_path / "changed.xclbin"
        content[456 + field : 464 + field] = value.to_bytes(8, "little")
        changed.write_bytes(content)
        assert built.drive(changed).threw == f"Invalid xclbin '{changed}': it is cut off"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("EMBEDDED_METADATA", "No such kernel 'first_kernel'"),
        ("MEM_TOPOLOGY", "argument 1 of kernel first_kernel reaches no memory"),
        ("IP_LAYOUT", "No compute units matching 'first_kernel'"),
    ],
)
def test_a_missing_section_is_an_exception(built: Built, tmp_path: Path, section: str, words: str) -> None:
    said = built.drive(write(tmp_path / "file", section))
    assert (said.status, said.threw, said.double) == (1, words, ())


def test_without_connectivity_a_board_s_program_would_crash_and_so_this_one_ends(built: Built, tmp_path: Path) -> None:
    path = write(tmp_path / "file", "CONNECTIVITY")
    said = built.drive(path)
    message = f"load_xclbin: {path} has no section CONNECTIVITY: on a KV260 the program would crash"
    assert (said.status, said.double) == (STRICT, (message,))


def test_metadata_of_a_kernel_that_is_not_simulated(built: Built, tmp_path: Path) -> None:
    path = write(tmp_path / "file", kernels=("third_kernel",))
    said = built.drive(path)
    assert said.double == (f"load_xclbin: {path} tells of kernel third_kernel, which is not simulated",)


def test_metadata_of_another_arity(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(xclbin.write([FIRST], DIGEST, arguments=ARGUMENTS[:-1]))
    said = built.drive(path)
    words = f"load_xclbin: {path} tells of 7 arguments of kernel first_kernel; simulated is one with 8"
    assert (said.status, said.double) == (STRICT, (words,))


def test_no_such_kernel(built: Built, file: Path) -> None:
    assert built.drive(file, kernel="third_kernel").threw == "No such kernel 'third_kernel'"


# Faults by the environment


def test_no_device(built: Built, file: Path) -> None:
    said = built.drive(file, fault="no_device")
    assert (said.status, said.threw) == (1, "Could not open device with index '0'")


def test_the_xclbin_cannot_be_loaded(built: Built, file: Path) -> None:
    said = built.drive(file, fault="load")
    assert (said.status, said.threw) == (1, f"failed to load xclbin '{file}'")


@pytest.mark.parametrize("number", [1, 2])
def test_no_memory(built: Built, file: Path, number: int) -> None:
    said = built.drive(file, fault=f"memory@{number}")
    assert (said.status, said.threw) == (1, "no memory")
    assert said.double == (f"HARNESS_DOUBLE_FAULT: there is no memory for buffer {number}",)


def test_a_run_that_never_ends(built: Built, file: Path) -> None:
    said = built.drive(file, fault="hang@3", DRIVER_RUNS="5", DRIVER_TIMEOUT_MS="2000")
    assert [line for line in said.lines if line.startswith("state")] == ["state: 4", "state: 4", "state: 8"]
    assert (said.status, said.double) == (2, ("HARNESS_DOUBLE_FAULT: run 3 never ends",))


def test_a_run_that_ends_with_an_error(built: Built, file: Path) -> None:
    said = built.drive(file, fault="error@2", DRIVER_RUNS="5")
    assert [line for line in said.lines if line.startswith("state")] == ["state: 4", "state: 5"]
    assert (said.status, said.double) == (2, ("HARNESS_DOUBLE_FAULT: run 2 ends with an error",))


def test_another_identity(built: Built, file: Path) -> None:
    assert built.drive(file, part=IDENTITY).words[:8] == list(range(8))
    said = built.drive(file, part=IDENTITY, fault="identity")
    assert said.words[:8] == [~word for word in range(8)]
    assert built.drive(file, fault="identity").words == [2 * word for word in given(2)]


@pytest.mark.parametrize(("fault", "status"), [("end", 0), ("end,load", 1)])
def test_a_process_that_does_not_end_by_itself(built: Built, file: Path, fault: str, status: int) -> None:
    """The driver ends it, as a program for a board does."""
    said = built.drive(file, fault=fault)
    assert (said.status, said.double[-1]) == (status, "HARNESS_DOUBLE_FAULT: the process does not end")
    assert said.words == [2 * word for word in given(2)] if status == 0 else said.threw


def test_several_faults(built: Built, file: Path) -> None:
    said = built.drive(file, part=IDENTITY, fault="identity,error@2", DRIVER_RUNS="2")
    assert (said.status, len(said.double)) == (2, 2)


@pytest.mark.parametrize("fault", ["hang", "hang@0", "hang@3x", "no-device", "hang@1,", "error@-1"])
def test_an_unknown_fault_ends_the_process(built: Built, file: Path, fault: str) -> None:
    said = built.drive(file, fault=fault)
    word = fault.removeprefix("hang@1,") if fault == "hang@1," else fault
    known = "no_device, load, memory@N, hang@N, error@N, identity, end"
    assert (said.status, said.double) == (STRICT, (f"HARNESS_DOUBLE_FAULT: '{word}' is none of {known}",))


# Sanitizers


def test_sanitizers_find_nothing(tmp_path: Path, file: Path) -> None:
    built = build_double(tmp_path, "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    said = built.drive(file, vectors=700, DRIVER_RUNS="3")
    assert (said.status, said.double) == (0, ())
    assert said.words == [2 * word for word in given(700)]
    # An access that is refused, or what is not given back, is still told by the double.
    assert built.drive(file, layer=1).double == (KERNEL_MISTAKES[1],)
    assert built.drive(file, "leak a run", ASAN_OPTIONS="detect_leaks=0").status == STRICT


def test_threads_are_sanitized(tmp_path: Path, file: Path) -> None:
    built = build_double(tmp_path, "-O0", "-fsanitize=thread")
    said = built.drive(file, "two runs at once", vectors=700, DRIVER_RUNS="20")
    assert (said.status, said.double) == (0, ())
    assert said.words == [2 * word for word in given(700)]
