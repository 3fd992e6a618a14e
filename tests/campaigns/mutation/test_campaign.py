"""A part of the campaign: the proof finds whatever differs, and the diagnosis names it or says nothing.

Chosen are mutants of every kind, with the steps of the argument that find them; `python -m tests.campaigns.mutation`
tries all.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from harness.analysis import proof
from harness.analysis.diagnosis import Diagnosis, Hypothesis, Observation
from harness.analysis.proof import ProofStep
from harness.boards.profile import Profile
from harness.build import codegen
from harness.execution import program
from harness.execution.probe import Probe
from harness.operators import contraction_faults
from harness.operators.obligations import Extent, StageKind
from harness.operators.qgemm import QGemm
from harness.targets import Stage
from tests.campaigns.mutation.campaign import Named, Outcome, Workshop, attempt, named
from tests.campaigns.mutation.faults import FAULTS, Fault
from tests.campaigns.mutation.mutants import MULTIPLIER, MUTANTS, PRODUCT, TARGETS
from tests.campaigns.mutation.networks import NETWORKS, Subject
from tests.campaigns.mutation.target_cuda import FUSED, LAYERWISE
from tests.campaigns.mutation.target_tiovx import C7X
from tests.campaigns.mutation.target_vitis import VITIS
from tests.support import builders
from tests.support.programs.board_program import parse, with_flags

_, CONSTANTS, INPUT, SUMS, ACTIVATIONS, OTHERS, EXECUTION, COMPOSITION = ProofStep
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}

FOUND_BY_BOTH = [
    ("round half away (roundf)", "powers of two", (INPUT, ACTIVATIONS)),
    ("swapped buffer", "uint8", (COMPOSITION,)),
]
FOUND_IN_CAMPAIGNS = [
    ("m = (sa * sb) * (1 / sy)", "int8", (CONSTANTS, ACTIVATIONS)),
    ("int16 pair saturation", "uint8", (SUMS,)),
    ("ArgMax: last of equal values", "powers of two", (OTHERS,)),
    ("FMA: rint(fmaf(acc, m, zp))", "powers of two", (ACTIVATIONS,)),
    ("transposed weights", "uint8", (CONSTANTS, SUMS)),
    ("DequantizeLinear: float16 scale", "uint8", (CONSTANTS, OTHERS)),
    ("+ zp in float before rint", "uint8", (INPUT, ACTIVATIONS)),
    ("wrap instead of clamp", "uint8", (INPUT, ACTIVATIONS)),
    ("product in double, m float32", "uint8", (ACTIVATIONS,)),
    ("gemmlowp Q31, two roundings", "powers of two", (ACTIVATIONS,)),
    ("byte order of m", "uint8", (ACTIVATIONS,)),
    ("weight zero point left out", "powers of two", (CONSTANTS, SUMS)),
    ("column tail not computed", "uint8", (ACTIVATIONS,)),
    ("one weight off by one", "powers of two", (CONSTANTS, SUMS)),
]
FOUND_BY_THE_PROOF_ALONE = [
    ("NaN to the zero point", "uint8", (INPUT,), None),
    ("m one ulp up", "int8", (CONSTANTS,), None),
]
FOUND_SO_IN_CAMPAIGNS = [
    ("conversion to int32 before the clamp", "powers of two", (INPUT,), None),
    ("m = (sa / sy) * sb", "uint8", (CONSTANTS, ACTIVATIONS), Named.AMONG),
]
EQUAL = [
    ("clamp after round", "powers of two"),
    ("m computed on the board as specified", "uint8"),
    ("product in double, m float32", "powers of two"),
    ("int16 pair saturation", "int8 activations"),
    ("clamp after round", "residual"),
]
FOUND_ON_A_GPU = [
    (LAYERWISE, "round half away (roundf)", "powers of two", "BS", (INPUT, ACTIVATIONS)),
    (LAYERWISE, "product in double, m float32", "uint8", "B", (ACTIVATIONS,)),
    (LAYERWISE, "GPU: nobody waits for the launch", "uint8", "E", (EXECUTION, COMPOSITION)),
    (FUSED, "x * (1 / scale)", "uint8", "S", (INPUT,)),
    (FUSED, "bias left out", "uint8", "", (CONSTANTS, SUMS)),
    (FUSED, "GPU: barrier behind the weights deleted", "uint8", "", (SUMS,)),
    (FUSED, "GPU: codes behind the last input in the sum of a", "uint8", "", (EXECUTION, COMPOSITION)),
]
FOUND_ON_A_DSP = [
    ("round half away (roundf)", "powers of two", "", (INPUT, ACTIVATIONS)),
    ("TIOVX: int8 codes not flipped", "int8 activations", "", (SUMS,)),
    ("TIOVX: constants not mapped", "powers of two", "E", (CONSTANTS, INPUT, SUMS, ACTIVATIONS, OTHERS)),
]
FOUND_IN_A_FABRIC = [
    ("round half away (roundf)", "powers of two", "", (INPUT, ACTIVATIONS)),
    ("product in double, m float32", "int8 activations", "", (ACTIVATIONS,)),
    ("float output: truncated", "residual", "", (ACTIVATIONS,)),
    ("FPGA: one threshold off by one", "uint8", "", (CONSTANTS, ACTIVATIONS)),
    ("FPGA: accumulator of 16 bits", "uint8", "", (SUMS,)),
    ("FPGA: inputs taken an element too late", "uint8", "", (EXECUTION, COMPOSITION)),
    ("FPGA: an element of a stream dropped", "uint8", "E", (EXECUTION, COMPOSITION)),
    ("FPGA: inputs not synchronised", "residual", "E", (EXECUTION, COMPOSITION)),
    ("FPGA: output of another launch", "residual", "", (EXECUTION, COMPOSITION)),
]
TO_CODES = [mutant.name for mutant in (*PRODUCT, *MULTIPLIER) if not mutant.name.startswith("float output")]
USED = {"int8", "uint8", "powers of two", "int8 activations", "residual"}
Attempt = Callable[..., Outcome]
Identity = Callable[[str, str], str]


@pytest.fixture(scope="module")
def subjects() -> dict[str, Subject]:
    return {name: NETWORKS[name].subject() for name in USED}


@pytest.fixture(scope="module")
def workshops(host: Profile, objects: Path) -> dict[str, Workshop]:
    """The plain kernels are compiled as those of test_mutants.py are, and sooner than as the profile says."""
    boards = dict.fromkeys(TARGETS, host) | {"c": with_flags(host, "-O1", "-march=native")}
    return {target: Workshop(board, target, objects) for target, board in boards.items()}


@pytest.fixture(scope="module")
def workshop(workshops: dict[str, Workshop]) -> Workshop:
    return workshops["c"]


@pytest.fixture
def outcome(workshops: dict[str, Workshop], subjects: dict[str, Subject], tmp_path: Path) -> Attempt:
    def outcome(name: str | None, network: str, target: str = "c") -> Outcome:
        subject, workshop = subjects[network], workshops[target]
        mutant = BY_NAME[name] if name else None
        suspect = workshop.build(mutant, subject, tmp_path / "bundle")
        causes = mutant.causes if mutant else ()
        return attempt(suspect, subject, workshop.plan(subject), causes, tmp_path, all_floats=False)

    return outcome


@pytest.mark.parametrize(
    ("mutant", "network", "failed"),
    [*FOUND_BY_BOTH, *(pytest.param(*each, marks=pytest.mark.campaign) for each in FOUND_IN_CAMPAIGNS)],
)
def test_what_a_run_finds_the_proof_finds_and_its_cause_is_named(
    outcome: Attempt, mutant: str, network: str, failed: tuple[ProofStep, ...]
) -> None:
    found = outcome(mutant, network)
    assert found.differing > 0
    assert found.failed == failed
    known = BY_NAME[mutant].causes
    assert found.named in ({Named.ALONE, Named.AMONG} if known else {Named.NOT})


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("mutant", "network", "failed", "named"),
    [*FOUND_BY_THE_PROOF_ALONE, *(pytest.param(*each, marks=pytest.mark.campaign) for each in FOUND_SO_IN_CAMPAIGNS)],
)
def test_the_proof_finds_what_no_run_of_this_size_does(
    outcome: Attempt, mutant: str, network: str, failed: tuple[ProofStep, ...], named: Named | None
) -> None:
    assert outcome(mutant, network) == Outcome(0, failed, named)


@pytest.mark.campaign
@pytest.mark.parametrize(("mutant", "network"), EQUAL)
def test_of_a_mutant_that_is_the_same_function_every_claim_holds(outcome: Attempt, mutant: str, network: str) -> None:
    assert outcome(mutant, network) == Outcome(0, (), None, complete=network != "residual")


@pytest.mark.campaign
@pytest.mark.parametrize(("target", "mutant", "network", "refused", "failed"), FOUND_ON_A_GPU)
def test_a_mistake_on_a_gpu_is_refused_or_found_and_past_its_guards_it_is_always_found(
    outcome: Attempt, target: str, mutant: str, network: str, refused: str, failed: tuple[ProofStep, ...]
) -> None:
    found = outcome(mutant, network, target)
    assert "".join(guard.value for guard in found.refused) == refused
    assert found.failed == failed
    assert found.named in ({Named.ALONE, Named.AMONG} if BY_NAME[mutant].causes else {Named.NOT, None})


@pytest.mark.campaign
@pytest.mark.parametrize(("mutant", "network", "refused", "failed"), FOUND_ON_A_DSP)
def test_a_mistake_on_a_dsp_is_found_and_what_ends_the_run_is_an_error(
    outcome: Attempt, mutant: str, network: str, refused: str, failed: tuple[ProofStep, ...]
) -> None:
    found = outcome(mutant, network, C7X)
    assert "".join(guard.value for guard in found.refused) == refused
    assert (found.differing > 0) is not bool(refused)
    assert found.failed == failed
    assert found.named is (Named.ALONE if BY_NAME[mutant].causes else None if refused else Named.NOT)


@pytest.mark.campaign
def test_what_no_dump_of_all_activations_shows_the_proof_finds(outcome: Attempt) -> None:
    found = outcome("FPGA: inputs of a partial record taken an element too late", "uint8", VITIS)
    assert (found.differing, found.refused, found.failed) == (0, (), (EXECUTION, COMPOSITION))


@pytest.mark.campaign
@pytest.mark.parametrize(("mutant", "network", "refused", "failed"), FOUND_IN_A_FABRIC)
def test_a_mistake_in_a_fabric_is_found_and_what_ends_the_run_is_an_error(
    outcome: Attempt, mutant: str, network: str, refused: str, failed: tuple[ProofStep, ...]
) -> None:
    found = outcome(mutant, network, VITIS)
    assert "".join(guard.value for guard in found.refused) == refused
    assert (found.differing > 0) is not bool(refused)
    assert found.failed == failed
    known = {Named.ALONE, Named.AMONG} if BY_NAME[mutant].causes else {Named.NOT}
    assert found.named in ({None} if refused else known)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("target", "mutant"),
    [
        (LAYERWISE, None),
        (FUSED, "GPU: codes behind the last input not zero"),
        (C7X, "m computed on the board as specified"),
        (VITIS, "m computed on the board as specified"),
    ],
)
def test_the_right_program_is_neither_refused_nor_found(outcome: Attempt, target: str, mutant: str | None) -> None:
    assert outcome(mutant, "uint8", target) == Outcome(0, (), None)


@pytest.fixture
def identity(workshops: dict[str, Workshop], subjects: dict[str, Subject], tmp_path: Path) -> Identity:
    def identity(name: str, target: str) -> str:
        """What the compilers make of the mutant."""
        return workshops[target].build(BY_NAME[name], subjects["uint8"], tmp_path / name).identity

    return identity


@pytest.fixture(scope="module")
def right(
    workshops: dict[str, Workshop], subjects: dict[str, Subject], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """Build and run the program without a mutant, for a target."""
    folder = tmp_path_factory.mktemp("right")

    @cache
    def right(target: str) -> str:
        return workshops[target].build(None, subjects["uint8"], folder / target).identity

    return right


@pytest.mark.campaign
def test_programs_are_the_same_if_their_code_is(identity: Identity, right: Callable[[str], str]) -> None:
    assert identity("Add: truncated", LAYERWISE) == right(LAYERWISE)  # there is no Add
    assert identity("m one ulp up", LAYERWISE) != right(LAYERWISE)
    assert identity("GPU: nobody waits for the launch", LAYERWISE) != right(LAYERWISE)


@pytest.mark.parametrize(
    ("mutant", "same"),
    [
        ("Add: truncated", True),  # there is no Add
        ("float output: truncated", True),  # nor a float32 output
        ("TIOVX: quads in the other byte order", False),
        ("column tail not computed", False),
    ],
)
def test_the_kernels_in_a_firmware_are_part_of_the_program(
    mutant: str, same: bool, identity: Identity, right: Callable[[str], str]
) -> None:
    assert (identity(mutant, C7X) == right(C7X)) is same


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("mutant", "same"),
    [
        ("Add: truncated", True),  # there is no Add
        ("FPGA: thresholds of the next column", True),  # all columns have the same
        ("FPGA: output of another launch", True),  # there is one
        ("FPGA: bias left out", False),
        ("FPGA: arguments in another order", False),
    ],
)
def test_the_kernels_in_a_fabric_are_part_of_the_program(
    mutant: str, same: bool, identity: Identity, right: Callable[[str], str]
) -> None:
    assert (identity(mutant, VITIS) == right(VITIS)) is same


@pytest.mark.campaign
def test_what_no_mutant_changes_is_compiled_once(
    workshops: dict[str, Workshop], subjects: dict[str, Subject], tmp_path: Path
) -> None:
    """The double of XRT, however the kernels change; and what a mutant does change is compiled anew."""
    workshop = dataclasses.replace(workshops[VITIS], objects=tmp_path)
    names = [None, "FPGA: bias left out", "FPGA: arguments in another order"]
    kept = []
    for index, name in enumerate(names):
        workshop.build(BY_NAME[name] if name else None, subjects["uint8"], tmp_path / f"{index}")
        kept.append(len(list(tmp_path.glob("*.o"))))
    assert kept == [kept[0], kept[0] + 1, kept[0] + 2]


@pytest.mark.parametrize(
    ("target", "mutant", "refused"),
    [
        (C7X, "byte order of the bias", True),
        (C7X, "bias left out", False),
        pytest.param(VITIS, "byte order of the bias", True, marks=pytest.mark.campaign),
        pytest.param(VITIS, "bias left out", False, marks=pytest.mark.campaign),
    ],
)
def test_thresholds_that_the_build_refuses_are_noted_and_built(
    target: str,
    mutant: str,
    refused: bool,
    workshops: dict[str, Workshop],
    subjects: dict[str, Subject],
    tmp_path: Path,
) -> None:
    """Such sums leave int32."""
    suspect = workshops[target].build(BY_NAME[mutant], subjects["powers of two"], tmp_path / "bundle")
    assert suspect.refused is refused
    assert suspect.program.path.exists()


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", ["first barrier deleted", "last barrier deleted"])
def test_a_deleted_barrier_is_found_whoever_wins_the_race(outcome: Attempt, mutant: str) -> None:
    found = outcome(mutant, "powers of two")
    assert found.failed == (COMPOSITION,)
    assert found.named is not Named.WRONG


@pytest.fixture(scope="module", params=[{"per_column": True, "weights": "uint8"}, {"power_of_two": True}], ids=str)
def small(request: pytest.FixtureRequest) -> Subject:
    net = parse(builders.random_network(np.random.default_rng(6), (4, 3), zero_points=True, **request.param))
    return Subject.of(net, np.zeros((1, 4), np.float32))


@pytest.mark.campaign
@pytest.mark.parametrize("name", TO_CODES)
def test_the_proof_finds_a_wrong_product_if_and_only_if_a_reachable_accumulator_shows_it(
    workshop: Workshop, small: Subject, name: str, tmp_path: Path
) -> None:
    """All of them pass through the program once more, as plain vectors, and are judged by floating-point NumPy."""
    made, layer = workshop.plan(small), small.network.layers[1]
    assert isinstance(layer, QGemm)
    suspect = workshop.build(BY_NAME[name], small, tmp_path / "bundle")
    codes = codegen.generate(made).tasks
    probe = Probe(suspect.deployed(tmp_path / "run"), program.options(made), 60, tmp_path)
    asked = proof.questions(proof.Subject(small.network, small.network.layers, codes, probe), Extent(all_floats=False))
    claims = [q.ask() for q in asked if q.step is ProofStep.REQUANTIZATION and q.side is proof.Side.BOARD]
    assert all(claim.holds for claim in claims) == (not _wrong_accumulators(layer, codes[1].stages, probe))


def _wrong_accumulators(layer: QGemm, stages: Iterable[Stage], probe: Probe) -> int:
    sweep = layer.sweep()
    acc = np.minimum(sweep.start + np.arange(sweep.vectors)[:, None], sweep.start + sweep.count - 1)
    finish = next(stage for stage in stages if stage.part is StageKind.FINISH)
    return int((probe.outputs(finish, acc.astype(np.int32)) != contraction_faults.finish(layer, acc)).sum())


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


@pytest.mark.campaign
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_around_the_network_is_found(
    fault: Fault, host: Profile, subjects: dict[str, Subject], tmp_path: Path
) -> None:
    verdict = fault.run(subjects["int8"], with_flags(host, "-O1"), tmp_path)
    assert re.match(fault.verdict, verdict), verdict
