"""Tensors that an engine dumped: flat values of files, read a few at a time."""

from __future__ import annotations

import math
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from harness.core.arrays import UNREADABLE, Array
from harness.core.errors import RequestError

Layout: TypeAlias = Literal["nchw", "nhwc"]
"""The order of the axes of images: channels first, as ONNX has them, or last."""


@dataclass(frozen=True)
class Quantisation:
    """The numbers that stored values x stand for: scale * (x - zero_point)."""

    scale: float
    zero_point: int


class Part(ABC):
    """Values of one file in the order of the file: those of one vector, or of several along the first axis."""

    place: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Return the values `start` to `stop`, (stop - start,); RequestError if the file is damaged."""


class InMemory(Part):
    """An array, which may be mapped from a file."""

    def __init__(self, array: Array, place: str) -> None:
        self.place, self.shape, self.dtype = place, array.shape, array.dtype
        self._flat = np.ascontiguousarray(array).reshape(-1)

    def read(self, start: int, stop: int) -> Array:
        """Return values of the array."""
        return self._flat[start:stop]


class ArchiveMember(Part):
    """An array of a .npz file, which is read from its start to its end, a block at a time."""

    def __init__(self, path: Path, name: str) -> None:
        self.place, self._path, self._name = f"{path}, array {name.removesuffix('.npy')!r}", path, name
        self._open()

    def _open(self) -> None:
        """Open the member and read its header; ValueError if it is no array of numbers."""
        try:
            archive = zipfile.ZipFile(self._path)
            self._stream: IO[bytes] = archive.open(self._name)
            version = np.lib.format.read_magic(self._stream)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, in_fortran_order, self.dtype = header(self._stream)
        except UNREADABLE as error:
            raise ValueError(f"{self.place}: not a complete array: {error}") from error
        if self.dtype.hasobject:
            raise ValueError(f"{self.place}: it has pickled Python objects, which are never loaded")
        if in_fortran_order and len(self.shape) > 1:
            raise ValueError(f"{self.place}: it is in Fortran order; save numpy.ascontiguousarray(array)")
        self._position = 0

    def read(self, start: int, stop: int) -> Array:
        """Return the next values; earlier ones are read again from the start of the member."""
        if start < self._position:
            self._stream.close()
            self._open()
        size = self.dtype.itemsize
        try:
            skipped = len(self._stream.read((start - self._position) * size))
            content = self._stream.read((stop - start) * size)
        except (OSError, EOFError, zipfile.BadZipFile, ValueError) as error:
            raise RequestError(f"{self.place}: cannot be read: {error}", "write the file again") from error
        if skipped + len(content) != (stop - self._position) * size:
            raise RequestError(f"{self.place}: the file is cut short", "write the file again")
        self._position = stop
        return np.frombuffer(content, self.dtype)


class RawFile(Part):
    """A file of values alone, little endian unless `dtype` states another order."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.place, self.dtype, self.shape = str(path), dtype, shape
        size, expected = path.stat().st_size, math.prod(shape) * dtype.itemsize
        if size != expected:
            raise RequestError(
                f"{path}: it has {size:,} bytes, and {dtype} of shape {shape} has {expected:,}",
                "the file is cut short, or its type or shape is another one",
            )
        self._values = np.memmap(path, dtype, "r", shape=(math.prod(shape),)) if size else np.empty(0, dtype)

    def read(self, start: int, stop: int) -> Array:
        """Return values of the file."""
        return self._values[start:stop]


@dataclass(frozen=True, eq=False)
class DumpedTensor:
    """A tensor of the engine: its name there, and its values in files of consecutive vectors.

    `layout` is None if the files do not state it, `quantisation` if the values are those of the model.
    """

    name: str
    parts: Sequence[Part]
    layout: Layout | None = None
    quantisation: Quantisation | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all values."""
        return self.parts[0].dtype

    @property
    def size(self) -> int:
        """The number of values of all parts."""
        return sum(part.size for part in self.parts)

    def read(self, start: int, stop: int) -> Array:
        """Return the values `start` to `stop` of all parts together, (stop - start,)."""
        pieces, begin = [], 0
        for part in self.parts:
            first, last = max(start - begin, 0), min(stop - begin, part.size)
            if first < last:
                pieces.append(part.read(first, last))
            begin += part.size
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True, eq=False)
class Dumps:
    """All tensors of an engine by their names there.

    `format` names the reader.  `notes` say what it left out.  `tried` is false for a format that was written from its
    public documentation alone.
    """

    format: str
    tensors: Mapping[str, DumpedTensor]
    notes: tuple[str, ...] = ()
    tried: bool = True


def joined(named: Sequence[tuple[str, Part]], layout: Layout | None = None) -> dict[str, DumpedTensor]:
    """Return tensors from parts in the order of their vectors; RequestError for parts of different types."""
    parts: dict[str, list[Part]] = {}
    for name, part in named:
        parts.setdefault(name, []).append(part)
    for name, of_tensor in parts.items():
        if len({part.dtype for part in of_tensor}) > 1:
            raise RequestError(
                f"tensor {name!r} has values of the types {', '.join(sorted({str(p.dtype) for p in of_tensor}))}",
                f"give one type: {of_tensor[0].place}, {of_tensor[-1].place}",
            )
    return {name: DumpedTensor(name, of_tensor, layout) for name, of_tensor in parts.items()}
