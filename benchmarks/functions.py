"""Exp, Tanh, Sigmoid and Softmax of one vector: ns per value, against libm and ONNX Runtime.

.venv/bin/python benchmarks/functions.py [--width 4096] [--json]

All run in one process on one thread, in turns; each number is the least of the rounds.  That of ONNX Runtime contains
one call of a session from Python, with bound inputs and outputs.
"""  # noqa: INP001 - a script

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import machine
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.operators.exact.functions import exponential, hyperbolic_tangent, logistic
from harness.operators.softmax import Softmax
from harness.targets.c.staged import StagedLowering
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.support.functions import definition, every_function

FOLDER = Path(__file__).resolve().parent
OPERATORS = ("Exp", "Tanh", "Sigmoid", "Softmax")
"""Names in the order of functions.c."""
FLAGS = ("-O3", "-march=native", "-std=gnu11", *EXACTNESS_FLAGS)
ROUNDS, CALLS = 200, 20


def library(folder: Path, width: int) -> ctypes.CDLL:
    """Return the compiled functions."""
    path, functions = folder / "functions.so", (exponential, hyperbolic_tangent, logistic)
    definitions = "\n".join(['#include "elementary.h"', *map(definition, functions)])
    [layer] = [layer for layer in every_function(width).layers if isinstance(layer, Softmax) and layer.count == width]
    code = StagedLowering().plain(layer, ("in",)).definitions.replace(f"{layer.name}_stages", "softmax_stages")
    unused = "#define ONE_CODE __attribute__((unused))\n#define DEFINE_STAGE(...)\n"
    (folder / "definitions.h").write_text(f"{definitions}\n{unused}{code}\n", encoding="utf-8")
    includes = [f"-I{FOLDER.parent / 'kernels/c'}", f"-I{folder}"]
    command = ["gcc", *FLAGS, "-shared", "-fPIC", *includes, str(FOLDER / "functions.c")]
    subprocess.run([*command, "-o", str(path), "-lm"], check=True)
    found = ctypes.CDLL(str(path))
    found.time_of.restype = ctypes.c_double
    return found


def runtime(operator: str, x: np.ndarray) -> Callable[[], object]:
    """Return a call of ONNX Runtime for this vector."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(x.shape)) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "function", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    given = onnxruntime.OrtValue.ortvalue_from_numpy(x)
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(x)))
    return lambda: session.run_with_iobinding(binding)


def measured(width: int) -> dict[str, dict[str, float]]:
    """Return the least ns per value of each operator, by implementation."""
    x = np.random.default_rng(1).normal(0, 3, (1, width)).astype(np.float32)
    y = np.empty_like(x)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, y)]
    least = {name: dict.fromkeys(("harness", "libm", "ONNX Runtime"), np.inf) for name in OPERATORS}
    with tempfile.TemporaryDirectory() as folder:
        timed = library(Path(folder), width).time_of
        sessions = {name: runtime(name, x) for name in OPERATORS}
        for _ in range(ROUNDS):
            for number, (name, session) in enumerate(sessions.items()):
                begin = time.perf_counter_ns()
                for _ in range(CALLS):
                    session()
                ns = {
                    "ONNX Runtime": (time.perf_counter_ns() - begin) / CALLS,
                    "harness": timed(number, ctypes.c_size_t(CALLS), ctypes.c_size_t(width), *pointers),
                    "libm": timed(number + len(OPERATORS), ctypes.c_size_t(CALLS), ctypes.c_size_t(width), *pointers),
                }
                least[name] = {kind: min(least[name][kind], ns[kind] / width) for kind in ns}
    return least


@click.command()
@click.option("--width", default=4096, help="Values of the vector.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(width: int, *, as_json: bool) -> None:
    """Measure and print."""
    least = measured(width)
    if as_json:
        click.echo(json.dumps({"width": width, "ns_per_value": least, "machine": machine.describe()}))
        return
    table = Table("operator", *next(iter(least.values())), title=f"ns per value, {width} values")
    for name, of_kinds in least.items():
        table.add_row(name, *(f"{ns:.2f}" for ns in of_kinds.values()))
    Console().print(table)
    Console().print(machine.describe())


if __name__ == "__main__":
    main()
