"""MaxPool and GlobalMaxPool (ONNX) of codes or float32 over images (channels, height, width) or sequences.

float32 volumes (channels, depth, height, width), too.

y[c, p] = the largest value of the window at position p of channel c            padding is never chosen

In float32: y = the first value of the window, then for each further value x, row by row, y = x if x > y else y.
Nothing is rounded; the order decides the sign of a zero, the first of which stays.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, fields
from harness.operators.exact import from_ordered
from harness.operators.exact.expression import larger, literal
from harness.operators.exact.stages import Stage, fold
from harness.operators.fault_models import FaultModel, as_other_type
from harness.operators.float_samples import of_exponents
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    all_codes,
    mixed_parts,
)
from harness.operators.pad import Pad
from harness.operators.rules import Rules
from harness.operators.softfloat import INFINITY_BITS
from harness.operators.staged import Staged, errors_of
from harness.operators.tensor import FLOAT32, INT8, UINT8
from harness.operators.text import Fragment
from harness.operators.window import Window
from harness.operators.windowed import Windowed, pooled

CODES = 256


def _fragment(name: str, order: int, comment: str, values: str) -> Fragment:
    return Fragment(
        name,
        order,
        f"""\
# {comment}
fragment {name}(
    x: tensor<scalar>,                      # {values} (vectors, channels * height * width)
    window: tensor<integer>,                # int32 (6, axes): image, kernel, stride, dilation, padding before, output
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )


FRAGMENT = _fragment(
    "max_pool_codes", 86, "ONNX MaxPool of codes: the largest value of each window; padding is never chosen.", "codes"
)
OF_FLOATS = _fragment(
    "max_pool_float32",
    87,
    "ONNX MaxPool: the largest value of each window, of equal ones the first; padding is never chosen.",
    "float32",
)


