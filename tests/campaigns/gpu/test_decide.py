"""The engine of `harness decide` on a real GPU."""

from __future__ import annotations

import numpy as np
import pytest

from harness import model
from harness.applications.decide import code_network
from harness.applications.decide.engine import Engine
from harness.applications.decide.gpu import GpuEngine
from harness.applications.decide.property import Rule
from harness.core.installation import ROOT
from tests.campaigns.gpu.device import Device

VARIED_BOXES = 10
"""Boxes whose parts have more than one decision; most boxes of the domain are safe as a whole."""
MOST_BOXES = 400
SLAB = (1, 217, 217, 217, 217)
"""Codes of a slab of the ACAS-Xu domain."""


@pytest.mark.timeout(400)
def test_boxes_of_acas_have_the_decisions_of_a_core(gpu: Device) -> None:
    if gpu.simulated:
        pytest.skip("the driver of this process is not the simulation")
    codes = code_network.of(model.load(ROOT / "models" / "acas_coc.onnx"))
    random, varied, boxes = np.random.default_rng(0), 0, 0
    engines = [Engine(codes, Rule()), GpuEngine(codes, Rule())]
    while varied < VARIED_BOXES and boxes < MOST_BOXES:
        extent = random.integers(1, 25, 5)
        low = [int(random.integers(0, 257 - each)) for each in extent]
        segments = [(np.arange(256) // random.integers(1, 9)).astype(np.uint16)] * 5
        shape = tuple(int(segment[-1]) + 1 if axis < 2 else 1 for axis, segment in enumerate(segments))
        given = (low, [*map(int, extent)], [*segments[:2], *[np.zeros(256, np.uint16)] * 3], shape)
        (expected, count), (found, counted) = (engine.decide(*given) for engine in engines)
        np.testing.assert_array_equal(found, expected)
        assert counted == count
        varied += len(np.unique(expected)) > 2
        boxes += 1
    assert varied == VARIED_BOXES


@pytest.mark.timeout(400)
def test_every_code_vector_of_a_slab_is_counted(gpu: Device) -> None:
    """The duration of this test is that of a slab of the domain."""
    if gpu.simulated:
        pytest.skip("the driver of this process is not the simulation")
    engine = GpuEngine(code_network.of(model.load(ROOT / "models" / "acas_coc.onnx")), Rule())
    segments = [np.zeros(256, np.uint16)] * 5
    _, count = engine.decide((120, 20, 20, 20, 20), SLAB, segments, (1,) * 5)
    assert count == np.prod(SLAB, dtype=np.int64)
