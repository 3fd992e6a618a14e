"""The public ACAS Xu networks, where they are at hand: which way of quantising is nearer to the float network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import model as networks
from harness.core.installation import ROOT
from harness.model.float_network import Dense, DenseNetwork, forward
from harness.model.quantizer import FRESH, Agreement, Choices, Select, agreement, drawn, quantize, to_onnx
from harness.reference import OnnxRuntimeReference

FILE = ROOT.parent / "shared" / "data" / "acasxu" / "ACASXU_run2a_1_1_batch_2000.nnet"
WAYS = {
    "int8": Choices("int8", vectors=5000),
    "uint8": Choices("uint8", vectors=5000),
    "int8-per-column": Choices(vectors=5000),
    "residual, uint8 scores": Choices(vectors=5000, residual=2, scores="uint8"),
    "residual": Choices(vectors=5000, residual=2),
}


def read(path: Path) -> DenseNetwork:
    """The network of a .nnet file, with its box in normalised units."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("//")]
    rows = [np.array([float(field) for field in line.strip().strip(",").split(",")]) for line in lines]
    widths = rows[1].astype(int)
    low, high, mean, span = rows[3], rows[4], rows[5][:-1], rows[6][:-1]
    layers, start = [], 7
    for depth, width in enumerate(widths[1:]):
        weight = np.array(rows[start : start + width]).T.astype(np.float32)
        bias = np.concatenate(rows[start + width : start + 2 * width]).astype(np.float32)
        layers.append(Dense(weight, bias, relu=depth < len(widths) - 2))
        start += 2 * width
    return DenseNetwork(path.stem, tuple(layers), box=((np.array([low, high]) - mean) / span).astype(np.float32))


@pytest.fixture(scope="module")
def near() -> dict[str, Agreement]:
    """For every way, how near the quantised network is to the float one."""
    if not FILE.exists():
        pytest.skip(f"the public networks are not here: {FILE.name}")
    floats = read(FILE)
    assert floats.box is not None
    vectors = np.concatenate(list(drawn(floats.box, 5000, 3, FRESH)))
    expected = forward(floats.layers, vectors)
    found = {}
    for way, choices in WAYS.items():
        model = to_onnx(quantize(floats, choices), "public", {}, select=Select("ArgMin"))
        network = networks.parse(model.SerializeToString(), "public")
        *_, scores, selected = OnnxRuntimeReference(network, x64_quant_precision=True).activations(vectors)
        found[way] = agreement(expected, scores, (expected.argmin(axis=1), selected[:, 0]))
    return found


def test_by_column_is_nearer_than_by_tensor_and_the_expansion_nearer_still(near: dict[str, Agreement]) -> None:
    r2 = {way: found.r2 or 0.0 for way, found in near.items()}
    assert r2["int8"] < r2["uint8"] < r2["int8-per-column"] < r2["residual, uint8 scores"] < r2["residual"]
    assert r2["int8-per-column"] > 0.97
    assert r2["residual"] > 0.985


def test_the_selection_gains_by_the_expansion_and_by_float_scores(near: dict[str, Agreement]) -> None:
    selected = {way: found.selected or 0.0 for way, found in near.items()}
    assert selected["int8"] < selected["int8-per-column"] < selected["residual"]
    assert selected["residual, uint8 scores"] < selected["residual"]
    assert selected["int8-per-column"] > 0.93
    assert selected["residual"] > 0.97
