"""The form of a dump, byte for byte NumPy's, and that nothing else is accepted."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps
from harness.operators.arg_extremum import ArgExtremum
from harness.operators.base import Layer
from harness.operators.tensor import INT64, UINT8, Tensor

DTYPES = ("uint8", "int8", "float32", "int64", "uint64")
LAYER = ArgExtremum("scores", "node", "ArgMax", (Tensor("a", (5,), UINT8),), Tensor("b", (3,), INT64), True, False)
VALUES = np.arange(12, dtype=np.int64).reshape(4, 3)


def saved(values: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


@given(st.sampled_from(DTYPES), st.integers(0, 10**7), st.integers(1, 10**5))
def test_the_header_is_numpys(dtype: str, rows: int, width: int) -> None:
    shape = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (rows, width)}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, shape)
    assert dumps.header(np.dtype(dtype), rows, width) == file.getvalue()
    assert len(file.getvalue()) == dumps.HEADER_BYTES


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_written_file_is_numpys(tmp_path: Path, dtype: str) -> None:
    values = np.arange(35).reshape(7, 5).astype(dtype)
    for layout in (values, np.asfortranarray(values), values[::-1].copy()[::-1]):
        dumps.write(tmp_path / "dump.npy", layout)
        assert (tmp_path / "dump.npy").read_bytes() == saved(values)
        assert dumps.sha256(layout) == hashlib.sha256(saved(values)).hexdigest()


def test_a_file_is_named_by_the_layers_index_and_name() -> None:
    assert dumps.file_name(0, LAYER) == "00_scores.npy"
    assert dumps.file_name(12, LAYER) == "12_scores.npy"
    assert dumps.file_name(123, LAYER) == "123_scores.npy"


def test_the_size_is_known_beforehand() -> None:
    assert dumps.size(LAYER, 4) == len(saved(VALUES))


def read(tmp_path: Path, content: bytes, layer: Layer = LAYER, rows: int = 4) -> Array:
    """Read `content` as a dump whose hash on the board was that of `content`."""
    (tmp_path / "dump.npy").write_bytes(content)
    return dumps.read(tmp_path / "dump.npy", layer, rows, hashlib.sha256(content).hexdigest())


def test_a_good_dump_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, saved(VALUES))
    assert found.dtype == np.int64
    assert np.array_equal(found, VALUES)


def test_an_empty_dump_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, saved(VALUES[:0]), rows=0).shape == (0, 3)


@pytest.mark.parametrize(
    "content", [b"", saved(VALUES)[:-1], saved(VALUES) + b"\0", saved(VALUES[:3]), saved(VALUES)[:128]]
)
def test_a_dump_of_another_length_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BoardError) as caught:
        read(tmp_path, content)
    assert caught.value.message == f"dump.npy: {len(content)} bytes came from the board, expected 224"


@pytest.mark.parametrize("position", [0, 60, 127, 128, 223])
def test_a_byte_that_changed_on_the_way_is_noticed(tmp_path: Path, position: int) -> None:
    content = bytearray(saved(VALUES))
    sha256 = hashlib.sha256(content).hexdigest()
    content[position] ^= 1
    (tmp_path / "dump.npy").write_bytes(content)
    with pytest.raises(BoardError, match="does not have the SHA-256 that the board computed"):
        dumps.read(tmp_path / "dump.npy", LAYER, 4, sha256)


@pytest.mark.parametrize(
    "content",
    [
        saved(VALUES.astype(np.uint64)),
        saved(VALUES.astype(np.float64)),
        saved(VALUES.astype(">i8")),
        saved(VALUES.reshape(3, 4)),
        saved(np.asfortranarray(VALUES)),
        saved(VALUES).replace(b"\x01\x00", b"\x02\x00", 1),
        saved(VALUES).replace(b"'<i8'", b"'|O8'"),
        bytes(224),
    ],
)
def test_a_dump_with_another_header_is_refused(tmp_path: Path, content: bytes) -> None:
    assert len(content) == 224
    with pytest.raises(BoardError) as caught:
        read(tmp_path, content)
    assert caught.value.message == "dump.npy: the dump's header is not that of int64 (4, 3)"
    assert "not the one that was deployed" in caught.value.hint
