"""Each layer against the specification for the inputs that the board computed; bounded ones within their tolerance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.analysis.compare import difference_map
from harness.analysis.local import Bounded, LocalComparison, LocalResult, of_plan
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.core.installation import ROOT
from harness.plan import planner
from harness.plan.claims import bounded, claims
from harness.plan.plan import Plan
from harness.reference import SpecificationReference
from harness.targets import Claim
from tests.support import builders
from tests.support.programs.board_program import parse

COUNT, UNIT = 40, 1


@pytest.fixture(scope="module")
def made(host: Profile) -> Plan:
    return planner.make(parse(builders.float_sums()), host)


def judged(
    made: Plan, change: Callable[[list[Array]], object], start: int = 0
) -> tuple[list[list[tuple[int, int]]], LocalResult, list[Array]]:
    """Return the wrong (vector, unit) of all layers, the result, and the outputs of a board that `change` makes wrong.

    Unit 0 of dense_1 and all of dense_2 are bounded.
    """
    network = made.network
    vectors = np.random.default_rng(1).uniform(-1, 1, (COUNT, 8)).astype(np.float32)
    reference = SpecificationReference(network).activations(vectors)
    board = [values.copy() for values in reference]
    change(board)
    comparison = LocalComparison(made, {0: np.arange(12) == 0, 2: np.ones(4, bool)})
    right, result = comparison.judge(vectors, reference, dict(enumerate(board)), start)
    maps = (difference_map(*pair) for pair in zip(right, board, strict=True))
    wrong = [[(int(vector), int(unit)) for vector, unit in np.argwhere(found)] for found in maps]
    return wrong, result, board


def set_scores(made: Plan, place: tuple[int, int], share: float) -> Callable[[list[Array]], object]:
    """Return the change of a score by a share of its tolerance."""

    def change(board: list[Array]) -> None:
        tolerance = made.network.layers[2].tolerance([board[1]], board[2])
        assert tolerance is not None
        board[2][place] += np.float32(share * tolerance[place])

    return change


def test_the_reference_itself_is_right_with_ratio_0(made: Plan) -> None:
    wrong, result, _ = judged(made, lambda _: None)
    assert wrong == [[], [], []]
    assert result.bounded == (Bounded(0.0, 0), None, Bounded(0.0, 0))
    [output] = result.outputs
    assert (output.layer, output.unequal, output.largest) == (2, 0, 0)


@pytest.mark.parametrize(("share", "holds"), [(0.9, True), (-0.9, True), (1.2, False), (-1.2, False)])
def test_a_value_may_differ_by_its_tolerance(made: Plan, share: float, holds: bool) -> None:
    wrong, result, board = judged(made, set_scores(made, (7, UNIT), share))
    assert wrong == [[], [], [] if holds else [(7, UNIT)]]
    assert result.bounded[2] is not None
    assert result.bounded[2].unequal == 1
    assert result.bounded[2].ratio == pytest.approx(abs(share), abs=0.15)  # the change is rounded to float32
    reference = judged(made, lambda _: None)[2]
    assert result.outputs[0].largest == abs(float(board[2][7, UNIT]) - float(reference[2][7, UNIT]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_bound_contains_nan_or_infinity(made: Plan, value: float) -> None:
    wrong, result, _ = judged(made, lambda board: board[2].__setitem__((3, UNIT), value))
    assert wrong == [[], [], [(3, UNIT)]]
    assert result.bounded[2] == Bounded(np.inf, 1)


@pytest.mark.parametrize(("layer", "place"), [(0, (5, 1)), (1, (5, 0))])
def test_one_bit_of_an_exact_part_is_wrong(made: Plan, layer: int, place: tuple[int, int]) -> None:
    """Only unit 0 of dense_1 is bounded.  Later layers read the wrong value, and are right for it."""

    def change(board: list[Array]) -> None:
        board[layer][place] = np.nextafter(board[layer][place], np.float32(9))
        board[layer + 1 :] = _following(made, board, layer)

    assert judged(made, change)[0] == [[place] if index == layer else [] for index in range(3)]


def test_layers_after_a_bounded_one_are_compared_for_their_own_inputs(made: Plan) -> None:
    def change(board: list[Array]) -> None:
        board[0][:, 0] = np.nextafter(board[0][:, 0], np.float32(9))
        board[1:] = _following(made, board, 0)

    wrong, result, _ = judged(made, change)
    assert wrong == [[], [], []]
    assert result.bounded[0] is not None
    assert result.bounded[0].unequal == COUNT
    assert result.bounded[2] == Bounded(0.0, 0)
    assert result.outputs[0].unequal > 0


def test_a_zero_of_the_wrong_sign_is_wrong_in_an_exact_layer(made: Plan) -> None:
    def change(board: list[Array]) -> None:
        board[1][board[1] == 0] = -0.0

    wrong, _, board = judged(made, change)
    assert len(wrong[1]) == np.count_nonzero(board[1] == 0) > 0
    assert wrong[2] == []


def test_the_parts_of_a_split_layer_have_the_claims_of_their_targets(
    host: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "support" / "third_party")
    network = parse(builders.float_sums())
    plan = planner.make(network, host, ("c", "reordered"), split=("dense_1=prepost+network", "dense_2=prepost"))
    assert [(task.name, claim) for task, claim in zip(plan.tasks, claims(plan), strict=True)] == [
        ("dense_1_0", Claim.EXACT),
        ("dense_1_1", Claim.BOUNDED),
        ("relu_1", Claim.EXACT),
        ("dense_2", Claim.EXACT),
    ]
    assert bounded(plan) == ("dense_1",)
    comparison = of_plan(plan)
    assert comparison is not None
    vectors = np.random.default_rng(1).uniform(-1, 1, (COUNT, 8)).astype(np.float32)
    board = [values.copy() for values in SpecificationReference(network).activations(vectors)]
    board[0] = np.nextafter(board[0], np.float32(9))
    board[1:] = _following(plan, board, 0)
    right, result = comparison.judge(vectors, board, dict(enumerate(board)))
    first = plan.tasks[1].start
    assert difference_map(right[0], board[0])[:, :first].all()
    assert not difference_map(right[0], board[0])[:, first:].any()
    assert [each and each.unequal for each in result.bounded] == [COUNT * (12 - first), None, None]
    exact = planner.make(network, host)
    assert (of_plan(exact), bounded(exact)) == (None, ())


def test_results_of_chunks_are_joined(made: Plan) -> None:
    one, other = (judged(made, set_scores(made, (7, UNIT), share))[1] for share in (0.5, 0.9))
    joined = one + other
    assert joined.bounded[2] is not None
    assert other.bounded[2] is not None
    assert joined.bounded == (Bounded(0.0, 0), None, Bounded(other.bounded[2].ratio, 2))
    assert joined.outputs[0].largest == max(one.outputs[0].largest, other.outputs[0].largest)


def test_a_specified_value_that_is_no_number_is_inconclusive(made: Plan) -> None:
    """Bounded values near the largest float, whose products overflow with both signs: the board is not to blame."""
    comparison = LocalComparison(made, {0: np.ones(12, bool), 2: np.ones(4, bool)})
    largest = np.finfo(np.float32).max
    vectors = np.full((2, 8), largest, np.float32)
    board = SpecificationReference(made.network).activations(vectors)
    with pytest.raises(ReferenceFailed, match=r"layer 'dense_\d' .*the specified value is no number"):
        comparison.judge(vectors, board, dict(enumerate(board)))


def _following(made: Plan, board: list[Array], layer: int) -> list[Array]:
    """Return the specified outputs of the layers after one, for its outputs on the board."""
    found, values = [], board[layer]
    for each in made.network.layers[layer + 1 :]:
        values = each.prepare()(values)
        found.append(values)
    return found
