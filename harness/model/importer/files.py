"""A file -> a checked network, with its metadata."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness import model as networks
from harness.core.errors import RequestError
from harness.model.float_network import DenseNetwork, Floats32
from harness.model.importer import check, floating, graph, nnet, quantised, steps
from harness.model.importer.check import Agreement, Identity
from harness.model.importer.conversion import CODES
from harness.model.importer.graph import MOVES, Graph
from harness.model.importer.quantised import Canonical
from harness.model.importer.steps import Floats64
from harness.model.metadata import normalisation_of, stated_box
from harness.model.network import Network, Normalisation

LEFT_OUT = {*MOVES, "Relu"}
"""Operators that conversion leaves out, where that changes no value; only a model with branches keeps them."""


@dataclass(frozen=True, eq=False)
class FloatImport:
    """A float network; `folded` are the file's nodes that went into constants of its layers."""

    network: DenseNetwork
    folded: tuple[str, ...]
    check: Agreement


@dataclass(frozen=True, eq=False)
class QuantisedImport:
    """A quantised network and the bytes to store; `notes` list the operators that were rewritten."""

    network: Network
    notes: tuple[str, ...]
    check: Identity


def bring_in(path: Path) -> FloatImport | QuantisedImport:
    """Read and check a network of dense layers, float or quantised, from an .onnx or .nnet file.

    Raises RequestError if the file cannot be read, or cannot be imported without changing its values: with the node or
    line, the reason, and the accepted alternatives.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RequestError(f"file {path}: {error.strerror}", "give the path of an .onnx or .nnet file") from error
    source = {"source_file": json.dumps(path.name), "source_sha256": json.dumps(hashlib.sha256(data).hexdigest())}
    if path.suffix == ".nnet":
        return _from_nnet(data, path.stem, source)
    if path.suffix != ".onnx":
        raise RequestError(f"file {path} is neither .onnx nor .nnet", "give it the suffix of its format")
    found = graph.read(data, path.stem)
    return _from_quantised(found, data, source) if quantised.is_quantised(found) else _from_float(found, data, source)


def read(path: Path) -> DenseNetwork:
    """Read and check a float network; RequestError where it is quantised already, and as `bring_in` does."""
    found = bring_in(path)
    if isinstance(found, QuantisedImport):
        raise RequestError(
            f"model {found.network.name!r} is quantised already", "`harness models import` imports it unchanged"
        )
    return found.network


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


def _from_float(found: Graph, data: bytes, source: dict[str, str]) -> FloatImport:
    taken = floating.steps_of(found)
    width = math.prod(found.input_shape)
    layers, folded = steps.dense_layers(taken, width, found.name)
    if not layers:
        raise RequestError(
            f"model {found.name!r} has no layer that computes", "a chain of MatMul or Gemm, Add and Relu"
        )
    network = DenseNetwork(
        name=found.name,
        layers=layers,
        input_name=found.input_name,
        output_name=found.outputs[0],
        box=stated_box(found.metadata, width, found.name),
        normalisation=normalisation_of(found.metadata, width, found.name),
        metadata=found.metadata | source,
    )
    outputs = check.outputs_of(found, data)
    return FloatImport(network, folded, check.within_bound(network, taken, outputs, found.dtype))


def _from_quantised(found: Graph, data: bytes, source: dict[str, str]) -> QuantisedImport:
    converted = _converted(found)
    helper.set_model_props(converted.model, found.metadata | source)
    network = networks.parse(converted.model.SerializeToString(), found.name)
    return QuantisedImport(network, converted.notes, check.bit_for_bit(found, data, converted, network))


def _converted(found: Graph) -> Canonical:
    """Return the file unchanged if it can be read; converted, if it has operators that conversion leaves out."""
    as_it_is = _as_it_is(found)
    if as_it_is and not any(node.operator in LEFT_OUT for node in found.nodes):
        return as_it_is
    try:
        return quantised.canonical(found)
    except RequestError:
        if as_it_is:
            return as_it_is
        raise


def _as_it_is(found: Graph) -> Canonical | None:
    """Return the file's own nodes if they are canonical; the only input is then the first, with any batch size."""
    try:
        network = networks.parse(found.model.SerializeToString(), found.name)
    except RequestError:
        return None
    if network.input.size != math.prod(found.input_shape):  # more than one vector at a time
        return None
    model = onnx.load_model_from_string(network.onnx_bytes)
    source = next(value for value in model.graph.input if value.name == network.input.name)
    del model.graph.input[:], model.graph.value_info[:]
    model.graph.input.append(source)
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = "vectors"
    codes = tuple(layer.output.name for layer in network.layers if layer.dtype in CODES)
    return Canonical(model, codes, from_qdq=False, notes=())
