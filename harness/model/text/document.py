"""The facts of a model as a document for programs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from harness.model.metadata import states_box
from harness.model.network import Network
from harness.model.text.facts import parameter_count, widths
from harness.operators.base import Layer


def document(network: Network) -> dict[str, Any]:
    """Return all facts of a model, for programs; multipliers and other float32 constants with their bits."""
    normalisation = network.normalisation
    return {
        "model": network.name,
        "sha256": network.sha256,
        "widths": list(widths(network)),
        "parameters": parameter_count(network),
        "input": network.vector.name,
        "input_box": dict(zip(("low", "high"), network.numbers(network.box).tolist(), strict=True))
        | ({} if states_box(network.metadata) else {"note": "the model gives no box"}),
        "normalisation": None if normalisation is None else vars(normalisation),
        "metadata": {key: decoded(value) for key, value in network.metadata.items()},
        "layers": [_layer(layer) for layer in network.layers],
    }


def decoded(value: str) -> Any:
    """Return the value of a JSON text; a text that is not JSON is returned unchanged."""
    try:
        return json.loads(value, parse_constant=str)
    except (ValueError, RecursionError):
        return value


def readable(value: object) -> str:
    """Return a text unchanged unless it would disturb the terminal, and anything else as JSON."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def _layer(layer: Layer) -> dict[str, Any]:
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
    } | {key: _json(value) for key, value in layer.text.facts().items()}


def _json(value: Any) -> Any:
    """Return a fact as JSON types, float32 numbers with their bits."""
    if not isinstance(value, np.ndarray | np.float32):
        return value
    flat = np.atleast_1d(value)
    if flat.dtype != np.float32:
        return flat.tolist()
    return {"values": [float(str(each)) for each in flat], "bits": [f"0x{bits:08x}" for bits in flat.view(np.uint32)]}
