"""What the board program measures, what it asks of the system meanwhile, and what it says of both."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.errors import ToolError
from harness.plan import planner
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, build, parse, uniform_vectors

EXIT_USAGE, EXIT_SYSTEM = 2, 4
VECTORS = 40
DELAY_US = 10_000
LAYERS = 3  # of the item that is delayed
LATENCY = Path("/dev/cpu_dma_latency")


@pytest.fixture(scope="module")
def program(host: Profile, cache: Path) -> BoardProgram:
    model = builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), dequantize=True, argmax=True)
    return build(parse(model), host, cache, block=1)


@pytest.fixture
def given(program: BoardProgram, tmp_path: Path) -> list[object]:
    np.save(tmp_path / "vectors.npy", uniform_vectors(program.network, VECTORS, seed=8))
    (tmp_path / "out").mkdir()
    return ["--vectors", tmp_path / "vectors.npy", "--out", tmp_path / "out", "--dump", "none"]


@pytest.mark.parametrize("split", [(), ("parallel",), ("pipeline",)])
def test_the_networks_time_spans_all_of_its_tasks(
    program: BoardProgram, host: Profile, cache: Path, given: list[object], tmp_path: Path, split: tuple[str, ...]
) -> None:
    """Without a trace an item reads the clock before its first task of a stage and after its last alone."""
    split_program = build(program.network, host, cache, block=8, split=split)
    began = time.monotonic_ns()
    done = split_program.run(*given, "--time", "network", "--repeat", 2, "--delay", f"network:{DELAY_US}")
    elapsed = time.monotonic_ns() - began
    assert done.returncode == 0, done.stderr
    times = np.load(tmp_path / "out" / "time.npy")
    assert times.shape == (2 * VECTORS // 8, 1)
    assert (times >= DELAY_US * 1000).all()
    assert (times < elapsed).all()
    if split == ():
        assert (times >= LAYERS * DELAY_US * 1000).all()
        assert times.sum() < elapsed


def test_the_whole_takes_no_longer_than_its_parts_and_their_readings(
    program: BoardProgram, given: list[object], tmp_path: Path
) -> None:
    """Where nobody waits, the layers' times add up to the network's, but for the readings between them."""
    assert program.run(*given, "--time", "network").returncode == 0
    whole = np.load(tmp_path / "out" / "time.npy")
    assert program.run(*given, "--time", "layer").returncode == 0
    parts = np.load(tmp_path / "out" / "time.npy")
    assert parts.shape == (VECTORS, 6)
    assert parts.sum(axis=1).min() < 10 * whole.min()


def test_readings_are_what_lies_between_two(program: BoardProgram, tmp_path: Path) -> None:
    done = program.run("--readings", 5000, "--out", tmp_path)
    answer = json.loads(done.stdout)
    assert answer == {"done": True, "bundle": program.sha256, "readings": 5000, "resolution_ns": 1}
    readings = np.load(tmp_path / "readings.npy")
    assert (readings.shape, readings.dtype) == ((5000, 1), np.uint64)
    assert 0 < np.median(readings) < 10_000


@contextmanager
def running(program: BoardProgram, *options: object) -> Iterator[Path]:
    """Start the program; gives its folder under /proc while it sleeps in a long delay."""
    command = [str(program.path), *map(str, options), "--delay", "prepost:1000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        folder = Path(f"/proc/{process.pid}")
        try:
            _await(lambda: len(list((folder / "task").iterdir())) == 3)
            yield folder
        finally:
            process.kill()


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def open_files(folder: Path) -> list[Path]:
    return [path.readlink() for path in (folder / "fd").iterdir() if path.is_symlink()]


def locked_kib(folder: Path) -> int:
    [line] = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmLck:")]
    return int(line.split()[1])


def may_lock() -> bool:
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY


def test_memory_is_locked_if_asked(program: BoardProgram, given: list[object]) -> None:
    with running(program, *given) as process:
        assert locked_kib(process) == 0
    with running(program, *given, "--lock-memory") as process:
        if may_lock():
            _await(lambda: locked_kib(process) > 1000)
    done = program.run(*given, "--lock-memory")
    assert json.loads(done.stdout)["memory_locked"] == may_lock()
    assert done.returncode == 0


@pytest.mark.parametrize("limit", [4096, 8 << 20])
def test_a_refused_lock_is_told_and_no_failure(program: BoardProgram, given: list[object], limit: int) -> None:
    """Also where all but the stack of an item has room."""
    limited = ["prlimit", f"--memlock={limit}:{limit}", str(program.path), *map(str, given), "--lock-memory"]
    command = ["setpriv", "--bounding-set=-ipc_lock", *limited] if os.geteuid() == 0 else limited
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["memory_locked"] is False
    assert "mlockall" in done.stderr


def test_how_long_all_executions_took_is_told(program: BoardProgram, given: list[object], tmp_path: Path) -> None:
    """With what lies between them, and without the warm-up."""
    began = time.monotonic_ns()
    answer = json.loads(program.run(*given, "--time", "network", "--warmup", 50, "--delay", "prepost:2000").stdout)
    elapsed_ns, times = time.monotonic_ns() - began, np.load(tmp_path / "out" / "time.npy")
    assert times.sum() < answer["elapsed_ns"] < elapsed_ns - 50 * 2_000_000


def test_a_clock_that_goes_backwards_is_no_time(program: BoardProgram, tmp_path: Path) -> None:
    """Each reading is less than the one before."""
    backwards = """
        #include <stdint.h>
        #include <time.h>
        int clock_gettime(clockid_t clock, struct timespec *time)
        {
            static __thread long left = 2000000000;
            (void)clock;
            *time = (struct timespec){--left, 0};
            return 0;
        }
    """
    library = tmp_path / "backwards.so"
    (tmp_path / "backwards.c").write_text(backwards)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "backwards.c"], check=True)
    command = [program.path, "--readings", "2", "--out", tmp_path]
    done = subprocess.run(command, env={"LD_PRELOAD": str(library)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (EXIT_SYSTEM, "")
    assert "the clock went backwards, from 1999999999000000000 to 1999999998000000000" in done.stderr


def test_the_wake_up_latency_is_held_while_it_runs(program: BoardProgram, given: list[object]) -> None:
    may = LATENCY.exists() and os.access(LATENCY, os.W_OK)
    with running(program, *given, "--dma-latency", 0) as process:
        # The items have their threads before the file is opened.
        _await(lambda: (LATENCY in open_files(process)) == may)
    done = program.run(*given, "--dma-latency", 0)
    assert json.loads(done.stdout)["dma_latency_held"] == may


def test_what_disturbed_it_is_counted_after_the_warm_up(program: BoardProgram, given: list[object]) -> None:
    few = json.loads(program.run(*given).stdout)
    many = json.loads(program.run(*given, "--repeat", 50).stdout)
    # Every execution, the main thread and the items wait for each other.
    assert many["voluntary_switches"] > 10 * VECTORS > 0
    assert many["voluntary_switches"] > 3 * few["voluntary_switches"]
    assert few["major_faults"] == 0
    warmed = json.loads(program.run(*given, "--warmup", 2000).stdout)
    assert warmed["voluntary_switches"] < many["voluntary_switches"]


@pytest.mark.parametrize("quantity", ["instructions", "cycles"])
def test_events_are_counted_or_the_system_is_said_not_to(
    program: BoardProgram, given: list[object], tmp_path: Path, quantity: str
) -> None:
    done = program.run(*given, "--time", "layer", "--count", quantity)
    if done.returncode == 0:  # a machine with counters that this user may read
        counted = np.load(tmp_path / "out" / "time.npy")
        assert (counted > 0).all()
        return
    assert (done.returncode, done.stdout) == (EXIT_SYSTEM, "")
    assert f"this processor or kernel does not count {quantity}: " in done.stderr


def test_a_thread_that_sleeps_takes_no_processor_time(
    program: BoardProgram, given: list[object], tmp_path: Path
) -> None:
    def total_ns(quantity: str) -> int:
        done = program.run(*given, "--time", "item", "--count", quantity, "--delay", "network:2000")
        assert done.returncode == 0, done.stderr
        return int(np.load(tmp_path / "out" / "time.npy")[:, 1].sum())

    real_ns = total_ns("time")
    assert real_ns > VECTORS * 2e6
    assert 0 < total_ns("cpu") < real_ns / 2
    assert total_ns("user") + total_ns("system") < real_ns / 2


def test_a_trace_is_of_time(program: BoardProgram, given: list[object]) -> None:
    done = program.run(*given, "--trace", "--count", "instructions")
    assert (done.returncode, "usage:" in done.stderr) == (EXIT_USAGE, True)


def test_the_counter_of_another_processor_is_refused_in_words(
    program: BoardProgram, host: Profile, tmp_path: Path
) -> None:
    board = host.model_copy(update={"time_source": "CNTVCT"})
    with pytest.raises(ToolError, match="time_source: CNTVCT is a counter of Armv8-A"):
        bundle.build(codegen.generate(planner.make(program.network, board)), board, tmp_path)
