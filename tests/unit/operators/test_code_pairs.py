"""QLinearAdd and QLinearMul against ONNX Runtime: random configurations, ties, constants, refusals, wrong variants."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.code_pairs import CodePairs
from harness.operators.counters import Quantity
from harness.operators.obligations import Extent, Outputs
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    every_code,
    every_pair,
    layer_of,
    node,
    random_codes,
    random_dtype,
    random_scales,
    random_zero_points,
    runtime,
    specified,
)

F32 = np.float32
INPUTS = ("a", "sa", "za", "b", "sb", "zb", "sy", "zy")
OPERATORS = ["QLinearAdd", "QLinearMul"]


def constants(scales: Any, zero_points: Any, dtype: Any = "uint8") -> dict[str, Any]:
    """Quantisations of a, b and y."""
    named = dict(zip(("sa", "sb", "sy"), map(F32, scales), strict=True))
    return named | {name: np.array(z, dtype) for name, z in zip(("za", "zb", "zy"), zero_points, strict=True)}


def agree_at_random(operator: str) -> Callable[[np.random.Generator], None]:
    def check(rng: np.random.Generator) -> None:
        dtype, size = random_dtype(rng), int(rng.integers(2, 70))
        given = constants(random_scales(rng, 3), random_zero_points(rng, 3, dtype), dtype)
        kind = rng.choice(["two", "row", "number"])
        if kind == "two":
            a, b = every_pair(rng, dtype, size)
            inputs = {"a": a, "b": b}
        else:
            name, other = rng.permutation(["a", "b"])
            inputs = {str(name): every_code(rng, dtype, size)}
            row = random_codes(rng, dtype, size) if kind == "row" else random_codes(rng, dtype, int(rng.integers(1, 2)))
            given[str(other)] = row if rng.random() < 0.5 else row[None]
        proto = node(operator, *INPUTS)
        if assert_agree(proto, given, inputs):
            first = {name: values[:1] for name, values in inputs.items()}
            assert_agree(proto, given, first)  # ONNX Runtime broadcasts in another way

    return check


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_random_configurations_agree(operator: str, count: int) -> None:
    assert_agree_at_random(agree_at_random(operator), count)


TIES = {
    "QLinearAdd": [constants([0.5, 0.25, 1], [3, 7, 128]), constants([23 / 12, 1 / 6, 7 / 3], [98, 158, 197])],
    "QLinearMul": [constants([0.5, 0.25, 1], [3, 7, 128]), constants([1.5, 0.5, 30], [127, 128, 3])],
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_ties_of_all_pairs_agree(operator: str) -> None:
    a, b = every_pair(np.random.default_rng(0), np.dtype("uint8"), 16)
    for given in TIES[operator]:
        layer = assert_agree(node(operator, *INPUTS), given, {"a": a, "b": b})
        assert layer is not None
        _, ties = layer.stimuli.find_ties()(a, b)
        assert ties.sum() > 100
        v = layer.before_rounding(a, b)
        assert v is not None
        assert ((v - np.floor(v) == 0.5) == ties).all()


def test_images_and_an_activation_and_itself_agree() -> None:
    rng = np.random.default_rng(1)
    x = random_codes(rng, np.dtype("int8"), 40, 3, 4, 5)
    given = constants([0.1, 0.07, 0.13], [3, -7, 12], "int8")
    for operator in OPERATORS:
        whole = given | {"b": random_codes(rng, np.dtype("int8"), 1, 3, 4, 5)}
        assert assert_agree(node(operator, *INPUTS), whole, {"a": x}) is not None
        twice = node(operator, "a", "sa", "za", "a", "sb", "zb", "sy", "zy")
        layer = assert_agree(twice, given, {"a": x})
        assert layer is not None
        assert layer.sources == ("a", "a")


def test_the_order_of_one_value_per_vector_depends_on_the_number_of_vectors_in_onnx_runtime() -> None:
    given, proto = TIES["QLinearAdd"][1], node("QLinearAdd", *INPUTS)
    a, b = every_pair(np.random.default_rng(0), np.dtype("uint8"), 1)
    together = runtime(proto, given, {"a": a, "b": b})
    layer = layer_of(proto, given, {"a": np.tile(a, 2), "b": np.tile(b, 2)})
    assert (specified(layer, {"a": np.tile(a, 2), "b": np.tile(b, 2)})[:, :1] == together).all()
    exchanged = runtime(node("QLinearAdd", *INPUTS[3:6], *INPUTS[:3], *INPUTS[6:]), given, {"a": a, "b": b})
    differing = np.flatnonzero(together != exchanged)
    assert len(differing) > 100
    for at in differing[:20]:
        alone = runtime(proto, given, {"a": a[at : at + 1], "b": b[at : at + 1]})
        assert alone.item() == exchanged[at].item()


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "one value": ("QLinearAdd", {}, "'y' .*adds one value per vector, in an order", "several values"),
    "ratio": ("QLinearAdd", {"sa": F32(1e-30), "sy": F32(1e30)}, "ratio a_scale / y_scale is 0", "normal float32"),
    "int32": ("QLinearAdd", {"sa": F32(1e8)}, r"results reach .*e\+\d+ codes", "less than 2.31"),
    "int32 of a product": ("QLinearMul", {"sa": F32(1e8)}, r"results reach .*e\+\d+ codes", "less than 2.31"),
    "multiplier": (
        "QLinearMul",
        {"sa": F32(1e-20), "sb": F32(1e-20)},
        "multiplier a_scale .* is 4.28",
        "normal float32",
    ),
    "scale": ("QLinearMul", {"sa": F32(0)}, "scale of a is 0", "normal float32"),
    "scales": ("QLinearAdd", {"sb": np.float32([1, 2])}, r"scale of b has shape \(2,\)", "one value"),
    "type": ("QLinearAdd", {"zy": np.int8(0)}, "zero point of y is int8", "uint8 is accepted"),
    "channels": ("QLinearMul", {"b": np.zeros((3, 1), np.uint8)}, r"operand has shape \(3, 1\)", r"\(1,\)"),
    "two constants": ("QLinearMul", {"a": np.uint8(1), "b": np.uint8(2)}, "computes with two constants", "results of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    operator, changed, message, hint = REFUSED[case]
    given = TIES["QLinearAdd"][1] | changed
    inputs = {name: np.zeros((2, 1), np.uint8) for name in "ab" if name not in given}
    with pytest.raises(RequestError, match=message) as caught:
        layer_of(node(operator, *INPUTS), given, inputs)
    assert re.search(hint, caught.value.hint)


def test_two_shapes_and_missing_zero_points_are_refused() -> None:
    inputs = {"a": np.zeros((2, 3), np.uint8), "b": np.zeros((2, 4), np.uint8)}
    with pytest.raises(RequestError, match="inputs have widths 3 and 4"):
        layer_of(node("QLinearAdd", *INPUTS), TIES["QLinearAdd"][0], inputs)
    with pytest.raises(RequestError, match="has 7 inputs"):
        layer_of(node("QLinearAdd", *INPUTS[:7]), TIES["QLinearAdd"][0], inputs)


def order_matters(dtype: Any) -> dict[str, Any]:
    """Quantisations of QLinearAdd with which the order of the terms changes many codes."""
    return TIES["QLinearAdd"][1] if dtype == np.uint8 else constants([23 / 12, 1 / 6, 7 / 3], [-30, 30, 69], "int8")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((4, 3, 5), (4, 1, 1)),
        ((4, 1, 1), (4, 3, 5)),
        ((1, 3, 1), (4, 3, 1)),
        ((4, 3, 5), (1, 3, 5)),
        ((4, 1, 5), (1, 3, 1)),
        ((1, 3, 1), (4, 1, 5)),
        ((1,), (6,)),
        ((6,), (1,)),
    ],
)
@pytest.mark.parametrize("constant", ["", "a", "b"])
def test_broadcast_operands_agree(
    operator: str, dtype: str, of_a: tuple[int, ...], of_b: tuple[int, ...], constant: str
) -> None:
    rng, given = np.random.default_rng(len(of_a)), order_matters(np.dtype(dtype))
    inputs = {name: random_codes(rng, np.dtype(dtype), 700, *shape) for name, shape in (("a", of_a), ("b", of_b))}
    activation = of_b if constant == "a" else of_a
    if constant and np.broadcast_shapes(of_a, of_b) != activation:
        with pytest.raises(RequestError, match="the constant operand has shape"):
            layer_of(node(operator, *INPUTS), given | {constant: inputs.pop(constant)[:1]}, inputs)
        return
    if constant:
        given = given | {constant: inputs.pop(constant)[:1]}
    for count in (1, 700):
        vectors = {name: values[:count] for name, values in inputs.items()}
        layer = assert_agree(node(operator, *INPUTS), given, vectors)
        assert isinstance(layer, CodePairs)
        assert layer.broadcasts == (not constant)


def test_a_proof_of_broadcast_operands_passes_every_pair_through_every_repeated_value() -> None:
    inputs = {"a": np.zeros((1, 3, 1, 1), np.int8), "b": np.zeros((1, 3, 10, 7), np.int8)}
    layer = layer_of(node("QLinearMul", *INPUTS), constants([0.1, 0.2, 0.4], [3, -7, 12], "int8"), inputs)
    [obligation] = layer.obligations(Extent(all_floats=False, random_vectors=0))
    assert isinstance(obligation.shown, Outputs)
    vectors = np.concatenate(list(obligation.shown.inputs())).view(np.uint8).astype(np.int64)
    assert len(vectors) * layer.size == obligation.cases
    large, small = vectors[:, :210].reshape(-1, 3, 70), vectors[:, 210:, None]
    for channel in range(3):
        assert len(np.unique(large[:, channel] * 256 + small[:, channel])) == 65_536


def test_results_beyond_int32_become_the_lowest_code_in_onnx_runtime() -> None:
    inputs = {"a": np.full((1, 2), 255, np.uint8), "b": np.full((1, 2), 255, np.uint8)}
    for operator in OPERATORS:
        given = constants([1e8, 1, 1], [0, 0, 0])
        assert runtime(node(operator, *INPUTS), given, inputs).tolist() == [[0, 0]]


# Faults, coverage and proof.

FINE = [constants([0.1, 0.02, 0.05], [3, 7, 129]), constants([1 / 3, 2 / 3, 7 / 3], [113, 7, 129]),
        constants([0.9, 3.3, 13.2], [120, 131, 100]), constants([0.3, 0.1, 0.06], [9, 130, 100])]  # fmt: skip


def layers(operator: str) -> list[tuple[Layer, tuple[Array, Array]]]:
    a, b = every_pair(np.random.default_rng(0), np.dtype("uint8"), 16)
    inputs = {"a": a, "b": b}
    return [(layer_of(node(operator, *INPUTS), given, inputs), (a, b)) for given in (*TIES[operator], *FINE)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_fault_model_changes_some_values(operator: str) -> None:
    changed: dict[str, int] = {}
    for layer, inputs in layers(operator):
        right = layer.prepare()(*inputs)
        for model in layer.fault_models(*inputs):
            assert model.output.shape == right.shape
            changed[model.cause] = changed.get(model.cause, 0) + int((model.output != right).sum())
    without = {"the zero point is added before rounding", "the zero point is left out"}  # it is added before, as part
    assert {cause for cause, count in changed.items() if not count} == without
    assert len(changed) > 25


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_counter_reaches_everything_by_all_pairs(operator: str) -> None:
    for layer, (a, b) in layers(operator):
        counter = layer.stimuli.counter(0)
        for shift in range(16):  # every pair at every place
            counter.add(np.roll(a, shift, axis=1), np.roll(b, shift, axis=1), layer.prepare()(a, b))
        found = counter.result()
        assert set(found) == {Quantity.CODES, Quantity.TIES, Quantity.SATURATED_LOW, Quantity.SATURATED_HIGH}
        assert all(met.met == met.reachable for met in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("operand", [None, "row"])
def test_a_proof_passes_every_pair_through_every_place(operand: str | None) -> None:
    size = 300
    inputs = {"a": np.zeros((1, size), np.int8), "b": np.zeros((1, size), np.int8)}
    given = constants([0.1, 0.2, 0.4], [3, -7, 12], "int8")
    if operand:
        given["b"] = inputs.pop("b")
    layer = layer_of(node("QLinearMul", *INPUTS), given, inputs)
    assert isinstance(layer, CodePairs)
    [obligation] = layer.obligations(Extent(all_floats=False, random_vectors=0))
    assert isinstance(obligation.shown, Outputs)
    assert obligation.complete
    blocks = list(obligation.shown.inputs())
    assert sum(len(block) for block in blocks) * size == obligation.cases
    assert all(block.nbytes <= 1 << 26 for block in blocks)
    vectors = np.concatenate(blocks).astype(np.int64)
    for place in (0, 17, 299):
        codes = vectors[:, place] if operand else vectors[:, place] * 256 + vectors[:, size + place]
        assert len(np.unique(codes)) == (256 if operand else 65_536)


@pytest.mark.parametrize("size", [257, 300, 1000])
def test_a_short_proof_passes_every_pair_through_some_place(size: int) -> None:
    inputs = {name: np.zeros((1, size), np.int8) for name in "ab"}
    layer = layer_of(node("QLinearAdd", *INPUTS), constants([0.1, 0.2, 0.4], [3, -7, 12], "int8"), inputs)
    [obligation] = layer.obligations(Extent(all_floats=False, every_position=False))
    assert isinstance(obligation.shown, Outputs)
    blocks = list(obligation.shown.inputs())
    assert sum(len(block) for block in blocks) * size == obligation.cases
    a, b = np.split(blocks[0].view(np.uint8).astype(np.int64), 2, axis=1)
    assert len(blocks[0]) == 256
    assert len(np.unique(a * 256 + b)) == 65_536


def test_operands_by_name() -> None:
    proto: onnx.NodeProto = node("QLinearAdd", *INPUTS)
    given, x = constants([0.1, 0.2, 0.4], [3, 7, 12]), {"b": np.zeros((1, 4), np.uint8)}
    number = layer_of(proto, given | {"a": np.uint8(9)}, x).constants()
    assert number["first_ratio"] == F32(0.2) / F32(0.4)
    row = layer_of(proto, given | {"a": np.uint8([1, 2, 3, 4])}, x).constants()
    assert row["first_ratio"] == F32(0.1) / F32(0.4)
    assert np.asarray(row["addend"]).tolist() == [1, 2, 3, 4]
