"""MaxPool (ONNX) of codes over images (channels, height, width) or sequences.

y[c, p] = the largest value of the window at position p of channel c            padding is never chosen
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Evaluate, Layer, Selection, fields
from harness.operators.fault_models import FaultModel, as_other_type
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    all_codes,
    mixed_parts,
)
from harness.operators.pad import Pad
from harness.operators.tensor import INT8, UINT8
from harness.operators.text import Fragment
from harness.operators.window import DEFAULTS, Window

CODES = 256
FRAGMENT = Fragment(
    "max_pool_codes",
    86,
    """\
# ONNX MaxPool of codes: the largest value of each window; padding is never chosen.
fragment max_pool_codes(
    x: tensor<scalar>,                      # codes (vectors, channels * height * width)
    window: tensor<integer>,                # int32 (6, 2): image, kernel, stride, dilation, padding before, output
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class MaxPool(Selection):
    """The largest code of each window."""

    ONNX = (("", "MaxPool"),)
    elementwise = False
    formula = "y = the largest code of each window of a channel; padding is never chosen"
    roles = ("x",)
    fragments = (FRAGMENT,)

    window: Window

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose windows all have a value of the image."""
        node.require_inputs(1, 1)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes(DEFAULTS | {"ceil_mode": 0, "storage_order": 0})
        window = Window.of_pooling(node, source, attributes)
        if not window.inside().any(axis=(2, 3)).all():
            raise node.refusal("a window lies in the padding alone", "less padding")
        shape = (source.shape[0], *window.output[3 - len(source.shape) :])
        return cls(**fields(node, [source], shape, source.dtype), window=window)

    def require_unfused(self, node: Node, writer: Callable[[str], Layer | None]) -> None:
        """Refuse int8 padded with the code 0.

        ONNX Runtime 1.31 makes the padding that of the MaxPool, which is never chosen, unless all activations are
        outputs.  0 is the lowest code of uint8.
        """
        padding = writer(self.sources[0])
        if self.dtype == INT8 and isinstance(padding, Pad) and not padding.value and (padding.places < 0).any():
            raise node.refusal(
                f"pools what {padding.node!r} pads with 0: ONNX Runtime would leave out the zeros",
                "padding with the lowest code, -128, or pads of the MaxPool",
            )

    @property
    def fragment(self) -> Fragment:
        """The operation."""
        return FRAGMENT

    def constants(self) -> dict[str, Array]:
        """Return the window."""
        return {"window": self.window.table()}

    def facts(self) -> dict[str, list[int]]:
        """Return the facts of the window."""
        return self.window.facts()

    def prepare(self) -> Evaluate:
        """Return the maximum over each window."""
        lowest = int(np.iinfo(self.dtype).min)
        return lambda x: self._largest(x, lowest)

    def _largest(self, x: Array, padding: int, window: Window | None = None) -> Array:
        views = (window or self.window).views(x.reshape(len(x), self.input.shape[0], -1), padding)
        largest: Array = views.max(axis=(4, 5)).reshape(len(x), -1)
        return largest

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong comparisons, windows and padding."""
        [x] = inputs
        right, limits = "the largest code of the window", np.iinfo(self.dtype)
        views = self.window.views(x.reshape(len(x), self.input.shape[0], -1), int(limits.max))
        yield FaultModel("the smallest code is taken", right, views.min(axis=(4, 5)).reshape(len(x), -1))
        misread = as_other_type(x)
        other = int(np.iinfo(misread.dtype).min)
        yield FaultModel(
            f"the codes are compared as {misread.dtype}", right, self._largest(misread, other).view(self.dtype)
        )
        last = self.window.kernel[0] - 1, self.window.kernel[1] - 1
        lowest = self.window.views(x.reshape(len(x), self.input.shape[0], -1), int(limits.min))
        first = lowest[..., 0, 0].reshape(len(x), -1)
        yield FaultModel("the first code of the window is taken", right, first)
        for name, part in (("row", lowest[..., : last[0], :]), ("column", lowest[..., : last[1]])):
            if part.size and part.shape[4:] != lowest.shape[4:]:
                yield FaultModel(
                    f"the last {name} of the window is left out", right, part.max(axis=(4, 5)).reshape(len(x), -1)
                )
        if not self.window.inside().all() and limits.min < 0:
            yield FaultModel("padding takes part with the code 0", "padding is never chosen", self._largest(x, 0))

    def obligations(self, *, all_floats: bool, random_vectors: int) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield single values of a window above the others, and vectors in which any two values are in any order."""
        evaluate, codes = self.prepare(), all_codes(self.dtype)
        place = np.tile(self.window.alignments()[0], self.input.shape[0])

        def single_values() -> Iterator[Array]:
            for of_window in range(self.window.size):
                for others in (codes[0], codes[CODES // 2]):
                    yield np.where(place == of_window, codes[:, None], others)

        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "every window takes part with each of its values",
            "each value of a window at each of its 256 codes, all others at the lowest or a middle code",
            2 * CODES * self.window.size * self.size,
            Outputs(single_values, evaluate),
        )
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "the largest value of a window is chosen, wherever it is",
            MIXED,
            VECTORS * self.size,
            Outputs(lambda: mixed_parts(codes, self.input.size), evaluate),
            complete=False,
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that codes are only compared."""
        yield (
            "MaxPool compares the codes of a window and does nothing else with them: each value was tried at all "
            "codes, and any two values in either order."
        )
