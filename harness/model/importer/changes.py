"""Changes of a network that the user asks for; the note of each goes into the output and the metadata.

drop_final     remove Softmax and what selects or labels the class, at the end: the outputs are scores
drop_first     remove Add, Sub, Mul and Div with constants at the start: the inputs are normalised outside
to_float32     compute a float16 network in float32
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.importer import check, floating, graph, steps
from harness.model.importer.graph import ELEMENTWISE, MOVES, Graph, Link
from harness.model.importer.steps import Floats64, Scaling, Step
from harness.model.metadata import stated_box
from harness.model.onnx_runtime import products
from harness.operators.counters import DEFAULT_BOX
from harness.operators.node import domain_of

ORDERED = {"Softmax", "LogSoftmax", "Exp", "QLinearSoftmax"}
"""Operators whose result has the order of what they read."""
FINAL = {*ORDERED, "ArgMax", "ArgMin", "ZipMap", "ArrayFeatureExtractor", "LabelEncoder"}
BETWEEN = {*MOVES, "Cast", "QuantizeLinear", "DequantizeLinear"}
"""Operators that are removed with one of `FINAL` before them."""
CHANGES = "source_changes"
VECTORS = 256
SEED = 1
OPSET = 10  # the first in which the bounds of Slice are inputs


@dataclass(frozen=True)
class Changes:
    """The changes to make."""

    drop_final: bool = False
    drop_first: bool = False
    to_float32: bool = False


def apply(model: onnx.ModelProto, name: str, asked: Changes) -> tuple[str, ...]:
    """Change the model, and return a note for each change; its metadata CHANGES has all of them.

    Raises RequestError for a change of nothing.
    """
    notes = [_drop_final(model, name)] if asked.drop_final else []
    notes += [_drop_first(model, name)] if asked.drop_first else []
    notes += _widened(model, name, asked)
    state(model, notes)
    return tuple(notes)


def state(model: onnx.ModelProto, notes: Sequence[str]) -> None:
    """Add notes to those that the metadata have."""
    if notes:
        before = changes_of({entry.key: entry.value for entry in model.metadata_props})
        _set_metadata(model, {CHANGES: json.dumps([*before, *notes])})


def changes_of(metadata: Mapping[str, str]) -> list[str]:
    """Return the notes of changes that the metadata of a network state."""
    return list(json.loads(metadata.get(CHANGES, "[]")))


def _widened(model: onnx.ModelProto, name: str, asked: Changes) -> list[str]:
    """Return the note of a float16 network that becomes a float32 one; refuse it if that was not requested."""
    narrow = [value.name for value in model.graph.input if value.type.tensor_type.elem_type == TensorProto.FLOAT16]
    if narrow and not asked.to_float32:
        raise RequestError(
            f"model {name!r}: its numbers are float16 (input {narrow[0]!r}), and an import writes float32 networks",
            "harness run --model FILE, which computes in float16, or harness models import FILE --to-float32 -o NAME, "
            "whose values differ from those of the file",
        )
    if asked.to_float32 and not narrow:
        raise RequestError(f"model {name!r}: --to-float32 finds no float16 input", "leave it out")
    return ["float16 numbers become float32: the values differ from those of the file"] if narrow else []


def _set_metadata(model: onnx.ModelProto, values: Mapping[str, str]) -> None:
    helper.set_model_props(model, {entry.key: entry.value for entry in model.metadata_props} | dict(values))


def _drop_final(model: onnx.ModelProto, name: str) -> str:
    constants = {tensor.name for tensor in model.graph.initializer}
    constants |= {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    writers = {output: node for node in model.graph.node for output in node.output}
    outputs = [value.name for value in model.graph.output]
    kept = list(dict.fromkeys(_before(output, writers, constants) for output in outputs))
    if kept == outputs or not set(kept) <= writers.keys():
        raise RequestError(
            f"model {name!r}: --drop-final finds no node to remove before {', '.join(map(repr, outputs))}",
            f"leave the option out; it removes {', '.join(sorted(FINAL))} behind a layer",
        )
    nodes = list(model.graph.node)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=each) for each in kept)
    graph.remove_unread(model.graph)
    typed = products.optimised(model.SerializeToString(), name).graph.output
    del model.graph.output[:]
    model.graph.output.extend(typed)
    removed = [node for node in nodes if node not in model.graph.node]
    operators = {node.op_type for node in removed}
    rounded = sorted(operators & ORDERED)
    order = "least" if "ArgMin" in operators else "greatest"
    return (
        f"removed at the end: {_shown(removed)}. The output is {', '.join(map(repr, kept))}, and the class is the "
        f"place of its {order} value" + f": {', '.join(rounded)} keeps the order, but may round to ties" * bool(rounded)
    )


def _before(output: str, writers: Mapping[str, onnx.NodeProto], constants: set[str]) -> str:
    """Return the tensor before all final nodes that lead to an output."""
    tensor = kept = output
    while (node := writers.get(tensor)) is not None and node.op_type in FINAL | BETWEEN:
        tensor = next((each for each in node.input if each not in constants), "")
        kept = tensor if node.op_type in FINAL else kept
    return kept


def _shown(nodes: list[onnx.NodeProto]) -> str:
    return ", ".join(f"{node.name or node.output[0]!r} ({node.op_type})" for node in nodes)


def _drop_first(model: onnx.ModelProto, name: str) -> str:
    found = graph.read(model, name)
    taken, links = leading(found)
    if not links:
        raise RequestError(
            f"model {name!r}: --drop-first finds no node to remove behind the input {found.input_name!r}",
            "leave the option out; it removes Add, Sub, Mul and Div with constants, and Scaler",
        )
    if "input_mean" in found.metadata:
        raise RequestError(f"model {name!r} states a normalisation of its inputs", "leave --drop-first out")
    width = math.prod(found.input_shape)
    factor = np.prod([step.factor for step in taken if isinstance(step, Scaling)] or [np.ones(width)], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # refused as not finite
        mean, span = -steps.evaluate(taken, np.zeros((1, width)))[0] / factor, 1 / factor
    if not np.isfinite([mean, span]).all():
        raise RequestError(f"model {name!r}: the nodes {_shown([link.node.proto for link in links])} multiply by 0",
                           "factors other than 0")  # fmt: skip
    stated = stated_box(found.metadata, width, name)
    box = np.array(DEFAULT_BOX, np.float64)[:, None] * span + mean if stated is None else stated
    before, bound = _rounding(found, taken, links[-1].output, box, (mean, span))
    metadata = {"input_names": [f"x{number}" for number in range(width)], "input_units": [""] * width}
    metadata |= {"input_mean": mean.tolist(), "input_range": span.tolist()}
    if stated is not None:
        low, high = np.sort((box - mean) / span, axis=0).astype(np.float32).tolist()
        metadata |= {"input_box_low": low, "input_box_high": high}
    _set_metadata(model, {key: json.dumps(value) for key, value in metadata.items()})
    source = next(value for value in model.graph.input if value.name == found.input_name)
    source.name = links[-1].output
    removed = [link.node.proto for link in links]
    for each in removed:
        model.graph.node.remove(each)
    graph.remove_unread(model.graph)
    return (
        f"removed at the start: {_shown(removed)}. The input is now {source.name!r}: (x - input_mean) / input_range of "
        f"the metadata. These nodes differ from it, rounded once, by at most {bound:.3g}; found: {before:.3g} on "
        f"{VECTORS} vectors"
    )


def leading(found: Graph) -> tuple[list[Step], list[Link]]:
    """Return the nodes behind the input that compute an affine function of each value, and their steps."""
    taken: list[Step] = []
    links: list[Link] = []
    source = found.input_name
    while True:
        readers = [node for node in found.nodes if source in node.inputs]
        if len(readers) != 1 or readers[0].operator not in ELEMENTWISE or domain_of(readers[0].proto):
            return taken, links
        [node] = readers
        position = node.inputs.index(source)
        other = node.inputs[1 - position]
        if other not in found.constants or (node.operator == "Div" and position == 1) or source in found.outputs:
            return taken, links
        links.append(Link(node, position, found.input_shape, found.input_shape))
        taken += floating.READERS[node.operator](found, links[-1])
        source = links[-1].output


def _rounding(
    found: Graph, taken: list[Step], output: str, box: Floats64, affine: tuple[Array, Array]
) -> tuple[float, float]:
    """Return the greatest difference of `output` in ONNX Runtime from the affine function, and the bound of it."""
    random = np.random.default_rng(SEED)
    where = random.random((VECTORS, box.shape[1]))
    where[::4] = np.rint(where[::4])
    vectors = (box[0] + (box[1] - box[0]) * where).astype(found.dtype)
    exact = steps.evaluate(taken, vectors.astype(np.float64))
    once = ((vectors.astype(np.float64) - affine[0]) / affine[1]).astype(np.float32)
    bound = steps.error_bound(taken, vectors.astype(np.float64), found.dtype) + np.abs(exact) * np.finfo(np.float32).eps
    theirs = check.tensor_of(found, output, vectors.astype(np.float32))
    return float(np.abs(theirs - once).max()), float(bound.max())
