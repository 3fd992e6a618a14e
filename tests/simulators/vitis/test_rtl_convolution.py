"""The RTL of a convolution: values and cycles of Verilator's simulation, what yosys makes of it, and its mutants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rtl_core
from harness import model
from harness.core.arrays import Array
from harness.core.installation import ROOT
from harness.operators.qlinear_conv import QLinearConv
from tests.simulators.vitis.rtl_simulation import Simulated, build_convolution
from tests.simulators.vitis.test_image_layers import codes_of, streamed
from tests.support.codes import layer_of, node

VECTORS = 12


def odd() -> QLinearConv:
    """Strides, dilations, padding of each side, a row that no window reads; int8 and zero points."""
    rng = np.random.default_rng(4)
    proto = node("QLinearConv", "x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b",
                 kernel_shape=[2, 3], strides=[3, 2], dilations=[2, 1], pads=[1, 2, 0, 1])  # fmt: skip
    constants = {
        "sx": np.float32(0.5), "zx": np.int8(-7), "w": rng.integers(-128, 128, (5, 3, 2, 3)).astype(np.int8),
        "sw": np.float32([0.01, 0.02, 0.015, 0.012, 0.01]), "zw": np.int8(0), "sy": np.float32(2.1), "zy": np.int8(5),
        "b": rng.integers(-3000, 3000, 5).astype(np.int32),
    }  # fmt: skip
    layer = layer_of(proto, constants, {"x": np.zeros((1, 3, 9, 7), np.int8)})
    assert isinstance(layer, QLinearConv)
    return layer


def lenet() -> QLinearConv:
    net = model.load(ROOT / "models" / "lenet5_int8.onnx")
    return next(layer for layer in net.layers if isinstance(layer, QLinearConv) and layer.input.shape[0] > 1)


LAYERS = {"odd": odd, "conv_2 of LeNet-5": lenet}


def values_of(simulation: Simulated, folder: Path, layer: QLinearConv, codes: Array, rate: str) -> Array:
    """What the core makes, as bytes, (vectors, size), channel-last."""
    stream = streamed(codes, layer.input).astype(layer.input.dtype).view(np.uint8)
    return simulation.run(folder, stream, layer.size, rate).values.astype(np.uint8)


def expected(layer: QLinearConv, codes: Array) -> Array:
    return streamed(layer.prepare()(codes), layer.output).astype(layer.dtype).view(np.uint8)


@pytest.mark.parametrize("name", ["odd", pytest.param("conv_2 of LeNet-5", marks=pytest.mark.campaign)])
def test_the_core_is_the_reference_and_takes_the_predicted_cycles(name: str, tmp_path: Path) -> None:
    layer = LAYERS[name]()
    folder = tmp_path / "core"
    simulation = build_convolution(folder, layer)
    codes = codes_of(layer.input, VECTORS, 1)
    for rate in ("fast", "stalls"):
        assert np.array_equal(values_of(simulation, folder, layer, codes, rate), expected(layer, codes)), rate
    stream = streamed(codes, layer.input).astype(layer.input.dtype).view(np.uint8)
    latency, interval = rtl_core.convolution_cycles(layer)
    assert simulation.run(folder, stream, layer.size, "alone").latencies == {latency}
    assert simulation.run(folder, stream, layer.size, "fast").intervals == {interval}


MUTANTS = {
    "border inside": ("row >= 0 && row < HEIGHT", "row < HEIGHT"),
    "last column outside": ("column < COLUMNS;", "column < COLUMNS - 1;"),
    "line buffer off by one": ("ADDRESS_BITS'(line * ROW + column", "ADDRESS_BITS'((line + 1) % LINES * ROW + column"),
    "one row too few": ("- BEFORE_ROWS + 1);", "- BEFORE_ROWS);"),
    "wrong channel": ("CHANNELS + 32'(c))", "CHANNELS + (c == 0 ? CHANNELS - 1 : 32'(c) - 1))"),
    "dilation left out": ("after(line, DILATION_ROWS)", "after(line, 1)"),
    "stride of columns": ("x * STRIDE_COLUMNS", "x"),
    "padding is the code 0": ("outside ? ZERO_POINT", "outside ? 8'd0"),
    "code dropped while the next waits": ("!out_valid || out_ready;", "1'b1;"),
    "the rest of an image taken for the next": ("HEIGHT_OUT - 1 && filled == HEIGHT", "HEIGHT_OUT - 1"),
}


@pytest.mark.campaign
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, tmp_path: Path) -> None:
    layer = odd()
    simulation = build_convolution(tmp_path / "core", layer, {"window.sv": MUTANTS[name]})
    codes = codes_of(layer.input, VECTORS, 1)
    right = expected(layer, codes)
    try:
        found = [values_of(simulation, tmp_path / "core", layer, codes, rate) for rate in ("fast", "stalls")]
    except AssertionError:
        return
    assert not all(np.array_equal(each, right) for each in found)


@pytest.mark.campaign
def test_the_area_is_counted() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "rtl.py"), "--model", "lenet5_int8", "--convolution", "conv_2"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [layer] = json.loads(done.stdout)["layers"]
    assert layer["area"]["dsp"] >= 16, "a multiplier for each channel"
    assert layer["area"]["bram36"] >= 0.5, "the line buffer"
    assert layer["interval_cycles"] == 6 * 12 * 12 + 64 * 150
