"""JSON of NVIDIA's Polygraphy: `polygraphy run --save-outputs FILE` (RunResults), with the inputs in a second file.

    {"lst": [[runner, [{"outputs": {tensor: {"values": {"array": base64 of a .npy file}}}}, ...]]]}

Each iteration has the values of one batch.  Files of Polygraphy 0.53.6 with its ONNX Runtime runner were read.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from harness.applications.judge.dumps import Dumps, InMemory, Part, joined
from harness.core.safe_io import open_input, parse_json
from harness.model.network import Network

LARGEST = 2 << 30
"""Bytes of a file, which is read as a whole."""


def fits(path: Path) -> bool:
    """Return whether the path is a JSON file that is no description of raw files."""
    return path.is_file() and path.suffix == ".json"


def read(path: Path, _network: Network) -> Dumps:
    """Return the tensors of the only runner; ValueError if there are several."""
    document, runner = _document(path), ""
    if isinstance(document, Mapping) and isinstance(document.get("lst"), list):
        runners = document["lst"]
        if len(runners) != 1:
            names = ", ".join(str(name) for name, _ in runners)
            raise ValueError(f"{path.name} has the results of {len(runners)} runners ({names}): save those of one")
        runner, iterations = runners[0]
        batches = [iteration["outputs"] for iteration in iterations]
    elif isinstance(document, list):
        batches = document
    else:
        raise ValueError(f"{path.name} is no RunResults of Polygraphy")  # noqa: TRY004 - about the file
    named = [named for number, batch in enumerate(batches) for named in _tensors(batch, f"{path}, iteration {number}")]
    return Dumps("polygraphy", joined(named), (f"results of runner {runner}",) if runner else ())


def _document(path: Path) -> Any:
    with open_input(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path.name} has more than {LARGEST >> 30} GiB: write .npz files instead")
    return parse_json(content)


def _tensors(batch: Mapping[str, Any], place: str) -> Iterator[tuple[str, Part]]:
    for name, entry in batch.items():
        array = entry.get("values", entry)["array"]
        if not isinstance(array, str):
            raise ValueError(f"{place}: tensor {name!r} is no array")  # noqa: TRY004 - about the file
        content = BytesIO(base64.b64decode(array, validate=True))
        values = np.lib.format.read_array(content, allow_pickle=False)
        if content.read(1):
            raise ValueError(f"{place}: tensor {name!r} has bytes behind its array")
        yield name, InMemory(values, f"{place}, {name!r}")
