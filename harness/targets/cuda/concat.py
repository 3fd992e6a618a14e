"""Concat in CUDA: every output is a value of one of the inputs."""

from __future__ import annotations

from harness.operators.concat import Concat
from harness.targets.cuda.code import VectorLowering


class ConcatLowering(VectorLowering[Concat]):
    """One copy per value; the inputs follow each other in every block of the output."""

    operator = Concat

    def value(self, layer: Concat) -> str:
        """Choose the input by the place in the block."""
        whole, begin = layer.size // layer.blocks, 0
        lines = [f"const unsigned at = n % {whole}, block = n / {whole};"]
        for number, size in enumerate(layer.sizes.tolist()):
            condition = "" if begin + size == whole else f"if (at < {begin + size})\n    "
            lines.append(f"{condition}return x_{number}[block * {size} + at - {begin}];")
            begin += size
        return "\n".join(lines)
