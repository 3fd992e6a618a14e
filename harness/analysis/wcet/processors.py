"""The processors whose machine code can be bounded, by the machine of a program's file.

A new one is a module like aarch64.py: its instructions as steps, and the registers of its calling convention.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.analysis.inspection.program import Program
from harness.analysis.wcet import aarch64
from harness.analysis.wcet.machine import Processor
from harness.analysis.wcet.state import RefusedError

PROCESSORS: Mapping[str, Processor] = {"aarch64": aarch64.PROCESSOR}


def of_program(program: Program) -> Processor:
    """Return the processor of a program; RefusedError if its instructions are not known."""
    if program.machine not in PROCESSORS:
        raise RefusedError(
            f"the instructions of {program.machine} are not followed",
            f"bound the program of a board with {' or '.join(PROCESSORS)}",
        )
    return PROCESSORS[program.machine]
