"""One inference on one thread of one core: the generated C, as deployed on `host`, against ONNX Runtime's C API.

    .venv/bin/python benchmarks/inference.py [--shape 5-50x6-5] [--targets c,c:vector] [--json]

All compute the same random network on the same 4096 vectors, and must agree in every bit of its outputs before they
are timed.  Calls are timed one by one, in alternating slices; each time contains two readings of the clock.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import distribution
from pathlib import Path

import click
import machine
import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from harness import model, targets
from harness.boards import profile
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.errors import HarnessError, ToolError
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.plan import planner
from harness.targets import KERNELS, toolchain
from harness.targets.toolchain import Compiler

sys.path.append(str(ROOT))
from tests.support import builders

HERE = Path(__file__).parent
COMMON = tuple(KERNELS / "program" / name for name in ("npy.c", "fail.c", "copy_padded.c"))
SOURCES = (HERE / "inference.c", HERE / "onnxruntime.c", *COMMON)
INCLUDE = (HERE, KERNELS / "program", KERNELS / "c")
WEIGHTS = ("int8", "uint8")
VECTORS = 4096
SEED = 1


@dataclass(frozen=True)
class Times:
    """Of all calls of one contender, in nanoseconds."""

    minimum_ns: int
    median_ns: int


@dataclass(frozen=True)
class Result:
    """One network; `clock` is what two readings of the clock alone took, `generated` goes by the name of the target."""

    weights: str
    clock: Times
    onnxruntime: Times
    generated: dict[str, Times]

    def ratio(self, target: str) -> float:
        """How many times the generated C is faster, by the minima."""
        return self.onnxruntime.minimum_ns / self.generated[target].minimum_ns

    def median_ratio(self, target: str) -> float:
        """Return the same by the medians."""
        return self.onnxruntime.median_ns / self.generated[target].median_ns


def build_model(weights: str, widths: Sequence[int]) -> onnx.ModelProto:
    """QuantizeLinear, one QGemm for every pair of `widths`, DequantizeLinear; for one vector at a time.

    The batch is fixed, not symbolic, because ONNX Runtime is a little faster then.
    """
    model = builders.random_network(np.random.default_rng(SEED), widths, weights=weights, dequantize=True)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    return model


def build_program(
    net: Network, chosen: Sequence[str], host: Profile, compiler: Compiler, folder: Path, more: Sequence[str] = ()
) -> Path:
    """Generate and compile for each target as `harness run --board host --block 1` does, with one main() for all.

    `more` are macros of onnxruntime.c.
    """
    objects = [build_network(net, number, target, host, compiler, folder) for number, target in enumerate(chosen)]
    contenders = folder / "contenders.c"
    contenders.write_text(list_networks(len(chosen)))
    program = folder / "benchmark"
    definitions = (f"TIME_SOURCE={host.time_source}", *more)
    compiler.build(folder, (contenders, *SOURCES, *objects), INCLUDE, definitions, program)
    return program


def build_network(net: Network, number: int, target: str, host: Profile, compiler: Compiler, folder: Path) -> Path:
    """Return the object file of a generated network, which is called network_<number>."""
    source, compiled = folder / f"network_{number}.c", folder / f"network_{number}.o"
    write_source(codegen.generate(planner.make(net, host, [target] * len(host.items), block=1)), source)
    definitions = (f"TIME_SOURCE={host.time_source}", f"network=network_{number}")
    compiler.build(folder, (source,), INCLUDE, definitions, compiled, ("-c",))
    return compiled


def write_source(program: codegen.Program, source: Path) -> None:
    """Write the generated C to `source`, and its large tables beside it."""
    for path, content in program.files.items():
        file = source if path == "network.c" else source.parent / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)


def list_networks(count: int) -> str:
    """Return the C text that names all generated networks."""
    names = [f"network_{number}" for number in range(count)]
    declared = "\n".join(f"extern const struct network {name};" for name in names)
    listed = ", ".join(f"&{name}" for name in names)
    return (
        f'#include "inference.h"\n\n{declared}\n'
        f"const struct network *const networks[] = {{{listed}}};\nconst size_t network_count = {count};\n"
    )


def runtime_library() -> Path:
    """Return the shared library of the installed onnxruntime package; ToolError if it has none."""
    files = distribution("onnxruntime").files or []
    for file in files:
        if re.match(r"libonnxruntime\.so\.\d", file.name):
            return Path(file.locate())
    raise ToolError("the package onnxruntime has no libonnxruntime.so", "run the benchmark on Linux")


def run(program: Path, net: Network, core: int, passes: int, count: int = VECTORS) -> None:
    """Run the compiled program in its folder, where it leaves the times.  ToolError if it fails."""
    folder = program.parent
    (folder / "model.onnx").write_bytes(net.onnx_bytes)
    low, high = net.box
    vectors = np.random.default_rng(SEED).uniform(low, high, (count, net.vector.size))
    np.save(folder / "vectors.npy", vectors.astype(np.float32))
    names = (net.vector.name, net.layers[-1].output.name)
    arguments = (runtime_library(), folder / "model.onnx", *names, folder / "vectors.npy", core, passes, folder)
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(
            f"the benchmark failed: {done.stderr.strip()}",
            "--core must name a core of this machine; outputs that differ are a defect, which ONNX Runtime has with "
            "int8 weights on x86-64 without VNNI",
        )


def read_times(path: Path) -> Times:
    """Minimum and median of the uint32 nanoseconds that the program wrote."""
    time_ns = np.load(path)
    return Times(int(time_ns.min()), int(np.median(time_ns)))


def measure(
    weights: str, widths: Sequence[int], chosen: Sequence[str], host: Profile, core: int, passes: int
) -> Result:
    """Build and time the network with this type of weights."""
    net = model.parse(build_model(weights, widths).SerializeToString(), "benchmark")
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as name:
        folder = Path(name)
        run(build_program(net, chosen, host, toolchain.find(host), folder), net, core, passes)
        generated = {target: read_times(folder / f"network_{number}.npy") for number, target in enumerate(chosen)}
        return Result(weights, read_times(folder / "clock.npy"), read_times(folder / "onnxruntime.npy"), generated)


def parse_shape(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[int, ...]:
    """Return the widths that 5-50x6-5 stands for: (5, 50, 50, 50, 50, 50, 50, 5)."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)?(-[1-9]\d*(x[1-9]\d*)?)+", value):
        raise click.BadParameter("expected widths such as 5-50x6-5, which is 5, six times 50, 5")
    parts = (part.partition("x") for part in value.split("-"))
    return tuple(int(width) for width, _, times in parts for _ in range(int(times or 1)))


