"""Layers and the cases that they make."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.analysis.diagnosis import Case, Diagnosis, diagnose
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from tests.support import builders
from tests.support.programs.board_program import parse


def network(widths: tuple[int, ...] = (7, 6), seed: int = 4, **options: Any) -> Network:
    return parse(builders.random_network(np.random.default_rng(seed), widths, **options))


def qgemm(net: Network) -> QGemm:
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    return layer


def quantize(net: Network) -> QuantizeLinear:
    layer = net.layers[0]
    assert isinstance(layer, QuantizeLinear)
    return layer


def codes(layer: Layer, count: int = 800, seed: int = 5) -> Array:
    """Random inputs of a layer that reads codes."""
    info = np.iinfo(layer.input.dtype)
    shape = (count, layer.input.size)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(layer.input.dtype)


def case(
    layer: Layer,
    inputs: Array | tuple[Array, ...],
    actual: Array,
    *,
    start: int = 0,
    block: int = 1,
    starts: tuple[int, ...] = (0,),
) -> Case:
    """What the layer wrote for its sources, against what it should have."""
    sources = inputs if isinstance(inputs, tuple) else (inputs,)
    return Case(3, layer, sources, layer.prepare()(*sources), actual, start, block, starts)


def found(layer: Layer, inputs: Array | tuple[Array, ...], actual: Array, *, block: int = 1) -> Diagnosis:
    """The diagnosis of a layer that differs."""
    diagnosis = diagnose(case(layer, inputs, actual, block=block))
    assert diagnosis.layer == 3
    assert diagnosis.differing > 0
    return diagnosis


def causes(diagnosis: Diagnosis) -> list[str]:
    """What explains the whole difference."""
    return [hypothesis.cause for hypothesis in diagnosis.complete]
