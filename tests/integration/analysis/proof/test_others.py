"""DequantizeLinear, ArgMax, ArgMin and Add: what is tried, and wrong programs that it finds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import onnx
import onnx.helper
import pytest

from harness import targets
from harness.analysis.proof import ProofStep, assumptions
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators import arg_extremum, obligations, terms
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from tests.support import builders
from tests.support.programs.board_program import Patch, parse
from tests.support.programs.chains import Node, chain, qgemm, quantize
from tests.support.proof.trials import Workshop

ARG = "kernels/c/arg_extremum.h"
NETWORK, SUM = "network.c", "= A + B;"
LARGER, SMALLER = "x[i] > x[best]", "x[i] < x[best]"
SIGNS = "(x[i] == 0 && x[best] == 0 && signbit((float)x[best]) && !signbit((float)x[i]))"


def flushed(x: str) -> str:
    """Zero where the number is subnormal."""
    return f"(fabs({x}) < 0x1p-126 ? 0 : {x})"


def searching(width: int, kind: str, operator: str = "ArgMax", *, last: bool = False) -> Network:
    """A search among so many scores of this type."""
    options = {"float_output": True} if kind == "float32" else {"activations": kind}
    model = builders.random_network(np.random.default_rng(width), (2, width), argmax=True, **options)  # type: ignore[arg-type]
    node = model.graph.node[-1]
    node.op_type = operator
    node.attribute.append(onnx.helper.make_attribute("select_last_index", int(last)))
    return parse(model)


def search_of(net: Network) -> ArgExtremum:
    layer = net.layers[-1]
    assert isinstance(layer, ArgExtremum)
    return layer


# DequantizeLinear.

DEQUANTIZED = [
    parse(
        builders.random_network(np.random.default_rng(1), (3, 4), dequantize=True, zero_points=True, activations=kind)
    )
    for kind in ("uint8", "int8")
]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("net", DEQUANTIZED, ids=["uint8", "int8"])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("= (float)v_1;", "= (float)(v_1 + (x == 100));"),
        ("= dequantize_value(", "= (in[n] == 100 && n == 3 ? 1.0000001f : 1) * dequantize_value("),
        ("= v_2 * scale;", "= (float)x * scale - (float)zero_point * scale;"),
    ],
)
def test_a_number_that_is_wrong_for_one_code_is_found(workshop: Workshop, net: Network, right: str, wrong: str) -> None:
    trial = workshop.trial(net, [Patch("network.c", right, wrong)])
    assert set(trial.refuted()) == {(ProofStep.OTHERS, "dequantize")}


# ArgMax and ArgMin.

WRONG_SEARCHES = {
    "ties to the last": ("uint8", "ArgMax", Patch(ARG, LARGER, "x[i] >= x[best]")),
    "ties to the last, of the smallest": ("int8", "ArgMin", Patch(ARG, SMALLER, "x[i] <= x[best]")),
    "the first column is left out": ("uint8", "ArgMax", Patch(ARG, "size_t best = 0", "size_t best = width > 1")),
    "the last column is left out": ("uint8", "ArgMin", Patch(ARG, "i < width; ++i", "i < width - 1; ++i")),
    "uint8 compared as int8": ("uint8", "ArgMax", Patch(ARG, LARGER, "(int8_t)x[i] > (int8_t)x[best]")),
    "int8 compared as uint8": ("int8", "ArgMin", Patch(ARG, SMALLER, "(uint8_t)x[i] < (uint8_t)x[best]")),
    "seven bits of a code": ("uint8", "ArgMax", Patch(ARG, LARGER, "(int)x[i] % 128 > (int)x[best] % 128")),
    "differences in eight bits": ("uint8", "ArgMax", Patch(ARG, LARGER, "(int8_t)(x[i] - x[best]) > 0")),
    "codes of two and more apart": ("uint8", "ArgMin", Patch(ARG, SMALLER, "x[i] + 1 < x[best]")),
    "magnitudes": ("float32", "ArgMax", Patch(ARG, LARGER, "fabsf(x[i]) > fabsf(x[best])")),
    "numbers as integers": ("float32", "ArgMin", Patch(ARG, SMALLER, "(int)x[i] < (int)x[best]")),
    "zeros of two signs": ("float32", "ArgMax", Patch(ARG, LARGER, f"({LARGER} || {SIGNS})")),
    "equal up to 1e-6": (
        "float32", "ArgMax", Patch(ARG, LARGER, "x[i] - x[best] > 1e-6f * fabsf(x[best])"),
    ),
    "differences of one last place near the largest numbers": (
        "float32", "ArgMin",
        Patch(ARG, SMALLER, "x[i] < nextafterf(x[best], 0) || (x[i] < x[best] && fabsf(x[i]) < 1e38f)"),
    ),
    "subnormal numbers as zero": (
        "float32", "ArgMax", Patch(ARG, LARGER, f"{flushed('x[i]')} > {flushed('x[best]')}"),
    ),
}  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize(("kind", "operator", "patch"), WRONG_SEARCHES.values(), ids=WRONG_SEARCHES)
def test_a_wrong_search_is_found(workshop: Workshop, kind: str, operator: str, patch: Patch) -> None:
    """With every order of few columns, and with some of more."""
    include = Patch(ARG, "#include <stdbool.h>", "#include <math.h>\n#include <stdbool.h>")
    for width in (3, 8):
        trial = workshop.trial(searching(width, kind, operator), [patch, include])
        (claim,) = [question.ask() for question in trial.questions() if question.step is ProofStep.OTHERS]
        assert not claim.holds
        trial.check(claim)


@pytest.mark.parametrize(("kind", "operator"), [("uint8", "ArgMax"), ("int8", "ArgMin"), ("float32", "ArgMax")])
def test_a_right_search_is_not_refuted(
    workshop: Workshop, kind: str, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obligations, "VALUES", 1 << 16)
    for width, last in ((1, False), (6, True), (300, False)):
        trial = workshop.trial(searching(width, kind, operator, last=last))
        (question,) = [question for question in trial.questions() if question.step is ProofStep.OTHERS]
        assert question.ask().holds
        assert question.complete == (width <= 6)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("kind", ["uint8", "int8", "float32"])
@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_every_order_of_few_columns_is_tried(kind: str, width: int) -> None:
    tried = orders_of(arg_extremum.orders(search_of(searching(width, kind))))
    assert tried == {order for order in itertools.product(range(width), repeat=width) if is_order(order)}
    assert len(tried) == {1: 1, 2: 3, 3: 13, 6: 4683}[width]


def orders_of(values: Array) -> set[tuple[int, ...]]:
    """The places of each row's values among their different ones."""
    rows = np.unique(values, axis=0)
    order = rows.argsort(axis=1)
    ascending = np.take_along_axis(rows, order, axis=1)
    places = np.empty(rows.shape, np.int64)
    changes = np.diff(ascending, axis=1, prepend=ascending[:, :1]) != 0
    np.put_along_axis(places, order, changes.cumsum(axis=1), axis=1)
    return set(map(tuple, places.tolist()))


