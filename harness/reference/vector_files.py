"""Vectors from files: a .npy file, or of networks with several inputs a structured .npy, an .npz file or a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.safe_io import load_array, load_arrays
from harness.model.indices import index_ranges
from harness.model.network import Network
from harness.operators.tensor import Tensor
from harness.reference.stimuli import BLOCK, Stimuli, Vectors


def from_file(path: Path, network: Network, origin: str = "") -> Stimuli:
    """Return the vectors of a file or folder, memory-mapped where they are .npy; the path is their origin.

    A .npy file has the values of the only input, of its type and of shape (n, ...); or records, (n,), of a structured
    type with one field per input, in any order; or the rows of a run folder, (n, bytes of a record).  An .npz file has
    one array per input by its name, a folder one file NAME.npy per input.  `origin` names the original
    of a copied file.

    Raises RequestError for another type or shape, for a file that is cut short, pickled or of another format, and for
    NaN or an infinity that no QuantizeLinear reads: IEEE 754 leaves sign and payload of the NaN that comes out open, so
    there is no value to compare with.
    """
    try:
        arrays = _arrays(path, network)
    except OSError as error:
        whole = "give a whole number of vectors, or the path of a .npy file"
        hint = how_to_save(network) if path.suffix in (".npy", ".npz") or path.is_dir() else whole
        raise RequestError(f"vectors {path}: {error.strerror or error}", hint) from error
    except (ValueError, BadZipFile) as error:
        kind = ".npz" if path.suffix == ".npz" else ".npy"
        raise RequestError(f"vectors {path}: not a complete {kind} file: {error}", how_to_save(network)) from error
    for tensor in network.inputs:
        arrays[tensor.name] = _rows(arrays[tensor.name], tensor, path, network)
    counts = {name: len(values) for name, values in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise RequestError(f"vectors {path}: {listed}", "give as many vectors of every input")
    for tensor in network.inputs:
        if tensor.dtype.kind == "f" and not network.takes_every(tensor):
            _require_finite(arrays[tensor.name], tensor, path, network)
    return _FromFile(arrays, network, origin or str(path))


def require_indices(path: Path, network: Network, vectors: Stimuli) -> None:
    """Raise RequestError for a value of an input that is an index beyond the axis of its node, which ONNX forbids."""
    ranges = index_ranges(network.inputs, network.layers)
    for start in range(0, vectors.count if ranges else 0, BLOCK):
        values = network.values(vectors.chunk(start, min(start + BLOCK, vectors.count)))
        for indices in ranges:
            if outside := indices.outside(values[indices.input]):
                vector, place, low, high = outside
                raise RequestError(
                    f"vectors {path}: {indices.input!r}, value {place} of vector {start + vector} is "
                    f"{values[indices.input][vector, place]}, an index of node {indices.node!r} beyond its axis",
                    f"give indices from {low} to {high}",
                )


def file_name(name: str) -> str:
    """Return the name of the file with the values of an input, in a folder of vectors."""
    return f"{name.replace('/', '_')}.npy"


def how_to_save(network: Network) -> str:
    """Return the hint that says how vectors of a network are saved."""
    [first, *others] = network.inputs
    if not others:
        return (
            f"save them with numpy.save(path, vectors.astype(numpy.{first.dtype})): little endian, shape (n, "
            f"{'inputs' if first.dtype.kind == 'f' else first.size})"
        )
    listed = ", ".join(f"{tensor.name} {tensor.dtype} (n, {tensor.size})" for tensor in network.inputs)
    return f"save them with numpy.savez(path, NAME=array, ...): {listed}"


def _arrays(path: Path, network: Network) -> dict[str, Array]:
    """Return the array of each input by its name, as the file has it."""
    names = [tensor.name for tensor in network.inputs]
    if path.is_dir():
        return {name: load_array(path / file_name(name)) for name in names}
    if path.suffix == ".npz":
        return dict(zip(names, load_arrays(path, *names), strict=True))
    array = load_array(path)
    if array.dtype.names is not None:
        return _fields(array, path, network)
    if len(names) == 1:
        return {names[0]: array}
    if array.dtype != network.vector.dtype or array.ndim != 2 or array.shape[1] != network.vector.size:
        raise RequestError(
            f"vectors {path}: {array.dtype.str} of shape {array.shape}, and {network.name} has {len(names)} inputs",
            how_to_save(network),
        )
    return network.values(np.asarray(array))


def _fields(array: Array, path: Path, network: Network) -> dict[str, Array]:
    names = [tensor.name for tensor in network.inputs]
    if sorted(array.dtype.names or ()) != sorted(names):
        raise RequestError(
            f"vectors {path}: records of {', '.join(array.dtype.names or ())}", f"fields: {', '.join(names)}"
        )
    return {name: array[name] for name in names}


def _rows(array: Array, tensor: Tensor, path: Path, network: Network) -> Array:
    """Return the values of an input as (n, size)."""
    place = f"vectors {path}" if len(network.inputs) == 1 else f"vectors {path}, input {tensor.name!r}"
    if array.dtype != tensor.dtype.newbyteorder("<"):
        raise RequestError(f"{place}: {array.dtype.str}, not {tensor.dtype}", how_to_save(network))
    if array.ndim == 0 or len(array) == 0 or array.size != len(array) * tensor.size:
        raise RequestError(
            f"{place}: shape {array.shape}",
            f"shape (n, {tensor.size}), or (n, ...) with as many values, with n of 1 or more",
        )
    return array.reshape(len(array), tensor.size)


def _require_finite(array: Array, tensor: Tensor, path: Path, network: Network) -> None:
    for start in range(0, len(array), BLOCK):
        for vector, place in np.argwhere(~np.isfinite(array[start : start + BLOCK])):
            reader = next(layer for layer in network.readers_of(tensor) if not layer.stimuli.takes_every_input)
            name = "input" if len(network.inputs) == 1 else f"{tensor.name!r},"
            raise RequestError(
                f"vectors {path}: {name} {place} of vector {start + vector} is {array[start + vector, place]}, "
                f"and layer {reader.name!r} ({reader.operator}) reads it",
                "give finite numbers: only QuantizeLinear defines a result for NaN and infinities, bit for bit",
            )


class _FromFile(Stimuli):
    def __init__(self, arrays: Mapping[str, Array], network: Network, origin: str) -> None:
        self._arrays, self._network = arrays, network
        self.count, self.width = len(arrays[network.inputs[0].name]), network.vector.size
        self.origin = origin

    def chunk(self, start: int, stop: int) -> Vectors:
        return np.array(self._network.vectors({name: values[start:stop] for name, values in self._arrays.items()}))

    def describe(self) -> dict[str, int]:
        return {"from file": self.count}
