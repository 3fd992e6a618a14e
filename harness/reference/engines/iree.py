"""IREE: its importer of ONNX, its compiler for this processor, and its runtime, by their Python packages.

The code is for a processor without fused multiply-adds where one exists (x86-64): IREE would contract float32 products
and sums.  float64 stays float64.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.reference import engines

FLAGS = ("--iree-llvmcpu-target-cpu=generic", "--iree-input-demote-f64-to-f32=false")
LONGEST_COMPILATION_S = 1800


class Engine(engines.Engine):
    """A model that IREE compiled."""

    packages = ("iree-base-compiler", "iree-base-runtime")

    def __init__(self, model: onnx.ModelProto) -> None:
        from iree import runtime  # here, because other runs should not load it

        with tempfile.TemporaryDirectory() as folder:
            config = runtime.Config("local-sync")
            context = runtime.SystemContext(config=config)
            module = runtime.VmModule.copy_buffer(context.instance, _compiled(model, Path(folder)))
        context.add_vm_module(module)
        self._function = context.modules[module.name][model.graph.name]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs, copied from the memory of IREE."""
        try:
            found = self._function(*inputs)
        except (RuntimeError, ValueError) as error:
            raise engines.RefusedError(str(error).splitlines()[0]) from error
        return [np.array(each.to_host()) for each in (found if isinstance(found, Sequence) else [found])]


def _compiled(model: onnx.ModelProto, folder: Path) -> bytes:
    from iree.compiler import tools

    source, imported, module = (folder / name for name in ("model.onnx", "model.mlir", "model.vmfb"))
    onnx.save(model, source)
    importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(source), "-o", str(imported)]
    _run(importer)
    compiler = tools.binaries.find_tool("iree-compile")
    options = (
        "--iree-input-type=onnx",
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
    )
    _run([compiler, str(imported), *options, *FLAGS, "-o", str(module)])
    return module.read_bytes()


def _run(command: Sequence[str]) -> None:
    """Run a tool; raise RefusedError with its first error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_COMPILATION_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise engines.RefusedError(f"{Path(command[0]).name} did not end within {error.timeout:g} s") from error
    if done.returncode:
        lines = [line.partition("error: ")[2] or line for line in done.stderr.splitlines() if "rror" in line]
        raise engines.RefusedError((lines or done.stderr.splitlines() or [f"exit code {done.returncode}"])[0][:300])
