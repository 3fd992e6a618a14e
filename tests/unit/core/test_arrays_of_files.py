"""Arrays of files: no byte of a file is outside its arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.core.safe_io import load_array, load_arrays

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


def add(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.npy", b"more")


def comment(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"approved"


def pad_member(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content + b"approved")


def test_bytes_after_an_array_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "values.npy"
    np.save(path, VALUES)
    assert np.array_equal(load_array(path), VALUES)
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ValueError, match="1 bytes that belong to no array"):
        load_array(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_arrays_of_an_archive_are_those_that_were_saved(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "values.npz", one=VALUES, two=VALUES[:0])
    one, two = load_arrays(tmp_path / "values.npz", "one", "two")
    assert np.array_equal(one, VALUES)
    assert two.shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add, "it has the arrays one.npy, two.npy, more.npy"),
        (comment, "8 bytes that belong to no array"),
        (pad_member, "8 bytes that belong to no array"),
        (lambda path: path.write_bytes(b"approved" + path.read_bytes()), "8 bytes that belong to no array"),
        (lambda path: path.write_bytes(path.read_bytes() + b"approved"), "8 bytes that belong to no array"),
        (lambda path: path.write_bytes(path.read_bytes()[:200]), "not a complete .npz file"),
    ],
)
def test_other_bytes_of_an_archive_are_refused(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "values.npz"
    np.savez_compressed(path, one=VALUES, two=VALUES)
    change(path)
    with pytest.raises(ValueError, match=message):
        load_arrays(path, "one", "two")
