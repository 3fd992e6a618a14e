"""A deployed program asked through a board, and programs that lie or fail half way: none is believed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps
from harness.execution.probe import Probe
from harness.execution.program import out_folder
from harness.operators import exact, sweeps
from harness.operators.obligations import StageKind
from harness.operators.qgemm import QGemm
from harness.operators.sweeps import Sweep
from harness.plan import planner
from harness.targets import Stage, Table
from tests.support import builders
from tests.support.programs.board_program import BoardProgram, build, parse

NET = parse(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), per_column=True, float_output=True))
HIDDEN, SCORES = (layer for layer in NET.layers[2:] if isinstance(layer, QGemm))


@pytest.fixture(scope="module")
def program(host: Profile, cache: Path) -> BoardProgram:
    return build(NET, host, cache, block=64)


def stage(host: Profile, layer: str, part: StageKind) -> Stage:
    codes = codegen.generate(planner.make(NET, host)).tasks
    return next(each for code in codes for each in code.stages if each.name == f"{layer}_{part.value}")


@pytest.fixture(scope="module")
def finish(host: Profile) -> Stage:
    """Of the hidden layer: from accumulators to codes."""
    return stage(host, HIDDEN.name, StageKind.FINISH)


@pytest.fixture(scope="module")
def tables(host: Profile) -> list[Table]:
    return [table for code in codegen.generate(planner.make(NET, host)).tasks for table in code.tables]


@pytest.fixture
def probe(program: BoardProgram, tmp_path: Path) -> Probe:
    return _probe(program, tmp_path)


def _probe(program: BoardProgram, folder: Path, timeout_s: float = 60) -> Probe:
    (folder / "scratch").mkdir()
    return Probe(program.deployed(folder / "run"), ["--block", "10"], timeout_s, folder / "scratch")


def lying(program: BoardProgram, folder: Path, lie: str, timeout_s: float = 60) -> Probe:
    """In the program's place a shell script: it may run the real one as `"$real" "$@"`, whose folder is in $out."""
    (folder / "lie").mkdir()
    script = folder / "lie" / bundle.PROGRAM
    out = out_folder(program.deployed(folder / "run").run_folder, 0)
    script.write_text(f"#!/bin/sh\nreal='{program.path}'\nout='{out}'\n{lie}\n")
    script.chmod(0o755)
    return _probe(dataclasses.replace(program, path=script), folder, timeout_s)


# What an honest program says.


def test_the_tables_come_as_they_were_generated(probe: Probe, tables: list[Table]) -> None:
    found = probe.tables(tables)
    assert len(found) == len(tables) > 10
    for table, values in zip(tables, found, strict=True):
        assert values.dtype == table.values.dtype
        assert np.array_equal(values, np.atleast_2d(table.values))


def test_outputs_of_a_stage(probe: Probe, host: Profile) -> None:
    codes = np.random.default_rng(8).integers(0, 256, (33, HIDDEN.input.size)).astype(np.uint8)
    found = probe.outputs(stage(host, HIDDEN.name, StageKind.ACCUMULATE), codes)
    assert np.array_equal(found, HIDDEN.accumulate()(codes))
    assert found.dtype == np.int32


def test_steps_of_a_whole_sweep(probe: Probe, finish: Stage) -> None:
    sweep = HIDDEN.sweep()
    found, done = probe.steps(finish, sweep)
    assert np.array_equal(found, sweeps.expected(HIDDEN.step_functions(), sweep))
    assert (done.start.tolist(), done.count.tolist()) == (sweep.start.tolist(), sweep.count.tolist())
    assert len(set(sweep.count.tolist())) == HIDDEN.size  # the shorter ones run on, and that is cut off


def test_the_hash_of_a_sweep_is_that_of_all_its_outputs(probe: Probe, host: Profile) -> None:
    sweep = Sweep(np.array([-7, 2**31 - 20, 0]), np.array([50, 50, 50]))
    accumulators = sweep.values().view(np.int32).astype(np.int64)
    right = exact.float_bits(accumulators, SCORES.multiplier).view(np.float32)
    found = probe.sweep_sha256(stage(host, SCORES.name, StageKind.FINISH), sweep)
    assert found == dumps.sha256(right)
    right[49, 2] = np.nextafter(right[49, 2], np.float32(0))
    assert found != dumps.sha256(right)


def test_the_outputs_of_one_stage_are_on_the_board_at_a_time(probe: Probe, host: Profile) -> None:
    out = Path(out_folder(probe.deployed.run_folder, 0))
    stages = [stage(host, HIDDEN.name, kind) for kind in (StageKind.ACCUMULATE, StageKind.FINISH)]
    for each in stages:
        probe.outputs(each, np.zeros((3, each.input_width), each.input_dtype))
        assert [file.name for file in out.glob("*.npy")] == [f"{each.name}.npy"]


def test_an_output_that_cannot_be_removed_is_a_failure(probe: Probe, host: Profile) -> None:
    first, second = (stage(host, HIDDEN.name, kind) for kind in (StageKind.ACCUMULATE, StageKind.FINISH))
    probe.outputs(first, np.zeros((3, first.input_width), first.input_dtype))
    left = Path(out_folder(probe.deployed.run_folder, 0)) / f"{first.name}.npy"
    left.unlink()
    left.mkdir()
    with pytest.raises(BoardError, match=r"does not remove old outputs: .*accumulate\.npy"):
        probe.outputs(second, np.zeros((3, second.input_width), second.input_dtype))


# What a dishonest one says.

