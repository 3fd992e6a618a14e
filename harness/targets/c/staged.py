"""Definitions of stages in C, in all variants."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness.operators.linear import Linear
from harness.operators.staged import Staged
from harness.targets.c import code, kernels
from harness.targets.c.code import CLowering
from harness.targets.c.stage_loops import Loops
from harness.targets.c.stage_operations import Operations
from harness.targets.generated import LayerCode, Table


class StagedLowering(CLowering[Staged]):
    """One loop nest a stage."""

    operator = Staged
    headers = ("elementary.h", "window.h")

    def unsupported(self, layer: Staged, variant: str) -> str | None:
        """Refuse code without loops for so many steps."""
        return code.too_long(layer.steps, variant, "products" if isinstance(layer, Linear) else "steps")

    def plain(self, layer: Staged, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - see below
        """Return the loops; the generic code is the same, as a function of its own is aligned worse (gcc 12, -O2)."""
        constants = layer.numbers().items()
        tables = tuple(Table(f"{layer.name}_{role}", np.asarray(values).reshape(-1)) for role, values in constants)
        return _with_statements(layer, sources, tables, Loops(layer).statements())

    def vector(self, layer: Staged, sources: Sequence[str]) -> LayerCode:
        """Call the kernel of a class of definitions that is faster than the loops."""
        return kernels.vector(layer, sources) or self.plain(layer, sources)

    def unrolled(self, layer: Staged, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        operations = Operations(layer)
        layer_code = _with_statements(layer, sources, (), operations.statements())
        return dataclasses.replace(layer_code, definitions=operations.functions() + layer_code.definitions)


def _with_statements(
    layer: Staged, sources: Sequence[str], tables: tuple[Table, ...], statements: Sequence[str]
) -> LayerCode:
    """Return the code of a layer by the statements of its stage."""
    body = "\n    ".join(statements)
    if len(sources) == 1:
        return code.elementwise(layer, sources, tables, body)
    return code.of_inputs(layer, sources, body, tables)
