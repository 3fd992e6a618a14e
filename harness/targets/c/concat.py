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
        """Loop over the values of each input."""
        loops = [
            f"for (size_t n = 0; n < {tensor.size}; ++n)\n        out[{start} + n] = in_{number}[n];"
            for number, (tensor, start) in enumerate(zip(layer.inputs, starts(layer), strict=True))
        ]
        return code.of_inputs(layer, sources, "\n    ".join(loops))

    def unrolled(self, layer: Concat, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        values = (f"in_{number}[{n}]" for number, tensor in enumerate(layer.inputs) for n in range(tensor.size))
        return code.of_inputs(layer, sources, code.assigned(values))


def starts(layer: Layer) -> list[int]:
    """Return where the values of each input begin in the output."""
    sizes = [tensor.size for tensor in layer.inputs]
    return [sum(sizes[:number]) for number in range(len(sizes))]
