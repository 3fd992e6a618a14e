"""The board program's answers to the proof: its tables, its stages one by one, its sweeps."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.execution import fp_environment
from harness.model.network import Network
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.contraction import Contraction
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.obligations import StageKind
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.plan import planner
from harness.targets import Stage
from tests.integration.programs.test_program import EXIT_IO, EXIT_USAGE, refused
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, Patch, build, build_patched, parse, with_flags
from tests.unit.operators.test_specification import sum_network

BLOCK = 64
VECTORS = 150  # no multiple of any block below, but of 1
PROBE = "kernels/program/probe.c"


def _random(seed: int, widths: tuple[int, ...], **options: object) -> Network:
    return parse(builders.random_network(np.random.default_rng(seed), widths, **options))  # type: ignore[arg-type]


NETWORKS = {
    "int8 weights": _random(1, (5, 9, 4, 3), per_column=True, zero_points=True, argmax=True),
    "uint8 weights": _random(2, (1, 7, 1, 6), weights="uint8", zero_points=True, dequantize=True),
    "int8 activations": _random(3, (6, 1, 9), activations="int8", alpha=0.7, transposed=True, argmax=True),
    "float": _random(4, (8, 5), weights="uint8", per_column=True, float_output=True, argmax=True),
    "residual": _random(5, (4, 6, 5), residual=2, zero_points=True),
    "constant": sum_network(["addend", "b"], {"addend": np.float32(-0.37)}, 0.01),
}


@pytest.fixture(scope="module")
def board(host: Profile) -> Profile:
    return with_flags(host, "-O1", "-march=native")


@pytest.fixture(scope="module")
def programs(board: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, BoardProgram]:
    folder = tmp_path_factory.mktemp("programs")
    plans = {name: planner.make(net, board, block=BLOCK) for name, net in NETWORKS.items()}
    return {name: build_patched(made, board, folder / name, objects=objects) for name, made in plans.items()}


@pytest.fixture(scope="module")
def program(programs: Mapping[str, BoardProgram]) -> BoardProgram:
    return programs["int8 weights"]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NETWORKS)
def test_a_stage_is_one_piece_of_machine_code_which_the_schedule_calls(name: str, host: Profile, cache: Path) -> None:
    net = NETWORKS[name]
    functions = _functions(build(net, host, cache, BLOCK).path)
    for layer, code in zip(net.layers, codegen.generate(planner.make(net, host, block=BLOCK)).tasks, strict=True):
        for stage in code.stages:
            assert [function for function in functions if function.split(".")[0] == stage.name] == [stage.name]
            callers = {function for function, text in functions.items() if f"<{stage.name}>\n" in text}
            assert callers == {f"{layer.name}_forward", f"{stage.name}_stage"}


def _functions(program: Path) -> dict[str, str]:
    """The instructions of every function, with the optimisation of a bundle."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(program)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pieces = re.split(r"^[0-9a-f]+ <(.+)>:\n", listing, flags=re.MULTILINE)[1:]
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def probe(program: BoardProgram, folder: Path, *arguments: object, inputs: Array | None = None) -> tuple[int, int]:
    """Ask the program, its files go to `folder`; the vectors and rows that it counts."""
    if inputs is not None:
        np.save(folder / "inputs.npy", inputs)
        arguments = (*arguments, "--vectors", folder / "inputs.npy")
    done = program.run(*arguments, "--out", folder)
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    environments = fp_environment.parse(answer.pop("fp_environment"))
    assert [environment.item for environment in environments] == ["prepost", "network"]
    counts = {name: answer.pop(name) for name in ("vectors", "rows")}
    assert answer == {"done": True, "bundle": "patched", "executions": 0, "fault": ""}
    return counts["vectors"], counts["rows"]


def stages(net: Network, board: Profile) -> list[tuple[Layer, Stage]]:
    codes = codegen.generate(planner.make(net, board)).tasks
    return [(layer, stage) for layer, code in zip(net.layers, codes, strict=True) for stage in code.stages]


def stage_of(program: BoardProgram, board: Profile, part: StageKind) -> tuple[Layer, Stage]:
    """The first of the kind."""
    return next((layer, stage) for layer, stage in stages(program.network, board) if stage.part is part)


