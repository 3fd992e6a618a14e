"""The layers of a quantised network in floating point with cuDNN, for comparison with benchmarks/gpu.py.

    python benchmarks/cudnn.py --model models/resnet8_int8.onnx --vectors 1056

It needs a GPU and PyTorch, which brings cuDNN and no part of harness requires.  Codes are neither rounded nor
saturated: cuDNN computes the same layers with the same weights, not the same bits.  Before a time is measured, the
float32 outputs, with values limited to those of codes, must be close to the specification.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

import machine

from harness import model as models
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.dequantize_linear import DequantizeLinear
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_add import QLinearAdd
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.rename import Rename
from harness.reference import SpecificationReference

SEED = 1
BATCH = 16
CHECKED = 16
MOST_CODES = 8
"""Greatest distance of an output from the specification, in steps of the output's scale."""
DEVICE = "cuda"
IMAGES_DIM = 4
KINDS = ("float32", "float32 with TF32", "float16, channels last")
Tensor = Any  # of PyTorch, which is not installed where types are checked
Step = Callable[..., Tensor]


@dataclass(frozen=True)
class Floats:
    """Values of one type and layout in the GPU's memory; `torch` is the package."""

    torch: Any
    kind: str

    @property
    def dtype(self) -> Any:
        """Return the type of all values."""
        return self.torch.float16 if "float16" in self.kind else self.torch.float32

    def on_gpu(self, values: Array) -> Tensor:
        """Copy values to the GPU."""
        found = self.torch.tensor(np.ascontiguousarray(values, np.float32)).to(DEVICE, self.dtype)
        if found.dim() == IMAGES_DIM and "channels last" in self.kind:
            return found.contiguous(memory_format=self.torch.channels_last)
        return found

    def constants(self, layer: QLinearConv | QGemm) -> tuple[Tensor, Tensor]:
        """Return the weights (outputs, ...), as a kernel of a convolution or a matrix, and the bias."""
        scale = np.broadcast_to(np.asarray(layer.scales.b, np.float64), layer.bias.shape)
        real = ((layer.weights.astype(np.float64) - layer.weights_zero_point) * scale).T
        if isinstance(layer, QLinearConv):
            real = real.reshape(len(real), -1, *layer.window.kernel)
        return self.on_gpu(real), self.on_gpu(layer.bias * scale * float(layer.scales.a))

    def conv(self, layer: QLinearConv) -> Step:
        """Convolve with cuDNN, with the bias, and Relu where the lowest code is 0; cuDNN pads both sides alike."""
        window, (kernel, bias) = layer.window, self.constants(layer)
        sizes = zip(window.reach, window.before, window.shape, strict=True)
        after = [max(reach - before - size, 0) for reach, before, size in sizes]
        alike = after == list(window.before)
        given = (window.stride, window.before if alike else (0, 0), window.dilation, layer.group_count)
        function = self.torch.cudnn_convolution_relu if has_relu(layer, layer.y_zero_point) else self.torch.conv2d
        sides = (window.before[1], after[1], window.before[0], after[0])
        pad = self.torch.nn.functional.pad
        return lambda x: function(x if alike else pad(x, sides), kernel, bias, *given)

    def dense(self, layer: QGemm) -> Step:
        """Multiply with a matrix, and add the bias."""
        matrix, bias = self.constants(layer)
        return lambda x: self.torch.nn.functional.linear(x, matrix, bias)

    def step(self, layer: Layer) -> Step:
        """Return a layer as a function of its inputs."""
        match layer:
            case QuantizeLinear() | DequantizeLinear():
                return lambda x: x
            case QLinearConv():
                return self.conv(layer)
            case QLinearAdd(operand=None):
                relu = self.torch.relu if has_relu(layer, layer.y.zero_point) else lambda x: x
                return lambda a, b: relu(a + b)
            case QLinearGlobalAveragePool():
                return lambda x: x.mean((2, 3), keepdim=True)
            case Rename():
                return lambda x: x.reshape(len(x), *layer.output.shape)
            case QGemm():
                return self.dense(layer)
        raise click.ClickException(f"layer {layer.name} ({layer.operator}) has no form here: choose another model")


def has_relu(layer: Layer, zero_point: int) -> bool:
    """Return whether no output of this layer is negative."""
    return int(zero_point) == np.iinfo(layer.dtype).min


