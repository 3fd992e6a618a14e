"""Layers on images in C simulation, against the specification: as parts of a kernel, and alone for the proof."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import targets
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.obligations import StageKind
from harness.operators.tensor import Tensor
from harness.targets import Launch, TaskView
from harness.targets.vitis import circuit, records
from tests.simulators.vitis import simulated
from tests.simulators.vitis.simulated import ACCUMULATE, COMPUTE, FINISH, TABLES, Kernel
from tests.support.codes import node, random_codes, random_scales, random_zero_points
from tests.support.images import every_operator, image_network, random_windows

PART = {StageKind.ACCUMULATE: ACCUMULATE, StageKind.FINISH: FINISH, StageKind.COMPUTE: COMPUTE}


def residual(dtype: str) -> Network:
    """Convolutions of all kinds, sum and product of two branches, many means half way, shapes around a dense layer."""
    rng, shift = np.random.default_rng(3), 0 if dtype == "uint8" else -128
    constants: dict[str, Any] = {
        "image": np.array([-1, 4, 6, 5], np.int64), "back": np.array([-1, 2, 3, 1], np.int64),
        "s": np.float32(0.11), "t": np.float32(0.043), "z": np.array(117 + shift, dtype),
        "y": np.array(131 + shift, dtype), "w": rng.integers(-127, 128, (8, 4, 3, 3)).astype(np.int8),
        "depthwise": rng.integers(-127, 128, (4, 1, 3, 3)).astype(np.int8),
        "twice": rng.integers(-127, 128, (8, 1, 2, 1)).astype(np.int8),
        "point": rng.integers(-127, 128, (4, 8, 1, 1)).astype(np.int8),
        "v": np.float32(rng.uniform(0.001, 0.004, 8)), "v4": np.float32(rng.uniform(0.001, 0.004, 4)),
        "zw": np.array(0, np.int8), "b": rng.integers(-3000, 3000, 8).astype(np.int32),
        "row": rng.integers(60 + shift, 180 + shift, (4, 6, 5)).astype(dtype), "number": np.array(222 + shift, dtype),
        "m": rng.integers(-127, 128, (4, 6)).astype(np.int8), "sm": np.float32(0.01),
    }  # fmt: skip
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", "s", "z", output="q"),
        node("QLinearConv", "q", "s", "z", "w", "v", "zw", "t", "y", "b", output="wide", pads=[1, 1, 1, 1]),
        node("QLinearConv", "q", "s", "z", "depthwise", "v4", "zw", "t", "y", output="deep", group=4,
             pads=[2, 1, 0, 1]),
        node("QLinearConv", "q", "s", "z", "twice", "v", "zw", "t", "y", output="double", group=4, strides=[1, 2]),
        node("QLinearConv", "wide", "t", "y", "point", "v4", "zw", "t", "y", output="narrow"),
        node("QLinearAdd", "narrow", "t", "y", "q", "s", "z", "s", "y", output="sum"),
        node("QLinearConcat", "t", "y", "wide", "t", "y", "q", "s", "z", "sum", "s", "y", "wide", "t", "y",
             output="joined", axis=1),
        node("Concat", "wide", "q", "wide", output="stacked", axis=1),
        node("QLinearAdd", "sum", "s", "y", "row", "t", "y", "s", "z", output="beside"),
        node("QLinearMul", "row", "t", "z", "beside", "s", "z", "t", "y", output="row_first"),
        node("QLinearMul", "number", "t", "z", "row_first", "t", "y", "t", "y", output="scaled"),
        node("QLinearMul", "deep", "t", "y", "sum", "s", "y", "s", "z", output="product"),
        node("MaxPool", "product", output="largest", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "largest", output="flat"),
        node("QLinearAveragePool", "sum", "s", "y", "s", "z", output="means", kernel_shape=[2, 2], strides=[3, 2]),
        node("QLinearGlobalAveragePool", "sum", "s", "y", "s", "z", output="mean"),
        node("Flatten", "mean", output="vector"),
        node("QGemm", "vector", "s", "z", "m", "sm", "zw", "", "t", "y", output="dense"),
        node("Reshape", "dense", "back", output="small"),
    ]  # fmt: skip
    nodes[-2].domain = "com.microsoft"
    return image_network(nodes, constants, dtype, 4 * 6 * 5)


WINDOWS = ("conv", "largest", "means", "padded", "whole")


def random_network(seed: int) -> Network:
    """Poolings with any windows and scales, constants, and a QLinearConcat of inputs of different channels."""
    rng, dtype = np.random.default_rng(seed), ("uint8", "int8")[seed % 2]
    shape = rng.integers([1, 2, 2], [6, 9, 9]).tolist()
    scales, zero_points = random_scales(rng, 4), random_zero_points(rng, 4, np.dtype(dtype))
    numbers = {f"s{at}": scale for at, scale in enumerate(scales)} | {
        f"z{at}": zero for at, zero in enumerate(zero_points)
    }
    x, y, z, u = (("s0", "z0"), ("s1", "z1"), ("s2", "z2"), ("s3", "z3"))
    pools = [
        node("QLinearAveragePool", "q", *x, *y, output=f"mean_{at}", count_include_pad=int(rng.integers(2)),
             ceil_mode=int(rng.integers(2)), **random_windows(rng, 2, dilated=False))
        for at in range(2)
    ]  # fmt: skip
    constants = {
        "image": np.array([-1, *shape], np.int64),
        "row": random_codes(rng, np.dtype(dtype), *shape),
        "number": random_codes(rng, np.dtype(dtype)),
        **numbers,
    }
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", *x, output="q"),
        *pools,
        node("MaxPool", "q", output="largest", **random_windows(rng, 2, dilated=True)),
        node("QLinearAdd", "q", *x, "row", *y, *z, output="sum"),
        node("QLinearMul", "number", *u, "sum", *z, *y, output="product"),
        node("QLinearConcat", *u, "q", *x, "sum", *z, output="joined", axis=1),
        node("QLinearConcat", *x, "joined", *u, "q", *x, "joined", *z, output="joined_again", axis=1),
    ]
    return image_network(nodes, constants, dtype, math.prod(shape))


NETWORKS = {
    f"{name}, {dtype}": (make, dtype)
    for name, make in (("branches", residual), ("windows", lambda dtype: every_operator(dtype, *WINDOWS)))
    for dtype in ("uint8", "int8")
}


def launch_of(network: Network) -> Launch:
    """All layers that the target supports, as one launch; everything that no layer of it reads is wanted."""
    target = targets.find("vitis")
    layers = [layer for layer in network.layers if target.unsupported(layer) is None]
    own = {layer.output.name: records.output_of(layer) for layer in layers}
    read = {source for layer in layers for source in layer.sources}
    return [
        TaskView(
            layer,
            tuple(own.get(source, source) for source in layer.sources),
            is_output=layer.output.name not in read or number % 4 == 0,
        )
        for number, layer in enumerate(layers)
    ]


def streamed(values: Array, tensor: Tensor) -> Array:
    """A vector of the program, (vectors, size), channel-last: element c * positions + p at p * channels + c."""
    channels = tensor.shape[0]
    return values.reshape(len(values), channels, -1).swapaxes(1, 2).reshape(len(values), -1).astype(np.int32)


def codes_of(tensor: Tensor, count: int, seed: int) -> Array:
    return random_codes(np.random.default_rng(seed), tensor.dtype, count, tensor.size)


def check(built: Kernel, seed: int, vectors: int = 7) -> None:
    """The network, everything of it, every stage of every layer, all constants."""
    launch = built.launch
    tensors = dict(pair for task in launch for pair in zip(task.sources, task.layer.inputs, strict=True))
    values = {place.name: codes_of(tensors[place.name], vectors, seed) for place in records.given(launch).places}
    for task in launch:
        values[records.output_of(task.layer)] = task.layer.prepare()(*(values[source] for source in task.sources))
        tensors[records.output_of(task.layer)] = task.layer.output
    streams = {name: streamed(each, tensors[name]) for name, each in values.items()}

    def record(places: records.Record) -> Array:
        return np.concatenate([streams[place.name] for place in places.places], axis=1)

    for everything in (False, True):
        wanted = record(records.made(launch, everything))
        assert np.array_equal(built.ask(record(records.given(launch)), wanted.shape[1], everything=everything), wanted)
    for number, task in enumerate(launch):
        check_stages(built, number, task.layer, [streams[source] for source in task.sources],
                     [values[source] for source in task.sources])  # fmt: skip


def check_stages(built: Kernel, number: int, layer: Any, streams: list[Array], values: list[Array]) -> None:
    """Each stage of a layer, asked alone, and its constants."""
    of = circuit.of(layer, built.fold)
    for stage in of.stages:
        if stage.part is StageKind.COMPUTE:
            given, wanted = np.concatenate(streams, axis=1), layer.prepare()(*values)
        elif stage.part is StageKind.ACCUMULATE:
            given, wanted = streams[0], layer.accumulate()(values[0])
        else:
            acc = layer.accumulate()(values[0])
            near = layer.spread(layer.thresholds()[:, 100]) + np.arange(-1, 2)[:, None]
            acc = np.concatenate([acc, near])
            given, wanted = streamed(acc, layer.output), layer.finish()(acc)
        found = built.ask(given, layer.size, PART[stage.part], number)
        assert np.array_equal(found, streamed(wanted, layer.output)), (layer.name, stage.part)
    held = simulated.told(layer, built.fold)
    if len(held):
        assert np.array_equal(built.ask(np.empty((1, 0)), len(held), TABLES, number)[0], held), layer.name


@pytest.mark.parametrize(
    ("name", "fold"),
    [
        ("branches, uint8", 1),
        ("windows, int8", 3),
        pytest.param("branches, int8", 3, marks=pytest.mark.campaign),
        pytest.param("windows, uint8", 1, marks=pytest.mark.campaign),
    ],
)
def test_every_layer_is_the_specification(name: str, fold: int, tmp_path: Path) -> None:
    make, dtype = NETWORKS[name]
    check(simulated.build(launch_of(make(dtype)), tmp_path, "-O0", "-DELEMENT_BY_ELEMENT", fold=fold), 1)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(24))
def test_random_layers_are_the_specification(seed: int, tmp_path: Path) -> None:
    """The first network from 100 * seed on whose nodes are not refused."""
    for at in range(100 * seed, 100 * seed + 100):
        try:
            network = random_network(at)
        except RequestError:
            continue
        check(simulated.build(launch_of(network), tmp_path, "-O0", "-DELEMENT_BY_ELEMENT"), seed, vectors=20)
        return
    pytest.fail("all networks are refused")


@pytest.mark.campaign
def test_nothing_is_undefined(tmp_path: Path) -> None:
    make, dtype = NETWORKS["windows, int8"]
    flags = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    check(simulated.build(launch_of(make(dtype)), tmp_path, *flags, fold=2), 3)


MUTANTS = {
    "border inside": ("window.hpp", "return row >= 0 && row <", "return row >= -1 && row <"),
    "last column outside": ("window.hpp", "column < (int)LAYER::COLUMNS", "column + 1 < (int)LAYER::COLUMNS"),
    "line buffer off by one": ("window.hpp", "lines[(unsigned)row %", "lines[(unsigned)(row + 1) %"),
    "line buffer a row too short": ("window.hpp", "return lines[(unsigned)row % LAYER::LINES]",
                                    "return lines[(unsigned)row % (LAYER::LINES > 1 ? LAYER::LINES - 1 : 1)]"),
    "rows taken too late": ("window.hpp", "LAYER::KERNEL_ROWS - 1) + 1;", "LAYER::KERNEL_ROWS - 1);"),
    "rest of an image left": ("window.hpp", "        image.fill(codes, LAYER::HEIGHT);\n    }\n}\n\n#endif",
                              "    }\n}\n\n#endif"),
    "rest of a pooled image left": ("pool.hpp", "        image.fill(codes, LAYER::HEIGHT);\n", ""),
    "wrong channel": ("window.hpp", "row, column, first + g + c)",
                      "row, column, (first + g + c + 1) % LAYER::CHANNELS)"),
    "inputs of the first group": ("window.hpp", "first = block / LAYER::PER_GROUP *", "first = 0 * block *"),
    "stride of columns left out": ("window.hpp", "x * LAYER::STRIDE_COLUMNS", "x"),
    "dilation left out": ("window.hpp", "j * LAYER::DILATION_COLUMNS", "j"),
    "padding is the code 0": ("window.hpp", "centred[g] = 0;", "centred[g] = (int16_t)-held.input_zero_point;"),
    "bias of the first block": ("window.hpp", "held.bias[block][lane]", "held.bias[0 * block][lane]"),
    "smallest value": ("pool.hpp", "code > largest ? code", "code < largest ? code"),
    "padding chosen": ("pool.hpp", "image.at(row, column, c));",
                       "image.at(row, column, c));\nelse all = pooling.with(all, (CODE)100);"),
    "total of the last window": ("pool.hpp", "i == 0 && j == 0 ?", "i + j + x == 0 ?"),
    "total of the first channel": ("pool.hpp", "totals[c] = all;", "totals[0 * c] = all;"),
    "count of the first position": ("pool.hpp", "pooling.row(y * LAYER::COLUMNS_OUT + x)", "pooling.row(0 * x)"),
    "sums of integers": ("qlinear_average_pool.hpp", "rounded_sum(sum + terms[(uint8_t)code])",
                         "sum + terms[(uint8_t)code]"),
    "sums rounded down": ("rounded_sum.h", "shifted_right(magnitude, excess) <<", "magnitude >> excess <<"),
    "term of the next code": ("qlinear_average_pool.hpp", "terms[(uint8_t)code]", "terms[(uint8_t)(code + 1)]"),
    "exponent left out": ("qlinear_average_pool.hpp", "sum_bits(sum, exponent)", "sum_bits(sum, exponent + 1)"),
    "negative sums positive": ("rounded_sum.h", "| (sum < 0 ? 0x80000000u : 0)", "| 0u"),
    "thresholds of the next channel": ("image_layer.hpp", "finished(rounding, n, sums.acc[lane])",
                                       "finished(rounding, (n + 1) % LAYER::CHANNELS_OUT, sums.acc[lane])"),
    "threshold off by one": ("layer.hpp", "held.level_7[t][reached] <= acc", "held.level_7[t][reached] < acc"),
    "last block not filled up": ("image_layer.hpp", "of_part + lane < LAYER::PART", "true"),
    "sum of a branch from elsewhere": ("image_layer.hpp", "LAYER::at(NUMBER, asked.everything)",
                                       "LAYER::at(NUMBER, false)"),
    "what others need not passed": ("image_layer.hpp", "(asked.everything || LAYER::needed(i))",
                                        "(asked.everything || (LAYER::needed(i) && false))"),
    "terms exchanged": ("look_up.hpp", "table[a][b]", "table[b][a]"),
    "sign of codes": ("look_up.hpp", "(uint8_t)code ^ LAYER::FLIP", "(uint8_t)code"),
    "constant of the first element": ("look_up.hpp", "[columns[i]]", "[columns[0 * i]]"),
    "table of the first input": ("look_up.hpp", "return table[input][", "return table[0 * input]["),
    "channels of the next input": ("look_up.hpp", "if (c < channels)", "if (c + 1 < channels)"),
    "input alone from elsewhere": ("image_layer.hpp", "value, alone + SIZE, others", "value, SIZE, others"),
    "mean of all but the zero point": ("qlinear_global_average_pool.hpp", "codes.read() - input_zero_point",
                                       "codes.read()"),
    "mean without the last position": ("qlinear_global_average_pool.hpp", "p < LAYER::DEPTH / LAYER::LANES",
                                       "p + 1 < LAYER::DEPTH / LAYER::LANES"),
    "channels left as they stand": ("rename.hpp", "held[at % POSITIONS * LAYER::CHANNELS + at / POSITIONS]",
                                    "held[at]"),
}  # fmt: skip
CODE = """\
import sys; from pathlib import Path
from tests.simulators.vitis import simulated, test_image_layers
make, dtype = test_image_layers.NETWORKS[sys.argv[2]]
launch = test_image_layers.launch_of(make(dtype))
test_image_layers.check(simulated.load(launch, Path(sys.argv[1]), 3), 1)
"""


def is_wrong(name: str, folder: Path) -> bool:
    """Return whether the check of the kernel in `folder` fails by its values, or a stream ends the simulation."""
    command = [sys.executable, "-c", CODE, str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "AssertionError" in done.stderr or "a stream has" in done.stderr, done.stderr
    return done.returncode != 0


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_found(mutant: str, tmp_path: Path) -> None:
    """By one of the networks: grouped, strided and dilated windows, or branches."""
    file, old, new = MUTANTS[mutant]
    for name in ("windows, int8", "branches, int8"):
        make, dtype = NETWORKS[name]
        launch = launch_of(make(dtype))
        headers = {header for task in launch for header in circuit.of(task.layer).headers} | {"layer.hpp"}
        if file in headers:
            simulated.build(launch, tmp_path / dtype, changed={file: (old, new)}, fold=3)
            if is_wrong(name, tmp_path / dtype):
                return
    pytest.fail("nobody noticed")
