"""Parameters as NNEF tensor files, with their exact types: int8, uint8, int32 or float32."""

from __future__ import annotations

from pathlib import Path

import nnef
import numpy as np

from harness.core.arrays import Array
from harness.core.errors import RequestError


def write(path: Path, table: Array) -> None:
    """Write a table to a `.dat` file : NNEF 1.0, little endian, in C order."""
    with path.open("wb") as file:
        nnef.write_tensor(file, np.ascontiguousarray(table))


def read(path: Path) -> Array:
    """The table of a `.dat` file; RequestError if there is none, or if it is cut or otherwise no tensor."""
    try:
        with path.open("rb") as file:
            table: Array = nnef.read_tensor(file)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}", "a parameter of the description") from error
    except (ValueError, OverflowError, MemoryError) as error:  # of a head that tells of more than there is
        raise RequestError(f"{path}: no complete NNEF tensor file: {error}", "write the description anew") from error
    return table