# Tables.


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NETWORKS)
def test_every_table_is_what_its_target_generated(
    name: str, programs: Mapping[str, BoardProgram], board: Profile, tmp_path: Path
) -> None:
    program = programs[name]
    tables = [table for code in codegen.generate(planner.make(program.network, board)).tasks for table in code.tables]
    assert probe(program, tmp_path, "--tables") == (len(tables), len(tables))
    assert {path.name for path in tmp_path.iterdir()} == {f"{table.name}.npy" for table in tables}
    for table in tables:
        found, right = np.load(tmp_path / f"{table.name}.npy"), np.atleast_2d(table.values)
        assert (found.dtype, found.shape) == (right.dtype, right.shape), table.name
        assert found.tobytes() == right.tobytes(), table.name


@pytest.mark.parametrize("name", NETWORKS)
def test_the_tables_say_what_the_model_says(name: str, programs: Mapping[str, BoardProgram], tmp_path: Path) -> None:
    """From the model's own numbers, not by way of the target."""
    program = programs[name]
    probe(program, tmp_path, "--tables")

    def table(layer: Layer, suffix: str) -> Array:
        values: Array = np.load(tmp_path / f"{layer.name}_{suffix}.npy").astype(np.float64)
        return values

    for layer in program.network.layers:
        if isinstance(layer, QuantizeLinear | DequantizeLinear):
            assert (table(layer, "scale")[0, 0], table(layer, "zero")[0, 0]) == (layer.scale, layer.zero_point)
        elif isinstance(layer, QGemm):
            shift = 128 if layer.weights.dtype == np.uint8 else 0
            assert np.array_equal(table(layer, "weights").T + shift, layer.weights)
            assert np.array_equal(table(layer, "bias")[0], layer.bias)
            assert np.array_equal(table(layer, "multiplier")[0], layer.multiplier)
            centered = layer.weights.astype(int) - layer.weights_zero_point
            offset = layer.bias - layer.a_zero_point * centered.sum(axis=0)
            assert np.array_equal(table(layer, "offset")[0], offset % 2**32)
        elif isinstance(layer, Add) and layer.addend is not None:
            assert np.array_equal(table(layer, "addend")[0], layer.addend)


# Stages.


