"""Networks of several inputs, or of one that is no float: the file's own nodes, for any number of vectors."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from harness.model import graph as networks
from harness.model.importer.graph import INPUT_TYPES
from harness.model.network import Network
from harness.model.onnx_runtime.agreement import VECTORS, require_same
from harness.model.onnx_runtime.sessions import Stored

BATCH = "vectors"


def has_one_float(graph: onnx.GraphProto) -> bool:
    """Return whether the graph has exactly one input, of floats: other importers rewrite such networks."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    return len(inputs) == 1 and inputs[0].type.tensor_type.elem_type in INPUT_TYPES


def bring_in(model: onnx.ModelProto, name: str, source: Mapping[str, str]) -> tuple[Network, int]:
    """Return the network of a model, which is changed, and the number of vectors on which both were compared.

    ONNX Runtime without optimisations gives the same bits of all outputs for both.  Raises RequestError for a node that
    is not supported, and where an output differs.
    """
    before = Stored(model)
    del model.graph.value_info[:]  # they can state the number of vectors
    free_batch(model)
    known = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, known | dict(source))
    network = networks.parse(model.SerializeToString(), name)
    require_same(before, model, name)
    return network, VECTORS


def free_batch(model: onnx.ModelProto) -> None:
    """Let the first axis of all inputs and outputs be any number of vectors, unless those of inputs differ."""
    if len(networks.stated_counts(model.graph.input)) > 1:
        return
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = BATCH
