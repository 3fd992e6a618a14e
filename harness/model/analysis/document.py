"""The document of `harness models analyse --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from pydantic import Field

from harness.core.document import Document
from harness.model.analysis.findings import Analysis, Edge, Finding, LayerRange

SCHEMA = 1


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
    edges: tuple[Edge, ...]
    layers: tuple[LayerRange, ...]
    findings: tuple[Finding, ...]


def of_analysis(analysis: Analysis, request: Mapping[str, Any]) -> AnalysisDocument:
    """Return the document of an analysis; `request` has the entries from `model` to `seed`."""
    parts = {
        name: [asdict(value) for value in values]
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
