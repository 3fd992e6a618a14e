from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import ToolError
from harness.core.installation import ROOT
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_concat import QLinearConcat
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.window import Window
from harness.targets import KERNELS, find, threshold_check
from harness.targets.contraction import DEPTH_LIMIT
from harness.targets.generated import TaskView
from harness.targets.tiovx import Tiovx, constants, move, windows
from harness.targets.tiovx.constants import Constants
from harness.targets.tiovx.qgemm import packed as pack
from tests.support import builders, codes, images
from tests.support.programs.board_program import parse

LANES, QUAD = 16, 4
PROTOCOL = (KERNELS / "tiovx" / "protocol.h").read_text()


def qgemm(seed: int = 1, depth: int = 7, width: int = 19, **options: object) -> QGemm:
    net = parse(builders.random_network(np.random.default_rng(seed), (depth, width), **options))  # type: ignore[arg-type]
    return next(layer for layer in net.layers if isinstance(layer, QGemm))


def quantize_linear() -> QuantizeLinear:
    net = parse(builders.random_network(np.random.default_rng(1), (7, 3)))
    return next(layer for layer in net.layers if isinstance(layer, QuantizeLinear))


def constants_of(layer: Layer) -> Constants:
    found: Constants = find("tiovx:c7x").lowering_of(layer).constants(layer)
    return found


