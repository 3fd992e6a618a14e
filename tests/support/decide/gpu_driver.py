"""The simulated driver of a GPU that has the kernel of kernels/decide/decide.cu."""

from __future__ import annotations

from pathlib import Path

from harness.targets.base import KERNELS, SIMULATORS
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.simulators.cuda.simulated import LANGUAGE_FLAGS, compile_quietly

REGISTRY = """#include "cuda_on_cpu.h"
#define WIDTH 128
#define SCORES 64
#include "decide.cu"
#include "registry.h"
const simulated_kernel simulated_kernels[] = {SIMULATED_KERNEL(decide_batches, true)};
const size_t simulated_kernel_count = 1;
const simulated_table simulated_tables[] = {{nullptr, nullptr, 0}};
const size_t simulated_table_count = 0;
"""
"""For networks of at most 128 values in a layer."""


def build(folder: Path) -> Path:
    """Build libcuda.so.1 in the folder."""
    (folder / "registry.cpp").write_text(REGISTRY)
    simulator, library = SIMULATORS / "cuda", folder / "libcuda.so.1"
    sources = [folder / "registry.cpp", *sorted(simulator.glob("*.cpp"))]
    include = [f"-I{path}" for path in (simulator, KERNELS / "cuda", KERNELS / "decide")]
    flags = [*LANGUAGE_FLAGS, *EXACTNESS_FLAGS, "-DSIMULATED_ARCH=72", "-O1"]
    compile_quietly(["gcc", *flags, *include, *map(str, sources)], library)
    return library
