"""A file -> a checked network, with its metadata."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness import model as networks
from harness.core.errors import RequestError
from harness.core.safe_io import read_input
from harness.model.float_network import DenseNetwork, Floats32
from harness.model.importer import (
    advice,
    changes,
    check,
    floating,
    fused,
    graph,
    inputs,
    lowering,
    nnet,
    quantised,
    simplify,
    steps,
    tflite,
    unsupported,
    vector_axis,
)
from harness.model.importer.changes import Changes
from harness.model.importer.check import Agreement, Identity
from harness.model.importer.conversion import CODES
from harness.model.importer.graph import MOVES, Graph
from harness.model.importer.quantised import Canonical
from harness.model.importer.simplification import Simplified
from harness.model.importer.simplify import named
from harness.model.importer.steps import Floats64
from harness.model.metadata import normalisation_of, stated_box
from harness.model.network import Network, Normalisation
from harness.model.onnx_runtime import products
from harness.model.onnx_runtime.sessions import Stored
from harness.model.tflite.file import TfliteFile, decode
from harness.operators.traits import Trait

NO_CHANGES = Changes()
LEFT_OUT = {*MOVES, "Relu", "QLinearMatMul"}
"""Operators that conversion leaves out, or writes as QGemm, for which more targets have kernels, where that changes no
value; only a model with branches keeps them."""


@dataclass(frozen=True, eq=False)
class FloatImport:
    """A float network; `folded` are the file's nodes that went into constants of its layers, `notes` the changes."""

    network: DenseNetwork
    folded: tuple[str, ...]
    check: Agreement
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class NetworkImport:
    """A quantised network, or a float one of operators other than dense layers, and the bytes to store.

    `notes` list the changes, and the operators that were rewritten.  `check` compares with the file after the
    changes; `is_near` is true if they can give sums another order, so that outputs of the file itself are only near.
    """

    network: Network
    notes: tuple[str, ...]
    check: Identity
    is_near: bool = False


@dataclass(frozen=True, eq=False)
class TfliteImport:
    """A network of a TFLite file; `imported` says where the network has the file's activations."""

    network: Network
    file: TfliteFile
    imported: tflite.Imported

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes."""
        return self.imported.notes


def bring_in(
    path: Path,
    source: Mapping[str, str] | None = None,
    asked: Changes = NO_CHANGES,
    *,
    dense: bool = False,
    with_advice: bool = True,
) -> FloatImport | NetworkImport | TfliteImport:
    """Read and check a network, float or quantised, from an .onnx, .nnet or .tflite file, with these changes.

    Raises RequestError if the file cannot be read, or cannot be imported without changing its values: with the steps
    that were done, the node or line, the reason, the accepted alternatives, and, `with_advice`, a command that helps.
    The metadata names the file, or what `source` says instead.  If `dense`, a float network with other operators than
    dense layers is refused too.
    """
    if path.suffix == ".onnx":
        simplified, metadata = simplify.read(path, widens=not asked.to_float32)
        metadata = metadata | dict(source or {})

        def attempt(changed: Changes) -> FloatImport | NetworkImport:
            changed_file, _ = simplify.read(path, widens=not changed.to_float32)
            return _from_onnx(changed_file, path.stem, metadata, changed, dense=dense)

        try:
            return _from_onnx(simplified, path.stem, metadata, asked, dense=dense)
        except RequestError as error:
            message, hint = error.message, error.hint
        del simplified  # it holds the weights, as the traceback of the error does
        if not dense and (imported := _with_axis(path, metadata, asked)):
            return imported
        if not with_advice:
            raise RequestError(message, hint)
        helps = advice.command(path, asked, attempt, dense=dense)
        raise RequestError(message, f"{hint}; {helps}")
    try:
        data = read_input(path)
    except OSError as error:
        raise RequestError(
            f"file {path}: {error.strerror}", "give the path of an .onnx, .nnet or .tflite file"
        ) from error
    source = dict(source or named(path, data))
    if path.suffix not in (".nnet", ".tflite"):
        raise RequestError(f"file {path} is neither .onnx, .nnet nor .tflite", _how_to_convert(path))
    if asked != NO_CHANGES:
        raise RequestError(f"file {path} has no nodes of ONNX to change", "import it first, then change the new model")
    return _from_nnet(data, path.stem, source) if path.suffix == ".nnet" else _from_tflite(data, path, source)


def _from_onnx(
    simplified: Simplified, name: str, source: dict[str, str], asked: Changes, *, dense: bool
) -> FloatImport | NetworkImport:
    """Return the network of a simplified model, which is released."""
    with simplified.explained():
        model, notes = _changed(simplified, name, asked, dense=dense)
        if inputs.has_one_float(model.graph) or dense:
            graph_read = graph.read(model, name)  # refuses constants that no memory has
            del model
            simplified.check()
            simplified.release()
            imported = _imported(graph_read, source, dense=dense)
        else:
            simplified.check()
            imported = _of_other_inputs(model, name, source)
    if isinstance(imported, NetworkImport):
        imported = replace(imported, is_near=simplified.is_near or simplified.batch > 1)
    return replace(imported, notes=(*simplified.notes, *notes, *imported.notes))


def _of_other_inputs(model: onnx.ModelProto, name: str, source: dict[str, str]) -> NetworkImport:
    is_quantised = unsupported.is_quantised(model.graph)
    if is_quantised and products.fused_operators(model, name):
        return _fused_of_other_inputs(model, name, source)
    try:
        network, count = inputs.bring_in(model, name, source)
    except RequestError:
        if not is_quantised:
            raise
        return _fused_of_other_inputs(model, name, source)
    sizes = {layer.output.name: layer.size for layer in network.layers}
    outputs = tuple(value.name for value in model.graph.output)
    return NetworkImport(network, (), Identity(count, outputs, count * sum(sizes[name] for name in outputs)))


def _fused_of_other_inputs(model: onnx.ModelProto, name: str, source: dict[str, str]) -> NetworkImport:
    """Return a quantised network as ONNX Runtime runs it."""
    file, found = Stored(model), graph.read(model, name, of_one_float=False)
    converted = fused.convert(found)
    helper.set_model_props(converted.model, found.metadata | source)
    network = networks.parse(converted.model.SerializeToString(), name)
    return NetworkImport(network, converted.notes, check.same_for_any_inputs(file, converted, network))


def _changed(
    simplified: Simplified, name: str, asked: Changes, *, dense: bool
) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a simplified model with these changes, and their notes; raise RequestError for unsupported nodes."""
    model = simplified.model
    if simplified.notes and asked != NO_CHANGES:  # the model is compared without them
        model = onnx.ModelProto()
        model.CopyFrom(simplified.model)
    changes.state(model, simplified.notes)
    notes = changes.apply(model, name, asked)
    graph.remove_unread(model.graph)
    unsupported.require_supported(model, name, dense=dense)
    return model, notes


