"""Variances and softmax functions of other operators are written in an order that gives no NaN."""

from __future__ import annotations

from pathlib import Path

import onnx.parser
import pytest

from harness.model import importer
from harness.model.importer import statistics

VARIANCE = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[n, 4] x) => (float[n, 1] y) <int64[1] axes = {{1}}, int64[1] others = {{{axis}}}, float two = {{{power}}}> {{
    mean = ReduceMean (x, axes)
    squares = Pow (x, two)
    mean_of_squares = ReduceMean (squares, others)
    square_of_mean = Mul (mean, mean)
    y = Sub (mean_of_squares, square_of_mean)
}}
"""
SOFTMAX = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[n, 4] x) => (float[n, 4] y) <int64[1] axes = {{1}}, int64[1] others = {{{axis}}}> {{
    greatest = ReduceMax (x, axes)
    difference = Sub (x, greatest)
    powers = Exp (difference)
    sum = ReduceSum (powers, others)
    y = Div (powers, sum)
}}
"""

PLAIN = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[n, 4] x) => (float[n, 4] y) <int64[1] axes = {{{axis}}}> {{
    wide = Unsqueeze (x, axes)
    narrow = Squeeze (wide, axes)
    y = Sigmoid (narrow)
}}
"""


@pytest.mark.parametrize(("text", "operator"), [(VARIANCE, "ReduceMean"), (SOFTMAX, "Softmax")])
def test_statistics_along_the_same_axes_are_replaced(text: str, operator: str) -> None:
    """Along other axes the nodes stay."""
    model = onnx.parser.parse_model(text.format(axis=1, power=2))
    assert statistics.convert(model)
    assert next(node for node in model.graph.node if "y" in node.output).op_type == operator
    assert not statistics.convert(onnx.parser.parse_model(text.format(axis=0, power=2)))


def test_the_mean_of_another_power_stays() -> None:
    """E[x^3] - E[x]^2 is no variance."""
    assert not statistics.convert(onnx.parser.parse_model(VARIANCE.format(axis=1, power=3)))


@pytest.mark.parametrize(("text", "is_near"), [(SOFTMAX, True), (PLAIN, False)])
def test_an_import_states_whether_its_changes_keep_the_bits_of_the_file(
    text: str, tmp_path: Path, *, is_near: bool
) -> None:
    """Softmax of ONNX Runtime has other bits than the nodes of the file; nodes that move no value keep them."""
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text.format(axis=1)), path)
    result = importer.bring_in(path)
    assert isinstance(result, importer.NetworkImport)
    assert result.is_near is is_near