def inputs_of(layer: Layer, stage: Stage, count: int) -> Array:
    """Any codes; numbers around the codes, and all bit patterns; accumulators near to those that occur."""
    rng = np.random.default_rng(6)
    shape = count, stage.input_width
    if isinstance(layer, QGemm) and stage.part is StageKind.FINISH:
        reach = int(300 / float(layer.multiplier.min()))
        return rng.integers(-reach, reach, shape).astype(np.int32)
    if stage.input_dtype != np.float32:
        limits = np.iinfo(stage.input_dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(stage.input_dtype)
    near = rng.normal(0, 1, shape).astype(np.float32)
    if isinstance(layer, QuantizeLinear):
        near[::3] = rng.integers(0, 2**32, near[::3].shape, np.uint32).view(np.float32)
    return near


def right_outputs(layer: Layer, stage: Stage, inputs: Array) -> Array:
    """By the formulas of the specification."""
    if stage.part is StageKind.MERGE:
        return inputs
    if not isinstance(layer, Contraction):
        ends = np.cumsum([tensor.size for tensor in layer.inputs])[:-1]
        return layer.prepare()(*np.split(inputs, ends, axis=1)).astype(stage.output_dtype)
    if stage.part is StageKind.ACCUMULATE:
        centered = layer.weights.astype(int) - layer.weights_zero_point
        sums = layer.contract(inputs.astype(int) - layer.a_zero_point, centered)
        return (sums + layer.spread(layer.bias)).astype(np.int32)
    v = inputs.astype(np.float32) * layer.spread(layer.multiplier)
    if layer.dtype == np.float32:
        return v
    codes = np.iinfo(layer.dtype)
    return np.clip(np.rint(v).astype(int) + layer.y_zero_point, codes.min, codes.max).astype(layer.dtype)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("block", [1, 7, BLOCK])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_stage_is_its_part_of_the_specification(
    name: str, block: int, programs: Mapping[str, BoardProgram], board: Profile, tmp_path: Path
) -> None:
    for layer, stage in stages(programs[name].network, board):
        inputs = inputs_of(layer, stage, VECTORS)
        asked = "--stage", stage.name, "--block", block
        assert probe(programs[name], tmp_path, *asked, inputs=inputs) == (VECTORS, VECTORS)
        found, right = np.load(tmp_path / f"{stage.name}.npy"), right_outputs(layer, stage, inputs)
        assert (found.dtype, found.shape) == (right.dtype, (VECTORS, stage.output_width)), stage.name
        assert found.tobytes() == right.tobytes(), stage.name


def test_the_networks_have_every_operator_and_every_part(board: Profile) -> None:
    every = [pair for net in NETWORKS.values() for pair in stages(net, board)]
    assert {type(layer) for layer, _ in every} == {Add, ArgExtremum, DequantizeLinear, QGemm, QuantizeLinear}
    only_elsewhere = {StageKind.MERGE, StageKind.RESET}  # of split networks, and of streams
    assert {stage.part for _, stage in every} == set(StageKind) - only_elsewhere
    assert {len(layer.sources) for layer, _ in every if isinstance(layer, Add)} == {1, 2}


def test_no_vectors_give_no_outputs(program: BoardProgram, board: Profile, tmp_path: Path) -> None:
    _, stage = stage_of(program, board, StageKind.ACCUMULATE)
    inputs = np.zeros((0, stage.input_width), stage.input_dtype)
    assert probe(program, tmp_path, "--stage", stage.name, inputs=inputs) == (0, 0)
    assert np.load(tmp_path / f"{stage.name}.npy").shape == (0, stage.output_width)


SUMS = "layer_1_accumulate(const uint8_t *in, int32_t *restrict out)"
CODES = "layer_1_finish(const int32_t *in, uint8_t *restrict out)"
PLACES = {
    "input": (SUMS, "in != layer_0_output[0] && in != layer_0_output[1]"),
    "sums": (SUMS, "labs((char *)&in - (char *)out) > 4096"),
    "output": (CODES, "out != layer_1_output[0] && out != layer_1_output[1]"),
    "fill": (CODES, "out[0] != out[1] || out[0] != (out == layer_1_output[0] ? 0 : 255)"),
}


@pytest.mark.parametrize(("head", "elsewhere"), PLACES.values(), ids=PLACES)
def test_a_stage_has_the_buffers_of_the_schedule(
    board: Profile, objects: Path, tmp_path: Path, head: str, elsewhere: str
) -> None:
    """Or of its thread's stack, and its outputs are filled before; a stage that looks exits where it is wrong."""
    begin = f"static ONE_CODE void {head}\n{{\n"
    patch = Patch("network.c", begin, f"{begin}    if (in[0] == 77 && in[1] == 77 && ({elsewhere})) exit(9);\n")
    include = Patch("network.c", "#include <string.h>", "#include <stdlib.h>\n#include <string.h>")
    plan = planner.make(NETWORKS["int8 weights"], board, ["c:unrolled", "c:unrolled"], block=BLOCK)
    program = build_patched(plan, board, tmp_path / "bundle", [patch, include], objects=objects)
    part = StageKind.FINISH if head == CODES else StageKind.ACCUMULATE
    stage = next(stage for stage in codegen.generate(plan).tasks[2].stages if stage.part is part)
    probe(program, tmp_path, "--stage", stage.name, inputs=np.full((2, stage.input_width), 77, stage.input_dtype))


# Sweeps.


def changes(outputs: Array) -> list[tuple[int, int, int]]:
    """Column, number of the vector, output: of the first vector, and wherever an output is not that of before."""
    before: list[int | None] = [None] * outputs.shape[1]
    rows = []
    for vector, row in enumerate(outputs.view(np.uint8).tolist()):
        rows += [(column, vector, code) for column, code in enumerate(row) if code != before[column]]
        before = row
    return rows


def swept(first: Array, count: int) -> Array:
    """The inputs of a sweep, their bits as uint32."""
    return (first + np.arange(count, dtype=np.uint64)[:, None]).astype(np.uint32)


@pytest.mark.parametrize("block", [1, 7, BLOCK])
def test_the_steps_of_a_sweep_tell_every_output(
    program: BoardProgram, board: Profile, tmp_path: Path, block: int
) -> None:
    layer, stage = stage_of(program, board, StageKind.FINISH)
    first = np.arange(-2500, -2500 + 111 * stage.input_width, 111).astype(np.int32)[None]
    inputs = swept(first.view(np.uint32), 5001)
    vectors, rows = probe(program, tmp_path, "--stage", stage.name, "--sweep", 5001, "--block", block, inputs=first)
    found = np.load(tmp_path / f"{stage.name}.npy")
    assert (vectors, rows, found.dtype) == (5001, len(found), np.uint32)
    right = changes(right_outputs(layer, stage, inputs.view(np.int32)))
    assert len(right) > 20 * stage.output_width
    assert [tuple(row) for row in found.tolist()] == right


@pytest.mark.parametrize(
    ("name", "part", "start", "step"),
    [
        ("int8 activations", StageKind.FINISH, 2**31 - 300, 300),  # from the largest integer to the least
        ("uint8 weights", StageKind.COMPUTE, 2**32 - 300, 300),  # from a NaN to 0 and the least subnormal numbers
        ("uint8 weights", StageKind.COMPUTE, 0x7F800000 - 300, 301),  # from the largest number to the NaNs
    ],
)
def test_a_sweep_wraps_around(
    name: str,
    part: StageKind,
    start: int,
    step: int,
    programs: Mapping[str, BoardProgram],
    board: Profile,
    tmp_path: Path,
) -> None:
    program = programs[name]
    layer, stage = stage_of(program, board, part)
    first = np.full((1, stage.input_width), start, np.uint32)
    probe(program, tmp_path, "--stage", stage.name, "--sweep", 600, inputs=first.view(stage.input_dtype))
    right = changes(right_outputs(layer, stage, swept(first, 600).view(stage.input_dtype)))
    assert step in {vector for _, vector, _ in right}
    assert [tuple(row) for row in np.load(tmp_path / f"{stage.name}.npy").tolist()] == right


@pytest.mark.parametrize("block", [1, 7, BLOCK])
def test_a_sweep_with_wider_outputs_writes_them_all(
    programs: Mapping[str, BoardProgram], board: Profile, tmp_path: Path, block: int
) -> None:
    layer, stage = stage_of(programs["float"], board, StageKind.FINISH)
    first = np.array([[-70, 0, 2**31 - 40, -(2**31), 5]]).astype(np.int32)
    asked = "--stage", stage.name, "--sweep", VECTORS, "--block", block
    assert probe(programs["float"], tmp_path, *asked, inputs=first) == (VECTORS, VECTORS)
    right = right_outputs(layer, stage, swept(first.view(np.uint32), VECTORS).view(np.int32))
    assert np.load(tmp_path / f"{stage.name}.npy").tobytes() == right.tobytes()


def test_a_sweep_of_one_vector(program: BoardProgram, board: Profile, tmp_path: Path) -> None:
    _, stage = stage_of(program, board, StageKind.FINISH)
    first = np.zeros((1, stage.input_width), np.int32)
    assert probe(program, tmp_path, "--stage", stage.name, "--sweep", 1, inputs=first) == (1, stage.output_width)
    assert np.load(tmp_path / f"{stage.name}.npy")[:, :2].tolist() == [[n, 0] for n in range(stage.output_width)]


def test_a_sweep_with_too_many_steps_ends_early_and_says_so(board: Profile, tmp_path: Path) -> None:
    """Behind the block in which they became too many; the steps up to there are whole."""
    plan = planner.make(NETWORKS["int8 weights"], board, block=BLOCK)
    noisy = (
        Patch(PROBE, "STEP_LIMIT = 4000000, STEPS_A_COLUMN = 1024", "STEP_LIMIT = 100, STEPS_A_COLUMN = 1000"),
        Patch("kernels/c/qgemm.h", "round_saturated((float)acc[n] * m[n], QMIN, QMAX, zy)", "acc[n]"),
    )
    program = build_patched(plan, board, tmp_path / "bundle", noisy)
    _, stage = stage_of(program, board, StageKind.FINISH)
    first = np.zeros((1, stage.input_width), np.int32)
    width = stage.output_width
    blocks = -(-(100 + 1000 * width) // (BLOCK * width))
    vectors, rows = probe(program, tmp_path, "--stage", stage.name, "--sweep", 2**32, inputs=first)
    assert (vectors, rows) == (blocks * BLOCK, blocks * BLOCK * width)
    right = changes(swept(first.view(np.uint32), vectors).astype(np.uint8))
    assert [tuple(row) for row in np.load(tmp_path / f"{stage.name}.npy").tolist()] == right


# What is refused.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stage", "layer_0"], "--stage layer_0: this network has no such stage"),
        (["--stage", ""], "--stage : this network has no such stage"),
        (["--stage"], "usage: inference --vectors FILE.npy --out FOLDER"),
        (["--sweep", "5"], "usage: inference"),
        (["--stage", "layer_0_finish", "--sweep", "0"], "--sweep 0: expected a whole number from 1 to 4294967296"),
        (["--stage", "layer_0_finish", "--sweep", "4294967297"], "expected a whole number from 1 to 4294967296"),
        (["--stage", "layer_0_finish", "--sweep", "all"], "--sweep all: expected a whole number"),
        (["--stage", "layer_0_finish", "--block", "65"], "--block 65: expected a whole number from 1 to 64"),
        (["--stage", "layer_0_accumulate", "--sweep", "5"], "--sweep: expected one vector of 4-byte values in"),
        (["--stage", "quantize_compute"], "expected <f4 of shape (vectors, 5), found {'descr': '|u1'"),
        (["--stage", "layer_1_accumulate"], "expected |u1 of shape (vectors, 9), found"),
        (["--stage", "layer_0_finish", "--sweep", "5"], "expected <i4 of shape (vectors, 9), found"),
    ],
)
def test_a_wrong_question_is_refused(program: BoardProgram, tmp_path: Path, options: list[str], message: str) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros((1, 5), np.uint8))
    done = program.run(*options, "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_USAGE, message)
    assert {path.name for path in tmp_path.iterdir()} == {"inputs.npy"}


@pytest.mark.parametrize("rows", [0, 2])
def test_a_sweep_starts_with_one_vector(program: BoardProgram, tmp_path: Path, rows: int) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros((rows, 9), np.int32))
    asked = "--stage", "layer_0_finish", "--sweep", 5
    done = program.run(*asked, "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_USAGE, "--sweep: expected one vector of 4-byte values in")


@pytest.mark.parametrize("options", [["--tables"], ["--stage", "layer_0_accumulate"]])
def test_a_question_needs_a_folder_for_its_answer(program: BoardProgram, tmp_path: Path, options: list[str]) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros((1, 5), np.uint8))
    given = [*options, "--vectors", tmp_path / "inputs.npy"]
    refused(program.run(*given), EXIT_USAGE, "usage: inference")
    refused(program.run(*given, "--out", tmp_path / "missing"), EXIT_IO, "No such file or directory")