@dataclass(frozen=True, eq=False)
class MaxPool(Windowed, Staged):
    """The largest value of each window; ONNX Runtime may give another sign of zero."""

    ONNX = (("", "MaxPool"), ("", "GlobalMaxPool"))
    errors = Ability(lambda layer: replace(errors_of(layer), rising=True, exact=layer.of_codes))
    text = Staged.text.but(
        "y = the largest value of each window of a channel, of equal ones the first; padding is never chosen",
        ("x",),
        (FRAGMENT, OF_FLOATS),
        chosen=lambda layer: not layer.of_codes,
        facts_of=lambda layer: layer.window.facts(),
        operations_of=lambda layer: layer.size * layer.window.size,
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of windows, one channel each."""
        pooled(node)
        indices = node.outputs[1] if len(node.outputs) > 1 else None
        if indices is not None:
            node.same_shape(node.y, indices).is_type(indices, np.int64)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose windows all have a value of the image."""
        node.require_inputs(1, 1)
        source = node.activation(0, [FLOAT32] if node.operator == "GlobalMaxPool" else [UINT8, INT8, FLOAT32])
        window, _ = Window.of_pool(node, source, {"storage_order": 0})
        if not window.inside().any(axis=1).all():
            raise node.refusal("a window lies in the padding alone", "less padding")
        # ONNX Runtime 1.31 makes the padding that of the MaxPool, which is never chosen, unless all activations are
        # outputs.  0 is the lowest code of uint8.
        padding = node.writer(source.name)
        of_zeros = isinstance(padding, Pad) and not padding.order.filler and (padding.places < 0).any()
        if source.dtype == INT8 and padding is not None and of_zeros:
            raise node.refusal(
                f"pools what {padding.node!r} pads with 0: ONNX Runtime would leave out the zeros",
                "padding with the lowest code, -128, or pads of the MaxPool",
            )
        shape = (source.shape[0], *window.result(source))
        written = fields(node, [source], shape, source.dtype, source.bound, negative_zero=source.negative_zero)
        return cls(**written, window=window)

    @property
    def padding(self) -> int | None:
        """The lowest code, which is chosen if all are; None for float32."""
        return None if self.dtype == FLOAT32 else int(np.iinfo(self.dtype).min)

    @property
    def of_codes(self) -> bool:
        """True if it reads codes."""
        return self.dtype != FLOAT32

    def constants(self) -> dict[str, Array]:
        """Return the window."""
        return {"window": self.window.table()}

    def numbers(self) -> dict[str, Array]:
        """Return no constants."""
        return {}

    def definition(self) -> Stage:
        """Return the fold that takes a larger value."""
        kept, over, value = self.loads()
        lowest = literal(np.iinfo(self.dtype).min if self.of_codes else -np.inf, self.dtype)
        return fold("y", kept, over, lowest, lambda y: larger(value, y))

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array | None:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return None if self.of_codes else ~np.isnan(expected)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:  # noqa: ARG002 - as of the base
        """Return 0, for zeros of either sign; ONNX Runtime 1.31 gives the lowest finite number for -infinity."""
        return None if self.of_codes else np.where(np.isneginf(output), np.inf, 0.0)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of the definition, and codes that are compared as those of the other type."""
        yield from super().fault_models(*inputs)
        if self.of_codes:
            misread, [tensor] = as_other_type(inputs[0]), self.inputs
            other = replace(self, inputs=(replace(tensor, dtype=misread.dtype),),
                            output=replace(self.output, dtype=misread.dtype))  # fmt: skip
            largest = other.prepare()(misread).view(self.dtype)
            yield FaultModel(f"the codes are compared as {misread.dtype}", self.text.explain(self.operator), largest)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield single values of a window above the others, and vectors in which any two values are in any order."""
        evaluate = self.prepare()
        values = all_codes(self.dtype) if self.of_codes else _spread()
        place = np.tile(self.window.alignments()[0], self.input.shape[0])

        def single_values() -> Iterator[Array]:
            for of_window in range(self.window.size):
                for others in (values[0], values[CODES // 2]):
                    yield np.where(place == of_window, values[:, None], others)

        noun = "each of its 256 codes" if self.of_codes else "256 numbers of all magnitudes and both zeros"
        statement = "every window takes part with each of its values"
        method = f"each value of a window at {noun}, all others at the lowest or a middle one"
        cases, complete = 2 * CODES * self.window.size * self.size, self.of_codes
        outputs = Outputs(single_values, evaluate)
        yield Obligation(ProofStep.OTHERS, StageKind.COMPUTE, statement, method, cases, outputs, complete=complete)
        samples = {"the largest value of a window is chosen, wherever it is": (MIXED, values)}
        if not self.of_codes:
            zeros = np.array([0.0, -0.0, -1.0], np.float32)
            method = f"{VECTORS:,} vectors of -1 and zeros of both signs; not complete"
            samples["of equal zeros the first one of a window stays"] = method, zeros
        for statement, (method, drawn) in samples.items():
            outputs = Outputs(functools.partial(mixed_parts, drawn, self.input.size), evaluate)
            cases = VECTORS * self.size
            yield Obligation(ProofStep.OTHERS, StageKind.COMPUTE, statement, method, cases, outputs, complete=False)
        if self.of_codes:
            yield self.of_pairs(int(values[0]))
        else:
            yield from of_exponents(self)

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that values are only compared."""
        what, tried = ("the codes", "all codes") if self.of_codes else ("the float32 values", "256 numbers")
        pairs = "at all pairs of codes, in one window at least" if self.of_codes else "in either order"
        yield (
            f"MaxPool compares {what} of a window and does nothing else with them: each value was tried at {tried}, "
            f"and any two values {pairs}."
        )


def _spread() -> Array:
    """Return float32 numbers of all magnitudes in their order, both zeros and infinities among them; (256,)."""
    keys = np.linspace(-INFINITY_BITS, INFINITY_BITS, CODES - 1).astype(np.int64)
    return np.insert(from_ordered(keys), CODES // 2 - 1, np.float32(-0.0))
