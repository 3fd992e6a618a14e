"""The contract of the board program: command line, files, JSON lines, exit statuses, schedule."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.build.bundle import PROTOCOL
from harness.core.arrays import Array
from harness.execution import fp_environment
from harness.plan import planner
from harness.plan.plan import Cross, Plan
from tests.support import builders
from tests.support.programs.board_program import (
    BoardProgram,
    assert_same,
    build,
    build_patched,
    parse,
    references,
    run_sanitized,
    uniform_vectors,
    with_flags,
)

BLOCK = 64
VECTORS = 150  # no multiple of BLOCK
DISTURBANCES = ("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults")
EXIT_USAGE, EXIT_IO, EXIT_SYSTEM = 2, 3, 4  # kernels/program/fail.h


@pytest.fixture(scope="module")
def program(host: Profile, cache: Path) -> BoardProgram:
    """Items prepost (quantize, dequantize, advisory) and network (layer_0 to layer_2), which hand over twice."""
    model = builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), dequantize=True, argmax=True)
    return build(parse(model), host, cache, BLOCK)


@pytest.fixture(scope="module")
def vectors(program: BoardProgram) -> Array:
    return uniform_vectors(program.network, VECTORS, seed=8)


@pytest.fixture(scope="module")
def expected(program: BoardProgram, vectors: Array) -> tuple[Array, ...]:
    return references(program.network, vectors)


@pytest.fixture
def given(vectors: Array, tmp_path: Path) -> list[object]:
    """The options of a good run, its output in tmp_path/out."""
    np.save(tmp_path / "vectors.npy", vectors)
    (tmp_path / "out").mkdir()
    return ["--vectors", tmp_path / "vectors.npy", "--out", tmp_path / "out"]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def refused(done: subprocess.CompletedProcess[str], status: int, message: str) -> None:
    """One line on standard error, nothing on standard output, where a last JSON line would mean success."""
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.startswith("inference: ")
    assert done.stderr.count("\n") == 1


def test_the_handshake_names_protocol_bundle_model_and_compiler(program: BoardProgram) -> None:
    done = program.run("--version")
    answer = json.loads(done.stdout)
    version = answer.pop("compiler")
    assert answer == {"protocol": PROTOCOL, "bundle": program.sha256, "model": "network"}
    assert version
    assert version in program.compiler
    assert (done.returncode, done.stderr) == (0, "")


def test_the_last_line_counts_vectors_blocks_and_samples(program: BoardProgram, given: list[object]) -> None:
    done = program.run(*given, "--block", 64, "--repeat", 2, "--time", "network")
    answer = json.loads(done.stdout)
    counted = {key: answer.pop(key) for key in (*DISTURBANCES, "elapsed_ns", "peak_memory_kib")}
    environments = fp_environment.parse(answer.pop("fp_environment"))
    assert [environment.item for environment in environments] == ["prepost", "network"]
    assert answer == {
        "done": True, "bundle": program.sha256, "vectors": 150, "blocks": 3, "samples": 6, "overlaps": 0, "fault": "",
        "memory_locked": False, "dma_latency_held": False,
    }  # fmt: skip
    assert all(isinstance(count, int) and count >= 0 for count in counted.values())
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nonsense"], "usage: inference --vectors FILE.npy --out FOLDER"),
        (["stray"], "usage: inference"),
        (["--block"], "usage: inference"),
        (["--block", "0"], "--block 0: expected a whole number from 1 to 64"),
        (["--block", "65"], "--block 65: expected a whole number from 1 to 64"),
        (["--block", "1x"], "--block 1x: expected a whole number"),
        (["--block", ""], "--block : expected a whole number"),
        (["--block", "99999999999999999999"], "--block 99999999999999999999: expected a whole number"),
        (["--dump", "some"], "--dump some: expected one of all, last, none"),
        (["--time", "never"], "--time never: expected one of none, network, item, layer"),
        (["--warmup", "-1"], "--warmup -1: expected a whole number from 0"),
        (["--repeat", "0"], "--repeat 0: expected a whole number from 1"),
        (["--fifo", "0"], "--fifo 0: expected a whole number from 1 to 99"),
        (["--fifo", "100"], "--fifo 100: expected a whole number from 1 to 99"),
        (["--pin", ""], "--pin: expected 2 cores, one for each item"),
        (["--pin", "0"], "--pin: expected 2 cores, one for each item"),
        (["--pin", "0,0,0"], "--pin: expected 2 cores, one for each item"),
        (["--pin", "0,one"], "--pin one: expected a whole number from 0 to 1023"),
        (["--pin", "0,1024"], "--pin 1024: expected a whole number from 0 to 1023"),
        (["--delay", "network"], "--delay network: expected ITEM:MICROSECONDS"),
        (["--delay", "gpu:5"], "--delay gpu: expected one of prepost, network"),
        (["--delay", "network:soon"], "--delay soon: expected a whole number from 0 to 10000000"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_written(
    program: BoardProgram, given: list[object], tmp_path: Path, options: list[str], message: str
) -> None:
    refused(program.run(*given, *options), EXIT_USAGE, message)
    assert files(tmp_path / "out") == set()


@pytest.mark.parametrize("left_out", ["--vectors", "--out"])
def test_vectors_and_out_are_required(program: BoardProgram, given: list[object], left_out: str) -> None:
    at = given.index(left_out)
    refused(program.run(*given[:at], *given[at + 2 :]), EXIT_USAGE, "usage: inference")


def saved(vectors: Array, **arguments: Any) -> bytes:
    """What NumPy writes for these vectors."""
    file = io.BytesIO()
    np.lib.format.write_array(file, vectors, **arguments)
    return file.getvalue()


ZEROS = np.zeros((4, 5), np.float32)
RENAMED = saved(ZEROS).replace(b"(4, 5)", b"(9, 5)")  # a header that promises more rows than follow


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (saved(ZEROS.astype(np.float64)), EXIT_USAGE, "expected <f4 of shape (vectors, 5), found {'descr': '<f8'"),
        (saved(ZEROS.astype(">f4")), EXIT_USAGE, "expected <f4 of shape (vectors, 5), found {'descr': '>f4'"),
        (saved(np.zeros((4, 6), np.float32)), EXIT_USAGE, "expected <f4 of shape (vectors, 5)"),
        (saved(np.zeros((5, 4), np.float32).T), EXIT_USAGE, "expected <f4 of shape (vectors, 5)"),
        (saved(np.zeros(5, np.float32)), EXIT_USAGE, "expected <f4 of shape (vectors, 5)"),
        (saved(np.zeros((4, 5, 2), np.float32)), EXIT_USAGE, "expected <f4 of shape (vectors, 5)"),
        (saved(np.zeros((), np.float32)), EXIT_USAGE, "expected <f4 of shape (vectors, 5)"),
        (saved(ZEROS, version=(2, 0)), EXIT_USAGE, "not a .npy file of version 1.0"),
        (b"1.0 2.0 3.0 4.0 5.0\n", EXIT_USAGE, "not a .npy file of version 1.0"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(70000), EXIT_USAGE, "not a .npy file of version 1.0"),
        (b"", EXIT_IO, "the file ends too early"),
        (saved(ZEROS)[:100], EXIT_IO, "the file ends too early"),
        (saved(ZEROS)[:-1], EXIT_IO, "the file ends too early"),
        (RENAMED, EXIT_IO, "the file ends too early"),
    ],
)
def test_wrong_vectors_are_refused(
    program: BoardProgram, given: list[object], tmp_path: Path, content: bytes, status: int, message: str
) -> None:
    (tmp_path / "vectors.npy").write_bytes(content)
    refused(program.run(*given), status, message)


def test_missing_vectors_are_named(program: BoardProgram, tmp_path: Path) -> None:
    done = program.run("--vectors", tmp_path / "none.npy", "--out", tmp_path)
    refused(done, EXIT_IO, f"cannot open {tmp_path}/none.npy: No such file or directory")


def test_a_missing_output_folder_is_named(program: BoardProgram, given: list[object], tmp_path: Path) -> None:
    done = program.run(*given[:2], "--out", tmp_path / "none")
    refused(done, EXIT_IO, f"cannot create {tmp_path}/none/00_quantize.npy: No such file or directory")


def test_an_output_path_that_is_too_long_is_refused(program: BoardProgram, given: list[object]) -> None:
    refused(program.run(*given[:2], "--out", "x" * 5000), EXIT_USAGE, "the path is too long")


@pytest.mark.parametrize("name", ["00_quantize.npy", "05_advisory.npy", "time.npy", "trace.jsonl"])
def test_a_full_disk_is_noticed(program: BoardProgram, given: list[object], tmp_path: Path, name: str) -> None:
    (tmp_path / "out" / name).symlink_to("/dev/full")
    done = program.run(*given, "--time", "layer", "--trace")
    refused(done, EXIT_IO, f"cannot write {tmp_path}/out/{name}: No space left on device")


def test_a_disk_that_fills_up_while_it_runs_is_noticed(
    program: BoardProgram, tmp_path: Path, given: list[object]
) -> None:
    np.save(tmp_path / "vectors.npy", np.zeros((20_000, 5), np.float32))
    limit = 50_000  # bytes a file: the first of the larger dumps reaches it

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [str(program.path), *map(str, given)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=restrict,
        restore_signals=False,  # Python ignores SIGXFSZ, which would otherwise kill the program
    )
    refused(done, EXIT_IO, "File too large")


def test_standard_output_that_cannot_be_written_is_a_failure(program: BoardProgram, given: list[object]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(program.path), *map(str, given)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == EXIT_IO
    assert done.stderr == "inference: cannot write standard output: No space left on device\n"


DUMPS = [
    "00_quantize.npy", "01_layer_0.npy", "02_layer_1.npy", "03_layer_2.npy", "04_dequantize.npy", "05_advisory.npy",
]  # fmt: skip


@pytest.mark.parametrize(("dump", "left"), [("all", DUMPS), ("last", DUMPS[-1:]), ("none", [])])
def test_the_dumps_that_were_asked_for_are_written(
    program: BoardProgram, given: list[object], tmp_path: Path, dump: str, left: list[str]
) -> None:
    assert program.run(*given, "--dump", dump).returncode == 0
    assert files(tmp_path / "out") == set(left)


def test_dumps_are_byte_for_byte_what_numpy_saves(
    program: BoardProgram, given: list[object], expected: tuple[Array, ...], tmp_path: Path
) -> None:
    assert program.run(*given).returncode == 0
    for name, values in zip(DUMPS, expected, strict=True):
        assert (tmp_path / "out" / name).read_bytes() == saved(values), name


def test_no_vectors_give_empty_dumps(program: BoardProgram, tmp_path: Path) -> None:
    outputs = program.activations(np.zeros((0, 5), np.float32), tmp_path)
    assert [output.shape for output in outputs] == [(0, 5), (0, 9), (0, 4), (0, 3), (0, 3), (0, 1)]


@pytest.mark.parametrize(
    "options",
    [
        ["--block", 1],
        ["--block", 7],
        ["--block", 50],  # divides the number of vectors
        ["--block", 64],
        ["--repeat", 3],
        ["--warmup", 2],
        ["--trace"],
        ["--time", "item"],
        ["--delay", "prepost:2000"],
        ["--delay", "network:2000"],
        ["--delay", "network:1000", "--delay", "prepost:500", "--block", 40],
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_the_bytes_do_not_depend_on_how_the_vectors_are_run(
    program: BoardProgram, vectors: Array, expected: tuple[Array, ...], tmp_path: Path, options: list[object]
) -> None:
    assert_same(program.activations(vectors, tmp_path, *options), expected)


def test_an_older_run_in_the_same_folder_is_overwritten(
    program: BoardProgram, vectors: Array, expected: tuple[Array, ...], tmp_path: Path
) -> None:
    program.activations(vectors[::-1], tmp_path)
    shortened = [values[:9] for values in expected]
    assert_same(program.activations(vectors[:9], tmp_path), shortened)


def read_trace(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]


PREPOST = [
    ("layer", "quantize"), ("barrier", "quantize"), ("barrier", "layer_2"), ("layer", "dequantize"),
    ("layer", "advisory"),
]  # fmt: skip
NETWORK = [
    ("barrier", "quantize"), ("layer", "layer_0"), ("layer", "layer_1"), ("layer", "layer_2"), ("barrier", "layer_2"),
]  # fmt: skip


def step(line: dict[str, Any]) -> tuple[str, str]:
    kind = "layer" if "layer" in line else "barrier"
    return kind, line[kind]


def test_the_trace_holds_every_step_of_every_item_in_order(
    program: BoardProgram, given: list[object], tmp_path: Path
) -> None:
    assert program.run(*given, "--trace", "--repeat", 2, "--warmup", 3).returncode == 0
    found = [(line["execution"], line["vector"], line["item"], *step(line)) for line in read_trace(tmp_path / "out")]
    assert found == [
        (execution, execution // 2 * 64, item, *names)
        for execution in range(6)
        for item, steps in (("prepost", PREPOST), ("network", NETWORK))
        for names in steps
    ]


@pytest.mark.parametrize("delayed", ["prepost", "network"])
def test_no_step_begins_before_the_hand_over_that_it_waits_for(
    program: BoardProgram, given: list[object], tmp_path: Path, delayed: str
) -> None:
    assert program.run(*given, "--trace", "--repeat", 5, "--delay", f"{delayed}:500").returncode == 0
    lines = read_trace(tmp_path / "out")
    executions = [lines[start : start + 10] for start in range(0, len(lines), 10)]
    assert len(executions) == 15
    chain = ["quantize", "layer_0", "layer_1", "layer_2", "dequantize", "advisory"]
    for execution in executions:
        layers = {line["layer"]: line for line in execution if "layer" in line}
        assert all(line["begin_ns"] <= line["end_ns"] for line in execution)
        assert all(layers[writer]["end_ns"] <= layers[reader]["begin_ns"] for writer, reader in pairwise(chain))
    for before, after in pairwise(executions):
        assert max(line["end_ns"] for line in before) <= min(line["begin_ns"] for line in after)


def expected_times(execution: list[dict[str, Any]], scope: str) -> list[int]:
    """One row of time.npy, from the ten lines that trace the same execution."""
    layers = [line for line in execution if "layer" in line]
    if scope == "network":
        return [max(line["end_ns"] for line in layers) - min(line["begin_ns"] for line in layers)]
    key = scope
    names = {"item": ["prepost", "network"], "layer": [name[3:-4] for name in DUMPS]}[scope]
    return [sum(line["end_ns"] - line["begin_ns"] for line in layers if line[key] == name) for name in names]


@pytest.mark.parametrize(("scope", "columns"), [("network", 1), ("item", 2), ("layer", 6)])
def test_times_are_those_of_the_trace(
    program: BoardProgram, given: list[object], tmp_path: Path, scope: str, columns: int
) -> None:
    began = time.monotonic_ns()
    assert program.run(*given, "--time", scope, "--repeat", 4, "--warmup", 2, "--trace").returncode == 0
    elapsed = time.monotonic_ns() - began
    times, lines = np.load(tmp_path / "out" / "time.npy"), read_trace(tmp_path / "out")
    assert (times.dtype, times.shape) == (np.uint64, (3 * 4, columns))
    assert times.tolist() == [expected_times(lines[start : start + 10], scope) for start in range(0, 120, 10)]
    assert (times > 0).all()
    assert times.sum() < elapsed


def test_times_are_nanoseconds(program: BoardProgram, given: list[object], tmp_path: Path) -> None:
    began = time.monotonic_ns()
    assert program.run(*given, "--time", "layer", "--delay", "network:20000").returncode == 0
    elapsed_ns, times = time.monotonic_ns() - began, np.load(tmp_path / "out" / "time.npy")
    assert (times[:, 1:4] >= 20_000_000).all()
    assert times.sum() < elapsed_ns


def test_warmup_executes_the_first_block_unrecorded(program: BoardProgram, given: list[object], tmp_path: Path) -> None:
    began = time.monotonic()
    assert program.run(*given, "--time", "network", "--warmup", 10, "--delay", "network:10000").returncode == 0
    assert time.monotonic() - began >= 0.010 * 3 * (10 + 3)  # three layers; ten executions and three blocks
    assert np.load(tmp_path / "out" / "time.npy").shape == (3, 1)


@contextlib.contextmanager
def running(program: BoardProgram, *options: object) -> Iterator[tuple[int, int]]:
    """Start the program; gives the thread ids of its two items, in order, while it sleeps in a long delay."""
    command = [str(program.path), *map(str, options), "--delay", "prepost:1000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield _items_of(process)
        finally:
            process.kill()


def _items_of(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        _, *items = [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]  # as they were started
        if len(items) == 2:
            return items[0], items[1]
        time.sleep(0.005)
    raise AssertionError(process.communicate())


def await_value(read: Callable[[], object], wanted: object) -> None:
    """A thread becomes visible a moment before its attributes do."""
    deadline = time.monotonic() + 5
    while read() != wanted and time.monotonic() < deadline:
        time.sleep(0.005)
    assert read() == wanted


def test_items_are_pinned_to_their_cores(program: BoardProgram, given: list[object]) -> None:
    cores = sorted(os.sched_getaffinity(0))
    wanted = (cores[-1], cores[0])
    with running(program, *given, "--pin", f"{wanted[0]},{wanted[1]}") as items:
        for item, core in zip(items, wanted, strict=True):
            await_value(partial(os.sched_getaffinity, item), {core})


def test_without_pin_items_run_on_any_core(program: BoardProgram, given: list[object]) -> None:
    with running(program, *given) as items:
        assert [os.sched_getaffinity(item) for item in items] == [os.sched_getaffinity(0)] * 2


def test_a_core_that_is_not_there_is_refused(program: BoardProgram, given: list[object]) -> None:
    assert max(os.sched_getaffinity(0)) < 1023
    refused(program.run(*given, "--pin", "1023,0"), EXIT_SYSTEM, "cannot start (with the core of --pin")


def may_use_fifo() -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


def test_items_get_the_fifo_priority_or_a_refusal(program: BoardProgram, given: list[object]) -> None:
    if not may_use_fifo():
        refused(program.run(*given, "--fifo", 7), EXIT_SYSTEM, "item prepost: Operation not permitted")
        return
    with running(program, *given, "--fifo", 7) as items:
        for item in items:
            await_value(partial(os.sched_getscheduler, item), os.SCHED_FIFO)
            assert os.sched_getparam(item).sched_priority == 7


# Stands between the program and the C library: ends the program with status 99 where it allocates memory between
# the main thread's first barrier (the first block) and its first join (the end), or at any time if so asked.
ALLOCATION_GUARD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static int (*real_wait)(pthread_barrier_t *);
static int (*real_join)(pthread_t, void **);
static volatile int armed;

__attribute__((constructor)) static void find_the_real_ones(void)
{
    *(void **)&real_wait = dlsym(RTLD_NEXT, "pthread_barrier_wait");
    *(void **)&real_join = dlsym(RTLD_NEXT, "pthread_join");
    armed = getenv("GUARD_FROM_THE_START") != NULL;
}

static void check(void)
{
    if (armed)
        _exit(99);
}

void *malloc(size_t size) { check(); return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { check(); return __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { check(); return __libc_realloc(memory, size); }

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    if (gettid() == getpid())
        armed = 1;
    return real_wait(barrier);
}

int pthread_join(pthread_t thread, void **result)
{
    armed = 0;
    return real_join(thread, result);
}
"""


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("guard") / "guard.so"
    source = library.with_suffix(".c")
    source.write_text(ALLOCATION_GUARD)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("split", [(), ("parallel",), ("pipeline",)])
