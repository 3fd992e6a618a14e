"""The products of 8-bit matrices that ONNX Runtime computes for any model, and a session in which they are exact.

A file's own operators do not determine them: ONNX Runtime fuses QDQ groups, and on x86-64 it makes uint8 codes of the
int8 codes between QuantizeLinear and DequantizeLinear, so that a file of int8 codes has the saturating products of
uint8 and int8.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.onnx_runtime import sessions
from harness.model.onnx_runtime.hostcheck import ROWS, check_products, require_trusted
from harness.model.onnx_runtime.sessions import refused
from harness.operators.product import Product, are_small

if TYPE_CHECKING:
    import onnxruntime

# The positions of weights, zero point of the vector, and zero point of the weights among a node's inputs.
OPERANDS = {
    "QGemm": (3, 2, 5),
    "QLinearMatMul": (3, 2, 5),
    "QLinearConv": (3, 2, 5),
    "MatMulInteger": (1, 2, 3),
    "MatMulIntegerToFloat": (1, 4, 5),
}
ZERO_POINT = {
    "QuantizeLinear": 2,
    "QGemm": 8,
    "QLinearMatMul": 7,
    "QLinearConv": 7,
    "QLinearConcat": 1,
}  # the position of the output's zero point


def exact_session(
    model: bytes | Path, name: str, threads: int, vectors: int, *, int8_groups: bool = False
) -> onnxruntime.InferenceSession:
    """Return a session whose products of 8-bit matrices are exact for up to `vectors` vectors at once.

    `model` is the path of a file, or its bytes, which the session keeps.  The session has session.x64quantprecision
    where that is possible: where all products read uint8 codes, and ONNX Runtime can convert the weights; `int8_groups`
    is that of `sessions.session`.  Raises ReferenceFailed, with the known defect, where this machine's products are
    wrong in that session, and RequestError where ONNX Runtime refuses the model `name`.
    """
    products: dict[str, Product] = {}
    onnx_bytes = model if isinstance(model, bytes) else model.read_bytes()
    if any(word in onnx_bytes for word in WORDS_OF_CODES):  # otherwise all numbers are floats
        model, products = onnx_bytes, products_of(optimised(onnx_bytes, name, fuse_only=int8_groups))
    else:
        del onnx_bytes  # a session of the file does not need them
    precise = bool(products) and all(product.input_dtype == "uint8" for product in products.values())
    try:
        session = sessions.session(model, threads, x64_quant_precision=precise, int8_groups=int8_groups)
    except Exception as error:  # its exceptions have no common base of their own
        if not precise:
            raise refused(name, error) from error
        # It cannot convert weights that two products share through one DequantizeLinear.
        session, precise = sessions.session(model, threads, int8_groups=int8_groups), False
    if precise:  # it converts the weights of some operators only
        products = products_of(optimised(onnx_bytes, name, fuse_only=int8_groups, x64_quant_precision=True))
    rows = sorted({*ROWS, vectors})  # all of ROWS: few random vectors may not saturate
    require_trusted(check_products(products, rows, threads))
    return session


def optimised(
    onnx_bytes: bytes, name: str, *, fuse_only: bool = False, x64_quant_precision: bool = False
) -> onnx.ModelProto:
    """Return the model as ONNX Runtime runs it; raise RequestError where it refuses the model `name`.

    With `fuse_only` it keeps the layout of images and the type of codes: no channels last, no uint8 for int8.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", str(int(x64_quant_precision)))
    if fuse_only:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        given = sessions.with_constants_of_their_own(onnx_bytes) if x64_quant_precision else onnx_bytes
        try:
            onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # as above
            raise refused(name, error) from error
        return onnx.load(options.optimized_model_filepath)


WORDS_OF_CODES = (b"Quantize", b"QLinear", b"QGemm", b"Integer", b"NBits")
"""Parts of the names of operators without which ONNX Runtime multiplies no codes."""
NUMBERS_OF_CODES = ("QLinear", "QGemm", "MatMulInteger", "MatMulNBits")
"""The beginnings of the names of operators that compute with codes; the last one rounds its vector to codes, too."""


def fused_operators(model: onnx.ModelProto, name: str) -> Counter[str]:
    """Return what ONNX Runtime makes of groups of DequantizeLinear, an operator and QuantizeLinear of a model.

    These are quantised operators, and operators whose float weights it quantises; the model has more of neither.
    """
    if not any(node.op_type == "DequantizeLinear" for node in model.graph.node):
        return Counter()
    return _on_codes(optimised(model.SerializeToString(), name, fuse_only=True)) - _on_codes(model)


def _on_codes(model: onnx.ModelProto) -> Counter[str]:
    """Return how often each quantised operator occurs, and each operator that reads dequantised constants."""
    stored = {tensor.name for tensor in model.graph.initializer}
    stored |= {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    nodes = [node for node in model.graph.node if node.op_type != "DequantizeLinear"]
    weights = {
        node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in stored
    }
    names = [node.op_type for node in nodes if node.op_type.startswith(NUMBERS_OF_CODES)]
    readers = (node.op_type.removeprefix("Fused") for node in nodes if not weights.isdisjoint(node.input))
    return Counter([*names, *(f"{operator} with quantised weights" for operator in readers)])


def products_of(model: onnx.ModelProto) -> dict[str, Product]:
    """Return the products with constant weights of an optimised model, by the names of their outputs."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    codes = code_types(model.graph, constants)
    found = {}
    for node in model.graph.node:
        if node.op_type not in OPERANDS:
            continue
        weights, a_zero_point, b_zero_point = (_constant(node, at, constants) for at in OPERANDS[node.op_type])
        if weights is None:
            continue  # it depends on the input: no QGemm of a network does
        by_output = node.op_type == "QLinearConv" or any(each.name == "transB" and each.i for each in node.attribute)
        matrix = weights.reshape(len(weights), -1)
        depth, width = (matrix.T if by_output else matrix).shape
        found[node.output[0]] = Product(
            codes[node.input[0]].name,
            weights.dtype.name,
            depth,
            width,
            0 if a_zero_point is None else int(a_zero_point.reshape(-1)[0]),
            (0,) if b_zero_point is None else tuple(b_zero_point.reshape(-1).tolist()),
            are_small(weights),
        )
    return found


def _constant(node: onnx.NodeProto, position: int, constants: Mapping[str, Array]) -> Array | None:
    return constants.get(node.input[position]) if position < len(node.input) else None


def code_types(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> dict[str, np.dtype[Any]]:
    """Return the types of the 8-bit tensors: those of their zero points, or of the tensor that an operator moves."""
    types = {value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type) for value in graph.input} | {
        name: value.dtype for name, value in constants.items()
    }
    for node in graph.node:
        position = ZERO_POINT.get(node.op_type, 0)
        if position < len(node.input) and node.input[position] in types:
            types |= dict.fromkeys(node.output, types[node.input[position]])
        elif node.op_type == "QuantizeLinear":
            asked = next((entry.i for entry in node.attribute if entry.name == "output_dtype"), 0)
            types[node.output[0]] = helper.tensor_dtype_to_np_dtype(asked or TensorProto.UINT8)
    return types