ANSWERS = {
    '\'s/"done": true/"done": false/\'': "did not finish its work",
    '\'s/"bundle": "..../"bundle": "0000/\'': "did not finish its work",
    "'s/.*//'": "did not finish its work",
    '\'s/"rows": [0-9]*/"rows": null/\'': "reports 7 vectors and None rows",
    '\'s/"vectors": [0-9]*/"vectors": "many"/\'': "reports 'many' vectors",
    '\'s/"vectors": [0-9]*/"vectors": 6/\'': "passed 6 vectors through a stage, not 7",
    '\'s/"vectors": [0-9]*/"vectors": 8/\'': "passed 8 vectors through a stage, not 7",
}


@pytest.mark.parametrize(("change", "message"), ANSWERS.items())
def test_a_last_line_that_says_something_else_is_a_failure(
    program: BoardProgram, finish: Stage, tmp_path: Path, change: str, message: str
) -> None:
    probe = lying(program, tmp_path, f'"$real" "$@" | sed {change}')
    with pytest.raises(BoardError, match=message):
        probe.outputs(finish, _accumulators(7))


def _accumulators(count: int) -> Array:
    return np.zeros((count, HIDDEN.size), np.int32)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ('"$real" "$@"; truncate -s -1 "$out/layer_1_finish.npy"', "155 of 156 bytes arrived, 1 is missing"),
        ('"$real" "$@"; echo >> "$out/layer_1_finish.npy"', "has more than the 156 bytes that were expected"),
        ('"$real" "$@"; rm "$out/layer_1_finish.npy"', "the program ended well, but .*layer_1_finish.npy is not"),
        ('"$real" "$@"; sed -i "s/|u1/|i1/" "$out/layer_1_finish.npy"', "the dump's header is not that of uint8"),
        ('"$real" "$@"; exit 3', r"failed \(exit status 3\)"),
        ('"$real" "$@"; kill -9 $$', "killed by signal 9"),
        ('"$real" "$@" > /dev/null', "did not finish its work: it said nothing"),
    ],
)
def test_a_program_that_fails_half_way_is_a_failure(
    program: BoardProgram, finish: Stage, tmp_path: Path, lie: str, message: str
) -> None:
    probe = lying(program, tmp_path, lie)
    with pytest.raises(BoardError, match=message):
        probe.outputs(finish, _accumulators(7))


def test_a_program_that_does_not_end_is_killed(program: BoardProgram, finish: Stage, tmp_path: Path) -> None:
    probe = lying(program, tmp_path, "sleep 30", timeout_s=0.5)
    with pytest.raises(BoardError, match=r"did not end within 0\.5 s and was killed"):
        probe.outputs(finish, _accumulators(7))


@pytest.mark.parametrize("key", ["vectors", "rows"])
def test_another_number_of_tables_is_a_failure(
    program: BoardProgram, tables: list[Table], tmp_path: Path, key: str
) -> None:
    probe = lying(program, tmp_path, f'"$real" "$@" | sed \'s/"{key}": [0-9]*/"{key}": 5/\'')
    with pytest.raises(BoardError, match="has other tables than its target generated"):
        probe.tables(tables)


def test_a_table_of_another_size_is_a_failure(program: BoardProgram, tables: list[Table], tmp_path: Path) -> None:
    probe = lying(program, tmp_path, f'"$real" "$@"; truncate -s -4 "$out/{tables[-1].name}.npy"')
    with pytest.raises(BoardError, match=r"\d+ of \d+ bytes arrived, 4 are missing"):
        probe.tables(tables)


def overwritten(octal: str) -> str:
    """The column of the second row of steps gets these first bytes."""
    second = dumps.HEADER_BYTES + 12
    return (
        f'"$real" "$@"; printf "{octal}" | dd of="$out/layer_1_finish.npy" bs=1 conv=notrunc status=none seek={second}'
    )


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ('"$real" "$@" | sed \'s/"rows": [0-9]*/"rows": 3/\'', "has more than the 164 bytes that were expected"),
        ('"$real" "$@" | sed \'s/"rows": [0-9]*/"rows": -1/\'', "has more than the 116 bytes that were expected"),
        (overwritten("\\004"), "reports steps of columns that layer_1_finish does not have"),
        (overwritten("\\377\\377\\377\\377"), "reports steps of columns that layer_1_finish does not have"),
    ],
)
def test_steps_that_cannot_be_are_a_failure(
    program: BoardProgram, finish: Stage, tmp_path: Path, lie: str, message: str
) -> None:
    with pytest.raises(BoardError, match=message):
        lying(program, tmp_path, lie).steps(finish, HIDDEN.sweep())


@pytest.mark.parametrize("vectors", [0, 1, 500])
def test_a_sweep_that_ended_early_counts_as_far_as_it_went(
    program: BoardProgram, finish: Stage, tmp_path: Path, vectors: int
) -> None:
    """Whatever it wrote of what would have come then."""
    sweep = HIDDEN.sweep()
    lie = f'"$real" "$@" | sed \'s/"vectors": [0-9]*/"vectors": {vectors}/\''
    found, done = lying(program, tmp_path, lie).steps(finish, sweep)
    assert done.count.tolist() == np.minimum(sweep.count, vectors).tolist()
    assert np.array_equal(found, sweeps.expected(HIDDEN.step_functions(), done))
    assert done.cases < sweep.cases


@pytest.mark.parametrize("vectors", [49, 51])
def test_a_sweep_of_another_length_has_no_hash(
    program: BoardProgram, host: Profile, tmp_path: Path, vectors: int
) -> None:
    sweep = Sweep(np.array([-7, 2**31 - 20, 0]), np.array([50, 50, 50]))
    probe = lying(program, tmp_path, f'"$real" "$@" | sed \'s/"vectors": [0-9]*/"vectors": {vectors}/\'')
    with pytest.raises(BoardError, match=f"passed {vectors} vectors through a stage, not 50"):
        probe.sweep_sha256(stage(host, SCORES.name, StageKind.FINISH), sweep)
