"""Arrays of NumPy by the names of tensors: a .npy or .npz file, or a folder of them.

Folders whose names are numbers hold the vectors of one inference each, or of one batch: DIR/0/conv1.npy.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.applications.judge.dumps import ArchiveMember, Dumps, InMemory, Part, joined
from harness.core.safe_io import load_array
from harness.model.network import Network

SUFFIXES = (".npy", ".npz")


def fits(path: Path) -> bool:
    """Return whether the path is a file of NumPy, or a folder with some."""
    return path.suffix in SUFFIXES if path.is_file() else any(_files(path))


def read(path: Path, _network: Network) -> Dumps:
    """Return all arrays."""
    files = [path] if path.is_file() else [file for folder in folders(path) for file in _files(folder, deep=False)]
    return Dumps("numpy", joined([named for file in files for named in _arrays(file)]))


def folders(path: Path) -> list[Path]:
    """Return the folder itself, and those in it that are numbered, in the order of their numbers."""
    numbered = [folder for folder in path.iterdir() if folder.is_dir() and folder.name.isdecimal()]
    return [path, *sorted(numbered, key=lambda folder: int(folder.name))]


def _files(path: Path, *, deep: bool = True) -> Iterator[Path]:
    for folder in folders(path) if deep else (path,):
        yield from sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


def _arrays(path: Path) -> Iterator[tuple[str, Part]]:
    if path.suffix == ".npy":
        try:
            yield path.stem, InMemory(load_array(path), str(path))
        except ValueError as error:
            raise ValueError(f"{path.name} is not a complete .npy file of numbers: {error}") from error
    else:
        yield from members(path)


def members(path: Path) -> Iterator[tuple[str, Part]]:
    """Yield the arrays of a .npz file; ValueError for names that are paths outside of it, or repeated."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path.name} is not a complete .npz file: {error}") from error
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name} has two arrays of one name")
    for name in names:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\\" in name or not name.endswith(".npy"):
            raise ValueError(f"{path.name}: {name!r} is no name of an array")
        yield name.removesuffix(".npy"), ArchiveMember(path, name)
