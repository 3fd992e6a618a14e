"""A part of the campaign: the proof finds whatever differs, and the diagnosis names it or says nothing.

Chosen are mutants of every kind, with the steps of the argument that find them; `python -m tests.mutation` tries all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from harness import execute, network_c, proof
from harness.diagnosis import Diagnosis, Hypothesis, Observation, qgemm
from harness.network import QGemm
from harness.probe import Probe
from harness.profile import Profile
from harness.proof import Step
from harness.reference import steps
from harness.targets import Part, Stage
from tests import builders
from tests.kernels.board_program import parse, with_flags
from tests.mutation.campaign import Named, Outcome, Workshop, attempt, named
from tests.mutation.faults import FAULTS, Fault
from tests.mutation.mutants import MULTIPLIER, MUTANTS, PRODUCT
from tests.mutation.networks import NETWORKS, Subject

CONSTANTS, INPUT, SUMS, ACTIVATIONS, OTHERS, COMPOSITION = Step
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}

FOUND_BY_BOTH = [
    ("round half away (roundf)", "powers of two", (INPUT, ACTIVATIONS)),
    ("+ zp in float before rint", "uint8", (INPUT, ACTIVATIONS)),
    ("wrap instead of clamp", "uint8", (INPUT, ACTIVATIONS)),
    ("FMA: rint(fmaf(acc, m, zp))", "powers of two", (ACTIVATIONS,)),
    ("product in double, m float32", "uint8", (ACTIVATIONS,)),
    ("gemmlowp Q31, two roundings", "powers of two", (ACTIVATIONS,)),
    ("m = (sa * sb) * (1 / sy)", "int8", (CONSTANTS, ACTIVATIONS)),
    ("byte order of m", "uint8", (ACTIVATIONS,)),
    ("int16 pair saturation", "uint8", (SUMS,)),
    ("transposed weights", "uint8", (CONSTANTS, SUMS)),
    ("weight zero point left out", "powers of two", (CONSTANTS, SUMS)),
    ("column tail not computed", "uint8", (ACTIVATIONS,)),
    ("DequantizeLinear: float16 scale", "uint8", (CONSTANTS, OTHERS)),
    ("ArgMax: last of equal values", "powers of two", (OTHERS,)),
    ("one weight off by one", "powers of two", (CONSTANTS, SUMS)),
    ("swapped buffer", "uint8", (COMPOSITION,)),
]
FOUND_BY_THE_PROOF_ALONE = [
    ("NaN to the zero point", "uint8", (INPUT,), None),
    ("conversion to int32 before the clamp", "powers of two", (INPUT,), None),
    ("m one ulp up", "int8", (CONSTANTS,), None),
    ("m = (sa / sy) * sb", "uint8", (CONSTANTS, ACTIVATIONS), Named.AMONG),
]
EQUAL = [
    ("clamp after round", "powers of two"),
    ("m computed on the board as specified", "uint8"),
    ("product in double, m float32", "powers of two"),
    ("int16 pair saturation", "int8 activations"),
    ("clamp after round", "residual"),
]
TO_CODES = [mutant.name for mutant in (*PRODUCT, *MULTIPLIER) if not mutant.name.startswith("float output")]
USED = {"int8", "uint8", "powers of two", "int8 activations", "residual"}
Attempt = Callable[[str, str], Outcome]


@pytest.fixture(scope="module")
def subjects() -> dict[str, Subject]:
    return {name: NETWORKS[name].subject() for name in USED}


@pytest.fixture(scope="module")
def workshop(host: Profile, subjects: dict[str, Subject], tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop.open(host, "c", subjects["int8"], tmp_path_factory.mktemp("common"))


@pytest.fixture
def outcome(workshop: Workshop, subjects: dict[str, Subject], tmp_path: Path) -> Attempt:
    def outcome(mutant: str, network: str) -> Outcome:
        subject = subjects[network]
        program = workshop.build(BY_NAME[mutant], subject, tmp_path / "bundle")
        causes = BY_NAME[mutant].causes
        return attempt(program, subject, workshop.plan(subject), causes, tmp_path, all_floats=False)

    return outcome


@pytest.mark.parametrize(("mutant", "network", "failed"), FOUND_BY_BOTH)
def test_what_a_run_finds_the_proof_finds_and_its_cause_is_named(
    outcome: Attempt, mutant: str, network: str, failed: tuple[Step, ...]
) -> None:
    found = outcome(mutant, network)
    assert found.differing > 0
    assert found.failed == failed
    known = BY_NAME[mutant].causes
    assert found.named in ({Named.ALONE, Named.AMONG} if known else {Named.NOT})


@pytest.mark.parametrize(("mutant", "network", "failed", "named"), FOUND_BY_THE_PROOF_ALONE)
def test_the_proof_finds_what_no_run_of_this_size_does(
    outcome: Attempt, mutant: str, network: str, failed: tuple[Step, ...], named: Named | None
) -> None:
    assert outcome(mutant, network) == Outcome(0, failed, named)


@pytest.mark.parametrize(("mutant", "network"), EQUAL)
def test_of_a_mutant_that_is_the_same_function_every_claim_holds(outcome: Attempt, mutant: str, network: str) -> None:
    assert outcome(mutant, network) == Outcome(0, (), None, complete=network != "residual")


@pytest.mark.parametrize("mutant", ["first barrier deleted", "last barrier deleted"])
def test_a_deleted_barrier_is_found_whoever_wins_the_race(outcome: Attempt, mutant: str) -> None:
    found = outcome(mutant, "powers of two")
    assert found.failed == (COMPOSITION,)
    assert found.named is not Named.WRONG


@pytest.fixture(scope="module", params=[{"per_column": True, "weights": "uint8"}, {"power_of_two": True}], ids=str)
def small(request: pytest.FixtureRequest) -> Subject:
    net = parse(builders.random_network(np.random.default_rng(6), (4, 3), zero_points=True, **request.param))
    return Subject.of(net, np.zeros((1, 4), np.float32))


@pytest.mark.parametrize("name", TO_CODES)
def test_the_proof_finds_a_wrong_product_if_and_only_if_a_reachable_accumulator_shows_it(
    workshop: Workshop, small: Subject, name: str, tmp_path: Path
) -> None:
    """All of them pass through the program once more, as plain vectors, and are judged by floating-point NumPy."""
    made, layer = workshop.plan(small), small.network.layers[1]
    assert isinstance(layer, QGemm)
    program = workshop.build(BY_NAME[name], small, tmp_path / "bundle")
    codes = network_c.task_codes(made)
    probe = Probe(program.deployed(tmp_path / "run"), execute.options(made), 60, tmp_path)
    asked = proof.questions(proof.Subject(small.network, small.network.layers, codes, probe), all_floats=False)
    claims = [q.ask() for q in asked if q.step is Step.REQUANTIZATION and q.side is proof.Side.BOARD]
    assert all(claim.holds for claim in claims) == (not _wrong_accumulators(layer, codes[1].stages, probe))


def _wrong_accumulators(layer: QGemm, stages: Iterable[Stage], probe: Probe) -> int:
    sweep = steps.accumulator_sweep(layer)
    acc = np.minimum(sweep.start + np.arange(sweep.vectors)[:, None], sweep.start + sweep.count - 1)
    finish = next(stage for stage in stages if stage.part is Part.FINISH)
    return int((probe.outputs(finish, acc.astype(np.int32)) != qgemm.finish(layer, acc)).sum())


def diagnosis_with(*causes: str) -> Diagnosis:
    """One that these causes explain completely, and another in part."""
    hypotheses = [Hypothesis(cause, "", 4, 0) for cause in causes] + [Hypothesis("half of it", "", 2, 2)]
    return Diagnosis(1, "values", 4, Observation(9, 4, 0, 0, 0, 0, 0, 0, 1), tuple(hypotheses))


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], None),
        ([["a"]], Named.ALONE),
        ([["a", "b"]], Named.ALONE),  # two names for it
        ([["a", "x"]], Named.AMONG),
        ([["a", "x"], ["b"]], Named.ALONE),
        ([["a"], []], Named.NOT),
        ([["x"]], Named.WRONG),
        ([["a"], ["x"]], Named.WRONG),
        ([["x"], []], Named.WRONG),
    ],
)
def test_every_layer_must_name_it_and_one_alone(layers: list[list[str]], expected: Named | None) -> None:
    assert named([diagnosis_with(*causes) for causes in layers], ["a", "b"]) is expected


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_around_the_network_is_found(
    fault: Fault, host: Profile, subjects: dict[str, Subject], tmp_path: Path
) -> None:
    verdict = fault.run(subjects["int8"], with_flags(host, "-O1"), tmp_path)
    assert re.match(fault.verdict, verdict), verdict
