"""The GPU of a Xavier, an Orin or a PC: every operator in CUDA, in three ways.

`cuda:layerwise` has one readable kernel per layer, `cuda:fused` one kernel for all layers of a launch.  `cuda:tensor`
computes the sums of wide layers on tensor cores, and the others as `cuda:layerwise` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.targets.base import HARDWARE, KERNELS, KernelCompiler, Target
from harness.targets.cuda import fused, host, layerwise, tensor
from harness.targets.cuda.build import COMPILER, with_tensor_cores
from harness.targets.cuda.code import CudaLowering, LayerKernel
from harness.targets.cuda.settings import CudaSettings
from harness.targets.generated import ItemCode, Launch, TaskView, copied_bytes

SIMULATION = "host-simulation of CUDA"  # in simulators/cuda/libcuda.cpp, too


class Cuda(Target):
    """The target with one of its kinds of kernels."""

    name = "cuda"
    variants = ("layerwise", "fused", "tensor")
    Settings = CudaSettings
    lowering = CudaLowering
    device_memory = "GPU"
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
            made, header = layerwise.generate(launches, self.lowering_of, self._kernel), self._header()
            carried = layerwise.CARRIED
        fusing = {
            task.layer for launch in launches for task in launch if self.lowering_of(task.layer).fuses_multiply_add
        }
        return host.generate(
            item, made, header, carried, frozenset(f"{layer.name}_compute" for layer in fusing), launches
        )

    def device_bytes(self, launches: Sequence[Launch]) -> int:
        """Return the bytes of a copy in the memory of the GPU, and one that it reads and writes by DMA."""
        return 2 * copied_bytes(launches)

    def estimate(self, launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - of any board
        """Return which activations launches leave to those of other items in the memory of the GPU."""
        lines = []
        for launch in launches:
            taken = dict.fromkeys(name.removesuffix("_output") for task in launch for name in task.taken)
            if taken and any(task.awaited for task in launch):
                way = (
                    "stays on the GPU, where an event hands it"
                    if len(taken) == 1
                    else "stay on the GPU, where events hand them"
                )
                lines.append(f"{' and '.join(taken)} {way} over to {launch[0].layer.name}")
        return tuple(lines)

    def _kernel(self, task: TaskView) -> LayerKernel:
        lowering: CudaLowering[Any] = self.lowering_of(task.layer)
        return lowering.tensor_kernel(task) if self.variant == "tensor" else lowering.own_kernel(task)

    def _header(self) -> str:
        return tensor.HEADER if self.variant == "tensor" else layerwise.HEADER

    def kernels_of(self, code: ItemCode) -> Mapping[str, Sequence[str]]:
        """Return the kernels for the GPU."""
        return {kernel.name: kernel.layers for kernel in code.kernels.kernels}

    def compiler(self) -> KernelCompiler:
        """Return NVRTC."""
        return COMPILER

    def check_profile(self, profile: Profile) -> None:
        """Refuse also tensor cores that no GPU of the board has."""
        super().check_profile(profile)
        if self.variant == "tensor":
            with_tensor_cores(profile, profile.settings("cuda", CudaSettings))

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the simulation."""
        return SIMULATION if profile.simulated else HARDWARE

    def check_device(self, profile: Profile, device: str) -> str | None:
        """Find a simulation in the place of a GPU, or a GPU in the place of a simulation."""
        if device.startswith(SIMULATION) == profile.simulated:
            return None
        expected = "its simulation" if profile.simulated else "a GPU"
        return f"the driver on board {profile.name} calls itself {device!r}, but {expected} should be there"
