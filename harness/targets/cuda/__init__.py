"""The GPU of a Xavier, an Orin or a PC: every operator in CUDA, in two ways.

`cuda:layerwise` has one readable kernel per layer, `cuda:fused` one kernel for all layers of a launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.targets.base import HARDWARE, KERNELS, KernelCompiler, Target
from harness.targets.cuda import fused, host, layerwise
from harness.targets.cuda.build import COMPILER
from harness.targets.cuda.code import CudaLowering
from harness.targets.cuda.settings import CudaSettings
from harness.targets.generated import ItemCode, Launch

SIMULATION = "host-simulation of CUDA"  # in simulators/cuda/libcuda.cpp, too


class Cuda(Target):
    """The target with one of its kinds of kernels."""

    name = "cuda"
    variants = ("layerwise", "fused")
    Settings = CudaSettings
    lowering = CudaLowering
    fuses_tasks = True
    hardware_checklist = (
        "all that only a GPU can show: run `make test-gpu` on a machine with one, see docs/evidence/README.md",
    )

    def unsupported(self, layer: Layer) -> str | None:
        """Refuse also layers that exceed the shared memory of a fused kernel."""
        reason = super().unsupported(layer)
        if reason is None and self.variant == "fused":
            return fused.too_large(layer, self.lowering_of(layer))
        return reason

    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the kernels, and that of elementary.h."""
        return KERNELS / "cuda", KERNELS / "c"

    def headers(self) -> tuple[str, ...]:
        """Return the headers of the generated C code."""
        return ("gpu.h",)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """Return the code of an item, for the processor and for the GPU."""
        if self.variant == "fused":
            made, header = fused.generate(launches, self.lowering_of), fused.HEADER
            carried = fused.carried(launches, self.lowering_of)
        else:
            made, header, carried = layerwise.generate(launches, self.lowering_of), layerwise.HEADER, layerwise.CARRIED
        fusing = {
            task.layer for launch in launches for task in launch if self.lowering_of(task.layer).fuses_multiply_add
        }
        return host.generate(item, made, header, carried, frozenset(f"{layer.name}_compute" for layer in fusing))

    def kernels_of(self, code: ItemCode) -> Mapping[str, Sequence[str]]:
        """Return the kernels for the GPU."""
        return {kernel.name: kernel.layers for kernel in code.kernels.kernels}

    def compiler(self) -> KernelCompiler:
        """Return NVRTC."""
        return COMPILER

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the simulation."""
        return SIMULATION if profile.simulated else HARDWARE

    def check_device(self, profile: Profile, device: str) -> str | None:
        """Find a simulation in the place of a GPU, or a GPU in the place of a simulation."""
        if device.startswith(SIMULATION) == profile.simulated:
            return None
        expected = "its simulation" if profile.simulated else "a GPU"
        return f"the driver on board {profile.name} calls itself {device!r}, but {expected} should be there"
