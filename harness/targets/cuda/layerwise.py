"""One kernel per layer, one thread per output: see kernels/cuda/layerwise.cuh."""

from __future__ import annotations

from collections.abc import Sequence

from harness.targets.cuda.code import (
    VECTORS_LIMIT,
    DeviceLaunch,
    DeviceLayer,
    Kernel,
    LoweringOf,
    c_type,
    output,
    parameters,
)
from harness.targets.generated import Launch, TaskView

HEADER = "layerwise.cuh"
CARRIED = VECTORS_LIMIT  # no block of threads carries vectors, so any number is right


def generate(launches: Sequence[Launch], lowering_of: LoweringOf) -> list[DeviceLaunch]:
    """Return the device code of an item."""
    return [_launch(launch, lowering_of) for launch in launches]


def _launch(launch: Launch, lowering_of: LoweringOf) -> DeviceLaunch:
    layers = []
    for task in launch:
        lowering = lowering_of(task.layer)
        tables, text = lowering.tables(task.layer), lowering.function(task.layer)
        layers.append(DeviceLayer(task, lowering.stages(task.layer), tables, text))
    texts, kernels = zip(*(_forward(task, lowering_of(task.layer).body(task)) for task in launch), strict=True)
    written = frozenset(output(task.layer) for task in launch)
    return DeviceLaunch(tuple(layers), kernels, "\n\n".join(texts), written)


def _forward(task: TaskView, statements: Sequence[str]) -> tuple[str, Kernel]:
    """Return the kernel of the schedule, which also computes single stages."""
    layer = task.layer
    sources = tuple(dict.fromkeys(task.sources))
    given = [(f"const {c_type(layer.input.dtype)}", source) for source in sources]
    arguments = parameters([*given, (c_type(layer.dtype), output(layer))])
    body = "\n".join(f"    {line}" for line in statements)
    name = f"{layer.name}_forward"
    return f"KERNEL {name}({arguments})\n{{\n{body}\n}}", Kernel(
        name, (*sources, output(layer)), layer.size, (layer.name,)
    )
