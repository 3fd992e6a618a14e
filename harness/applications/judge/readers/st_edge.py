"""Validation data of ST Edge AI (X-CUBE-AI): network_val_io.npz of `stedgeai validate`.

    c_outputs_1, c_outputs_2, ...     outputs of the C model or of the target, in the order of the model
    m_inputs_1, c_inputs_1, ...       inputs; m_outputs_1, ...: outputs of the original model, which are left out

Images have the channels last.  Written from public logs of the tool.  Not tried on files of the real tool.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from harness.applications.judge.activations import output_names
from harness.applications.judge.dumps import Dumps, Part, joined
from harness.applications.judge.readers.numpy_files import members
from harness.model.network import Network

KEY = re.compile(r"([mc])_(inputs|outputs)_(\d+)")


def fits(path: Path) -> bool:
    """Return whether the path is a .npz file with outputs of a C model."""
    if not (path.is_file() and zipfile.is_zipfile(path)):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(re.fullmatch(r"c_outputs_\d+\.npy", name) for name in archive.namelist())


def read(path: Path, network: Network) -> Dumps:
    """Return inputs and outputs by the names of the model."""
    names = {"inputs": [tensor.name for tensor in network.inputs], "outputs": output_names(network)}
    parts: dict[str, Part] = {}
    left_out = 0
    for key, part in members(path):
        match = KEY.fullmatch(key)
        if match is None or (match[1], match[2]) == ("m", "outputs"):
            left_out += 1
            continue
        kind, number = match[2], int(match[3])
        if not 1 <= number <= len(names[kind]):
            raise ValueError(f"{path.name} has {key}, and {network.name} has {len(names[kind])} {kind}")
        name = names[kind][number - 1]
        if match[1] == "c" or name not in parts:
            parts[name] = part
    notes = (f"{left_out} arrays of the original model were left out",) if left_out else ()
    return Dumps("st-edge-ai", joined([*parts.items()], "nhwc"), notes, tried=False)
