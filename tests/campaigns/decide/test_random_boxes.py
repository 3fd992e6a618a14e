"""Random boxes of the full partition: the engine against ONNX Runtime, which computes every code vector of each."""

from __future__ import annotations

import os

import numpy as np
import onnxruntime
import pytest

from harness import model
from harness.applications.decide import code_network
from harness.applications.decide.engine import Engine
from harness.applications.decide.partition import partition
from harness.applications.decide.property import read
from harness.core.installation import ROOT

NETWORKS = ("acas_coc", "acas_wl", "acas_wr", "acas_sl", "acas_sr")
BOXES = int(os.environ.get("HARNESS_RANDOM_BOXES", "2000"))
"""Boxes of each network, about 0.2 million code vectors each; ONNX Runtime computes 2 to 3 million a second."""
AT_ONCE = 1 << 18


@pytest.mark.campaign
@pytest.mark.timeout(8 * 3600)
@pytest.mark.parametrize("name", NETWORKS)
def test_random_boxes_have_the_decisions_of_onnx_runtime(name: str) -> None:
    path = ROOT / "models" / f"{name}.onnx"
    network = model.load(path)
    codes = code_network.of(network)
    stated = read(path.with_suffix(".property.yaml"), codes)
    boxes = partition(stated.axes, codes, network.normalisation)
    assert boxes.boxes == 7_356_800
    engine, random = Engine(codes, stated.rule), np.random.default_rng(1)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(path, options)
    advisory = session.get_outputs()[-1].name
    segments = [np.zeros(256, np.uint16)] * len(boxes.axes)
    vectors = several = 0
    for number in random.choice(boxes.boxes, BOXES, replace=False):
        box = tuple(int(index) for index in np.unravel_index(number, boxes.shape))
        decided = expected = 0
        for low, high in boxes.code_boxes(box):
            decided |= int(engine.decide([*low], [*(high - low + 1)], segments, (1,) * len(low))[0].item())
            grid = np.stack(
                np.meshgrid(*[np.arange(a, b + 1) for a, b in zip(low, high, strict=True)], indexing="ij"), -1
            )
            grid = grid.reshape(-1, len(low))
            for start in range(0, len(grid), AT_ONCE):
                state = ((grid[start : start + AT_ONCE] - 120) / 240).astype(np.float32)
                found = session.run([advisory], {network.vector.name: state})[0]
                expected |= int(np.bitwise_or.reduce(1 << found.reshape(-1)))
            vectors += len(grid)
        assert decided == expected, f"box {box}: {decided:05b}, ONNX Runtime {expected:05b}"
        several += decided & (decided - 1) != 0
    print(f"{name}: {BOXES} boxes, {vectors:,} code vectors, {several} boxes with several decisions")  # noqa: T201
    assert 0 < several < BOXES
