"""Instructions that multiply and add with one rounding, in machine code for x86-64 and aarch64."""

from __future__ import annotations

from collections.abc import Iterator

import capstone

from harness.core.errors import ToolError

FUSED = ("vfmadd", "vfnmadd", "vfmsub", "vfnmsub", "vfmaddsub", "vfmsubadd", "fmadd", "fnmadd", "fmsub", "fnmsub",
         "fmla", "fmls", "vfma", "vfms", "vfnma", "vfnms")  # fmt: skip
"""Prefixes of their names."""

_MODES = {
    "EM_X86_64": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "EM_AARCH64": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
}


def instructions(machine: str, content: bytes) -> Iterator[str]:
    """Yield the instructions of a function as `name operands`; `machine` is e_machine of the ELF file.

    ToolError for a machine or an instruction that the decoder does not know.
    """
    if machine not in _MODES:
        raise ToolError(f"machine code for {machine} cannot be read", "use target c for this layer")
    decoder, at = capstone.Cs(*_MODES[machine]), 0
    for address, size, name, operands in decoder.disasm_lite(content, 0):
        if address != at:
            break
        yield f"{name} {operands}".strip()
        at += size
    if any(content[at:]):
        raise ToolError(
            f"machine code for {machine} has an instruction that the decoder does not know, at byte {at}: "
            f"{content[at : at + 8].hex(' ')}",
            "leave the newest extensions out of the profile's processor, for example `iree: {cpu: x86-64-v3}`",
        )