@pytest.mark.parametrize(("environment", "status"), [({}, 0), ({"GUARD_FROM_THE_START": "1"}, 99)])
def test_nothing_is_allocated_after_init(
    program: BoardProgram,
    host: Profile,
    cache: Path,
    given: list[object],
    guard: Path,
    environment: dict[str, str],
    status: int,
    split: tuple[str, ...],
) -> None:
    program = build(program.network, host, cache, block=64, split=split)
    command = [str(program.path), *map(str, given), "--time", "layer", "--trace", "--repeat", "3", "--warmup", "1"]
    done = subprocess.run(command, env=environment | {"LD_PRELOAD": str(guard)}, capture_output=True, check=False)
    assert done.returncode == status, done.stderr


DATA_RACE = 66  # the exit status of ThreadSanitizer


def test_the_sources_compile_without_a_warning(made: Plan, host: Profile, tmp_path: Path) -> None:
    flags = ["-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wpedantic", "-Werror"]
    build_patched(made, with_flags(host, "-O1"), tmp_path / "bundle", flags=flags)


def test_the_address_and_undefined_behaviour_sanitizers_find_nothing(
    made: Plan, host: Profile, vectors: Array, expected: tuple[Array, ...], tmp_path: Path
) -> None:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sanitized = build_patched(made, with_flags(host, "-O1"), tmp_path / "bundle", flags=flags)
    done = run_sanitized(sanitized, vectors, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same(sanitized.read_dumps(tmp_path), expected)


def without_barrier(made: Plan, left_out: int) -> Plan:
    """The plan whose items never cross one of its barriers."""
    schedules = (tuple(step for step in schedule if step != Cross(left_out)) for schedule in made.schedules)
    return dataclasses.replace(made, schedules=tuple(schedules))


@pytest.fixture(scope="module")
def made(program: BoardProgram, host: Profile) -> Plan:
    return planner.make(program.network, host, block=10)


def test_the_thread_sanitizer_finds_no_race(
    made: Plan, host: Profile, vectors: Array, expected: tuple[Array, ...], tmp_path: Path
) -> None:
    sanitized = build_patched(made, host, tmp_path / "bundle", flags=["-fsanitize=thread"])
    done = run_sanitized(sanitized, vectors, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same(sanitized.read_dumps(tmp_path), expected)


@pytest.mark.parametrize("left_out", [0, 1])
def test_the_thread_sanitizer_finds_a_barrier_that_is_left_out(
    made: Plan, host: Profile, vectors: Array, tmp_path: Path, left_out: int
) -> None:
    broken = build_patched(without_barrier(made, left_out), host, tmp_path / "bundle", flags=["-fsanitize=thread"])
    done = run_sanitized(broken, vectors, tmp_path)
    assert done.returncode == DATA_RACE
    assert "WARNING: ThreadSanitizer: data race" in done.stderr


@pytest.mark.parametrize(("left_out", "writer"), [(0, "prepost"), (1, "network")])
def test_a_delayed_writer_shows_a_barrier_that_is_left_out(
    made: Plan, host: Profile, vectors: Array, expected: tuple[Array, ...], tmp_path: Path, left_out: int, writer: str
) -> None:
    broken = build_patched(without_barrier(made, left_out), host, tmp_path / "bundle")
    found = broken.activations(vectors, tmp_path, "--delay", f"{writer}:2000")
    assert [a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True)] != [True] * 6
