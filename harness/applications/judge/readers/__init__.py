"""Readers of dumps, one file for each format.

A reader is a function from a path and the network to `Dumps`.  The formats of vendors were written from their public
documentation; `tried` in `harness.applications.judge.dumps` says for which of them files of the real tool were read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.applications.judge.dumps import Dumps
from harness.applications.judge.readers import numpy_files, polygraphy, raw, st_edge, tidl, vitis
from harness.core.arrays import UNREADABLE
from harness.core.errors import RequestError
from harness.model.network import Network

Reader = Callable[[Path, Network], Dumps]
READERS: dict[str, tuple[Callable[[Path], bool], Reader]] = {
    "raw": (raw.fits, raw.read),
    "tidl": (tidl.fits, tidl.read),
    "vitis": (vitis.fits, vitis.read),
    "st-edge-ai": (st_edge.fits, st_edge.read),
    "polygraphy": (polygraphy.fits, polygraphy.read),
    "numpy": (numpy_files.fits, numpy_files.read),
}
"""Test of a path and reader of each format, by its name; the first format whose test holds is taken."""


def read(path: Path, network: Network, kind: str | None = None) -> Dumps:
    """Return the tensors of a file or folder; RequestError if it is no dump, or if a file in it is damaged."""
    if not path.exists():
        raise RequestError(f"cannot read {path}: there is no such file or folder", "give the dumps of the engine")
    try:
        name = kind or next((name for name, (fits, _) in READERS.items() if fits(path)), None)
        if name is None:
            is_empty = path.is_dir() and not any(path.iterdir())
            raise RequestError(
                f"cannot read {path}: {'the folder is empty' if is_empty else 'it has no dumps of a known format'}",
                f"formats: {', '.join(READERS)}; describe raw files in {raw.DESCRIPTIONS[0]}: docs/judge-an-engine.md",
            )
        dumps = READERS[name][1](path, network)
    except UNREADABLE as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise RequestError(f"cannot read {path}: {reason}", "write the dumps again, or leave this file out") from error
    if not dumps.tensors:
        raise RequestError(f"cannot read {path}: there are no tensors in it", "give the dumps of the engine")
    return dumps
