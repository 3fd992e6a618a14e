"""The GPU of a Xavier, an Orin or a PC: every operator in CUDA, in two ways.

`cuda:layerwise` has one readable kernel a layer, `cuda:fused` one kernel for all layers of a launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.targets import HARDWARE, KERNELS, ItemCode, KernelCompiler, Launch
from harness.targets.cuda import fused, host, layerwise
from harness.targets.cuda.build import COMPILER

SIMULATION = "host-simulation of CUDA"  # in simulators/cuda/libcuda.cpp, too


UNCONFIRMED = ("all that only a GPU can show: run `make test-gpu` on a machine with one, see docs/evidence/README.md",)


@dataclass(frozen=True)
class Cuda:
    """The target with one of its kinds of kernels."""

    kernels: ModuleType
    together: bool = True
    unconfirmed: tuple[str, ...] = UNCONFIRMED
    taken_for_granted: str = ""

    def refusal(self, layer: Layer) -> str | None:
        """Why this target cannot compute `layer` exactly; None if it can."""
        reason: str | None = self.kernels.refusal(layer)
        return reason

    def folders(self) -> tuple[Path, ...]:
        """Folders of fixed sources."""
        return (KERNELS / "cuda",)

    def headers(self) -> tuple[str, ...]:
        """The headers that the generated C code needs."""
        return ("gpu.h",)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:
        """The code of an item, for the processor and for the GPU."""
        made = self.kernels.generate(launches)
        return host.generate(item, made, self.kernels.HEADER, self.kernels.carried(launches))

    def compiler(self) -> KernelCompiler:
        """NVRTC."""
        return COMPILER

    def ran_on(self, profile: Profile) -> str:
        """`hardware`, or the simulation."""
        return SIMULATION if profile.simulated else HARDWARE

    def contradiction(self, profile: Profile, device: str) -> str | None:
        """A simulation in the place of a GPU, or the other way round."""
        if device.startswith(SIMULATION) == profile.simulated:
            return None
        expected = "its simulation" if profile.simulated else "a GPU"
        return f"the driver on board {profile.name} calls itself {device!r}, but {expected} should be there"

    def shortage(self, launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG002 - of the interface
        """None: what a GPU has no memory for, its driver refuses."""
        return None

    def forecast(self, launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:  # noqa: ARG002 - of the interface
        """Nothing."""
        return ()


VARIANTS = {"layerwise": Cuda(layerwise), "fused": Cuda(fused)}
