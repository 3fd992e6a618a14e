"""Dumps of AMD's Vitis AI quantisers: a folder dump_results with a raw file for each node.

    dump_results/dump_results_1/resnet_v1_50_conv1_aquant_int8.bin    vai_q_tensorflow: a folder for each batch
    dump_results/dump_results_0/quant_conv1.bin, softmax_float.bin    vai_q_tensorflow2

Codes are int8 with a scale that is a power of two, which the files do not state: they are the codes of the model.
Images have the channels last.  Written from UG1414.  Not tried on files of the real tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.applications.judge.dumps import Dumps, Part, RawFile, joined
from harness.model.network import Network

BATCH = re.compile(r"dump_results_(\d+)")
WEIGHTS = re.compile(r"_[wb]quant(_int8)?\.bin$|(kernel|bias|weights?|gamma|beta)(_0)?(_int8)?\.bin$")


def fits(path: Path) -> bool:
    """Return whether a folder has folders of batches, or is one."""
    return path.is_dir() and any(_files(path))


def _files(path: Path) -> Iterator[Path]:
    inside = [folder for folder in path.iterdir() if folder.is_dir() and BATCH.fullmatch(folder.name)]
    batches = sorted(inside, key=lambda folder: int(folder.name.rpartition("_")[2]))
    for folder in batches or ([path] if path.name.startswith("dump_results") else []):
        yield from sorted(file for file in folder.iterdir() if file.suffix == ".bin")


def read(path: Path, _network: Network) -> Dumps:
    """Return all activations; weights are left out."""
    named: list[tuple[str, Part]] = []
    weights = 0
    for file in _files(path):
        if WEIGHTS.search(file.name):
            weights += 1
            continue
        dtype = np.dtype("<f4" if file.stem.endswith("_float") else "i1")
        size = file.stat().st_size
        if size % dtype.itemsize:
            raise ValueError(f"{file.name} has {size} bytes, which are no whole number of {dtype}")
        named.append((_name(file.stem), RawFile(file, dtype, (size // dtype.itemsize,))))
    notes = (f"{weights} files of weights were left out",) if weights else ()
    return Dumps("vitis", joined(named, "nhwc"), notes, tried=False)


def _name(stem: str) -> str:
    """Return the name of a node: without the suffixes of the quantiser."""
    plain = re.sub(r"(_int8|_float)$", "", stem)
    return re.sub(r"(_aquant)$", "", plain).removeprefix("quant_")