def limits(layer: Layer) -> tuple[float, float] | None:
    """Return the least and the greatest value that the codes of an output stand for; None for other layers."""
    match layer:
        case QLinearAdd():
            scale, zero_point = float(layer.y.scale), int(layer.y.zero_point)
        case QLinearConv() | QGemm() | QLinearGlobalAveragePool():
            scale, zero_point = float(layer.scales.y), int(layer.y_zero_point)
        case _:
            return None
    codes = np.iinfo(layer.dtype)
    return scale * (int(codes.min) - zero_point), scale * (int(codes.max) - zero_point)


def forward(found: list[tuple[Layer, Step]], inputs: Tensor, *, saturated: bool = False) -> Tensor:
    """Return the output of the last layer; `saturated`: every layer within its limits, for a check."""
    values = {found[0][0].inputs[0].name: inputs}
    for layer, step in found:
        value = step(*(values[each.name] for each in layer.inputs))
        within = limits(layer) if saturated else None
        values[layer.output.name] = value.clamp(*within) if within else value
    return values[found[-1][0].output.name]


def time_us(torch: Any, run: Callable[[], Tensor], launches: int) -> list[float]:
    """GPU times of a CUDA graph of all kernels; batches queue behind as much work as themselves twice."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):  # cuDNN chooses its algorithms
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    times: list[float] = []
    while len(times) < launches:
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(BATCH)]
        for _ in range(2 * BATCH):
            graph.replay()
        for begin, end in events:
            begin.record()
            graph.replay()
            end.record()
        torch.cuda.synchronize()
        times += [1e3 * begin.elapsed_time(end) for begin, end in events]
    return times


def measure(net: Network, kind: str, vectors: Array, launches: int, torch: Any) -> dict[str, Any]:
    """Return the median and least time in µs, and the distance of the outputs from the specification in codes."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = "TF32" in kind
    floats = Floats(torch, kind)
    found = [(layer, floats.step(layer)) for layer in net.layers]
    inputs = floats.on_gpu(vectors.reshape(len(vectors), *net.vector.shape))
    expected = SpecificationReference(net).activations(vectors[:CHECKED])[-1]
    outputs = np.array(forward(found, inputs[:CHECKED], saturated=True).float().cpu().tolist(), np.float64)
    codes = float(np.abs(outputs.reshape(expected.shape) - expected).max() / net.layers[-1].scale)
    if kind == KINDS[0] and codes > MOST_CODES:
        raise click.ClickException(f"the outputs are {codes:.1f} codes from the specification: not the same network")
    times = time_us(torch, lambda: forward(found, inputs), launches)
    return {"kind": kind, "median_us": statistics.median(times), "minimum_us": min(times), "codes": codes}


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--model", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--vectors", default=1056, show_default=True, type=click.IntRange(CHECKED), help="Of a launch.")
@click.option("--launches", default=400, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(model: Path, vectors: int, launches: int, *, as_json: bool) -> None:
    """Measure, and print it."""
    try:
        import torch
    except ImportError as error:
        raise click.ClickException(f"PyTorch is missing ({error}): install torch beside harness") from None
    if not torch.cuda.is_available():
        raise click.ClickException("PyTorch finds no GPU: run this on a machine with an NVIDIA GPU and its driver")
    torch.backends.cudnn.benchmark = True
    net = models.load(model)
    low, high = net.box
    inputs = np.random.default_rng(SEED).uniform(low, high, (vectors, net.vector.size)).astype(np.float32)
    with torch.inference_mode():
        rows = [measure(net, kind, inputs, launches, torch) for kind in KINDS]
    versions = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    described = machine.describe() | versions | {"gpu": torch.cuda.get_device_name()}
    if as_json:
        measured = {"model": str(model), "vectors": vectors, "results": rows}
        click.echo(json.dumps({"machine": described} | measured, indent=1))
        return
    console = Console()
    console.print(described)
    heads = ("cuDNN in", "vectors", "median µs", "least µs", "output codes off, most")
    shown = Table(*heads, title=f"GPU time of a launch of {model.name}", title_justify="left")
    for row in rows:
        times = (f"{row['median_us']:,.1f}", f"{row['minimum_us']:,.1f}")
        shown.add_row(row["kind"], f"{vectors:,}", *times, f"{row['codes']:.1f}")
    console.print(shown)


if __name__ == "__main__":
    main()
