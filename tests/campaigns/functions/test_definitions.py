"""Functions and operators that are definitions, for all inputs: errors, and the distance of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from harness.operators import by_onnx_name
from harness.operators.exact import functions
from harness.operators.exact.evaluation import Evaluation
from harness.operators.pointwise import Pointwise
from tests.campaigns.functions.test_functions import BLOCK, finite_floats, tolerance
from tests.support.functions import layer_of

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(7200)]

OPERATORS = sorted(
    name for (domain, name), kind in by_onnx_name().items() if not domain and issubclass(kind, Pointwise)
)
RANGES = {"logarithm": (0.0, 3.4028234663852886e38), "logarithm_of_one_plus": (0.0, 1.0), "error_function": (0.0, 4.5)}
"""Inputs of the functions that test_functions.py does not have; erf is odd, and 1 beyond."""


@pytest.mark.parametrize("name", RANGES)
def test_the_error_of_a_function_is_the_stated_one(name: str) -> None:
    function = getattr(functions, name)
    evaluation, worst = Evaluation(function.root), 0.0
    first, last = (int(np.float32(end).view(np.uint32)) for end in RANGES[name])
    for start in range(first, last + 1, BLOCK):
        x = np.arange(start, min(start + BLOCK, last + 1), dtype=np.uint32).view(np.float32)
        exact = function.real(x.astype(np.float64))
        exponents = np.maximum(np.frexp(exact)[1] - 24, -149)
        with np.errstate(invalid="ignore"):
            errors = np.abs(evaluation({"x": x}) - exact) * np.ldexp(1.0, -exponents)
        worst = max(worst, float(errors[np.isfinite(exact)].max()))
    assert function.ulp - 0.1 < worst <= function.ulp


@pytest.mark.parametrize("operator", OPERATORS)
def test_onnx_runtime_is_within_the_tolerance(operator: str) -> None:
    layer, model = layer_of(operator)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    evaluate = layer.prepare()
    for block in finite_floats():
        x = np.abs(block) if layer.least == 0 else block
        y = evaluate(x)
        nearby = session.run(None, {"x": x[:, None]})[0][:, 0]
        distance = np.where(y == nearby, 0, np.abs(y.astype(np.float64) - nearby))
        assert (distance <= tolerance(layer, x, y)).all()
