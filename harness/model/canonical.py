"""The form in which the harness itself writes networks: versions, and the shape of inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper

OPSET = 17
IR_VERSION = 8


def value_info(name: str, dtype: np.dtype[Any], width: int) -> onnx.ValueInfoProto:
    """Return an input or output of the graph: any number of vectors of `width` values."""
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), ["vectors", width])
