"""Definitions of stages in C, in all variants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.operators.linear import Linear
from harness.operators.staged import Staged
from harness.targets.c import code, kernels
from harness.targets.c.loops import Body, LoopsLowering, Sizes, of_body
from harness.targets.c.stage_loops import Loops
from harness.targets.c.stage_operations import Operations
from harness.targets.generated import LayerCode, Table


class StagedLowering(LoopsLowering[Staged]):
    """One loop nest a stage."""

    operator = Staged
    headers = ("elementary.h", "window.h")

    def unsupported(self, layer: Staged, variant: str) -> str | None:
        """Refuse code without loops for so many steps."""
        return code.too_long(layer.steps, variant, "products" if isinstance(layer, Linear) else "steps")

    def body(self, layer: Staged, sizes: Sizes) -> Body:
        """Return the loops."""
        constants, loops = layer.numbers().items(), Loops(layer, sizes)
        tables = tuple(Table(f"{layer.name}_{role}", np.asarray(values).reshape(-1)) for role, values in constants)
        statements = "\n    ".join(loops.statements())
        return Body(statements, tables, between=loops.between() if sizes.are_parameters else ())

    def vector(self, layer: Staged, sources: Sequence[str]) -> LayerCode:
        """Call the kernel of a class of definitions that is faster than the loops."""
        return kernels.vector(layer, sources) or self.plain(layer, sources)

    def unrolled(self, layer: Staged, sources: Sequence[str]) -> LayerCode:
        """Write every operation, with the constants as literals."""
        operations = Operations(layer)
        functions = operations.functions()
        return of_body(layer, sources, Body("\n    ".join(operations.statements()), function=functions))