def test_a_stage_needs_vectors(program: BoardProgram, tmp_path: Path) -> None:
    refused(program.run("--stage", "layer_0_finish", "--out", tmp_path), EXIT_USAGE, "usage: inference")


def test_vectors_that_are_cut_short_are_a_failure(program: BoardProgram, tmp_path: Path) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros((200, 5), np.uint8))
    content = (tmp_path / "inputs.npy").read_bytes()
    (tmp_path / "inputs.npy").write_bytes(content[:-1])
    done = program.run("--stage", "layer_0_accumulate", "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_IO, "the file ends too early")


@pytest.mark.parametrize("options", [["--tables"], ["--stage", "layer_0_finish"], ["--sweep", "99"]])
def test_a_full_disk_is_a_failure(program: BoardProgram, tmp_path: Path, options: list[str]) -> None:
    """The file that the answer is written to is /dev/full."""
    np.save(tmp_path / "inputs.npy", np.zeros((1, 9), np.int32))
    for name in ("quantize_scale", "layer_0_finish"):
        (tmp_path / f"{name}.npy").symlink_to("/dev/full")
    asked = options if options[0] != "--sweep" else ["--stage", "layer_0_finish", *options]
    done = program.run(*asked, "--vectors", tmp_path / "inputs.npy", "--out", tmp_path)
    refused(done, EXIT_IO, "No space left on device")
