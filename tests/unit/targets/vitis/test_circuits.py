"""Circuits of layers on images: their cycles, memories and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from harness.operators.base import Layer
from harness.targets import TaskView, find
from harness.targets.vitis import circuit, contraction, kernel
from harness.targets.vitis.resources import Resources
from tests.support.codes import node
from tests.support.images import image_network

CONSTANTS = {
    "s": np.float32(0.1), "t": np.float32(0.07), "z": np.array(100, np.uint8), "five": np.array(5, np.uint8),
    "row": (np.arange(72) % 3).astype(np.uint8),
}  # fmt: skip
X, Y = ("s", "z"), ("t", "z")


def layer(channels: int, *given: str, **attributes: object) -> Layer:
    """The layer of a node whose input, or inputs, are codes q of images of 4 x 6 values."""
    constants = {name: values.reshape(-1, 4, 6) if name == "row" else values for name, values in CONSTANTS.items()}
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", *X, output="q"),
        node(*given, output="y", **attributes),
    ]
    constants["image"] = np.array([-1, channels, 4, 6], np.int64)
    return image_network(nodes, constants, "uint8", channels * 24).layers[-1]


@pytest.mark.parametrize(("channels", "interval"), [(1, 8), (3, 3), (8, 1), (9, 1)])
def test_the_values_of_a_mean_wait_for_the_rounding_of_their_channel(channels: int, interval: int) -> None:
    """A cycle for each code that enters, then an interval for each of the four values of six windows."""
    mean = layer(channels, "QLinearAveragePool", "q", *X, *Y, kernel_shape=[2, 2], strides=[2, 2])
    found = circuit.of(mean)
    assert found.geometry(0, 0).compute == channels * (24 + 6 * 4 * interval)
    assert f"INTERVAL = {interval} " in kernel.of_launch([TaskView(mean, ("q",), is_output=True)]).text
    largest = layer(channels, "MaxPool", "q", kernel_shape=[2, 2], strides=[2, 2])
    assert circuit.of(largest).geometry(0, 0).compute == channels * (24 + 6 * 4)


def test_the_memories_of_a_mean() -> None:
    """Codes on their way, totals of 36 bits and 9 rows of a bit in LUTs, lines, 256 terms of 33 bits, thresholds."""
    mean = layer(2, "QLinearAveragePool", "q", *X, *Y, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 0, 1, 0])
    found = circuit.of(mean)
    levels = contraction.area(mean, type(mean).thresholds)
    assert found.tables[1].values.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert found.resources == Resources(8 + 18 + 1, 0, 0.5 + 0.5) + levels


@pytest.mark.parametrize(
    ("given", "tables", "bram36"),
    [
        (("QLinearAdd", "q", *X, "q", *Y, *X), [(256, 256)], 14.5),
        (("QLinearAdd", "q", *X, "five", *Y, *X), [(256, 1), (72,)], 0.5),
        (("QLinearMul", "row", *X, "q", *Y, *X), [(256, 3), (72,)], 1.0),
        (("QLinearConcat", *X, "q", *Y, "q", *X, "q", *Y), [(3, 256)], 0.5),
        (("Concat", "q", "q"), [], 0),
    ],
)
def test_the_tables_of_codes(given: tuple[str, ...], tables: list[tuple[int, ...]], bram36: float) -> None:
    """A constant needs a column for each of its values, and their places if it has several."""
    attributes = {"axis": 1} if "Concat" in given[0] else {}
    found = circuit.of(layer(3, *given, **attributes))
    assert [each.values.shape for each in found.tables] == tables
    assert found.resources.bram36 - 0.5 * len(found.layer.inputs) == bram36
    assert found.geometry(0, 0).compute == found.layer.size


@pytest.mark.parametrize("name", ["vitis", "tiovx:c7x"])
def test_a_concat_of_another_axis_is_refused(name: str) -> None:
    joined = {axis: layer(2, "Concat", "q", "q", axis=axis) for axis in (1, 2)}
    assert find(name).unsupported(joined[1]) is None
    assert "axis" in (find(name).unsupported(joined[2]) or "")
