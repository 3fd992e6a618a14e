"""Outputs that are constant have a value for each vector."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from harness import backend

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[{vectors}, 3] x) => (float[{vectors}, 3] y, {kind}[{size}, 2] z) <{kind}[{size}, 2] z = {{{values}}}> {{
    y = Relu (x)
}}
"""


@pytest.mark.parametrize(("kind", "values"), [("float", "0.5, -2.0"), ("int64", "-3, 7"), ("bool", "0, 1")])
@pytest.mark.parametrize("vectors", ["n", "1"])
def test_a_constant_output_has_its_value_for_each_vector(kind: str, values: str, vectors: str) -> None:
    """The condition of the choice is false for numbers, infinities and NaN."""
    model = onnx.parser.parse_model(TEXT.format(kind=kind, values=values, vectors=vectors, size=1))
    x = np.array([[1, -1, 0], [np.nan, np.inf, -np.inf]], np.float32)[: 2 if vectors == "n" else 1]
    y, z = backend.run_model(model, [x])
    expected = onnx.numpy_helper.to_array(model.graph.initializer[0])
    np.testing.assert_array_equal(z, np.broadcast_to(expected, z.shape))
    np.testing.assert_array_equal(y, np.where(x < 0, 0, x))
    assert len(z) == len(x)