def _with_axis(path: Path, source: dict[str, str], asked: Changes) -> FloatImport | NetworkImport | None:
    """Return the network with a new axis of vectors in front; None if it is refused, too."""
    simplified, _ = simplify.read(path, widens=not asked.to_float32)
    shapes = vector_axis.input_shapes(simplified.model, simplified.batch)
    try:
        notes = [*simplified.notes, *changes.apply(simplified.model, path.stem, asked)]
        if asked != NO_CHANGES:
            simplified.source = Stored(simplified.model)
        model, note = vector_axis.add_axis(simplified.model, simplified.source, path.stem, shapes)
        changes.state(model, [*simplified.notes, note])
        imported = (
            _imported(graph.read(model, path.stem), source, dense=False)
            if inputs.has_one_float(model.graph)
            else _of_other_inputs(model, path.stem, source)
        )
    except RequestError:
        return None
    if isinstance(imported, NetworkImport):
        imported = replace(imported, is_near=True)
    return replace(imported, notes=(*notes, note, *imported.notes))


def _from_tflite(data: bytes, path: Path, source: Mapping[str, str]) -> TfliteImport:
    file = decode(data, str(path))
    imported = tflite.bring_in(file, path.stem)
    helper.set_model_props(imported.model, dict(source))
    return TfliteImport(networks.parse(imported.model.SerializeToString(), path.stem), file, imported)


def _imported(found: Graph, source: dict[str, str], *, dense: bool) -> FloatImport | NetworkImport:
    """Return a network of dense layers, a quantised one, or the file's own operators if all are supported."""
    file = Stored(found.model)
    if unsupported.is_quantised(found.model.graph):
        return _from_quantised(found, file, source)
    if not (dense or unsupported.is_dense(found.model.graph)):
        return _kept(found, file, source)
    try:
        return _from_float(found, file, source)
    except RequestError as refused:
        if dense:
            raise
        try:
            return _kept(found, file, source)
        except RequestError:
            raise refused from None


