"""The facts of a model as a document for programs."""

from __future__ import annotations

import json
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.model.network import Network
from harness.model.text.facts import accumulator, parameter_count, widths
from harness.operators.add import Add
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear

Floats32 = npt.NDArray[np.float32]


def document(network: Network) -> dict[str, Any]:
    """All facts of a model, for programs; multipliers and other float32 constants with their bits."""
    normalisation = network.normalisation
    return {
        "model": network.name,
        "sha256": network.sha256,
        "widths": list(widths(network)),
        "parameters": parameter_count(network),
        "input": network.input.name,
        "input_box": {"low": network.box[0].tolist(), "high": network.box[1].tolist()},
        "normalisation": None if normalisation is None else vars(normalisation),
        "metadata": {key: decoded(value) for key, value in network.metadata.items()},
        "layers": [_common(layer) | _constants(layer) for layer in network.layers],
    }


def decoded(value: str) -> Any:
    """A metadata value is a JSON text; one that is not is itself."""
    try:
        return json.loads(value, parse_constant=str)
    except (ValueError, RecursionError):
        return value


def readable(value: object) -> str:
    """A text as it is, unless it would disturb the terminal, and anything else as JSON."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def _common(layer: Layer) -> dict[str, Any]:
    return {
        "name": layer.name,
        "node": layer.node,
        "operator": layer.operator,
        "reads": list(layer.sources),
        "writes": layer.output.name,
        "input_width": layer.input.size,
        "input_type": str(layer.input.dtype),
        "width": layer.size,
        "type": str(layer.dtype),
    }


def _floats(values: Floats32 | np.float32) -> dict[str, list[Any]]:
    flat = np.atleast_1d(values)
    return {"values": [float(str(value)) for value in flat], "bits": [f"0x{bits:08x}" for bits in flat.view(np.uint32)]}


@singledispatch
def _constants(layer: Layer) -> dict[str, Any]:
    raise NotImplementedError(type(layer).__name__)


@_constants.register(QuantizeLinear)
@_constants.register(DequantizeLinear)
def _(layer: QuantizeLinear | DequantizeLinear) -> dict[str, Any]:
    return {"scale": _floats(layer.scale), "zero_point": layer.zero_point}


@_constants.register
def _(layer: QGemm) -> dict[str, Any]:
    bounds = accumulator(layer)
    return {
        "weights_type": str(layer.weights.dtype),
        "per_column": layer.per_column,
        "a_zero_point": layer.a_zero_point,
        "weights_zero_point": layer.weights_zero_point.tolist(),
        "y_zero_point": layer.y_zero_point,
        "multiplier": _floats(layer.multiplier),
        "accumulator": {
            "low": bounds.low,
            "high": bounds.high,
            "int32_overflow": "excluded",
            "headroom_bits": bounds.headroom_bits,
            "float32_exact": bounds.float32_exact,
        },
    }


@_constants.register
def _(layer: Add) -> dict[str, Any]:
    return {"addend": None if layer.addend is None else _floats(layer.addend)}


@_constants.register
def _(layer: ArgExtremum) -> dict[str, Any]:
    return {"of_equal_values": "the last" if layer.last else "the first"}
