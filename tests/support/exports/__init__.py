"""Networks as PyTorch, tf2onnx and scikit-learn export them, and as ONNX Runtime quantises these.

`forms/<exporter>/<network>.txt` has the graph of a real export as ONNX text: PyTorch 2.14 (`torch.onnx.export` with
`dynamo=True`, or without and a free batch size), tf2onnx 1.17 of Keras 3.15 (the number is the opset), skl2onnx 1.20.
Tensors of more than eight floats have no values there: `model` draws them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from harness.core.arrays import Array

FORMS = Path(__file__).parent / "forms"
NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in FORMS.glob("*/*.txt"))
QDQ, OPERATORS = QuantFormat.QDQ, QuantFormat.QOperator
U8, S8 = QuantType.QUInt8, QuantType.QInt8
MODES = {
    "qdq_u8u8": {"quant_format": QDQ, "activation_type": U8, "weight_type": U8},
    "qdq_u8s8": {"quant_format": QDQ, "activation_type": U8, "weight_type": S8},
    "qdq_s8s8": {"quant_format": QDQ, "activation_type": S8, "weight_type": S8},
    "qdq_s8s8_per_channel": {"quant_format": QDQ, "activation_type": S8, "weight_type": S8, "per_channel": True},
    "qdq_u8s8_reduced": {"quant_format": QDQ, "activation_type": U8, "weight_type": S8, "reduce_range": True},
    "qop_u8u8": {"quant_format": OPERATORS, "activation_type": U8, "weight_type": U8},
    "qop_u8s8": {"quant_format": OPERATORS, "activation_type": U8, "weight_type": S8},
    "qop_s8s8_per_channel": {"quant_format": OPERATORS, "activation_type": S8, "weight_type": S8, "per_channel": True},
}
"""The settings of `onnxruntime.quantization.quantize_static`."""
CALIBRATION_VECTORS = 16


def model(name: str) -> onnx.ModelProto:
    """Return the export with weights that the name seeds: normal, of the variance 1 / (inputs of a sum)."""
    export = onnx.parser.parse_model((FORMS / f"{name}.txt").read_text())
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    generator = np.random.default_rng(seed)
    variances = {node.input[4] for node in export.graph.node if node.op_type == "BatchNormalization"}
    for weight in export.graph.value_info:
        shape = [size.dim_value for size in weight.type.tensor_type.shape.dim]
        fan_in = max(np.prod(shape[1:]), 1)
        values = generator.normal(0, 1 / np.sqrt(fan_in), shape)
        if weight.name in variances:
            values = np.abs(values) + 0.5
        export.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), weight.name))
    del export.graph.value_info[:]
    return export


class _Calibration(CalibrationDataReader):  # type: ignore[misc] # it has no types
    """Uniform vectors for the only input of a model."""

    def __init__(self, source: onnx.ValueInfoProto) -> None:
        shape = [size.dim_value or 1 for size in source.type.tensor_type.shape.dim]
        generator = np.random.default_rng(5)
        vectors = generator.uniform(-1, 1, (CALIBRATION_VECTORS, *shape)).astype(np.float32)
        self._records = iter([{source.name: vector} for vector in vectors])

    def get_next(self) -> dict[str, Array] | None:
        """Return the next vector; None after the last."""
        return next(self._records, None)


def write_quantised(name: str, mode: str, path: Path) -> None:
    """Quantise an export as ONNX Runtime's documentation says, in one of the MODES."""
    float_path, prepared = path.with_suffix(".float.onnx"), path.with_suffix(".prepared.onnx")
    onnx.save(model(name), float_path)
    quant_pre_process(float_path, prepared, skip_symbolic_shape=True)
    [source] = onnx.load(prepared).graph.input
    quantize_static(prepared, path, _Calibration(source), **MODES[mode])
