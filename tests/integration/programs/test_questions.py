"""The questions that run on the schedule's own threads: launches, passes, drawn blocks, generated vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.execution import fp_environment
from harness.operators.qgemm import QGemm
from harness.plan import launches, planner
from harness.plan.plan import Plan, Task
from harness.reference import generated
from tests.integration.programs.test_program import EXIT_IO, EXIT_SYSTEM, EXIT_USAGE, refused
from tests.support import builders
from tests.support.programs.board_program import (
    BoardProgram,
    Patch,
    assert_same,
    build_patched,
    parse,
    references,
    uniform_vectors,
    with_flags,
)

BLOCK = 64
VECTORS = 300
NET = parse(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), dequantize=True, argmax=True))
RESIDUAL = parse(builders.random_network(np.random.default_rng(5), (4, 6, 5), residual=2, zero_points=True))


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    return with_flags(host, "-O1", "-march=native")


@pytest.fixture(scope="module")
def program(board: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> BoardProgram:
    folder = tmp_path_factory.mktemp("program")
    return build_patched(planner.make(NET, board, block=BLOCK), board, folder, objects=objects)


@pytest.fixture(scope="module")
def vectors() -> Array:
    return uniform_vectors(NET, VECTORS, seed=8)


@pytest.fixture(scope="module")
def expected(vectors: Array) -> tuple[Array, ...]:
    return references(NET, vectors)


def ask(program: BoardProgram, folder: Path, inputs: Array | None, *arguments: object) -> dict[str, Any]:
    """The program's last line."""
    if inputs is not None:
        np.save(folder / "inputs.npy", inputs)
        arguments = (*arguments, "--vectors", folder / "inputs.npy")
    done = program.run(*arguments, "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


# Whole runs.


@pytest.mark.parametrize(("block", "seed"), [(1, 0), (2, 1), (7, 2), (64, 3)])
def test_drawn_blocks_give_the_same_activations(
    program: BoardProgram, tmp_path: Path, vectors: Array, expected: tuple[Array, ...], block: int, seed: int
) -> None:
    answer = ask(program, tmp_path, vectors, "--block", block, "--random-block", seed, "--time", "network")
    assert_same(program.read_dumps(tmp_path), expected)
    assert answer["blocks"] == generated.passes(VECTORS, block, seed, 1).executions
    assert np.load(tmp_path / "time.npy").shape == (answer["blocks"], 1)


def test_all_sizes_are_drawn_small_ones_more_often() -> None:
    sizes = generated._drawn_sizes(BLOCK, 3, 2000)
    assert set(sizes.tolist()) == set(range(1, BLOCK + 1))
    assert np.median(sizes) < BLOCK / 4


@pytest.mark.parametrize("executions", [1, 500, 5000])
def test_vectors_pass_again_until_there_were_enough_executions(
    program: BoardProgram, tmp_path: Path, vectors: Array, expected: tuple[Array, ...], executions: int
) -> None:
    answer = ask(program, tmp_path, vectors, "--block", 4, "--random-block", 1, "--executions", executions)
    assert_same(program.read_dumps(tmp_path), expected)
    found = generated.passes(VECTORS, 4, 1, executions)
    assert answer["blocks"] == found.executions >= executions
    assert (answer["vectors"], answer["fault"]) == (VECTORS, "")


@pytest.mark.parametrize("split", [["pipeline"], ["parallel"]])
def test_passes_of_a_split_network_are_compared_too(
    board: Profile, objects: Path, tmp_path: Path, vectors: Array, expected: tuple[Array, ...], split: list[str]
) -> None:
    """In a pipeline the dumps of a layer lag behind the executions."""
    plan = planner.make(NET, board, block=BLOCK, split=split)
    program = build_patched(plan, board, tmp_path / "bundle", objects=objects)
    overlaps = 0
    for attempt in range(20):  # threads overlap where two processors are free for them
        answer = ask(program, tmp_path, vectors, "--block", 8, "--executions", 900, "--jitter-ns", f"1000:{attempt}")
        assert_same(program.read_dumps(tmp_path), expected)
        assert (answer["blocks"], answer["fault"]) == (912, "")  # 24 passes of 38 blocks
        overlaps += answer["overlaps"]
        if overlaps:
            return
    pytest.fail("the items never overlapped")


def test_items_that_wait_for_each_other_never_overlap(program: BoardProgram, tmp_path: Path, vectors: Array) -> None:
    answer = ask(program, tmp_path, vectors, "--block", 8, "--jitter-ns", "3000:1")
    assert answer["overlaps"] == 0


# Launches.


def rows(parts: list[Array]) -> Array:
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("net", [NET, RESIDUAL], ids=["chain", "residual"])
@pytest.mark.parametrize("split", [(), ("parallel",), ("pipeline",)], ids=["", "parallel", "pipeline"])
def test_every_launch_gives_what_its_tasks_compute(
    net: Any, split: tuple[str, ...], board: Profile, objects: Path, tmp_path: Path
) -> None:
    made: Plan = planner.make(net, board, block=BLOCK, split=split)
    program = build_patched(made, board, tmp_path / "bundle", objects=objects)
    vectors = uniform_vectors(net, VECTORS, seed=3)
    right = references(net, vectors)
    for launch in launches.planned_launches(made):
        [task] = launch.tasks
        given = rows([right[s.layer][:, s.start : s.stop] if isinstance(s, Task) else vectors for s in launch.sources])
        answer = ask(program, tmp_path, given, "--task", task.name, "--random-block", 1, "--executions", 300)
        assert (answer["fault"], answer["vectors"]) == ("", VECTORS)
        assert answer["executions"] == generated.passes(VECTORS, BLOCK, 1, 300).executions
        found = np.load(tmp_path / f"{task.name}.npy")
        assert found.tobytes() == right[task.layer][:, task.start : task.stop].tobytes()


@pytest.mark.parametrize("asked", [[], ["--task", "layer_0"]], ids=["run", "launch"])
def test_windows_of_executions_and_every_size_are_counted(
    program: BoardProgram, tmp_path: Path, vectors: Array, expected: tuple[Array, ...], asked: list[str]
) -> None:
    given = expected[0].view(np.uint8) if asked else vectors
    sizes = ["--every-size", f"{BLOCK}:100"] if asked else []
    option, executions = generated.windows(16)
    answer = ask(
        program, tmp_path, given, *asked, "--block", 4, "--random-block", 1, "--executions", 500, *option, *sizes
    )
    passed = generated.passes(VECTORS, 4, 1, 500).executions + executions
    assert answer["fault"] == ""
    assert answer["executions" if asked else "blocks"] == passed + (
        sum(-(-100 // size) for size in range(1, BLOCK + 1)) if asked else 0
    )
    assert option[1].startswith(f"16:{2**16 - 8},{2**17 - 8},")
    assert option[1].endswith(f",{2**53 - 8}")


@pytest.mark.parametrize(("executions", "steps"), [(16, 1), (16, 12), (1, 7), (256, 1000), (16, 1 << 17)])
def test_windows_begin_with_a_stream_and_contain_the_power(executions: int, steps: int) -> None:
    words, count = generated.windows(executions, steps)
    size, numbers = words[1].split(":")
    first = [int(number) for number in numbers.split(",")]
    assert count == int(size) * len(first) >= executions * len(first)
    assert {number % steps for number in (int(size), *first)} == {0}
    for exponent, begin in zip(generated.EXPONENTS, first, strict=True):
        assert begin < 1 << exponent <= begin + int(size)


def test_a_launch_runs_on_the_thread_of_its_item(board: Profile, objects: Path, tmp_path: Path) -> None:
    """As stages do: each names its thread where it has computed."""
    call, name = "quantize_compute(input[v], quantize_output[v]);", 'pthread_self() == main_thread ? "main" : "item"'
    patches = [
        Patch("network.c", "#include <string.h>", "#include <pthread.h>\n#include <stdio.h>\n#include <string.h>"),
        Patch("network.c", call, f"{call} if (!v) fputs({name}, stderr);"),
        Patch("network.c", "enum { BLOCK = 64 };", "enum { BLOCK = 64 }; static pthread_t main_thread;"),
        Patch(
            "network.c",
            "static void prepost_init(const struct options *options __attribute__((unused)))\n{",
            "static void prepost_init(const struct options *options __attribute__((unused)))\n{\n"
            "    main_thread = pthread_self();",
        ),
    ]
    plan = planner.make(NET, board, block=BLOCK)
    program = build_patched(plan, board, tmp_path / "bundle", patches, objects=objects)
    np.save(tmp_path / "inputs.npy", np.zeros((3, 20), np.uint8))
    done = program.run("--task", "quantize", "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "item")


def test_the_tables_are_written_after_a_launch(program: BoardProgram, tmp_path: Path, vectors: Array) -> None:
    ask(program, tmp_path, vectors.view(np.uint8), "--task", "quantize", "--tables")
    layer = NET.layers[1]
    assert isinstance(layer, QGemm)
    assert np.array_equal(np.load(tmp_path / "layer_0_weights.npy").T, layer.weights)


# Generated vectors.


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_random_vectors_are_those_of_the_host(program: BoardProgram, tmp_path: Path, seed: int) -> None:
    vectors = generated.random_vectors(1001, 9, seed)
    ask(program, tmp_path, None, "--stage", "layer_1_accumulate", *vectors.option)
    assert_sums(program, tmp_path, "layer_1", vectors.rows(0, 1001))
    assert np.array_equal(vectors.rows(0, 1001)[500:], vectors.rows(500, 1001))
    counts = np.bincount(vectors.rows(0, 1001).reshape(-1), minlength=256)
    assert counts.min() > 10


@pytest.mark.parametrize("arrangement", [0, 1])
def test_pair_vectors_are_those_of_the_host(program: BoardProgram, tmp_path: Path, arrangement: int) -> None:
    ask(program, tmp_path, None, "--stage", "layer_1_accumulate", "--pair-vectors", arrangement)
    assert_sums(program, tmp_path, "layer_1", generated.pairs(9, arrangement))


def assert_sums(program: BoardProgram, folder: Path, name: str, given: Array) -> None:
    layer = next(layer for layer in program.network.layers if layer.name == name)
    assert isinstance(layer, QGemm)
    right = layer.accumulate()(given.view(layer.input.dtype)).astype(np.int32)
    assert np.array_equal(np.load(folder / f"{name}_accumulate.npy"), right)


@pytest.mark.parametrize("columns", [(0, 1), (3, 256), (1, 2), (5, 261 - 257 + 1)])
def test_any_two_of_257_columns_have_every_pair(columns: tuple[int, int]) -> None:
    first, second = (generated.pairs(257, 0)[:, column].astype(int) for column in columns)
    assert len(np.unique(256 * first + second)) == (65536 if columns[0] != columns[1] else 256)


def test_any_two_of_more_columns_have_every_pair_in_one_arrangement() -> None:
    arrangements = [vectors.rows(0, 65536) for vectors in generated.pair_vectors(600)]
    assert len(arrangements) == 2
    for one, other in [(0, 257), (1, 515), (3, 4), (256, 513), (599, 342)]:
        counts = [len(np.unique(256 * a[:, one].astype(int) + a[:, other])) for a in arrangements]
        assert max(counts) == 65536


# Refused.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", "layer_9"], "--task layer_9: no launch of this network begins with such a task"),
        (["--task", "quantize", "--stage", "quantize_compute"], "usage: inference"),
        (["--stage", "quantize_compute", "--executions", "5"], "usage: inference"),
        (["--random-vectors", "5:1"], "usage: inference"),
        (["--stage", "quantize_compute", "--random-vectors", "5"], "expected COUNT:SEED"),
        (
            ["--stage", "quantize_compute", "--pair-vectors", "2"],
            "--pair-vectors 2: expected a whole number from 0 to 1",
        ),
        (["--executions", "5", "--time", "network"], "usage: inference"),
        (["--executions", "5", "--windows", "5"], "--windows 5: expected EXECUTIONS:FIRST,..."),
        (["--executions", "5", "--windows", "5:x"], "--windows x: expected a whole number from 0"),
        (["--executions", "5", "--windows", "5:" + "1," * 65], "--windows: expected at most 64"),
        (["--windows", "5:1"], "usage: inference"),
        (["--every-size", "5:1"], "usage: inference"),
        (["--task", "quantize", "--every-size", "5"], "--every-size 5: expected N:VECTORS"),
        (["--executions", "0"], "--executions 0: expected a whole number from 1"),
        (["--random-block", "x"], "--random-block x: expected a whole number"),
        (["--random-block", "1", "--trace"], "usage: inference"),
        (["--jitter-ns", "5"], "expected NANOSECONDS:SEED"),
    ],
)
def test_a_wrong_question_is_refused(
    program: BoardProgram, tmp_path: Path, vectors: Array, options: list[str], message: str
) -> None:
    np.save(tmp_path / "inputs.npy", vectors)
    done = program.run(*options, "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_USAGE, message)


def test_vectors_of_another_width_are_refused(program: BoardProgram, tmp_path: Path, vectors: Array) -> None:
    np.save(tmp_path / "inputs.npy", vectors.view(np.uint8)[:, 1:])
    done = program.run("--task", "quantize", "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_USAGE, "expected |u1 of shape (vectors, 20)")


def test_a_full_disk_is_a_failure(program: BoardProgram, tmp_path: Path, vectors: Array) -> None:
    np.save(tmp_path / "inputs.npy", vectors.view(np.uint8))
    (tmp_path / "quantize.npy").symlink_to("/dev/full")
    done = program.run("--task", "quantize", "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_IO, "No space left on device")


# The floating-point environment.

SETS = {
    "flush to zero": "_mm_setcsr(_mm_getcsr() | 0x8000);",
    "subnormal inputs are zero": "_mm_setcsr(_mm_getcsr() | 0x0040);",
    "round up": "_mm_setcsr((_mm_getcsr() & ~0x6000u) | 0x4000);",
}


@pytest.mark.parametrize("code", SETS.values(), ids=SETS)
@pytest.mark.parametrize(
    "asked", [[], ["--task", "quantize"], ["--stage", "quantize_compute"]], ids=["run", "task", "stage"]
)
def test_another_floating_point_environment_of_an_items_thread_is_refused(
    board: Profile, objects: Path, tmp_path: Path, code: str, asked: list[str]
) -> None:
    """Set by the code of a layer, on the thread that it runs on: the main thread keeps the standard one."""
    head = "static ONE_CODE void quantize_compute(const float *in, uint8_t *restrict out)\n{\n"
    patches = [Patch("network.c", head, f"{head}    {code}\n"),
               Patch("network.c", "#include <string.h>", "#include <immintrin.h>\n#include <string.h>")]  # fmt: skip
    program = build_patched(planner.make(NET, board, block=BLOCK), board, tmp_path / "bundle", patches, objects=objects)
    given = np.zeros((3, 20), np.uint8) if "--task" in asked else np.zeros((3, 5), np.float32)
    np.save(tmp_path / "inputs.npy", given)
    done = program.run(*asked, "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (EXIT_SYSTEM, "")
    assert "inference: the thread of item prepost computes with MXCSR = 0x" in done.stderr
    assert "does not round to nearest even or does not keep subnormal numbers" in done.stderr


def test_every_items_environment_is_reported(program: BoardProgram, tmp_path: Path, vectors: Array) -> None:
    found = fp_environment.parse(ask(program, tmp_path, vectors)["fp_environment"])
    assert [environment.item for environment in found] == ["prepost", "network"]
    assert {environment.register for environment in found} <= {"MXCSR", "FPCR"}
    assert all(environment.is_standard for environment in found)
