"""The .npy format of dumps, byte for byte the same on board and host: one fixed header, then the rows.

Values of types that NumPy does not have itself are in it as bits.

Dumps come from a board and are not trusted: shape and type are known beforehand, so a dump is accepted only if
its header is exactly the expected one and its length fits.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Array, file_type
from harness.core.errors import BoardError
from harness.operators.base import Layer

HEADER_BYTES = 128


def header(dtype: np.dtype[Any], rows: int, width: int) -> bytes:
    """Return the header that numpy.save writes for a C-ordered (rows, width) array."""
    text = f"{{'descr': '{file_type(dtype).str}', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    return b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def file_name(index: int, layer: Layer) -> str:
    """Return the file name <index>_<layer>.npy."""
    return f"{index:02}_{layer.name}.npy"


def size(layer: Layer, rows: int) -> int:
    """Return length in bytes of the dump of `layer` for `rows` vectors."""
    return HEADER_BYTES + rows * layer.size * layer.dtype.itemsize


def write(path: Path, values: Array) -> None:
    """Write a (rows, width) array."""
    with path.open("wb") as file:
        file.write(header(values.dtype, *values.shape))
        file.write(_bytes(values))


def _bytes(values: Array) -> memoryview:
    return np.ascontiguousarray(values).view(file_type(values.dtype)).data.cast("B")


def sha256(values: Array) -> str:
    """Return the SHA-256 that the file of a (rows, width) array has."""
    digest = hashlib.sha256(header(values.dtype, *values.shape))
    digest.update(_bytes(values))
    return digest.hexdigest()


def read(path: Path, layer: Layer, rows: int, expected_sha256: str) -> Array:
    """Return the dump of `layer`, (rows, width); BoardError if its length, header or hash is not the expected one."""
    return read_array(path, layer.dtype, (rows, layer.size), expected_sha256)


def read_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, int], expected_sha256: str) -> Array:
    """Read an array of this type and shape (rows, width) that came from the board; BoardError as above."""
    length, expected = path.stat().st_size, HEADER_BYTES + shape[0] * shape[1] * dtype.itemsize
    if length != expected:
        raise BoardError(f"{path.name}: {length} bytes came from the board, expected {expected}")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != expected_sha256:
        raise BoardError(
            f"{path.name}: the received file does not have the SHA-256 that the board computed", "run it again"
        )
    if content[:HEADER_BYTES] != header(dtype, *shape):
        raise BoardError(
            f"{path.name}: the dump's header is not that of {dtype} {shape}",
            "the program on the board is not the one that was deployed",
        )
    return np.frombuffer(content, dtype, offset=HEADER_BYTES).reshape(shape)
