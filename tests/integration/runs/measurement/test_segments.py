"""Segments of executions by a real program on this machine, and what it must not get away with."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.core.file_digest import file_sha256
from harness.execution import dumps, program
from harness.plan import planner
from harness.reference import Reference
from harness.reference.stimuli import stimuli
from harness.runs.folder import RunFolder
from harness.runs.measurement import segments
from harness.runs.measurement.request import MeasurementOptions, Quantity
from harness.runs.measurement.segments import DISTURBANCES, PEAK_MEMORY, READINGS, Measurer
from tests.support import builders
from tests.support.identities import HOST
from tests.support.programs.board_program import build, parse

VECTORS = 30
ASKED = MeasurementOptions(2 * VECTORS, "layer", Quantity.TIME, "idle", 3)


@pytest.fixture(scope="module")
def job(host: Profile) -> Any:
    net = parse(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), argmax=True))
    planned = planner.make(net, host, ["c", "c"], block=1)
    return SimpleNamespace(
        plan=planned,
        network=net,
        profile=host,
        identity=HOST,
        stimuli=stimuli(net, VECTORS, 1),
        reference=Reference(net),
    )


@pytest.fixture
def measurer(job: Any, host: Profile, cache: Path, tmp_path: Path) -> Measurer:
    deployed = build(job.network, host, cache, block=1).deployed(tmp_path / "run")
    return Measurer(job, deployed, ASKED, ["--block", "1"])


def last_outputs(measurer: Measurer) -> Array:
    """The right ones."""
    return measurer.job.reference.activations(measurer.job.stimuli.chunk(0, VECTORS))[-1]


def asking(measurer: Measurer, **changes: Any) -> Measurer:
    return dataclasses.replace(measurer, options=dataclasses.replace(ASKED, **changes))


def test_every_segment_has_all_vectors_and_right_outputs(measurer: Measurer) -> None:
    found = list(measurer.segments(measurer.work()))
    assert [segment.readings.shape for segment in found] == [(VECTORS, 5)] * 2
    assert segments.outputs(found).compared == 2 * VECTORS
    assert segments.outputs(found).differing == 0
    assert segments.hashes(found) == {dumps.sha256(last_outputs(measurer)): 2}
    assert segments.series(found).shape == (2 * VECTORS, 5)
    assert all(tuple(segment.disturbances) == (*DISTURBANCES, PEAK_MEMORY) for segment in found)
    assert all(segment.disturbances[PEAK_MEMORY] > 100 for segment in found)


def test_samples_are_rounded_up_to_whole_segments(measurer: Measurer) -> None:
    assert len(list(asking(measurer, samples=VECTORS + 1).segments(measurer.work()))) == 2
    assert len(list(asking(measurer, samples=1).segments(measurer.work()))) == 1


def test_a_long_duration_is_spanned_by_few_segments(measurer: Measurer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MOST_SEGMENTS", 3)
    began = time.monotonic()
    found = list(asking(measurer, samples=VECTORS, duration_s=3.0).segments(measurer.work()))
    assert 2 <= len(found) <= 4
    assert time.monotonic() - began >= 3


def test_what_a_reading_costs(measurer: Measurer) -> None:
    probe = measurer.probe()
    assert probe.readings.shape == (READINGS,)
    assert probe.resolution_ns == 1
    assert probe.constant is None
    assert dataclasses.replace(probe, readings=np.full(4, 51, np.uint64)).constant == 51


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda answer: answer | {"samples": 7}, "reports 7 executions, not 30"),
        (lambda answer: answer | {"major_faults": "many"}, "reports 'many' major faults"),
        (lambda answer: {key: answer[key] for key in answer if key != "minor_faults"}, "reports None minor faults"),
        (lambda answer: {key: answer[key] for key in answer if key != "elapsed_ns"}, "reports None elapsed ns"),
    ],
)
def test_a_program_that_says_something_else_is_not_believed(
    measurer: Measurer, monkeypatch: pytest.MonkeyPatch, forge: Callable[[dict[str, Any]], Any], message: str
) -> None:
    real = program.run_program
    monkeypatch.setattr(program, "run_program", lambda *given: forge(real(*given)))
    with pytest.raises(BoardError, match=message):
        next(measurer.segments(measurer.work()))


def test_a_reading_that_cannot_be_told_is_the_boards_failure(
    measurer: Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run_program", lambda *_: json.loads('{"readings": 5, "resolution_ns": 1}'))
    with pytest.raises(BoardError, match="of 100000 readings"):
        measurer.probe()


def test_a_reading_that_no_clock_shows_is_the_boards_failure(
    measurer: Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a later reading is less than the one before: the difference of unsigned numbers."""
    real = dumps.read_array

    def forged(path: Path, dtype: Any, *given: Any) -> Any:
        found = real(path, dtype, *given).copy()
        if path.name == "time.npy":
            found[3, 0] = np.uint64(2**64 - 5)
        return found

    monkeypatch.setattr(dumps, "read_array", forged)
    with pytest.raises(BoardError, match="has a reading of 18,446,744,073,709,551,611: not a value of a clock"):
        next(measurer.segments(measurer.work()))


def test_executions_take_as_long_as_their_times_and_what_lies_between(measurer: Measurer) -> None:
    segment = next(measurer.segments(measurer.work()))
    assert segment.readings.sum() < segment.elapsed_ns


def test_segments_of_a_long_duration_have_pauses_and_say_so() -> None:
    assert segments.pause_s(dataclasses.replace(ASKED, duration_s=8 * 3600.0)) == pytest.approx(57.6)
    assert segments.pause_s(ASKED) == 0


def test_wrong_outputs_are_counted_and_kept(
    measurer: Measurer, job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, folder = job.reference.activations, RunFolder.create_at(tmp_path / "evidence")

    def wrong(vectors: Any) -> Any:
        found = right(vectors)
        return (*found[:-1], found[-1] + 1)

    monkeypatch.setattr(job.reference, "activations", wrong)
    monkeypatch.setattr(job, "folder", folder, raising=False)
    segment = next(measurer.segments(measurer.work()))
    assert segment.outputs.differing == VECTORS
    assert file_sha256(folder.path / "wrong-outputs.npy") == segment.outputs_sha256
