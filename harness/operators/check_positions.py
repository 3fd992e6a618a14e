"""CheckPositions (harness): which checks fail for the positions of the values of one vector, uint8 -> int64.

y = flags[0, x[0]] | flags[1, x[1]] | ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import Constants, Evaluate, fields
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, all_codes, computed
from harness.operators.rules import Rules
from harness.operators.tensor import INT64, UINT8
from harness.operators.text import Fragment, Text

CODES = 256
BODY = f"""\
    positions = Cast <to = 7> (x)
    every_flag = Constant <value_ints = [-1]> ()
    flat = Reshape (flags, every_flag)
    start = Constant <value_int = 0> ()
    stop = Size (flags)
    step = Constant <value_int = {CODES}> ()
    rows = Range (start, stop, step)
    places = Add (positions, rows)
    found = Gather (flat, places)
    sets = Cast <to = 7> (found)
{onnx_function.UNION}"""
FRAGMENT = Fragment(
    "check_positions",
    131,
    """\
# The union of the flags of all values: a row of flags for each column, a flag for each code.
fragment check_positions(
    x: tensor<scalar>,                      # uint8 (vectors, N)
    flags: tensor<integer>,                 # uint8 (N, 256)
    type: string)
-> (y: tensor<scalar>);
""",
    columns=1,
)


@dataclass(frozen=True, eq=False)
class CheckPositions(onnx_function.Hybrid):
    """The union of the flags, uint8 (N, 256), of the values of a vector."""

    ONNX = ((onnx_function.DOMAIN, "CheckPositions"),)
    text = Text(
        "y = flags[0, x[0]] | flags[1, x[1]] | ..., a set of failed checks",
        ("x", "flags"),
        (FRAGMENT,),
        facts_of=lambda layer: {"passing_positions": (layer.flags == 0).sum(axis=1).tolist()},
    )
    body = BODY

    flags: npt.NDArray[np.uint8]

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State a row of 256 flags for each position, and one int64 set for each vector."""
        flags = node.input(1)
        node.is_type(node.x, np.uint8).is_type(flags, np.uint8).is_type(node.y, np.int64)
        node.all_equal(node.x.rank, flags.rank, node.y.rank, 2).equals(flags.size(1), CODES)
        node.equals(node.x.size(1), flags.size(0)).equals(node.x.size(0), node.y.size(0)).equals(node.y.size(1), 1)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with a row of flags for each value."""
        node.require_inputs(2, 2)
        node.attributes({})
        source = node.vector(0, [UINT8])
        flags = node.constant(1, "flags", [UINT8])
        if flags.shape != (source.size, CODES):
            raise node.refusal(f"the flags have shape {flags.shape}", f"({source.size}, {CODES})")
        return cls(**fields(node, [source], (1,), INT64), flags=flags)

    def constants(self) -> Constants:
        """Return the flags."""
        return {"table": self.flags}

    def prepare(self) -> Evaluate:
        """Return the function that looks the flags up."""
        return lambda x: _union(self.flags[np.arange(self.input.size), x])

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield all codes of each column with all codes of any other one."""
        pairs = self.input.size * (self.input.size - 1) // 2
        yield computed(
            "the flags of every code are found in every column, and united",
            "all pairs of codes of any two columns, the others at a code without flags; not complete",
            max(pairs * CODES**2, CODES),
            Outputs(self._pairs, self.prepare()),
            complete=False,
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that columns are united one by one."""
        yield "CheckPositions unites the flags of its columns: all pairs of codes of any two columns were tried."

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield checks of some columns alone."""
        [x] = inputs
        found = self.flags[np.arange(self.input.size), x]
        for column in range(self.input.size):
            others = (
                _union(np.delete(found, column, axis=1)) if self.input.size > 1 else np.zeros((len(x), 1), np.int64)
            )
            yield FaultModel(f"column {column} is not checked", "all are", others)

    def _pairs(self) -> Iterator[Array]:
        clear = self.flags.argmin(axis=1).astype(np.uint8)
        codes = all_codes(UINT8)
        if self.input.size == 1:
            yield codes[:, None]
        for first in range(self.input.size):
            for second in range(first):
                vectors = np.repeat(clear[None], CODES**2, axis=0)
                vectors[:, first], vectors[:, second] = np.repeat(codes, CODES), np.tile(codes, CODES)
                yield vectors


def _union(sets: npt.NDArray[np.uint8]) -> Array:
    return np.bitwise_or.reduce(sets, axis=1, keepdims=True).astype(np.int64)
