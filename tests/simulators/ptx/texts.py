"""PTX written for a test: kernels of a few instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.simulators.ptx.interpreter import Module
from tests.simulators.ptx.operations import Array

REGISTERS = """
    .reg .pred %p<8>;
    .reg .b16 %rs<8>;
    .reg .b32 %r<16>;
    .reg .f32 %f<8>;
    .reg .b64 %rd<16>;
"""
# By the kind and the bytes of an element: its register, and how it is loaded and stored.
_REGISTER = {"u2": "rs", "i2": "rs", "u4": "r", "i4": "r", "f4": "f", "u8": "rd", "i8": "rd"}
_TYPE = {"u2": "u16", "i2": "u16", "u4": "u32", "i4": "u32", "f4": "f32", "u8": "u64", "i8": "u64"}


def kernel(body: str, parameters: int = 2, before: str = "", target: str = "sm_72", declarations: str = "") -> str:
    """An entry `run` of so many pointers, %rd1 and so on, over the body; %r1 is the thread of the block."""
    names = ", ".join(f".param .u64 run_param_{number}" for number in range(parameters))
    loads = "".join(f"    ld.param.u64 %rd{n + 1}, [run_param_{n}];\n" for n in range(parameters))
    return f""".version 7.8
.target {target}
.address_size 64
{before}
.visible .entry run({names})
{{{REGISTERS}{declarations}
{loads}    mov.u32 %r1, %tid.x;
{body}
    ret;
}}
"""


def evaluate(opcode: str, result: str, *operands: Any) -> Array:
    """What an instruction makes of arrays, (n,) each: one element a thread; `result` is the type that it is read as.

    bool arrays become predicates, bool results 0 and 1; Python integers are immediates.
    """
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    count, number = len(arrays[0]), 0
    lines: list[str] = []
    names: list[str] = []
    for operand in operands:
        if isinstance(operand, np.ndarray):
            names.append(_load(lines, operand, number))
            number += 1
        else:
            names.append(str(operand))
    output = np.zeros(count, "uint32" if result == "bool" else result)
    code = output.dtype.str[1:]
    target = "%p7" if result == "bool" else f"%{_REGISTER[code]}7"
    lines.append(f"    {opcode} {target}, {', '.join(names)};")
    if result == "bool":
        lines.append("    selp.u32 %r7, 1, 0, %p7;")
    lines += [f"    mul.wide.u32 %rd9, %r1, {output.itemsize};", f"    add.s64 %rd9, %rd{number + 1}, %rd9;"]
    lines.append(f"    st.global.{_TYPE[code]} [%rd9], %{_REGISTER[code]}7;")
    words = [array.astype(np.uint32) if array.dtype == np.bool_ else array for array in arrays]
    Module(kernel("\n".join(lines), number + 1)).launch("run", (1, 1, 1), (count, 1, 1), [*words, output])
    return output.astype(np.bool_) if result == "bool" else output


def _load(lines: list[str], array: Array, number: int) -> str:
    """Load the thread's element of an array, the pointer to which is in %rd{number + 1}."""
    code = "u4" if array.dtype == np.bool_ else array.dtype.str[1:]
    register = f"%{_REGISTER[code]}{number + 2 if code[1] != '8' else number + 10}"
    lines.append(f"    mul.wide.u32 %rd9, %r1, {int(code[1])};")
    lines.append(f"    add.s64 %rd9, %rd{number + 1}, %rd9;")
    lines.append(f"    ld.global.{_TYPE[code]} {register}, [%rd9];")
    if array.dtype != np.bool_:
        return register
    lines.append(f"    setp.ne.u32 %p{number + 2}, {register}, 0;")
    return f"%p{number + 2}"
