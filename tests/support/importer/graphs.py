"""Models as they come in the wild, made for the tests: nodes and constants -> the bytes of an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.onnx_runtime.products import exact_session

Array = npt.NDArray[Any]


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    """A node that is named like its output; `inputs` are names with spaces, "-" for one left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    domain = attributes.pop("domain", "com.microsoft" if operator in ("QGemm", "QLinearAdd") else "")
    return helper.make_node(operator, names, [output], name=f"node_{output}", domain=domain, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    *,
    shape: Sequence[int | str],
    outputs: Mapping[str, int] | None = None,
    opset: int = 17,
    listed: bool = False,
    kind: int = TensorProto.FLOAT,
    rank: int = 2,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The file with the input "x", `outputs` of a `rank` or else the last node's; `listed`: constants are inputs."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    inputs = [helper.make_tensor_value_info("x", kind, shape)]
    if listed:
        inputs += [helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in tensors]
    given = outputs or {nodes[-1].output[0]: kind}
    graph = helper.make_graph(
        list(nodes),
        "graph",
        inputs,
        [helper.make_tensor_value_info(name, element, [None] * rank) for name, element in given.items()],
        tensors,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(made, dict(metadata or {}))
    return bytes(made.SerializeToString())


def saved(folder: Path, onnx_bytes: bytes) -> Path:
    """The file."""
    path = folder / "network.onnx"
    path.write_bytes(onnx_bytes)
    return path


def refusal(folder: Path, onnx_bytes: bytes) -> tuple[str, str]:
    """Message and hint with which the file is refused as a network of dense layers."""
    with pytest.raises(RequestError) as refused:
        importer.bring_in(saved(folder, onnx_bytes), dense=True, with_advice=False)
    return refused.value.message, refused.value.hint


def run(onnx_bytes: bytes, vectors: Array, shape: Sequence[int] | None = None) -> list[Array]:
    """Every output, (n, N), of a file in ONNX Runtime, vector by vector where it wants a `shape`."""
    session = exact_session(onnx_bytes, "file", 1, len(vectors) if shape is None else 1)
    name = session.get_inputs()[0].name
    if shape is None:
        return [output.reshape(len(vectors), -1) for output in session.run(None, {name: vectors})]
    results = [session.run(None, {name: vector.reshape(shape)}) for vector in vectors]
    return [np.array([value.reshape(-1) for value in column]) for column in zip(*results, strict=True)]
