"""One inference of a convolutional network on one core: c:vector, as deployed on `host`, against ONNX Runtime's C API.

    .venv/bin/python benchmarks/convolution.py [--networks lenet5,resnet8,...] [--activations uint8] [--json]

The networks have the shapes of LeNet-5 and of MLPerf Tiny, random weights, and a maximum where those have an average.
As in inference.py, all must agree in every bit, and calls are timed one by one, in alternating slices.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import inference
import machine
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from harness import model
from harness.boards import profile
from harness.core.arrays import Array
from harness.core.errors import HarnessError
from harness.core.installation import ROOT
from harness.targets import toolchain

VECTORS = 64
TYPICAL = 70
"""Standard deviation of random codes and weights, about."""


@dataclass
class Builder:
    """A network under construction; its last tensor has `shape`, and all have codes of one scale and zero point."""

    shape: tuple[int, ...]
    activations: str
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(inference.SEED))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    tensor: str = "x"

    def __post_init__(self) -> None:
        """Read one row of values as an image of codes."""
        self.size = math.prod(self.shape)
        self.codes = [self.constant("scale", np.float32(0.02)), self.constant("zero", np.array(3, self.activations))]
        self.node("QuantizeLinear", *self.codes)
        self.node("Reshape", self.constant("image", np.array([-1, *self.shape])))

    def constant(self, name: str, value: Array | np.generic) -> str:
        """Add a constant."""
        self.constants[name] = np.asarray(value)
        return name

    def node(self, operator: str, *others: str, domain: str = "", **attributes: object) -> None:
        """Add a node that reads the last tensor and `others`."""
        output = f"t{len(self.nodes)}"
        inputs = [self.tensor, *others]
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes))
        self.tensor = output

    def _weights(self, channels: int, *others: int, axis: int = 0) -> list[str]:
        """Return weights, their scale and zero point: outputs spread over the codes."""
        name, depth = f"w{len(self.nodes)}", math.prod(others)
        shape = (channels, *others) if axis == 0 else (*others, channels)
        scale = self.rng.uniform(0.5, 1.5, channels) / (TYPICAL * math.sqrt(depth))
        return [
            self.constant(name, self.rng.integers(-127, 128, shape).astype(np.int8)),
            self.constant(f"{name}_scale", scale.astype(np.float32)),
            self.constant(f"{name}_zero", np.zeros(channels, np.int8)),
        ]

    def _bias(self, channels: int) -> str:
        return self.constant(f"b{len(self.nodes)}", self.rng.integers(-2000, 2000, channels).astype(np.int32))

    def conv(
        self, channels: int, kernel: tuple[int, int], stride: int = 1, *, groups: int = 1, same: bool = True
    ) -> None:
        """Add a convolution; `same` pads as TensorFlow does."""
        sizes = self.shape[1:]
        missing = [(size - 1) // stride * stride + k - size for size, k in zip(sizes, kernel, strict=True)]
        pads = [max(each, 0) for each in missing] if same else [0, 0]
        before = [pad // 2 for pad in pads]
        after = [pad - begin for pad, begin in zip(pads, before, strict=True)]
        weights = self._weights(channels, self.shape[0] // groups, *kernel)
        others = (*self.codes, *weights, *self.codes, self._bias(channels))
        self.node("QLinearConv", *others, group=groups, strides=[stride] * 2, pads=before + after)
        outputs = [(size + pad - k) // stride + 1 for size, pad, k in zip(sizes, pads, kernel, strict=True)]
        self.shape = channels, *outputs

    def depthwise(self, stride: int = 1) -> None:
        """Add a convolution 3 x 3 of every channel."""
        self.conv(self.shape[0], (3, 3), stride, groups=self.shape[0])

    def pool(self, rows: int, columns: int) -> None:
        """Add a pooling without overlap."""
        self.node("MaxPool", kernel_shape=[rows, columns], strides=[rows, columns])
        self.shape = self.shape[0], self.shape[1] // rows, self.shape[2] // columns

    def add(self, other: str) -> None:
        """Add another tensor of the same shape."""
        self.node("QLinearAdd", *self.codes, other, *self.codes, *self.codes, domain="com.microsoft")

    def dense(self, *widths: int) -> None:
        """Flatten, and add dense layers."""
        self.node("Flatten")
        depth = math.prod(self.shape)
        for width in widths:
            weights = self._weights(width, depth, axis=1)
            self.node("QGemm", *self.codes, *weights, self._bias(width), *self.codes, domain="com.microsoft")
            depth = width
        self.shape = (depth,)

    def model(self) -> onnx.ModelProto:
        """Return the network with a float output."""
        self.node("DequantizeLinear", *self.codes)
        graph = helper.make_graph(
            self.nodes,
            "benchmark",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, self.size])],
            [helper.make_tensor_value_info(self.tensor, TensorProto.FLOAT, [1, *self.shape])],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def lenet5(activations: str) -> onnx.ModelProto:
    """Return 28 x 28, two convolutions 5 x 5, three dense layers."""
    build = Builder((1, 28, 28), activations)
    build.conv(6, (5, 5), same=False)
    build.pool(2, 2)
    build.conv(16, (5, 5), same=False)
    build.pool(2, 2)
    build.dense(120, 84, 10)
    return build.model()


def resnet8(activations: str) -> onnx.ModelProto:
    """Return MLPerf Tiny's image classification."""
    build = Builder((3, 32, 32), activations)
    build.conv(16, (3, 3))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        begin, shape = build.tensor, build.shape
        build.conv(channels, (3, 3), stride)
        build.conv(channels, (3, 3))
        end = build.tensor
        if stride > 1:
            build.tensor, build.shape = begin, shape
            build.conv(channels, (1, 1), stride)
            begin, build.tensor = build.tensor, end
        build.add(begin)
    build.pool(8, 8)
    build.dense(10)
    return build.model()


