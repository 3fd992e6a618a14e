"""The document of `harness models analyse --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from pydantic import Field

from harness.core.document import Document, Entries
from harness.model.analysis.findings import Analysis

SCHEMA = 1


class EdgeEntry(Entries):
    """A tensor; texts that are empty are not known."""

    name: str
    kind: Literal["input", "constant", "activation", "output"]
    type: str
    shape: str
    value: str
    range: str
    origins: Mapping[str, str]


class FindingEntry(Entries):
    """A finding; `node` or `edge` is empty if it is about none."""

    severity: Literal["error", "warning", "note"]
    kind: str
    node: str
    edge: str
    reason: str
    advice: str


class LayerEntry(Entries):
    """The integers of a layer for inputs within the box: bounds of accumulators and codes, and observed codes."""

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
    saturated_share: float | None
    observed_low: float | None
    observed_high: float | None


class AnalysisDocument(Document):
    """The facts, ranges and findings of a graph."""

    number: ClassVar[int] = SCHEMA

    schema_number: Literal[1] = Field(alias="schema")
    model: str
    file: str
    sha256: str
    hints: tuple[str, ...]
    passes: int
    vectors: int
    seed: int
    verdict: Literal["analysed", "contradiction"]
    complete: bool
    symbols: Mapping[str, str]
    edges: tuple[EdgeEntry, ...]
    layers: tuple[LayerEntry, ...]
    findings: tuple[FindingEntry, ...]


def of_analysis(analysis: Analysis, request: Mapping[str, Any]) -> AnalysisDocument:
    """Return the document of an analysis; `request` has the entries from `model` to `seed`."""
    parts = {
        name: [asdict(each) for each in values]
        for name, values in (
            ("edges", analysis.edges.values()),
            ("layers", analysis.layers),
            ("findings", analysis.findings),
        )
    }
    verdict = "contradiction" if analysis.is_contradictory else "analysed"
    facts = {
        "passes": analysis.passes,
        "symbols": analysis.symbols,
        "verdict": verdict,
        "complete": analysis.is_complete,
    }
    return AnalysisDocument.from_json({"schema": SCHEMA, **request, **facts, **parts})