def accumulated(layer: QGemm, codes: Array) -> Array:
    """What kernels/tiovx/target/qgemm.c makes of the constants, in numpy: codes (n, K) -> (n, N)."""
    parts = constants_of(layer).parts
    flip = int(constants_of(layer).head.values[3])
    a = np.zeros((len(codes), -(-layer.input.size // QUAD) * QUAD), np.int64)
    a[:, : layer.input.size] = codes.view(np.uint8) ^ flip
    weights = parts["WEIGHTS"].values.astype(np.int64).reshape(-1, a.shape[1] // QUAD, LANES, QUAD)
    dot = np.einsum("vqi,gqli->vgl", a.reshape(len(a), -1, QUAD), weights).reshape(len(a), -1)[:, : layer.size]
    zero_points = parts["ZERO_POINTS"].values if "ZERO_POINTS" in parts else np.zeros(layer.size)
    found: Array = parts["OFFSET"].values.view(np.int32) + dot - zero_points * a.sum(axis=1)[:, None]
    return found.astype(np.int32)


@pytest.mark.parametrize(("weights", "activations"), [("int8", "uint8"), ("uint8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize(("depth", "width"), [(1, 1), (4, 16), (7, 19), (33, 5)])
def test_the_sums_of_the_packed_constants_are_the_layers(
    weights: str, activations: str, zero_points: bool, depth: int, width: int
) -> None:
    layer = qgemm(3, depth, width, weights=weights, activations=activations, zero_points=zero_points)
    limits = np.iinfo(layer.input.dtype)
    codes = np.random.default_rng(5).integers(limits.min, limits.max + 1, (50, depth)).astype(layer.input.dtype)
    codes[0], codes[1] = limits.min, limits.max
    assert np.array_equal(accumulated(layer, codes), layer.accumulate()(codes))


def test_the_order_of_packed_weights_is_that_of_the_instruction() -> None:
    weights = np.arange(9 * 20, dtype=np.int64).reshape(9, 20).astype(np.int8)
    packed = pack(weights)
    assert packed.shape == (2 * 3, 64)
    assert packed[0, 4 * 5 + 2] == weights[2, 5]
    assert packed[1, 4 * 5 + 2] == weights[4 + 2, 5]
    assert packed[3, 4 * 3 + 1] == weights[1, 16 + 3]
    assert not packed[2, [1, 2, 3]].any()  # behind the ninth input
    assert not packed[3, 4 * 4 :].any()  # behind the last output


def layers_of(*names: str) -> list[Layer]:
    """The layers of these ONNX operators, in networks of images and of codes."""
    nets = (images.every_operator("int8"), codes.every_operator("uint8", 5))
    return [layer for net in nets for layer in net.layers if layer.operator in names]


TABLED = layers_of("QLinearConv", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearAdd", "QLinearMul",
                   "QLinearConcat")  # fmt: skip


@pytest.mark.parametrize("layer", TABLED, ids=lambda layer: layer.name)
def test_every_table_is_compared_with_the_formula(layer: Layer) -> None:
    """The right one passes; one that is off by one is found, wherever it is reached."""
    parts = constants_of(layer).parts
    table = (parts.get("TABLE") or parts["CODES"]).values
    [tried] = threshold_check.all_layers([layer], {layer.name: table})
    assert tried.cases >= table.size
    for row in (0, len(table) - 1):
        wrong = table.copy()
        inside = np.flatnonzero(np.diff(table[row].astype(np.int64)) > 1)
        wrong[row, 3 if "CODES" in parts else inside[len(inside) // 2]] ^= 1
        with pytest.raises(ToolError, match=rf"layer {layer.name}: .* by (its thresholds|the table), .* the formula"):
            threshold_check.all_layers([layer], {layer.name: wrong})


def test_means_of_more_counts_or_fewer_are_found() -> None:
    [layer] = layers_of("QLinearAveragePool")[:1]
    table = constants_of(layer).parts["TABLE"].values
    with pytest.raises(ToolError, match="there are thresholds for 1 counts, not"):
        threshold_check.all_layers([layer], {layer.name: table[:1]})


@pytest.mark.parametrize("inputs", [1, 64, 300, 70_000])
def test_a_tile_has_as_many_rows_as_fit(inputs: int) -> None:
    window = Window((100, 60), (3, 3), (2, 1), (1, 2), (1, 0), (49, 56))
    part = windows.part("layer", window, outside=7, groups=2, inputs=inputs, outputs=3, exponent=-9)
    sizes = part.values.view(np.int32)
    assert sizes.tolist() == [100, 60, 3, 3, 2, 1, 1, 2, 1, 0, 49, 56, 2, inputs, 3, sizes[15], 7, -9]
    band = int(sizes[15])
    of_tile = [inputs * ((count - 1) * 2 + 3) * 60 for count in (band, band + 1)]
    assert of_tile[0] <= windows.TILE_BYTES or band == 1
    assert of_tile[1] > windows.TILE_BYTES or band == 49


@pytest.mark.parametrize(
    ("layers", "expected"), [(64, None), (65, "needs 65 instances of target kernels, TIOVX has 64")]
)
def test_more_layers_than_tiovx_has_objects_for_are_refused(layers: int, expected: str | None) -> None:
    task = TaskView(quantize_linear(), ("x",), is_output=True)
    assert Tiovx("c7x").resource_shortage([[task]] * layers, None) == expected  # type: ignore[arg-type]


def test_a_concat_of_more_inputs_than_a_kernel_has_parameters_is_refused() -> None:
    [layer] = layers_of("QLinearConcat")[:1]
    assert isinstance(layer, QLinearConcat)
    wide = dataclasses.replace(layer, inputs=layer.inputs * 2, x=layer.x * 2)
    assert "6 inputs, but its kernels have parameters for 4 at most" in (find("tiovx:c7x").unsupported(wide) or "")


def test_a_layer_with_codes_has_thresholds_one_with_floats_multipliers() -> None:
    with_codes, with_floats = qgemm().dtype, qgemm(float_output=True)
    assert with_codes == np.uint8
    assert set(constants_of(qgemm()).parts) == {"OFFSET", "TABLE", "WEIGHTS"}
    assert set(constants_of(with_floats).parts) == {"OFFSET", "MULTIPLIER", "WEIGHTS"}
    assert set(constants_of(quantize_linear()).parts) == {"TABLE"}


def test_the_head_has_the_fields_of_the_protocol_in_its_order() -> None:
    assert f"SOURCES = {move.SOURCES}," in PROTOCOL
    [fields] = re.findall(r"struct head {\n(.*?)};", PROTOCOL, re.DOTALL)
    names = re.findall(r"(\w+)(?:\[PARTS\])?[,;]", re.sub(r"/\*.*?\*/", "", fields))
    assert names == ["version", "depth", "width", "flip", "low", "bytes"]
    [parts] = re.findall(r"enum part {\n(.*?)PARTS\n", PROTOCOL, re.DOTALL)
    assert tuple(re.findall(r"^ +(\w+),", parts, re.MULTILINE)) == constants.PARTS
    assert f"KERNELS_VERSION = {constants.KERNELS_VERSION} " in PROTOCOL
    layer = qgemm(activations="int8")
    assert constants_of(layer).head.values.tolist()[:5] == [constants.KERNELS_VERSION, 7, 19, 128, 128]
    sizes = [constants_of(layer).parts[part].values.nbytes for part in ("OFFSET", "TABLE", "WEIGHTS")]
    assert constants_of(layer).head.values.tolist()[5:] == [sizes[0], 0, sizes[1], 0, sizes[2], 0, 0, 0, 0, 0]


@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_all_accumulators_are_tried(activations: str, power_of_two: bool) -> None:
    layer = qgemm(2, activations=activations, zero_points=True, power_of_two=power_of_two, per_column=True)
    low, high = layer.accumulator_bounds()
    [tried] = threshold_check.all_layers([layer], {layer.name: layer.thresholds()})
    assert tried == threshold_check.ThresholdCheck(layer.name, int((high - low + 1).sum()))


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize(("column", "which"), [(0, 0), (18, 254), (7, 100)])
def test_a_threshold_that_is_off_by_one_is_found(step: int, column: int, which: int) -> None:
    layer = qgemm(2, power_of_two=True)
    wrong = layer.thresholds().copy()
    inside = np.flatnonzero(
        (wrong[column] > layer.accumulator_bounds()[0][column]) & (np.diff(wrong[column], append=0) > 1)
    )
    at = inside[min(which, len(inside) - 1)]
    wrong[column, at] += step
    lower = min(wrong[column, at], wrong[column, at] - step)
    with pytest.raises(
        ToolError, match=rf"column {column}: accumulator {lower} becomes \d+ by its thresholds, \d+ by the"
    ):
        threshold_check.all_layers([layer], {layer.name: wrong})


@pytest.mark.parametrize("which", [0, 100, 254])
@pytest.mark.parametrize("step", [-1, 1])
def test_a_threshold_of_inputs_that_is_off_by_one_is_found(which: int, step: int) -> None:
    layer = quantize_linear()
    right = layer.thresholds()[None]
    assert threshold_check.all_layers([layer], {layer.name: right})[0].cases > 2 * 255
    wrong = right.copy()
    wrong[0, which] += step
    with pytest.raises(ToolError, match=r"becomes \d+ by its thresholds, \d+ by the formula"):
        threshold_check.all_layers([layer], {layer.name: wrong})


@pytest.mark.parametrize("target", ["tiovx:c7x", "tiovx:mpu"])
def test_what_has_no_kernel_or_no_room_is_refused(target: str) -> None:
    of = find(target)
    deep = np.zeros((DEPTH_LIMIT + 1, 19), np.int8)
    net = parse(builders.random_network(np.random.default_rng(1), (5, 4), residual=2, argmax=True))
    refused = {layer.operator: of.unsupported(layer) for layer in net.layers}
    assert "no kernel here uses" in (refused["Add"] or "")
    assert (refused["QuantizeLinear"], of.unsupported(qgemm())) == (None, None)
    assert f"at most {DEPTH_LIMIT}" in (of.unsupported(dataclasses.replace(qgemm(), weights=deep)) or "")
    huge = dataclasses.replace(qgemm().input, shape=(1 << 32,))
    too_large = of.unsupported(dataclasses.replace(qgemm(), inputs=(huge,))) or ""
    assert "has 4,294,967,296 bytes, but an object of TIOVX has 4,294,967,295 at most" in too_large
    layer = qgemm()
    high = layer.accumulator_bounds()[1]
    full = dataclasses.replace(layer, bias=(layer.bias + (np.iinfo(np.int32).max - high)).astype(np.int32))
    assert "2^31 - 1" in (of.unsupported(full) or "")


def test_the_page_has_the_checklist_that_a_run_prints() -> None:
    page = Path(ROOT / "docs" / "reference" / "dsp.md").read_text()
    assert re.findall(r"^- \[ \] (.*)$", page, re.MULTILINE) == list(Tiovx.hardware_checklist)