def is_order(places: tuple[int, ...]) -> bool:
    return set(places) == set(range(max(places) + 1))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_the_orders_are_tried_with_codes_of_the_whole_range(kind: str) -> None:
    codes = arg_extremum.orders(search_of(searching(6, kind)))
    limits = np.iinfo(codes.dtype)
    assert (codes.min(), codes.max()) == (limits.min, limits.max)
    middle = (limits.min + limits.max) // 2
    assert {middle, middle + 1} <= set(np.unique(codes).tolist())
    assert any(row.max() - row.min() > 200 for row in codes.astype(int))


@pytest.mark.parametrize(("width", "kind"), [(7, "uint8"), (40, "int8"), (40, "float32"), (300, "uint8")])
def test_of_many_columns_the_extremes_are_tried_in_pairs(
    width: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, with the second beside it, and twice; both ends; all pairs of up to a hundred columns."""
    monkeypatch.setattr(obligations, "RANDOM_VECTORS", 2000)
    values = arg_extremum.some_orders(search_of(searching(width, kind)))
    for ordered in (values, -values.astype(np.float64)):
        top = ordered == ordered.max(axis=1, keepdims=True)
        once, twice = ordered[top.sum(axis=1) == 1], top[top.sum(axis=1) == 2]
        assert {tuple(np.flatnonzero(row)) for row in twice} >= (
            set(itertools.combinations(range(width), 2)) if width <= 100 else set()
        )
        assert set(once.argmax(axis=1).tolist()) == set(range(width))
        second = np.partition(once, -2, axis=1)[:, -2:-1]
        rows, columns = np.nonzero(once == second)
        beside = set(zip(once.argmax(axis=1)[rows].tolist(), columns.tolist(), strict=True))
        assert beside >= (set(itertools.permutations(range(width), 2)) if width <= 100 else set())
        assert len(twice) >= min(width * (width - 1) // 2, 2000)
    assert values.nbytes < 2e8


# Add.


TERMS = parse(builders.random_network(np.random.default_rng(2), (3, 4), residual=2))


@pytest.mark.parametrize(
    "expression",
    [
        "A - B",
        "A; (void)B",
        "(float)((double)A + B * (1 + 0x1p-24))",
        "(float)((double)A + B + 1e-44)",
        "A + B + 0.0f",  # -0 + -0 is -0
        "(fabsf(A + B) < 1.1754944e-38f ? 0 : A + B)",
        "nextafterf(A + B, A > 3 ? 0 : A + B)",
    ],
)
def test_a_wrong_sum_is_found(workshop: Workshop, expression: str) -> None:
    include = Patch(NETWORK, '#include "network.h"\n', '#include "network.h"\n#include <math.h>\n')
    trial = workshop.trial(TERMS, [Patch(NETWORK, SUM, f"= {expression};"), include])
    assert set(trial.refuted()) == {(ProofStep.OTHERS, "layer_0_sum_2")}


@pytest.mark.parametrize("addend", [0.3, -0.0])
def test_a_wrong_sum_with_a_constant_is_found(workshop: Workshop, addend: float) -> None:
    """-0 - -0 is 0."""
    trial = workshop.trial(constant(addend), [Patch(NETWORK, SUM, "= A - B;")])
    assert set(trial.refuted()) == {(ProofStep.OTHERS, "add")}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("addend", [0.3, -0.0, 3e38, 1e-45])
def test_a_right_sum_with_a_constant_is_not_refuted(workshop: Workshop, addend: float) -> None:
    trial = workshop.trial(constant(addend))
    questions = [question for question in trial.questions() if question.step is ProofStep.OTHERS]
    assert all(question.ask().holds for question in questions)
    layer = trial.network.layers[-1]
    assert isinstance(layer, Add)
    assert questions[0].cases == terms.pairs(layer, layer.addend).size


def constant(addend: float) -> Network:
    """Four columns and a constant."""
    weights = np.arange(8, dtype=np.int8).reshape(2, 4)
    added = Node("Add", {"addend": np.full(4, addend, np.float32)})
    return chain([quantize(1, 0, "uint8"), qgemm(weights, np.zeros(4), np.ones(1), None), added], ("float32", 4), 2)


def test_pairs_of_terms_meet_what_can_go_wrong() -> None:
    layer = next(layer for layer in TERMS.layers if isinstance(layer, Add))
    pairs = terms.pairs(layer, layer.addend)
    a, b = pairs[:, :4], pairs[:, 4:]
    assert pairs.dtype == np.float32
    assert np.isfinite(pairs).all()
    total = a + b
    assert np.isfinite(total).all()
    tiny = np.finfo(np.float32).tiny
    assert ((total == 0) & (a != 0)).any(axis=0).all()
    assert ((np.abs(total) < tiny) & (total != 0)).any(axis=0).all()
    exact = a.astype(np.float64) + b.astype(np.float64)
    rest = np.abs(exact - total)
    assert (rest * 2 == np.spacing(np.abs(total))).sum() > 1000  # ties
    assert len(pairs) == 5 * 65_536 + 12 * 12 + obligations.VECTORS
    zeros = pairs[(pairs == 0).all(axis=1)]
    assert {tuple(np.signbit(row[[0, 4]]).tolist()) for row in zeros} == set(itertools.product([False, True], repeat=2))


# What is assumed.


def said(
    network: Network,
    stand_ins: Mapping[str, str] | None = None,
    of_items: Mapping[str, str] | None = None,
    *,
    all_floats: bool = True,
) -> list[str]:
    return list(assumptions(network, stand_ins or {}, all_floats=all_floats, of_items=of_items or {}))


@pytest.mark.parametrize(("width", "tried"), [(6, "every order was tried"), (7, "some orders were tried")])
def test_that_a_search_only_compares_is_assumed(width: int, tried: str) -> None:
    stated = [text for text in said(searching(width, "uint8")) if "ArgMax" in text]
    assert len(stated) == 1
    assert tried in stated[0]


def test_only_what_the_network_has_is_assumed() -> None:
    plain = parse(builders.random_network(np.random.default_rng(2), (3, 4)))
    sums = parse(builders.random_network(np.random.default_rng(2), (3, 4), residual=2))
    assert not any("ArgMax" in text or "addition" in text for text in said(plain))
    assert sum("float32 addition" in text for text in said(sums)) == 1
    assert sum("monotone" in text for text in said(plain, all_floats=False)) == 1
    assert not any("monotone" in text for text in said(plain))


def test_that_nothing_overflows_is_assumed_of_layers_that_read_what_can() -> None:
    nodes = [
        onnx.helper.make_node("Mul", ["x", "two"], ["a"], name="a"),
        onnx.helper.make_node("Add", ["a", "x"], ["b"], name="b"),
        onnx.helper.make_node("Add", ["x", "x"], ["c"], name="c"),
    ]
    outputs = {"b": ("float32", 2), "c": ("float32", 2)}
    network = parse(builders.make_model(nodes, {"two": np.float32(2)}, outputs, width=2))
    [stated] = [text for text in said(network) if "is NaN, as of a sum" in text]
    assert "layers that read values which can overflow: b. " in stated
    assert stated.endswith("no value that they read overflows for inputs in the box of the network.")
    box = {"input_box_low": "[-4, -4]", "input_box_high": "[4, 4]"}
    wide = parse(builders.make_model(nodes, {"two": np.float32(3e38)}, outputs, width=2, metadata=box))
    [stated] = [text for text in said(wide) if "is NaN, as of a sum" in text]
    assert stated.endswith("such a value can overflow for inputs in the box of the network.")
    assert not any(
        "is NaN, as" in text for text in said(parse(builders.random_network(np.random.default_rng(2), (3, 4))))
    )


def test_a_stand_in_is_taken_for_what_it_is() -> None:
    stated = said(searching(3, "uint8"), {"network": "a toy"})
    assert stated[0].startswith("Item network ran on a stand-in, a toy: what is shown of it holds for its source")
    assert sum("stand-in" in text for text in stated) == 1


def test_what_a_target_takes_for_granted_is_said_of_its_items() -> None:
    plain = parse(builders.random_network(np.random.default_rng(2), (3, 4)))
    stated = said(plain, of_items={"network": targets.find("vitis").assumptions})
    assert stated[0].startswith("Of item network: It is a kernel for the fabric, of which the next sentence does not")
    assert stated[1].startswith("The same instructions with the same operands")
    assert stated[1:] == said(plain)
