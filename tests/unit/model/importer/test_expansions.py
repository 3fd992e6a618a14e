"""Nodes that are written as nodes of other operators have the values that ONNX states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from harness import backend
from harness.core.arrays import Array

KINDS = ("int8", "int16", "int32", "int64", "uint16", "uint64")


def _shifted(x: int, places: int, kind: np.dtype[Any], *, left: bool) -> int:
    """Return a shift as the newest ONNX states it, of Python's integers, modulo 2^n."""
    bits = 8 * kind.itemsize
    if not 0 <= places < bits:
        places = 2 * bits
    return (x << places if left else x >> places) % (1 << bits)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("name", KINDS)
def test_a_shift_of_every_type_follows_the_newest_text_of_onnx(name: str, direction: str) -> None:
    """Signed numbers shift in copies of their sign; a negative or large number of places shifts all bits out."""
    kind = np.dtype(name)
    limits = np.iinfo(kind)
    ends = [limits.min, limits.max, 0, 1, limits.max // 3] + ([-1, -100] if limits.min else [])
    places = [0, 1, 7, 8, 8 * kind.itemsize - 1, 8 * kind.itemsize, limits.max] + ([-1] if limits.min else [])
    x, y = (part.reshape(-1) for part in np.meshgrid(np.array(ends, kind), np.array(places, kind)))
    number = helper.np_dtype_to_tensor_dtype(kind)
    values = [helper.make_tensor_value_info(tensor, number, x.shape) for tensor in "xyz"]
    node = helper.make_node("BitShift", ["x", "y"], ["z"], direction=direction)
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=13)
    [z] = backend.run_model(model, [x, y])
    expected = [_shifted(int(a), int(b), kind, left=direction == "LEFT") for a, b in zip(x, y, strict=True)]
    unsigned: Array = np.array(expected, f"u{kind.itemsize}")
    np.testing.assert_array_equal(z, unsigned.view(kind))
