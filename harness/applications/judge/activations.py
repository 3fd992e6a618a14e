"""The activations of a network: the scales of their codes, and which of them are outputs."""

from __future__ import annotations

import onnx

from harness.applications.judge.dumps import Quantisation
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.codes import Affine, Conversion
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.scaled_sum import ScaledSum
from harness.operators.tensor import CODES
from harness.operators.traits import Trait


def output_names(network: Network) -> list[str]:
    """Return the names of the outputs of the model, in its order."""
    return [value.name for value in onnx.load_model_from_string(network.onnx_bytes).graph.output]


def quantisations(network: Network) -> dict[str, Quantisation]:
    """Return scale and zero point of the activations that are codes, where the layers that write or read them say so.

    A layer that only moves or selects codes keeps those of its input.
    """
    quantisations_by_name: dict[str, Quantisation] = {}
    for layer in network.layers:
        own = _written(layer)
        selects = layer.traits & Trait.MOVES or layer.operator in ("MaxPool", "Relu", "Clip")
        if own is None and selects and layer.dtype in CODES:
            own = quantisations_by_name.get(layer.sources[0])
        if own is not None and layer.dtype in CODES:
            quantisations_by_name[layer.output.name] = own
    for layer in network.layers:
        read = _read(layer)
        if read is not None:
            quantisations_by_name.setdefault(layer.sources[0], read)
    return quantisations_by_name


def _written(layer: Layer) -> Quantisation | None:
    if isinstance(layer, ScaledSum):
        return None if layer.scales.y is None else Quantisation(float(layer.scales.y), int(layer.y_zero_point))
    if isinstance(layer, QuantizeLinear):
        return Quantisation(float(layer.scale), int(layer.zero_point))
    y = getattr(layer, "y", None)
    return Quantisation(float(y.scale), int(y.zero_point)) if isinstance(y, Affine) else None


def _read(layer: Layer) -> Quantisation | None:
    if isinstance(layer, ScaledSum):
        return Quantisation(float(layer.scales.a), int(layer.a_zero_point))
    if isinstance(layer, Conversion) and layer.input.dtype in CODES:
        return Quantisation(float(layer.scale), int(layer.zero_point))
    return None
