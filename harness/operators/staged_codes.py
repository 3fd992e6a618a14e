"""Operators on codes that are defined by stages, of which the last one rounds float32 numbers to codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer
from harness.operators.counters import FindTies, Stimuli
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import replaced
from harness.operators.fault_models import Codes, FaultModel, Single, as_other_type, wrong_roundings
from harness.operators.float_errors import Errors
from harness.operators.staged import ROUNDED, Staged
from harness.operators.tensor import FLOAT32


@dataclass(frozen=True, eq=False)
class StagedCodes(Staged):
    """A layer whose last stage is `code(v, 0, dtype)`: v contains the zero point.  ONNX Runtime has the same codes."""

    stimuli = Ability(lambda layer: Stimuli(find_ties=layer.find_ties))
    # Every code is specified, and ONNX Runtime has it.
    tolerance, errors = Layer.tolerance, Ability[Errors](Errors)

    @cached_property
    def unrounded(self) -> Program:
        """The program whose result is v."""
        last = self.program.result
        v = replace(last, root=last.root.operands[0], dtype=FLOAT32)
        return Program(replaced(self.program.stages, last, v), self.numbers())

    @property
    def codes(self) -> Codes:
        """The codes, of which v contains the zero point."""
        return Codes(0, self.dtype)

    def before_rounding(self, *inputs: Array) -> Single:
        """Return v, clamped."""
        return self.codes.clamp(self.unrounded(*inputs))

    def find_ties(self) -> FindTies:
        """Find numbers half way between two codes."""

        def find(*inputs: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
            v = self.unrounded(*inputs)
            with np.errstate(invalid="ignore"):  # infinity is no tie
                ties = (v - np.floor(v) == 0.5) & (v > self.codes.low) & (v < self.codes.high)
            return self.codes.nearest(v), ties

        return find

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of the definition, wrong roundings, and codes that are read as those of the other type."""
        yield from super().fault_models(*inputs)
        with np.errstate(all="ignore"):
            for model in wrong_roundings(self.unrounded(*inputs), self.codes):
                if "zero point" not in model.cause:  # it is part of v
                    yield model
        exact = Program(self.program.stages, self.numbers(), is_real=True)
        yield FaultModel("it is computed in double precision", ROUNDED, exact(*(x.astype(np.float64) for x in inputs)))
        misread = [as_other_type(x) for x in inputs]
        tensors = (replace(tensor, dtype=x.dtype) for tensor, x in zip(self.inputs, misread, strict=True))
        wrong = replace(self, inputs=tuple(tensors)).prepare()(*misread)
        yield FaultModel(f"the codes are read as {misread[0].dtype}", str(self.input.dtype), wrong)
