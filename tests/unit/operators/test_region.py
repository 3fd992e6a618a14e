"""Channels and rows of a layer are layers: together they compute it, each from the values that it needs alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.region import WAYS, Division, Region, Way
from harness.operators.tensor import FLOAT32
from harness.operators.window import Window
from tests.support import codes, float_images, images
from tests.support.codes import layer_of, node, random_codes
from tests.support.images import random_windows

NETWORKS = {
    "uint8": images.every_operator("uint8"),
    "int8": images.every_operator("int8"),
    "float32": float_images.every_operator(),
    "columns": codes.every_operator("uint8", 7),
}
LAYERS = [
    pytest.param(layer, way, id=f"{kind}-{layer.name}-{way}")
    for kind, network in NETWORKS.items()
    for layer in network.layers
    for way in WAYS
    if layer.division.pieces(way)
]
OPERATORS = {
    "QLinearConv", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "QLinearAveragePool", "QLinearGlobalAveragePool",
    "GlobalMaxPool", "GlobalAveragePool", "QuantizeLinear", "Clip", "Add", "Div", "QLinearAdd", "QLinearMul", "Gemm",
    "MatMul", "Mul", "Sub", "QLinearMatMul", "QLinearLeakyRelu", "QLinearSigmoid", "LpPool", "GlobalLpPool",
}  # fmt: skip


def inputs_of(layer: Layer, count: int = 5) -> list[Array]:
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=(count, tensor.size)).astype(np.float32)
        if tensor.dtype == FLOAT32
        else random_codes(rng, tensor.dtype, count, tensor.size)
        for tensor in layer.inputs
    ]


def regions(layer: Layer, way: Way, count: int) -> list[Region]:
    pieces = layer.division.pieces(way)
    assert pieces is not None
    assert pieces.size == layer.size
    edges = [pieces.count * part // count for part in range(count + 1)]
    return [pieces.region(*edges[part : part + 2]) for part in range(count)]


def wrong(layer: Layer, way: Way, count: int, part_of: Any = Division.slice) -> list[Region]:
    """The regions that do not compute their values of the layer."""
    inputs = inputs_of(layer)
    whole, found = layer.prepare()(*inputs), []
    for region in regions(layer, way, count):
        assert layer.division.divisible(region)
        needs = layer.division.needs(region)
        taken = [x[:, need.indices(x.shape[1])] for x, need in zip(inputs, needs, strict=True)]
        part = part_of(layer.division, region, "part")
        assert [tensor.size for tensor in part.inputs] == [need.size for need in needs]
        if part.prepare()(*taken).tobytes() != whole[:, region.indices(layer.size)].tobytes():
            found.append(region)
    return found


def test_all_operators_that_can_be_divided_are_tried() -> None:
    assert {param.values[0].operator for param in LAYERS} == OPERATORS  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "way"), LAYERS)
def test_the_parts_of_a_layer_are_the_layer(layer: Layer, way: Way) -> None:
    most = regions(layer, way, 1) and layer.division.pieces(way).count  # type: ignore[union-attr]
    for count in sorted({1, min(2, most), min(3, most), most}):
        assert wrong(layer, way, count) == [], count


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(40, 400))]
)
def test_windows_at_random(seed: int) -> None:
    """Odd sizes, strides, dilations and padding, also more than an image: windows in the padding alone."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(10, 16, int(rng.integers(1, 3))).tolist())  # every kernel fits
    attributes = random_windows(rng, len(shape), dilated=True)
    if rng.random() < 0.3:
        attributes["pads"] = rng.integers(0, 16, 2 * len(shape)).tolist()
        attributes.pop("auto_pad", None)
    if "auto_pad" in attributes:
        attributes.pop("dilations", None)
    groups = int(rng.choice([1, 2, 4]))
    weights = rng.normal(size=(8, 4 // groups, *attributes.pop("kernel_shape"))).astype(np.float32)
    x = np.zeros((1, 4, *shape), np.float32)
    proto = node("Conv", "x", "w", group=groups, **attributes)
    layer = layer_of(proto, {"w": weights}, {"x": x})
    assert layer is not None
    for way in WAYS:
        most = layer.division.pieces(way).count  # type: ignore[union-attr]
        for count in {min(2, most), min(3, most), most}:
            assert wrong(layer, way, count) == [], (way, count)


WRONG_WINDOWS = {
    "the halo is one row short": lambda window, low, high: (moved(window, rows=-1), low, high - 1),
    "the halo begins one row late": lambda window, low, high: (moved(window, rows=-1, before=1), low + 1, high),
    "the rows are those one further": lambda window, low, high: (window, low + 1, high + 1),
    "the inner border is padded": lambda window, low, high: (moved(window, before=1), low, high),
}


def moved(window: Window, rows: int = 0, before: int = 0) -> Window:
    shape, begin = window.shape[0] + rows, window.before[0] + before
    return replace(window, shape=(shape, window.shape[1]), before=(begin, window.before[1]))


@pytest.mark.parametrize("mistake", WRONG_WINDOWS)
@pytest.mark.parametrize("name", ["windows", "unbounded", "groups", "dilated"])
def test_wrong_rows_of_inner_parts_are_found(name: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = next(layer for layer in NETWORKS["float32"].layers if layer.name == name)
    right = Window.part

    def part(window: Window, axis: int, first: int, last: int) -> tuple[Window, int, int]:
        found = right(window, axis, first, last)
        return WRONG_WINDOWS[mistake](*found) if first > 0 and last < window.output[axis] else found

    monkeypatch.setattr(Window, "part", part)
    assert wrong(layer, "rows", 3)


def test_exchanged_parts_are_found() -> None:
    for name in ("windows", "groups", "unbounded"):
        layer = next(layer for layer in NETWORKS["float32"].layers if layer.name == name)
        exchanged = dict(zip(regions(layer, "channels", 3), reversed(regions(layer, "channels", 3)), strict=True))
        assert wrong(layer, "channels", 3, lambda of, region, name, to=exchanged: of.slice(to[region], name))
