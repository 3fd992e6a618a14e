"""Layer traces of TI's TIDL: a folder with tidl_trace*.bin of debug_level 4 and *.layer_info.txt of the artifacts.

    tidl_trace_subgraph_0_0072_00001_00256_00010x00014_float.bin    float32: data 72, batch, channels, width x height
    264_tidl_net.bin.layer_info.txt                                 lines of: layer, data, name in the model

Written from the debugging guide of edgeai-tidl-tools.  Not tried on files of the real tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.applications.judge.dumps import Dumps, Part, RawFile, joined
from harness.applications.judge.readers.numpy_files import folders
from harness.core.safe_io import read_input_text
from harness.model.network import Network

TRACE = re.compile(r"tidl_trace(?:_subgraph_(\d+)_)?_?(\d{4})_(\d{5})_(\d{5})_(\d{5})x(\d{5})(_float\.bin|\.y)")
INFO = "*layer_info.txt"


def fits(path: Path) -> bool:
    """Return whether a folder has traces."""
    return path.is_dir() and any(_traces(path))


def _traces(path: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    for folder in folders(path):
        for file in sorted(folder.iterdir()):
            if match := TRACE.fullmatch(file.name):
                yield file, match


def read(path: Path, _network: Network) -> Dumps:
    """Return the float traces by the names of layer_info.txt; fixed-point traces (.y) state no scale."""
    names = _names(path)
    if not names:
        raise ValueError("there is no *layer_info.txt: copy it from the artifacts of the compilation to this folder")
    named: list[tuple[str, Part]] = []
    fixed = unnamed = 0
    for file, match in _traces(path):
        subgraph, data, batch, channels, width, height, kind = match.groups()
        key = (int(subgraph or 0), int(data))
        if kind == ".y":
            fixed += 1
        elif key not in names:
            unnamed += 1
        else:
            shape = (int(batch), int(channels), int(height), int(width))
            named.append((names[key], RawFile(file, np.dtype("<f4"), shape)))
    notes = [f"{fixed} fixed-point traces (.y) were left out: they state no scale"] if fixed else []
    notes += [f"{unnamed} traces have no name in layer_info.txt"] if unnamed else []
    return Dumps("tidl", joined(named, "nchw"), tuple(notes), tried=False)


def _names(path: Path) -> dict[tuple[int, int], str]:
    """Return the names of tensors by subgraph and data; a file of one subgraph has its number in its name."""
    names: dict[tuple[int, int], str] = {}
    for file in sorted(path.glob(INFO)):
        subgraph = re.search(r"subgraph_(\d+)", file.name)
        for line in read_input_text(file).splitlines():
            words = line.split()
            if len(words) >= 3 and words[1].isdecimal():
                names[int(subgraph[1]) if subgraph else 0, int(words[1])] = words[-1]
    return names