def parse_targets(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Names of targets that need no device; BadParameter if one is not known."""
    chosen = tuple(dict.fromkeys(value.split(",")))
    known = [name for name in targets.names() if name.partition(":")[0] == "c"]
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise click.BadParameter(f"unknown target {unknown[0]!r}; valid choices: {', '.join(known)}")
    return chosen


def table(results: Sequence[Result]) -> Table:
    """One row a contender."""
    shown = Table(title="one inference, ns", title_justify="left")
    for heading in ("weights", "", "minimum", "median", "ratio of minima", "of medians"):
        shown.add_column(heading, justify="left" if heading in {"weights", ""} else "right")
    for result in results:
        for target, times in result.generated.items():
            ratios = (f"{result.ratio(target):.1f}", f"{result.median_ratio(target):.1f}")
            shown.add_row(result.weights, target, *in_digits(times), *ratios)
        shown.add_row(result.weights, "onnxruntime", *in_digits(result.onnxruntime))
        shown.add_row(result.weights, "clock", *in_digits(result.clock), end_section=True)
    return shown


def in_digits(times: Times) -> tuple[str, str]:
    """Minimum and median for a person."""
    return f"{times.minimum_ns:,}", f"{times.median_ns:,}"


def document(result: Result) -> dict[str, object]:
    """For a program."""
    ratios = {
        target: {"ratio": result.ratio(target), "median_ratio": result.median_ratio(target)}
        for target in result.generated
    }
    return asdict(result) | {"ratios": ratios}


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--shape", "widths", default="5-50x6-5", show_default=True, callback=parse_shape, help="Layer widths.")
@click.option(
    "--targets", "chosen", default="c,c:vector", show_default=True, callback=parse_targets, help="Which generated C."
)
@click.option("--core", default=max(os.sched_getaffinity(0)), show_default=True, help="The core to run on.")
@click.option("--passes", default=20, show_default=True, type=click.IntRange(1), help=f"Times {VECTORS} calls.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(widths: tuple[int, ...], chosen: tuple[str, ...], core: int, passes: int, *, as_json: bool) -> None:
    """Measure int8 and uint8 weights and print the results."""
    try:
        host = profile.load(ROOT / "boards.yaml").board("host")
        compiler = toolchain.find(host)
        results = [measure(weights, widths, chosen, host, core, passes) for weights in WEIGHTS]
    except HarnessError as error:
        raise click.ClickException(f"{error.message}\nhint: {error.hint}") from error
    where = machine.describe() | {"compiler": compiler.identity, "flags": " ".join(compiler.flags)}
    if as_json:
        measured = [document(result) for result in results]
        click.echo(json.dumps({"widths": widths, "machine": where, "results": measured}, indent=1))
        return
    for key, value in where.items():
        click.echo(f"{key}: {value}")
    Console().print(table(results))


if __name__ == "__main__":
    main()
