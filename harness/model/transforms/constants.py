"""`constants`: nodes that read constants only become initializers.

They are computed by ONNX's reference evaluator.  Only operators that move values, compute integers, or round each
result once as IEEE 754 says are computed: their bits are the same everywhere.
"""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from harness.core.errors import RequestError
from harness.model.graph import opsets_of, parse, values_of
from harness.model.importer.graph import FOLDS, computed
from harness.model.network import Network
from harness.model.transforms.edit import Applied, named
from harness.operators.node import Node, domain_of

EXACT = FOLDS | {"Abs", "ConstantOfShape", "Expand", "Neg", "Sqrt", "Tile"}
QUANTISERS = ("DequantizeLinear", "QuantizeLinear")


def apply(model: onnx.ModelProto, name: str) -> Applied:
    """Replace the nodes by their results; Raises RequestError for a node that does not fit its constants."""
    graph = model.graph
    values = {tensor.name: values_of(tensor, tensor.name, name) for tensor in graph.initializer}
    done, kept = [], []
    for node in list(graph.node):
        given = [each for each in node.input if each]
        if not all(each in values for each in given) or node.op_type in QUANTISERS:
            continue
        ordered = node.op_type == "ReduceProd" and any(values[each].dtype.kind == "f" for each in given)
        if domain_of(node) or node.op_type not in EXACT or ordered:
            kept.append(f"{named(node)} computes a constant whose bits ONNX does not fix")
            continue
        read = Node(name, node, node.name or node.output[0], values, {})
        try:
            results = computed(read, {each: values[each] for each in given}, opsets_of(model))
        except RequestError:
            raise
        except Exception as error:  # its exceptions have no common base of their own
            raise read.refusal(f"does not fit its constants: {error}", "export the model again") from error
        for tensor, result in zip(node.output, results, strict=True):
            values[tensor] = result
            graph.initializer.append(numpy_helper.from_array(result, tensor))
        graph.node.remove(node)
        done.append(read.name)
    return Applied(tuple(done), tuple(kept))


def readable(model: onnx.ModelProto, name: str) -> Network:
    """Return the network of the model after `constants`, without which a node that reads constants only is refused.

    Raises RequestError where the model is not one that `harness.model.parse` accepts.
    """
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    kept = apply(folded, name).kept
    try:
        return parse(folded.SerializeToString(), name)
    except RequestError as error:
        if kept:
            raise RequestError(f"{error.message} ({'; '.join(kept)})", error.hint) from error
        raise
