"""Other orders of float32 sums: which there are, and that a search tells them from the stated order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators import sum_orders
from harness.operators.base import Layer
from harness.operators.obligations import Obligation, Outputs
from harness.operators.sum_orders import IN_DOUBLE, ORDERS, obligations, other_orders, stated
from tests.support.codes import layer_of, node

F32 = np.float32
RNG = np.random.default_rng(0)
IMAGE, ROW = (4, 5, 6), (12,)
REVERSED, TREE = list(ORDERS)[:2]
CODES = {"sx": F32(0.1), "zx": np.uint8(3), "sy": F32(1 / 256), "zy": np.uint8(0)}
FLOATS = {
    "w": RNG.normal(size=(3, 4, 2, 2)).astype(F32),
    "m": RNG.normal(size=(12, 7)).astype(F32),
    "b": RNG.normal(size=3).astype(F32),
    "t": RNG.normal(size=(4, 3, 2, 2)).astype(F32),
    "axes": np.array([2, 3]),
}
LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "Softmax": (node("Softmax", "x"), ROW),
    "Softmax of channels": (node("Softmax", "x", axis=1), IMAGE),
    "QLinearSoftmax": (node("QLinearSoftmax", "x", "sx", "zx", "sy", "zy", axis=-1, opset=13), ROW),
    "AveragePool": (node("AveragePool", "x", kernel_shape=[2, 3], pads=[1, 0, 0, 1]), IMAGE),
    "QLinearAveragePool": (node("QLinearAveragePool", "x", "sx", "zx", "sx", "zy", kernel_shape=[2, 3]), IMAGE),
    "ReduceMean": (node("ReduceMean", "x", "axes", keepdims=0), IMAGE),
    "ReduceSum": (node("ReduceSum", "x", "axes", keepdims=0), IMAGE),
    "LRN": (node("LRN", "x", size=5, alpha=0.3, beta=0.75, bias=2.0), (6, 3, 2)),
    "Conv": (node("Conv", "x", "w", "b", pads=[1, 0, 0, 1]), IMAGE),
    "ConvTranspose": (node("ConvTranspose", "x", "t", "b"), IMAGE),
    "MatMul": (node("MatMul", "x", "m"), ROW),
}


def layer(name: str) -> Layer:
    proto, shape = LAYERS[name]
    constants = {given: values for given, values in (CODES | FLOATS).items() if given in proto.input}
    return layer_of(proto, constants, {"x": np.zeros((1, *shape), np.uint8 if "sx" in constants else F32)})


def inputs(of: Layer, count: int = 40) -> Array:
    if of.input.dtype == np.uint8:
        return RNG.integers(0, 256, (count, of.input.size)).astype(np.uint8)
    return RNG.normal(size=(count, of.input.size)).astype(F32)


@pytest.mark.parametrize("name", LAYERS)
def test_the_stated_order_is_the_specification(name: str) -> None:
    x = inputs(layer(name))
    sums = layer(name).sum_order.ordered(x)
    assert sums is not None
    assert np.array_equal(sums.by(stated), layer(name).prepare()(x))


def searched(of: Layer) -> tuple[Array, Obligation]:
    """Return the vectors that were kept, and what is claimed of them."""
    [claim] = obligations(of)
    assert isinstance(claim.shown, Outputs)
    [vectors] = claim.shown.inputs()
    assert claim.cases == len(vectors) * of.size
    return vectors, claim


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_the_search_finds_vectors_for_each_fault(name: str) -> None:
    """A fault without a vector is reported, and only such."""
    vectors, claim = searched(layer(name))
    right = layer(name).prepare()(vectors)
    faults = {fault.cause: (fault.output != right).any() for fault in layer(name).sum_order.faults(vectors)}
    assert {cause for cause, differs in faults.items() if not differs} == set(claim.unseparated)
    assert faults[REVERSED]
    assert faults[TREE]
    assert set(faults) <= {fault.cause for fault in layer(name).fault_models(vectors)}


def test_sums_without_rounding_have_no_vectors() -> None:
    """All sums of a power of two times a code are exact, so that no order can be told from another."""
    constants = CODES | {"sx": F32(0.5)}
    proto = node("QLinearAveragePool", "x", "sx", "zx", "sx", "zy", kernel_shape=[2, 3])
    exact = layer_of(proto, constants, {"x": np.zeros((1, *IMAGE), np.uint8)})
    vectors, claim = searched(exact)
    assert len(vectors) == 0
    assert set(claim.unseparated) == {fault.cause for fault in exact.sum_order.faults(inputs(exact))} > {REVERSED, TREE}


def test_a_vector_with_more_terms_than_are_added_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    conv, x = layer("Conv"), inputs(layer("Conv"), 3)
    together = [fault.output for fault in conv.sum_order.faults(x)]
    monkeypatch.setattr(sum_orders, "TERMS_AT_ONCE", 1)
    assert np.array_equal(together, [fault.output for fault in conv.sum_order.faults(x)])


def test_a_layer_without_ordered_sums_has_no_such_claim() -> None:
    assert not obligations(layer_of(node("Relu", "x"), {}, {"x": np.zeros((1, 4), F32)}))


def test_orders_that_are_the_same_sum_are_no_faults() -> None:
    """(a + b) + c is not a + (b + c), but it is c + (a + b); two terms have one order."""
    assert not other_orders(2, started=False)
    assert list(other_orders(3, started=False)) == [REVERSED, "2 partial sums are added at the end", IN_DOUBLE]
    assert list(other_orders(2, started=True)) == [REVERSED, TREE, IN_DOUBLE]
    assert len(other_orders(40, started=True)) == len(ORDERS) + 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 33])
def test_every_order_has_every_term_once(count: int) -> None:
    terms = 2.0 ** np.arange(count)
    for order in ORDERS.values():
        assert order(terms, [1.0]) == 2.0**count


def test_partial_sums_are_those_of_vector_lanes() -> None:
    x = RNG.normal(size=11).astype(F32)
    lanes = [x[0] + x[4] + x[8], x[1] + x[5] + x[9], x[2] + x[6] + x[10], x[3] + x[7]]
    at_the_end = "4 partial sums are added at the end"
    assert ORDERS[at_the_end](x, []) == ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3]
    assert ORDERS[f"{at_the_end}, in pairs"](x, []) == (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    assert ORDERS[f"{at_the_end}, in halves"](x, []) == (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
