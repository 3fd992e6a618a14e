"""Programs of streams: every variant of target c against the reference, and histories that are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.compare import difference_map
from harness.analysis.diagnosis import cases, diagnose
from harness.analysis.proof import composition, structure
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.model import stream as streams
from harness.plan import planner
from harness.plan.plan import Plan
from harness.reference import generated
from harness.reference.stream import StreamReference
from tests.support.programs.board_program import Patch, build_patched
from tests.support.programs.c_variants import GNU, VARIANTS, of_variant
from tests.support.proof.trials import EFFORT
from tests.support.streams import inputs_of, recurrent_stream, small_stream

BRIEF = ("c", "c:unrolled")
OTHERS = [each for each in VARIANTS if each not in BRIEF]
STREAM = streams.stream(small_stream(), 2, pulse=4, steps=8)
VECTORS = inputs_of(STREAM, 6)
BEGINS = (
    "    if ((execution % 8u) <= 0u)\n        begins = 1;\n"
    "    for (size_t v = 0; (v < vectors) && (v < BLOCK); ++v) {\n        history_b_"
)
WRONG = {
    "the history moves by one frame too few": Patch("network.c", "before[b * 6u + 2u + n]", "before[b * 6u + 1u + n]"),
    "the history is not updated": Patch(
        "network.c", BEGINS, BEGINS.replace("(execution % 8u) <= 0u", "execution < 999u")
    ),
    "a stream begins with frames of the one before": Patch(
        "network.c", BEGINS, BEGINS.replace("(execution % 8u) <= 0u", "execution == 0u")
    ),
}
"""A change of the program for each cause that the diagnosis knows."""


def planned(host: Profile, target: str = "c", **options: object) -> Plan:
    return planner.make(STREAM.network, of_variant(host, target), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", [*BRIEF, *(pytest.param(each, marks=pytest.mark.campaign) for each in OTHERS)])
def test_every_variant_computes_the_steps(host: Profile, tmp_path: Path, objects: Path, target: str) -> None:
    made = planned(host, target)
    assert made.block == 1
    built = build_patched(made, of_variant(host, target), tmp_path, objects=objects)
    found = built.activations(VECTORS, tmp_path / "out")
    for layer, actual, right in zip(
        STREAM.network.layers, found, StreamReference(STREAM).activations(VECTORS), strict=True
    ):
        assert actual.tobytes() == right.tobytes(), layer.name


@pytest.mark.parametrize("cause", WRONG)
def test_wrong_histories_are_found_and_named(host: Profile, tmp_path: Path, objects: Path, cause: str) -> None:
    built = build_patched(planned(host), host, tmp_path, [WRONG[cause]], objects=objects)
    found = built.activations(VECTORS, tmp_path / "out")
    right = StreamReference(STREAM).activations(VECTORS)
    differing = [
        layer.name
        for layer, *pair in zip(STREAM.network.layers, found, right, strict=True)
        if difference_map(*pair).any()
    ]
    assert differing[0] == "history_b"
    assert "scores" in differing
    own = [case for case in cases(STREAM.network, VECTORS, right, dict(enumerate(found))) if case.own]
    assert [case.layer.name for case in own] == ["history_b"]
    assert cause in [hypothesis.cause for hypothesis in diagnose(own[0]).complete]


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_streams_begin_after_many_executions_too(host: Profile, tmp_path: Path, objects: Path, wrong: bool) -> None:
    """A stream that is not reset beyond 2^20 executions has the frames of the one before."""
    late = BEGINS.replace("(execution % 8u) <= 0u", "((execution % 8u) <= 0u) && (execution < 1048576u)")
    built = build_patched(
        planned(host), host, tmp_path, [Patch("network.c", BEGINS, late)] if wrong else [], objects=objects
    )
    option, executions = generated.windows(16, STREAM.network.steps)
    np.save(tmp_path / "vectors.npy", VECTORS)
    done = built.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, "--executions", 1, *option)
    answer = json.loads(done.stdout)
    assert answer["blocks"] == len(VECTORS) + executions
    found = re.match("layer history_.: execution ([0-9]+) changes its output", answer["fault"])
    assert (int(found[1]) if found else None) == (1 << 20 if wrong else None)


RECURRENT = {operator: streams.stream(recurrent_stream(operator), 2, pulse=2, steps=5) for operator in ("LSTM", "GRU")}
STATES_BEGIN = (
    "    if ((execution % 5u) <= 1u)\n        begins = 1;\n"
    "    for (size_t v = 0; (v < vectors) && (v < BLOCK); ++v) {\n        states_layer_0_"
)


@pytest.mark.parametrize("target", [*BRIEF, *(pytest.param(each, marks=pytest.mark.campaign) for each in OTHERS)])
@pytest.mark.parametrize("operator", RECURRENT)
def test_every_variant_computes_the_steps_of_recurrences(
    host: Profile, tmp_path: Path, objects: Path, operator: str, target: str
) -> None:
    stream = RECURRENT[operator]
    vectors = inputs_of(stream, 6)
    board = of_variant(host, target)
    built = build_patched(planner.make(stream.network, board), board, tmp_path, objects=objects)
    right = StreamReference(stream).activations(vectors)
    for layer, actual, expected in zip(
        stream.network.layers, built.activations(vectors, tmp_path / "out"), right, strict=True
    ):
        assert actual.tobytes() == expected.tobytes(), layer.name


def test_states_of_another_stream_are_found_and_named(host: Profile, tmp_path: Path, objects: Path) -> None:
    """The states of a stream that is not reset are those of the one before."""
    stream = RECURRENT["LSTM"]
    vectors = inputs_of(stream, 6)
    patch = Patch("network.c", STATES_BEGIN, STATES_BEGIN.replace("(execution % 5u)", "execution"))
    built = build_patched(planner.make(stream.network, host), host, tmp_path, [patch], objects=objects)
    actual = built.activations(vectors, tmp_path / "out")
    right = StreamReference(stream).activations(vectors)
    own = [case for case in cases(stream.network, vectors, right, dict(enumerate(actual))) if case.own]
    assert [case.layer.name for case in own] == ["states_layer_0"]
    assert own[0].differing.any(axis=1).nonzero()[0][0] >= 5


def test_whole_runs_of_streams_hold(host: Profile, tmp_path: Path, objects: Path) -> None:
    """Warm-ups, windows and passes begin with a stream."""
    made = planned(host)
    deployed = build_patched(made, host, tmp_path / "bundle", objects=objects).deployed(tmp_path / "run")
    right = StreamReference(STREAM).activations(VECTORS)
    claims = [
        question.ask() for question in composition.questions(made, deployed, VECTORS, right, 60, tmp_path, EFFORT)
    ]
    assert [claim.counterexample for claim in claims if not claim.holds] == []
    assert "--warmup 8; --fifo; --time network" in claims[-1].question.method


@pytest.mark.parametrize("compiler", [GNU, pytest.param("gcc", marks=pytest.mark.campaign)])
def test_the_structure_of_a_stream_holds(host: Profile, tmp_path: Path, objects: Path, compiler: str) -> None:
    """A stage that reads the history of another layer is found."""
    flags = ("-O2", "-mcpu=cortex-a53") if compiler == GNU else ("-O3",)
    toolchain = host.toolchain.model_copy(update={"compiler": compiler, "flags": flags})
    board = host.model_copy(update={"toolchain": toolchain})
    made = planned(board)

    def failing(*patches: Patch) -> set[str]:
        folder = tmp_path / str(len(patches))
        path = build_patched(made, board, folder, patches, objects=objects).path
        asked = structure.questions(codegen.generate(made), (path, file_sha256(path)))
        return {str(claim.question.layer) for claim in map(structure.Question.ask, asked) if not claim.holds}

    assert failing() == set()
    reads_another = Patch(
        "network.c",
        "history_b_compute(history_b_copies[(execution + 1u) % 2u][v]",
        "history_b_compute(history_a_copies[(execution + 1u) % 2u][v]",
    )
    assert failing(reads_another) >= {"history_b"}


@pytest.mark.parametrize(
    ("options", "message"),
    [({"block": 8}, "--block 8: each execution of network is one step"), ({"split": ("pipeline",)}, "split pipeline")],
)
def test_steps_are_not_put_into_blocks(host: Profile, options: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError, match=re.escape(message)):
        planned(host, **options)


def test_a_history_shares_no_bytes(host: Profile, tmp_path: Path, objects: Path) -> None:
    made = planned(host, buffers="reuse")
    kept = [task for task in made.tasks if STREAM.network.layers[task.layer].streaming.steps > 1]
    assert made.arena > 0
    assert {(task.buffers, task.offset) for task in kept} == {(2, None)}
    found = build_patched(made, host, tmp_path, objects=objects).activations(VECTORS, tmp_path / "out")
    assert found[-1].tobytes() == StreamReference(STREAM).activations(VECTORS)[-1].tobytes()
