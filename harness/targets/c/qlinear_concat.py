"""QLinearConcat in C: a table of 256 codes for each input; one that has the quantisation of the output is copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.concat import starts
from harness.targets.generated import LayerCode, Table


class QLinearConcatLowering(CLowering[QLinearConcat]):
    """One access per value; `vector` has the instructions of kernels/c/lookup_vector.h."""

    operator = QLinearConcat
    headers = ("lookup.h", "lookup_vector.h")

    def plain(self, layer: QLinearConcat, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/lookup.h."""
        return _calling(f"{prefix}lookup", layer, sources)

    def vector(self, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/lookup_vector.h."""
        return _calling("lookup_vector", layer, sources)

    def inlined(self, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
        """Loop over the values of each input."""

        def loop(number: int, start: int) -> str:
            return _loop(layer, number, start, _entry(layer, number, "n"))

        return _of_each_input(layer, sources, loop)

    def unrolled(self, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
        """Write every access."""
        values = (
            f"in_{number}[{n}]" if layer.x[number] == layer.y else _entry(layer, number, str(n))
            for number, source in enumerate(layer.inputs)
            for n in range(source.size)
        )
        return code.of_inputs(layer, sources, code.assigned(values), (_table(layer),))


def _of_each_input(layer: QLinearConcat, sources: Sequence[str], requantised: Callable[[int, int], str]) -> LayerCode:
    """Return the statements of all inputs, by their numbers and the places at which they start."""
    statements = [
        _loop(layer, number, start, f"in_{number}[n]") if layer.x[number] == layer.y else requantised(number, start)
        for number, start in enumerate(starts(layer))
    ]
    return code.of_inputs(layer, sources, "\n    ".join(statements), (_table(layer),))


def _calling(function: str, layer: QLinearConcat, sources: Sequence[str]) -> LayerCode:
    def call(number: int, start: int) -> str:
        size = layer.inputs[number].size
        return f"{function}_{layer.dtype}({size}, in_{number}, {layer.name}_table[{number}], &out[{start}]);"

    return _of_each_input(layer, sources, call)


def _loop(layer: QLinearConcat, number: int, start: int, value: str) -> str:
    return f"for (size_t n = 0; n < {layer.inputs[number].size}u; ++n)\n        out[{start} + n] = {value};"


def _entry(layer: QLinearConcat, number: int, place: str) -> str:
    return f"{layer.name}_table[{number}][in_{number}[{place}] - ({np.iinfo(layer.dtype).min})]"


def _table(layer: QLinearConcat) -> Table:
    return Table(f"{layer.name}_table", layer.table(), "outputs for all codes of each input, from the lowest on")
