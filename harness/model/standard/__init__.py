"""The standard form of a network: the same bits by operators of ONNX's own domain, for engines that know no others.

    QGemm, QLinearMatMul     MatMulInteger  Add (bias, int32)  Cast  Mul (the bits of m)  QuantizeLinear of scale 1
    QLinearConv              ConvInteger    Add (bias, int32)  Cast  Mul (the bits of m)  QuantizeLinear of scale 1
    QuantizeLinear           Div  Clip  QuantizeLinear of scale 1: some engines multiply by 1 / scale
    other packages      the ONNX function in the file
    others of codes          their formula (harness/operators), or the table of their results where it has no such form

Every activation keeps its name, type and shape.  Each operator that changes has a file here with the operator's name
and a function `emit`; nodes of other operators in ONNX's own domain stay.  No float32 product is an operand of a sum of
float32, so that an engine that fuses both computes the same.
"""

from __future__ import annotations

import importlib
import pkgutil

import onnx
import onnx.shape_inference

from harness.core.errors import RequestError
from harness.model.network import Network
from harness.model.standard.form import Form
from harness.model.transforms.edit import inlined
from harness.operators.base import Layer
from harness.operators.node import DEFAULT_DOMAIN, domain_of
from harness.operators.onnx_function import DOMAIN

OLDEST_OPSET = 13
"""The first opset with int32 and 8-bit integers in all operators of the forms."""
SHARED = {"code_pairs", "form", "windows"}
METADATA = "harness_source_sha256"
"""The entry of the metadata with the hash of the network's file."""


def standard_form(network: Network) -> onnx.ModelProto:
    """Return the standard form of a network, whose metadata have the hash of its file.

    Raises RequestError, with node and reason, for a network that has none.
    """
    model = _without_functions(onnx.load_model_from_string(network.onnx_bytes))
    opset = _opset(model, network.name)
    layers = {layer.output.name: layer for layer in network.layers}
    nodes, taken = list(model.graph.node), {each.name for each in (*model.graph.node, *model.graph.initializer)}
    taken |= {name for node in nodes for name in (*node.input, *node.output)}
    del model.graph.node[:]
    for node in nodes:
        layer = layers.get(node.output[0])  # None for a node that stores a constant
        form = None if layer is None else _form_of(layer, node)
        if layer is None or form is None:
            model.graph.node.append(node)
            continue
        made = Form(layer, node, opset, taken)
        importlib.import_module(form).emit(layer, made)
        model.graph.node.extend(made.nodes)
        model.graph.initializer.extend(made.constants)
    _remove_unread(model)
    onnx.helper.set_model_props(model, {**network.metadata, METADATA: network.sha256})
    return onnx.shape_inference.infer_shapes(model)


def operators_of(model: onnx.ModelProto, network: Network) -> dict[str, tuple[str, ...]]:
    """Return the operators of a standard form by the name of the layer that they compute."""
    layers = {layer.output.name: layer.name for layer in network.layers}
    found: dict[str, tuple[str, ...]] = {}
    pending: tuple[str, ...] = ()
    for node in model.graph.node:
        pending = (*pending, *(() if node.op_type == "Constant" else (node.op_type,)))
        written = [layers[name] for name in node.output if name in layers]
        if written:
            found |= dict.fromkeys(written, pending)
            pending = ()
    return found


def names() -> frozenset[str]:
    """Return the files of the operators that have a form here."""
    return frozenset(module.name for module in pkgutil.iter_modules(__path__)) - SHARED


def _form_of(layer: Layer, node: onnx.NodeProto) -> str | None:
    """Return the module with the form of a layer; None if its node stays."""
    name = type(layer).__module__.rpartition(".")[2]
    if name in names() and type(layer).__module__ == f"harness.operators.{name}":
        return f"{__name__}.{name}"
    if domain_of(node) in DEFAULT_DOMAIN and not node.op_type.startswith("QLinear"):
        return None
    raise RequestError(
        f"node {layer.node!r} ({layer.operator}) has no standard form: it is of another domain than ONNX's own",
        f"operators with one: those of ONNX's own domain, and {', '.join(sorted(names()))}",
    )


def _without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the bodies of functions in the place of operators of other packages."""
    others = [(function.domain, function.name) for function in model.functions if function.domain != DOMAIN]
    return inlined(model, others) if others else model


def _opset(model: onnx.ModelProto, name: str) -> int:
    opset: int = max(entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAIN)
    if opset < OLDEST_OPSET:
        raise RequestError(
            f"model {name!r} is of opset {opset}, and its standard form needs {OLDEST_OPSET}",
            f"write it with a newer one: onnx.version_converter.convert_version(model, {OLDEST_OPSET})",
        )
    return opset


def _remove_unread(model: onnx.ModelProto) -> None:
    """Remove constants that no node reads any more, other domains, and facts of values; no constant is an input."""
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in [value for value in model.graph.input if value.name in constants]:
        model.graph.input.remove(value)
    read = {name for node in model.graph.node for name in node.input} | {value.name for value in model.graph.output}
    for tensor in [tensor for tensor in model.graph.initializer if tensor.name not in read]:
        model.graph.initializer.remove(tensor)
    for node in [node for node in model.graph.node if node.op_type == "Constant" and not read & set(node.output)]:
        model.graph.node.remove(node)
    for entry in [entry for entry in model.opset_import if entry.domain not in DEFAULT_DOMAIN]:
        model.opset_import.remove(entry)
    del model.graph.value_info[:]
    for value in model.graph.output:  # a file may state another rank than its nodes give
        value.type.tensor_type.ClearField("shape")
