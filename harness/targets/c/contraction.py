"""Sums of products of codes in C: a stage that accumulates and a stage that rounds, from their definitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from harness.operators.contraction import Contraction
from harness.operators.exact.expression import INT32
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import Source, program
from harness.operators.exact.stages import sources as sources_of
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.c.loops import Body, Sizes, called
from harness.targets.c.stage_loops import Loops
from harness.targets.c.stage_operations import Operations
from harness.targets.c.stage_writer import Part
from harness.targets.contraction import stages, tables
from harness.targets.generated import LayerCode

K = TypeVar("K", bound=Contraction)


class ContractionLowering(CLowering[K]):
    """One loop nest for the sums, and one for the rounding."""

    headers: ClassVar[tuple[str, ...]] = ("elementary.h", "window.h")

    def unsupported(self, layer: K, variant: str) -> str | None:
        """Refuse unrolled code that no compiler finishes."""
        return code.too_long(len(layer.weights) * layer.size, variant)

    def plain(self, layer: K, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Return the loops."""
        loops = ("\n    ".join(Loops(part, Sizes()).statements()) for part in _parts(layer))
        return code.two_stages(layer, sources, stages(layer), tables(layer), *loops)

    def generic(self, layer: K, sources: Sequence[str]) -> LayerCode:
        """Return calls of functions with the loops, which layers share."""
        calls: list[str] = []
        shared: dict[str, str] = {}
        types = (layer.input.dtype, INT32), (INT32, layer.dtype)
        for part, dtypes in zip(_parts(layer), types, strict=True):
            sizes = Sizes(are_parameters=True)
            loops = Loops(part, sizes)
            constants = {f"{layer.name}_{source.name}" for source in sources_of(part.program.stages)}
            read = tuple(table for table in tables(layer) if table.name in constants)
            body = Body("\n    ".join(loops.statements()), read, between=loops.between())
            call, functions = called(layer, body, sizes, dtypes)
            calls.append(call)
            shared |= functions
        layer_code = code.two_stages(layer, sources, stages(layer), tables(layer), *calls)
        return dataclasses.replace(layer_code, shared=shared)

    def unrolled(self, layer: K, sources: Sequence[str]) -> LayerCode:
        """Write every product, with the constants as literals."""
        parts = [Operations(part) for part in _parts(layer)]
        statements = ("\n    ".join(part.statements()) for part in parts)
        layer_code = code.two_stages(layer, sources, stages(layer), (), *statements)
        functions = "".join(part.functions() for part in parts)
        return dataclasses.replace(layer_code, definitions=functions + layer_code.definitions)


class QLinearGlobalAveragePoolLowering(ContractionLowering[QLinearGlobalAveragePool]):
    """Sums without products."""

    operator = QLinearGlobalAveragePool


def _parts(layer: Contraction) -> tuple[Part, Part]:
    """Return the sums, and the rounding of given sums."""
    sums, constants = layer.summed(), layer.numbers()
    accumulated = dataclasses.replace(layer.output, dtype=INT32)
    results = (layer.input, sums), (accumulated, layer.requantized(Source("x", sums.axes, INT32)))
    first, second = (Part(layer.name, (x,), Program(program(y), constants), constants) for x, y in results)
    return first, second
