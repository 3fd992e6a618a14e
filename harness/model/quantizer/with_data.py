"""A float network of any supported operators -> its quantised ONNX model, with calibration data.

`onnxruntime.quantization` inserts the scales, which the calibration vectors determine (the least and the greatest
value of each tensor); the import of quantised files checks the result like that of any other file.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import onnx

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import importer
from harness.model.float_network import Floats32
from harness.model.importer import Changes, NetworkImport
from harness.model.importer.graph import Graph
from harness.model.metadata import normalisation_of
from harness.model.network import Normalisation
from harness.model.onnx_runtime import products

if TYPE_CHECKING:
    from onnxruntime.quantization import CalibrationDataReader


@dataclass(frozen=True)
class DataChoices:
    """Options: the type of the activations' codes, and whether each output of a layer has a scale of its weights."""

    codes: Literal["int8", "uint8"] = "int8"
    weights: Literal["int8-per-column", "int8"] = "int8-per-column"


@dataclass(frozen=True, eq=False)
class FloatFile:
    """A float network in a file, with all data inside; metadata that name the file, and notes of changes."""

    graph: Graph
    source: dict[str, str]
    changes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one vector."""
        return self.graph.input_shape[1:]

    @property
    def normalisation(self) -> Normalisation | None:
        """The normalisation that the metadata state."""
        return normalisation_of(self.graph.metadata, int(np.prod(self.shape)), self.graph.name)

    def images(self, vectors: Array, what: str) -> Floats32:
        """Return `vectors`, (n, ...) of any shape with as many values, in the shape of the input (n, *shape).

        Raises RequestError for another type or size, and for values that are not finite.
        """
        size = int(np.prod(self.shape))
        if vectors.dtype != np.float32 or not len(vectors) or vectors.size != len(vectors) * size:
            raise RequestError(
                f"{what}: {vectors.dtype} of shape {vectors.shape}",
                f"float32 of shape (n, {', '.join(map(str, self.shape))}), or (n, {size})",
            )
        if not np.isfinite(vectors).all():
            raise RequestError(f"{what}: NaN or infinite values", "finite numbers")
        return vectors.reshape(len(vectors), *self.shape)

    def scores(self, vectors: Floats32) -> Floats32:
        """Return the first output of the float network, (n, N), for vectors (n, *shape), one at a time."""
        from harness.model.onnx_runtime.sessions import session

        runtime = session(self.graph.model.SerializeToString(), 1)
        name, source = self.graph.outputs[0], self.graph.input_name
        return np.array([runtime.run([name], {source: vector[None]})[0].reshape(-1) for vector in vectors])


def read(path: Path, asked: Changes) -> FloatFile:
    """Read a float network with one float32 input, with these changes.

    Raises RequestError for a network that ONNX Runtime refuses, for constants that are not finite, and with a list of
    all operators that cannot be quantised.
    """
    graph, source, notes = importer.float_graph(path, asked)
    for name, values in graph.constants.items():
        if values.dtype == np.float32 and not np.isfinite(values).all():
            raise RequestError(f"model {graph.name!r}: {name!r} has NaN or infinite values", "train or export it again")
    products.optimised(graph.model.SerializeToString(), graph.name)
    return FloatFile(graph, source, notes)


def quantize_with_data(floats: FloatFile, vectors: Floats32, choices: DataChoices, name: str) -> NetworkImport:
    """Quantise a float network with calibration vectors (n, *shape); the model is called `name`.

    Raises RequestError where the result has an operator or a value that the harness cannot reproduce.
    """
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    codes = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8}[choices.codes]
    graph = floats.graph
    with tempfile.TemporaryDirectory() as folder:
        given, prepared, made = (Path(folder) / f"{stem}.onnx" for stem in ("given", "prepared", name))
        onnx.save(_with_metadata(graph.model, choices, len(vectors)), given)
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # errors are raised; a warning advises QDQ, which is no faster here
        try:
            quant_pre_process(given, prepared, skip_symbolic_shape=True)
            folded = _operators(given) - _operators(prepared)
            _flatten_biases(prepared)
            quantize_static(
                prepared,
                made,
                _reader(graph.input_name, vectors),
                quant_format=QuantFormat.QOperator,
                activation_type=codes,
                weight_type=QuantType.QInt8,
                per_channel=choices.weights == "int8-per-column",
            )
        except Exception as error:  # its exceptions have no common base of their own
            raise RequestError(
                f"onnxruntime.quantization fails on model {graph.name!r}: {error}",
                "give a float model of supported operators, with a fixed input shape but for the number of vectors",
            ) from error
        finally:
            logging.disable(disabled)
        found = importer.bring_in(made, floats.source, with_advice=False)
    if not isinstance(found, NetworkImport):
        raise RequestError(f"model {graph.name!r} has nothing to quantise", "Conv, Gemm or MatMul")
    parts = ", ".join(f"{operator} x{count}" for operator, count in sorted(folded.items()))
    notes = [f"ONNX Runtime made these a part of other operators before: {parts}"] if parts else []
    return NetworkImport(found.network, (*floats.changes, *notes, *found.notes), found.check)


def _operators(path: Path) -> Counter[str]:
    """Return how often each operator occurs that stores no constant."""
    return Counter(node.op_type for node in onnx.load(path).graph.node if node.op_type != "Constant")


def _flatten_biases(path: Path) -> None:
    """Write the bias (1, N) of a Gemm as (N,): quantize_static fails on the other form, which a fused Add leaves."""
    model = onnx.load(path)
    biases = {node.input[2] for node in model.graph.node if node.op_type == "Gemm" and len(node.input) > 2}
    for tensor in model.graph.initializer:
        if tensor.name in biases and len(tensor.dims) == 2 and tensor.dims[0] == 1:
            del tensor.dims[0]
    onnx.save(model, path)


def _with_metadata(model: onnx.ModelProto, choices: DataChoices, vectors: int) -> onnx.ModelProto:
    """Return the model with the choices in its metadata."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    entry = copy.metadata_props.add()
    entry.key, entry.value = "quantisation", json.dumps(asdict(choices) | {"calibration_vectors": vectors})
    return copy


def _reader(name: str, vectors: Floats32) -> CalibrationDataReader:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc] # onnxruntime ships no types
        """The vectors, one at a time."""

        def __init__(self) -> None:
            self.rest: Iterator[Any] = iter(vectors)

        def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
            """Return the next input, None at the end."""
            vector = next(self.rest, None)
            return None if vector is None else {name: vector[None]}

    return Reader()
