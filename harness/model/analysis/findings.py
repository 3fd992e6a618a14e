"""The result of an analysis: edges with their facts and ranges, and findings with reason and advice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.operators.tensor_facts import Contradiction

UNKNOWN = re.compile(r"(?<![A-Za-z0-9_])_(?![A-Za-z0-9_])|\.\.")
"""The sizes of a shape that are not known, and the sign of more axes."""
Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Edge:
    """A tensor of the graph, and what is known of it, as text; an empty text is not known.

    `shape` is as the TFDeploy report writes it, such as [N, 3, _], and [1, ..] if more axes may follow.  `range`
    has the least and the greatest value; `origins` the rule and the node of type, rank, each size and value.
    """

    name: str
    type: str
    shape: str
    value: str
    kind: Literal["input", "constant", "activation", "output"]
    range: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A problem or a remark about a node or an edge, its reason, and advice; `kind` is a word for programs."""

    severity: Severity
    kind: str
    node: str
    edge: str
    reason: str
    advice: str


@dataclass(frozen=True)
class LayerRange:
    """The integers of a layer for inputs within the box: bounds of accumulators and values, and observed values.

    `accumulator_bits` is the width of a signed integer that has every accumulator, None without accumulators.  A
    channel is constant if its bounds are one value.  `used_share_of_codes` is that of the codes between the bounds.
    """

    layer: str
    node: str
    operator: str
    accumulator_low: int | None
    accumulator_high: int | None
    accumulator_bits: int | None
    low: float
    high: float
    method: Literal["interval", "zonotope"]
    constant_channels: int
    channels: int
    used_share_of_codes: float | None
    saturated_share: float | None = None
    observed_low: float | None = None
    observed_high: float | None = None


@dataclass(frozen=True, eq=False)
class Analysis:
    """Edges by name in the order of the graph, and findings, the errors first; `symbols` have their values.

    `is_complete` is true if every activation has a type and a shape without unknown sizes.
    """

    edges: Mapping[str, Edge]
    findings: tuple[Finding, ...]
    symbols: Mapping[str, str]
    passes: int
    layers: tuple[LayerRange, ...] = ()

    def of_node(self, node: str) -> tuple[Finding, ...]:
        """Return the findings of a node."""
        return tuple(finding for finding in self.findings if finding.node == node)

    @property
    def is_contradictory(self) -> bool:
        """True if the graph has facts that no tensor has, so that it computes nothing."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """True if every activation has a type, and a shape without unknown sizes."""
        return all(
            edge.type and not UNKNOWN.search(edge.shape) for edge in self.edges.values() if edge.kind != "constant"
        )


def of_contradiction(error: Contradiction) -> Finding:
    """Return the finding of a contradiction, with both rules."""
    first = f"; {error.first} says the first" if error.first else ""
    where = f"tensor {error.edge!r}: " if error.edge else ""
    return Finding(
        "error",
        "contradiction",
        error.node,
        error.edge,
        f"{where}{error.problem}{first}; the rule that fails is {error.second}",
        "correct the node, or the shape, type or hint that the first rule names",
    )
