"""Networks of this recipe, quantised by ONNX Runtime's tools (QDQ) and imported.

Their scales follow from ranges of float32 activations, which ONNX Runtime computes with other last bits on another
processor: the recipe makes the same network again, not always the same bytes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from harness.model import importer
from models.families.networks import NETWORKS as FLOAT_NETWORKS
from models.families.networks import SEED

SAMPLES = 32
"""Random inputs from -1 to 1 that give the ranges."""


class Samples(CalibrationDataReader):  # type: ignore[misc] # it has no types
    """Random inputs, one vector at a time."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(SEED)
        inputs = [random.uniform(-1, 1, (1, *shape)).astype(np.float32) for _ in range(SAMPLES)]
        self._feeds = iter([{name: values} for values in inputs])

    def get_next(self) -> dict[str, Any] | None:
        """Return the next input by name; None behind the last one."""
        return next(self._feeds, None)


def quantised(name: str) -> onnx.ModelProto:
    """Return a network of one float32 input with int8 activations and weights."""
    model = FLOAT_NETWORKS[name]()
    source = model.graph.input[0]
    shape = tuple(size.dim_value for size in source.type.tensor_type.shape.dim[1:])
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / f"{name}.onnx", Path(folder) / f"{name}_int8.onnx"
        onnx.save(model, before)
        options = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize_static(before, after, Samples(source.name, shape), quant_format=QuantFormat.QDQ, **options)
        result = importer.bring_in(after)
    network = onnx.ModelProto.FromString(result.network.onnx_bytes)
    [description] = [json.loads(entry.value) for entry in model.metadata_props if entry.key == "description"]
    text = f"{name} with int8 codes, by onnxruntime.quantization (QDQ). {description}"
    onnx.helper.set_model_props(network, dict(result.network.metadata) | {"description": json.dumps(text)})
    return network


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {"vit_tiny_int8": partial(quantised, "vit_tiny")}
"""The networks by name."""