def _kept(found: Graph, file: Stored, source: dict[str, str]) -> NetworkImport:
    """Return a float network with its own nodes; raise RequestError if not all of them are supported.

    While ONNX Runtime computes, it alone holds the weights: the graph is released, and the network is read again.
    """
    model = _for_any_batch(found)
    found.release()
    helper.set_model_props(model, found.metadata | source)
    onnx_bytes = model.SerializeToString()
    del model
    network = networks.parse(onnx_bytes, found.name)
    del onnx_bytes
    if network.vector.size != math.prod(found.input_shape):
        raise RequestError(
            f"model {found.name!r} computes more than one vector at a time", "a first size of 1 or a free one"
        )
    converted = check.Converted.from_network(network, _codes(network))
    del network
    identity = check.bit_for_bit(found, file, converted)
    return NetworkImport(networks.parse(converted.file.path.read_bytes(), found.name), (), identity)


def _codes(network: Network) -> tuple[str, ...]:
    """Return the 8-bit tensors."""
    return tuple(layer.output.name for layer in network.layers if layer.dtype in CODES)


CONVERTERS = {
    ".h5": "tf2onnx.convert.from_keras(tensorflow.keras.models.load_model({file!r}), output_path={new!r})",
    ".keras": "tf2onnx.convert.from_keras(tensorflow.keras.models.load_model({file!r}), output_path={new!r})",
    ".pb": "python -m tf2onnx.convert --saved-model FOLDER --output {new}",
    ".pt": "load the network in PyTorch, then torch.onnx.export(model.eval(), (example,), {new!r})",
    ".pth": "load the network in PyTorch, then torch.onnx.export(model.eval(), (example,), {new!r})",
    ".gz": "gunzip {file}",
    ".zip": "unzip {file}",
}
"""Commands that convert other formats to one that can be read."""


def _how_to_convert(path: Path) -> str:
    how = CONVERTERS.get(path.suffix, "give it the suffix of its format")
    return how.format(file=str(path), new=str(path.with_suffix(".onnx")))


def float_graph(path: Path, asked: Changes = NO_CHANGES) -> tuple[Graph, dict[str, str], tuple[str, ...]]:
    """Return a float model, with its data inside and with these changes, metadata that name the file, and notes.

    Raises RequestError for a node that is not supported, and as `simplify.read` does.
    """
    simplified, metadata = simplify.read(path)
    model = simplified.model
    with simplified.explained():
        notes = changes.apply(model, path.stem, asked)
        if unsupported.is_quantised(model.graph):
            raise RequestError(
                f"model {path.stem!r} is quantised already", "`harness models import` imports it unchanged"
            )
        unsupported.require_supported(model, path.stem)
        found = graph.read(model, path.stem)
        simplified.check()
    if found.dtype != np.float32 or len(found.input_shape) < 2 or found.input_shape[0] != 1:
        raise RequestError(
            f"model {path.stem!r}: its input is {found.dtype} of shape {found.input_shape}",
            "float32 (vectors, ...), with a first size of 1 or a free one",
        )
    return found, metadata, (*simplified.notes, *notes)


def read(path: Path, asked: Changes = NO_CHANGES) -> FloatImport:
    """Read and check a float network of dense layers with these changes.

    Raises RequestError where it is quantised already, and as `bring_in` does.
    """
    found = bring_in(path, asked=asked, dense=True)
    if isinstance(found, TfliteImport):
        raise RequestError(f"file {path} is a TFLite file", "import it first, then give the new model")
    if isinstance(found, NetworkImport):
        raise RequestError(
            f"model {found.network.name!r} is quantised already", "`harness models import` imports it unchanged"
        )
    return found


def _from_nnet(data: bytes, name: str, source: dict[str, str]) -> FloatImport:
    try:
        text = data.decode("utf-8-sig")  # some editors put a mark in front
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}.nnet is not text: {error}", "a file of the .nnet format") from error
    found = nnet.read(text, f"{name}.nnet")
    with np.errstate(over="ignore"):
        box = np.array([(found.low - found.mean) / found.range, (found.high - found.mean) / found.range], np.float32)
    if not np.isfinite(box).all():
        raise RequestError(
            f"{name}.nnet: the normalised bounds of the inputs are {box[0].tolist()} to {box[1].tolist()}",
            "(minimum - mean) / range and (maximum - mean) / range within float32",
        )
    box.sort(axis=0)  # a negative range turns the bounds around
    normalisation = Normalisation(
        names=tuple(f"x{number}" for number in range(len(found.mean))),
        units=("",) * len(found.mean),
        mean=tuple(found.mean.tolist()),
        range=tuple(found.range.tolist()),
    )
    metadata = {
        "description": json.dumps("\n".join(found.comments)),
        **_of_input(normalisation, box),
        "score_mean": json.dumps(found.output_mean),
        "score_range": json.dumps(found.output_range),
        **source,
    }
    layers, folded = steps.dense_layers(found.steps, len(found.mean), name)
    network = DenseNetwork(name, layers, box=box, normalisation=normalisation, metadata=metadata)

    def evaluate(vectors: Floats32) -> Floats64:
        return steps.evaluate(found.steps, vectors.astype(np.float64))

    return FloatImport(network, folded, check.within_bound(network, found.steps, evaluate, np.dtype(np.float64)))


