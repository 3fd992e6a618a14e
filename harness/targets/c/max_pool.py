"""MaxPool in C: the largest value of each window, without branches that depend on data."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.max_pool import MaxPool
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import C_TYPES, LayerCode


class MaxPoolLowering(CLowering[MaxPool]):
    """One comparison per value of a window."""

    operator = MaxPool
    headers = ("max_pool.h", "max_pool_vector.h")

    def plain(self, layer: MaxPool, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call kernels/c/max_pool.h."""
        call = f"{prefix}max_pool_{layer.dtype}(&window, {layer.input.shape[0]}, in, out);"
        return code.elementwise(layer, sources, (), f"{code.window(layer.window)}\n    {call}")

    def vector(self, layer: MaxPool, sources: Sequence[str]) -> LayerCode:
        """Call kernels/c/max_pool_vector.h."""
        if not layer.of_codes:
            return code.elementwise(layer, sources, (), code.pool_vector("max_pool_float32", layer))
        window, c_type = layer.window, C_TYPES[layer.dtype.name]
        length = window.reach[1]
        call = f"max_pool_vector_{layer.dtype}(&window, {layer.input.shape[0]}, in, line, {length}, out);"
        line = f"{c_type} line[{length}] {code.ALIGNED};"
        return code.elementwise(layer, sources, (), f"{code.window(window)}\n    {line}\n    {call}")

    def unrolled(self, layer: MaxPool, sources: Sequence[str]) -> LayerCode:
        """Write every comparison."""
        windows = layer.window.sources(layer.input.shape[0]).reshape(layer.size, -1)
        lines = []
        for n, places in enumerate(windows.tolist()):
            first, *others = [at for at in places if at >= 0]
            lines.append(f"out[{n}] = in[{first}];")
            lines += [f"out[{n}] = (in[{at}] > out[{n}]) ? in[{at}] : out[{n}];" for at in others]
        return code.elementwise(layer, sources, (), "\n    ".join(lines))
