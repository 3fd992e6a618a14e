"""A float dense network -> its quantised ONNX model, without data: from the weights and the input box alone.

codes of input and activations (ranges) + integer weights (residual expansion) -> layers -> ONNX
"""

from harness.model.quantizer.agreement import Agreement, LayerUse, agreement, layer_uses
from harness.model.quantizer.codes import CODE_MAX, Codes, codes_for
from harness.model.quantizer.data_free import Batches, Choices, quantize
from harness.model.quantizer.equalisation import equalize
from harness.model.quantizer.graph import Select, to_onnx
from harness.model.quantizer.layers import QuantizedDense, QuantizedNetwork, quantize_layers
from harness.model.quantizer.ranges import FRESH, bounds, calibrate, calibration_vectors, drawn
from harness.model.quantizer.weights import WEIGHT_MAX, Term, WeightKind, column_scales, expand

__all__ = [
    "CODE_MAX",
    "FRESH",
    "WEIGHT_MAX",
    "Agreement",
    "Batches",
    "Choices",
    "Codes",
    "LayerUse",
    "QuantizedDense",
    "QuantizedNetwork",
    "Select",
    "Term",
    "WeightKind",
    "agreement",
    "bounds",
    "calibrate",
    "calibration_vectors",
    "codes_for",
    "column_scales",
    "drawn",
    "equalize",
    "expand",
    "layer_uses",
    "quantize",
    "quantize_layers",
    "to_onnx",
]