def _of_input(normalisation: Normalisation, box: Floats32) -> dict[str, str]:
    values: dict[str, Any] = {
        "input_names": normalisation.names,
        "input_units": normalisation.units,
        "input_mean": normalisation.mean,
        "input_range": normalisation.range,
        "input_box_low": box[0].tolist(),
        "input_box_high": box[1].tolist(),
    }
    return {key: json.dumps(value) for key, value in values.items()}


def _from_float(found: Graph, file: Stored, source: dict[str, str]) -> FloatImport:
    taken = floating.steps_of(found)
    width = math.prod(found.input_shape)
    layers, folded = steps.dense_layers(taken, width, found.name)
    if not layers:
        raise RequestError(
            f"model {found.name!r} has no layer that computes", "a chain of MatMul or Gemm, Add and Relu"
        )
    box = stated_box(found.metadata, width, found.name)
    network = DenseNetwork(
        name=found.name,
        layers=layers,
        input_name=found.input_name,
        output_name=found.outputs[0],
        box=None if box is None else box.astype(np.float32),
        normalisation=normalisation_of(found.metadata, width, found.name),
        metadata=found.metadata | source,
    )
    outputs = check.outputs_of(found, file)
    return FloatImport(network, folded, check.within_bound(network, taken, outputs, found.dtype))


def _from_quantised(found: Graph, file: Stored, source: dict[str, str]) -> NetworkImport:
    found, notes = lowering.convert(found)
    converted = _converted(found)
    helper.set_model_props(converted.model, found.metadata | source)
    network = networks.parse(converted.model.SerializeToString(), found.name)
    floats = [repr(layer.node) for layer in network.layers if Trait.SUMS in layer.traits and not layer.sums]
    of_floats = [f"ONNX Runtime runs {', '.join(floats)} in float32"] if floats else []
    check.require_fused(found, converted)
    compared = check.Converted.from_network(network, converted.codes)
    identity = check.bit_for_bit(found, file, compared, int8_groups=converted.int8_groups)
    return NetworkImport(network, (*notes, *converted.notes, *of_floats), identity)


def _converted(found: Graph) -> Canonical:
    """Return the file unchanged if it can be read; converted, if it has operators that conversion leaves out."""
    as_it_is = _as_it_is(found)
    if as_it_is and products.fused_operators(found.model, found.name):
        return fused.convert(found)
    if as_it_is and not any(node.operator in LEFT_OUT for node in found.nodes):
        return as_it_is
    try:
        return quantised.canonical(found)
    except RequestError:
        if as_it_is:
            return as_it_is
        if not _is_dense_chain(found):
            return fused.convert(found)
        raise


def _is_dense_chain(found: Graph) -> bool:
    """Return whether the graph has no operator and no branch that only `fused` reads."""
    readers = Counter(name for node in found.nodes for name in set(node.inputs) if not found.is_constant(name))
    return max(readers.values(), default=0) < 2 and all(map(quantised.is_known, found.nodes))


def _as_it_is(found: Graph) -> Canonical | None:
    """Return the file's own nodes if they are canonical; the only input is then the first, with any batch size."""
    model = _for_any_batch(found)
    try:
        network = networks.parse(model.SerializeToString(), found.name)
    except RequestError:
        return None
    if network.vector.size != math.prod(found.input_shape):  # more than one vector at a time
        return None
    return Canonical(model, _codes(network), from_qdq=False, notes=())


def _for_any_batch(found: Graph) -> onnx.ModelProto:
    """Return a copy of the model of which the vectors, any number of them, are the only input."""
    model = onnx.ModelProto()
    model.CopyFrom(found.model)
    source = next(value for value in found.model.graph.input if value.name == found.input_name)
    del model.graph.input[:], model.graph.value_info[:]
    model.graph.input.append(source)
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = "vectors"
    return model
