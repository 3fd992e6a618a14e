"""Concat in C: the values of all inputs are copied, one input after the other."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.base import Layer
from harness.operators.concat import Concat
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode


class ConcatLowering(CLowering[Concat]):
    """One copy per value, in all variants with loops."""

    operator = Concat

    def plain(self, layer: Concat, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over the values of each input, block by block."""
        if layer.blocks == 1:
            loops = [
                f"for (size_t n = 0; n < {size}u; ++n)\n        out[{start} + n] = in_{number}[n];"
                for number, (size, start) in enumerate(_parts(layer))
            ]
            return code.of_inputs(layer, sources, "\n    ".join(loops))
        whole = layer.size // layer.blocks
        loops = [
            f"    for (size_t n = 0; n < {size}u; ++n)\n"
            f"            out[b * {whole} + {start} + n] = in_{number}[b * {size} + n];"
            for number, (size, start) in enumerate(_parts(layer))
        ]
        body = "\n    ".join([f"for (size_t b = 0; b < {layer.blocks}u; ++b) {{", *loops, "}"])
        return code.of_inputs(layer, sources, body)

    def unrolled(self, layer: Concat, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        values = (
            f"in_{number}[{block * size + n}]"
            for block in range(layer.blocks)
            for number, (size, _) in enumerate(_parts(layer))
            for n in range(size)
        )
        return code.of_inputs(layer, sources, code.assigned(values))


def starts(layer: Layer) -> list[int]:
    """Return where the values of each input begin in the output."""
    sizes = [tensor.size for tensor in layer.inputs]
    return [sum(sizes[:number]) for number in range(len(sizes))]


def _parts(layer: Concat) -> list[tuple[int, int]]:
    """Return how many values each input has in a block of the output, and where they begin there."""
    sizes = layer.sizes.tolist()
    return [(size, sum(sizes[:number])) for number, size in enumerate(sizes)]
