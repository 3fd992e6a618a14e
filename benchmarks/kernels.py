"""Hand-written kernels of target c against the code that is emitted or written plainly: times of one layer.

.venv/bin/python benchmarks/kernels.py [--core 1] [--json]

`c:vector` has the kernels of a class of definitions, `c` plain loops of the same layers.  Both are compiled as for the
board `host`, agree in every byte, and run in one process on one core, in turns; each number is the least of 40 rounds
of 16 vectors.  A kernel is worth its code if the ratio is above 1 on a processor in use.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
from harness.core.errors import ToolError
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.targets import toolchain

TARGETS = ("c", "c:vector")
VECTORS = 16
RANDOM = np.random.default_rng(1)
SCALE = {"one": np.float32(0.05), "zero": np.uint8(128), "no": np.int8(0), "wide": np.float32(2)}


@dataclass(frozen=True)
class Result:
    """The least times of a layer in nanoseconds, plain and by a kernel."""

    layer: str
    plain_ns: int
    kernel_ns: int

    @property
    def ratio(self) -> float:
        """The time of the plain code, as a multiple of that of the kernel."""
        return self.plain_ns / self.kernel_ns


def network(name: str, shape: Sequence[int], operator: str, constants: dict[str, Any], **options: Any) -> Network:
    """Return a network of one float32 layer, or of one of codes behind a QuantizeLinear."""
    inputs = ["" if part == "-" else part for part in options.pop("inputs").split()]
    of_codes = "codes" in inputs
    domain = "com.microsoft" if operator in {"QGemm", "QLinearSigmoid"} else ""
    nodes = [helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["codes"], "quantise")] if of_codes else []
    nodes.append(helper.make_node(operator, inputs, ["y"], "layer", domain=domain, **options))
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in (SCALE | constants).items()
               if key in {name for node in nodes for name in node.input}]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])
    sizes = ["n", *(f"size_{axis}" for axis in range(len(shape)))]
    y = helper.make_tensor_value_info(
        "y", TensorProto.UINT8 if operator.startswith("Q") or of_codes else TensorProto.FLOAT, sizes
    )
    graph = helper.make_graph(nodes, name, [x], [y], tensors)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    content: onnx.ModelProto = helper.make_model(graph, opset_imports=domains, ir_version=9)
    return model.parse(content.SerializeToString(), name)


def floats(*shape: int) -> np.ndarray:
    """Return random float32 numbers."""
    return RANDOM.normal(size=shape).astype(np.float32)


def codes(*shape: int) -> np.ndarray:
    """Return random int8 codes."""
    return RANDOM.integers(-64, 65, shape).astype(np.int8)


OF_QGEMM = "codes one zero w one no - wide zero"
OF_QCONV = "codes one zero w one no wide zero"
LAYERS: dict[str, tuple[Sequence[int], str, dict[str, Any], dict[str, Any]]] = {
    "Gemm 256 to 256": ([256], "Gemm", {"w": floats(256, 256)}, {"inputs": "x w"}),
    "Conv 16 to 32 channels, 3x3, 28x28": (
        [16, 28, 28], "Conv", {"w": floats(32, 16, 3, 3)}, {"inputs": "x w", "pads": [1, 1, 1, 1]}
    ),
    "Conv 32 to 64 channels, 1x1, 14x14": ([32, 14, 14], "Conv", {"w": floats(64, 32, 1, 1)}, {"inputs": "x w"}),
    "Conv depthwise, 32 channels, 3x3, 28x28": (
        [32, 28, 28], "Conv", {"w": floats(32, 1, 3, 3)}, {"inputs": "x w", "pads": [1, 1, 1, 1], "group": 32}
    ),
    "QGemm 256 to 256": ([256], "QGemm", {"w": codes(256, 256)}, {"inputs": OF_QGEMM}),
    "QLinearConv 16 to 32 channels, 3x3, 28x28": (
        [16, 28, 28], "QLinearConv", {"w": codes(32, 16, 3, 3)}, {"inputs": OF_QCONV, "pads": [1, 1, 1, 1]}
    ),
    "QLinearConv depthwise, 32 channels, 3x3, 28x28": (
        [32, 28, 28], "QLinearConv", {"w": codes(32, 1, 3, 3)},
        {"inputs": OF_QCONV, "pads": [1, 1, 1, 1], "group": 32},
    ),
    "MaxPool of codes, 32 channels, 2x2, 28x28": (
        [32, 28, 28], "MaxPool", {}, {"inputs": "codes", "kernel_shape": [2, 2], "strides": [2, 2]}
    ),
    "MaxPool of codes, 32 channels, 3x3, 28x28": (
        [32, 28, 28], "MaxPool", {}, {"inputs": "codes", "kernel_shape": [3, 3], "strides": [2, 2]}
    ),
    "MaxPool of codes, 32 channels, 5x5, 28x28": (
        [32, 28, 28], "MaxPool", {}, {"inputs": "codes", "kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}
    ),
    "MaxPool of float32, 32 channels, 3x3, 28x28": (
        [32, 28, 28], "MaxPool", {}, {"inputs": "x", "kernel_shape": [3, 3], "strides": [2, 2]}
    ),
    "QLinearSigmoid of 4096 codes": ([4096], "QLinearSigmoid", {}, {"inputs": "codes one zero one zero"}),
    "QuantizeLinear of 4096 values": ([4096], "QuantizeLinear", {}, {"inputs": "x one zero"}),
}  # fmt: skip


def measured(name: str, core: int) -> Result:
    """Build and time a layer; raise ToolError if the outputs differ."""
    shape, operator, constants, options = LAYERS[name]
    net = network("layer", shape, operator, constants, **options)
    host = profile.load(ROOT / "boards.yaml").board("host")
    compiler = toolchain.find(host)
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as path:
        folder = Path(path)
        objects = [inference.build_network(net, number, target, host, compiler, folder)
                   for number, target in enumerate(TARGETS)]  # fmt: skip
        contenders, program = folder / "contenders.c", folder / "kernels"
        contenders.write_text(inference.list_networks(len(TARGETS)))
        sources = (contenders, inference.HERE / "kernels.c", *inference.COMMON, *objects)
        compiler.build(folder, sources, inference.INCLUDE, (f"TIME_SOURCE={host.time_source}",), program)
        np.save(folder / "vectors.npy", RANDOM.normal(0, 2, (VECTORS, net.vector.size)).astype(np.float32))
        command = [program, folder / "vectors.npy", str(core)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ToolError(
            f"{name}: the benchmark failed: {ended.stderr.strip()}", "--core must name a core of this machine"
        )
    plain_ns, kernel_ns = (int(line.split()[-1]) for line in ended.stdout.splitlines())
    return Result(name, plain_ns, kernel_ns)


@click.command()
@click.option("--core", default=max(os.sched_getaffinity(0)), show_default=True, help="The core to run on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(core: int, *, as_json: bool) -> None:
    """Measure and print."""
    results = [measured(name, core) for name in LAYERS]
    if as_json:
        rows = [asdict(result) | {"ratio": result.ratio} for result in results]
        click.echo(json.dumps({"layers": rows, "machine": machine.describe()}))
        return
    table = Table("layer", "c, ns", "c:vector, ns", "ratio", title="one layer, one vector", title_justify="left")
    for result in results:
        table.add_row(result.layer, f"{result.plain_ns:,}", f"{result.kernel_ns:,}", f"{result.ratio:.2f}")
    Console().print(table)
    Console().print(machine.describe())


if __name__ == "__main__":
    main()