def ds_cnn(activations: str) -> onnx.ModelProto:
    """Return MLPerf Tiny's keyword spotting."""
    build = Builder((1, 49, 10), activations)
    build.conv(64, (10, 4), 2)
    for _ in range(4):
        build.depthwise()
        build.conv(64, (1, 1))
    build.pool(25, 5)
    build.dense(12)
    return build.model()


def mobilenet(activations: str) -> onnx.ModelProto:
    """Return MLPerf Tiny's visual wake words: MobileNetV1, a quarter of the channels."""
    build = Builder((3, 96, 96), activations)
    build.conv(8, (3, 3), 2)
    strides = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
    for channels, stride in strides:
        build.depthwise(stride)
        build.conv(channels, (1, 1))
    build.pool(3, 3)
    build.dense(2)
    return build.model()


NETWORKS: dict[str, Callable[[str], onnx.ModelProto]] = {
    "lenet5": lenet5,
    "resnet8": resnet8,
    "ds_cnn": ds_cnn,
    "mobilenet": mobilenet,
}


@dataclass(frozen=True)
class Result:
    """Times of one inference; `ratio` is that of the minima, `spread` the least and greatest of a pass's medians."""

    network: str
    activations: str
    generated: inference.Times
    onnxruntime: inference.Times
    ratio: float
    spread: tuple[float, float]


def measure(network: str, activations: str, target: str, core: int, passes: int) -> Result:
    """Build and time a network."""
    host = profile.load(ROOT / "boards.yaml").board("host")
    net = model.parse(NETWORKS[network](activations).SerializeToString(), network)
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as name:
        folder = Path(name)
        program = inference.build_program(net, [target], host, toolchain.find(host), folder, ("WITH_ARENA",))
        inference.run(program, net, core, passes, VECTORS)
        times = [np.load(folder / f"{contender}.npy").reshape(passes, -1) for contender in ("network_0", "onnxruntime")]
        ratios = np.median(times[1], axis=1) / np.median(times[0], axis=1)
        generated, runtime = (inference.read_times(folder / f"{each}.npy") for each in ("network_0", "onnxruntime"))
    ratio = runtime.minimum_ns / generated.minimum_ns
    return Result(network, activations, generated, runtime, ratio, (float(ratios.min()), float(ratios.max())))


def parse_networks(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Names of NETWORKS; BadParameter if one is not known."""
    chosen = tuple(dict.fromkeys(value.split(",")))
    unknown = [name for name in chosen if name not in NETWORKS]
    if unknown:
        raise click.BadParameter(f"unknown network {unknown[0]!r}; valid choices: {', '.join(NETWORKS)}")
    return chosen


def table(results: Sequence[Result], target: str) -> Table:
    """One row a network."""
    shown = Table(title="one inference, ns", title_justify="left")
    headings = ("network", "activations", f"{target}, minimum", "median", "onnxruntime, minimum", "median")
    for heading in (*headings, "ratio of minima", "of medians, by passes"):
        shown.add_column(heading, justify="left" if heading in {"network", "activations"} else "right")
    for each in results:
        times = (*inference.in_digits(each.generated), *inference.in_digits(each.onnxruntime))
        spread = f"{each.spread[0]:.2f} to {each.spread[1]:.2f}"
        shown.add_row(each.network, each.activations, *times, f"{each.ratio:.2f}", spread)
    return shown


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--networks", default=",".join(NETWORKS), callback=parse_networks, show_default=True, help="Networks.")
@click.option("--activations", default="uint8,int8", show_default=True, help="Types of activations.")
@click.option("--target", default="c:vector", show_default=True, help="Variant of target c.")
@click.option("--passes", default=10, show_default=True, type=click.IntRange(1), help=f"Times {VECTORS} vectors.")
@click.option("--core", default=max(os.sched_getaffinity(0)), show_default=True, help="Core of all calls.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(networks: Sequence[str], activations: str, target: str, passes: int, core: int, *, as_json: bool) -> None:
    """Measure and print the results."""
    try:
        results = [measure(name, kind, target, core, passes) for name in networks for kind in activations.split(",")]
    except HarnessError as error:
        raise SystemExit(str(error)) from None
    where = machine.describe()
    if as_json:
        click.echo(json.dumps({"machine": where, "results": [asdict(result) for result in results]}, indent=1))
        return
    for key, value in where.items():
        click.echo(f"{key}: {value}")
    Console(width=140).print(table(results, target))


if __name__ == "__main__":
    main()
