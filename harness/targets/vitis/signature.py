"""Names and arguments of the kernels in the fabric: what XRT passes, and what an xclbin must say of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

LONGEST_NAME = 30
"""Longest name of a kernel: an xclbin has 64 bytes for `<kernel>:<kernel>_1` and its zero; XRT finds no longer one."""
DIGITS = 8  # of a digest in the place of what a name has too many


def kernel_name(layer: str) -> str:
    """Return the name of the kernel whose first layer has this name, [a-z][a-z0-9_]*, of any length."""
    name = f"{layer}_kernel"
    if len(name) <= LONGEST_NAME:
        return name
    end = f"_{hashlib.sha256(layer.encode()).hexdigest()[:DIGITS]}_kernel"
    return layer[: LONGEST_NAME - len(end)].rstrip("_") + end  # two together are not a program's in C++


@dataclass(frozen=True)
class Argument:
    """An argument of the kernel: its name and type in C++, its bytes, and where its register lies.

    A pointer is to a buffer in memory, by a port of its own.
    """

    name: str
    c_type: str
    size: int
    offset: int
    port: str = "S_AXI_CONTROL"

    @property
    def is_buffer(self) -> bool:
        """Return whether it is a buffer in memory."""
        return self.c_type.endswith("*")


ARGUMENTS = (
    Argument("given", "const int*", 8, 0x10, "M_AXI_GMEM0"),
    Argument("made", "int*", 8, 0x1C, "M_AXI_GMEM1"),
    Argument("vectors", "unsigned int", 4, 0x28),
    Argument("everything", "unsigned int", 4, 0x30),
    Argument("part", "unsigned int", 4, 0x38),
    Argument("layer", "unsigned int", 4, 0x40),
    Argument("given_width", "unsigned int", 4, 0x48),
    Argument("made_width", "unsigned int", 4, 0x50),
)
"""The arguments in order; those after the buffers are `struct question` of kernels/vitis/question.h.

Where Vitis HLS lays registers: a pointer takes two words and one that is reserved, a scalar one and one.
"""
