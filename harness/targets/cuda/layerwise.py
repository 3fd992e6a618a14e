"""One kernel per layer: see kernels/cuda/layerwise.cuh, and kernels/cuda/tensor.cuh for wide layers on tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.targets.cuda.code import (
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    LayerKernel,
    LoweringOf,
    c_type,
    output,
    parameters,
)
from harness.targets.generated import Launch, TaskView

HEADER = "layerwise.cuh"
CARRIED = VECTORS_LIMIT  # no block of threads carries vectors, so any number is right

KernelOf = Callable[[TaskView], LayerKernel]


def generate(launches: Sequence[Launch], lowering_of: LoweringOf, kernel_of: KernelOf) -> list[DeviceLaunch]:
    """Return the device code of an item."""
    return [_launch(launch, lowering_of, kernel_of) for launch in launches]


def _launch(launch: Launch, lowering_of: LoweringOf, kernel_of: KernelOf) -> DeviceLaunch:
    of_tasks = [(task, kernel_of(task)) for task in launch]
    layers = tuple(
        DeviceLayer(task, lowering_of(task.layer).stages(task.layer), kernel.tables, kernel.text)
        for task, kernel in of_tasks
    )
    texts, kernels = zip(*(_forward(task, kernel) for task, kernel in of_tasks), strict=True)
    written = frozenset(output(task.layer) for task in launch)
    return DeviceLaunch(layers, kernels, "\n\n".join(texts), written)


def _forward(task: TaskView, kernel: LayerKernel) -> tuple[str, Kernel]:
    """Return the kernel of the schedule, which also computes single stages."""
    layer = task.layer
    sources = tuple(dict.fromkeys(task.sources))
    given = [(f"const {c_type(layer.input.dtype)}", source) for source in sources]
    arguments = parameters([*given, (c_type(layer.dtype), output(layer))])
    body = "\n".join(f"    {line}" for line in kernel.body)
    name = f"{layer.name}_forward"
    return f"KERNEL {name}({arguments})\n{{\n{body}\n}}", Kernel(
        name, (*sources, output(layer)), kernel.threads, (layer.name,), other_words=kernel.words
    )
