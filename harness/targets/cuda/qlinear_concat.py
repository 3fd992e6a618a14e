"""QLinearConcat in CUDA: a table of 256 codes for each input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.cuda.code import (
    CudaLowering,
    FusedTask,
    c_type,
    of_one_value,
    output,
    positions_of,
    tile,
    values_of,
)
from harness.targets.generated import Table, TaskView


class QLinearConcatLowering(CudaLowering[QLinearConcat]):
    """One access per value."""

    operator = QLinearConcat

    def tables(self, layer: QLinearConcat) -> tuple[Table, ...]:
        """Return the outputs for all codes of each input."""
        origin = "outputs for all codes of each input, from the lowest on"
        return (Table(f"{layer.name}_table", layer.table(), origin, computed=True),)

    def function(self, layer: QLinearConcat) -> str:
        """Look one code of an input up."""
        entry = f"{layer.name}_table[input][x - ({np.iinfo(layer.dtype).min})]"
        return of_one_value(layer, f"{c_type(layer.dtype)} x, unsigned input", entry)

    def body(self, task: TaskView) -> list[str]:
        """Find the input of an output by its place."""
        layer: Any = task.layer
        y = c_type(layer.dtype)
        total, starts = sum(each.size for each in layer.inputs), _starts(layer)
        pointers = [
            line
            for number, (source, start) in enumerate(zip(task.sources, starts, strict=True))
            for line in (
                f"const {y} *const in_{number} = part == COMPUTE ? (const {y} *)given + {start} : {source};",
                f"const size_t pitch_{number} = part == COMPUTE ? {total} : {layer.inputs[number].size};",
            )
        ]

        def value(number: int, place: str) -> str:
            return f"in_{number}[at.v * pitch_{number} + {place}]"

        return [
            *pointers,
            f"{y} *const y = part == COMPUTE ? ({y} *)made : {output(layer)};",
            f"write_outputs<{layer.size}>(vectors, y, [&](const Output<{layer.size}> &at) {{",
            *_chosen(layer, "at.n", value),
            "});",
        ]

    def steps(self, task: FusedTask) -> list[str]:
        """Find the input of an output by its place."""
        layer: Any = task.layer

        def value(number: int, place: str) -> str:
            return f"{values_of(task, number)}[{place}]"

        sizes = f"{c_type(layer.dtype)}, {layer.size}, {positions_of(layer.output)}"
        return [
            f"fill<{sizes}>({tile(output(layer))}, [&](unsigned v, unsigned n) {{",
            *_chosen(layer, "n", value),
            "});",
        ]


def _starts(layer: QLinearConcat) -> list[int]:
    """Return the place of the first value of each input."""
    return [sum(each.size for each in layer.inputs[:number]) for number in range(len(layer.inputs))]


def _chosen(layer: QLinearConcat, n: str, value: Callable[[int, str], str]) -> Iterator[str]:
    """Yield statements that return output n; `value` returns the text of a value of an input."""
    starts = _starts(layer)
    for number, start in enumerate(starts):
        condition = f"if ({n} < {starts[number + 1]})\n        " if number + 1 < len(starts) else ""
        yield f"    {condition}return {layer.name}_compute({value(number, f'{n} - {start}u')}, {number});"
