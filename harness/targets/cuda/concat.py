"""Concat in CUDA: every output is a value of one of the inputs."""

from __future__ import annotations

from harness.operators.concat import Concat
from harness.targets.cuda.code import VectorLowering


class ConcatLowering(VectorLowering[Concat]):
    """One copy per value; the inputs follow each other in every block of the output."""

    operator = Concat
    fuses = False

    def value(self, layer: Concat) -> str:
        """Choose the input by the place in the block."""
        lines, begin = (
            [f"const unsigned at = n % {layer.size // layer.blocks}, block = n / {layer.size // layer.blocks};"],
            0,
        )
        for number, size in enumerate(layer.sizes.tolist()):
            lines.append(f"if (at < {begin + size})\n    return x_{number}[block * {size} + at - {begin}];")
            begin += size
        return "\n".join([*lines[:-1], lines[-1].partition("\n    ")[2]])
