"""The document of `harness judge`: the verdict, each layer, and the arithmetic that explains the differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from harness.core.document import Document, Entries, SpelledNumber
from harness.runs.entries import HarnessEntry, PictureEntry

DOCUMENT = "judgement.json"
PAGE = "report.html"
SCHEMA = 1


class ValueEntry(Entries):
    """A value that differs: vector, place in the activation, and both values."""

    vector: int
    unit: int
    expected: SpelledNumber | bool
    actual: SpelledNumber | bool


class CauseEntry(Entries):
    """A cause of a layer's differences: `explained` of the `checked` values, `contradicted` of all others."""

    cause: str
    specification: str
    explained: int
    checked: int
    contradicted: int


class LayerEntry(Entries):
    """A layer in the dumps; see `harness.applications.judge.results.LayerJudgement`.

    `claim` is `exact` or `bounded`.  `causes` explain every differing value; `nearest` explains some of them.
    """

    name: str
    node: str
    operator: str
    tensor: str
    name_in_dumps: str
    notes: Sequence[str]
    claim: str
    compared: int
    differing: int | None
    first: ValueEntry | None
    largest: SpelledNumber
    unit: str
    distance: SpelledNumber
    range: SpelledNumber
    own_compared: int
    unequal: int
    own: int
    own_first: ValueEntry | None
    unbounded: int
    ratio: SpelledNumber
    nan: int
    off: int
    with_layers: Sequence[str]
    seen: str
    causes: Sequence[CauseEntry]
    nearest: CauseEntry | None
    unchecked: int


class ArithmeticEntry(Entries):
    """One arithmetic of the engine: it explains all `values` that differ in these layers, each for its own inputs.

    `also` are causes that explain the same values.  `contradicted_in` are layers as specified in which it would show.
    """

    cause: str
    also: Sequence[str]
    specification: str
    layers: Sequence[str]
    values: int
    contradicted_in: Sequence[str]


class DecisionsEntry(Entries):
    """The decisions of an output, one a vector: the index of the largest value; `first` is the first changed one."""

    output: str
    vectors: int
    changed: int
    first: int | None


class JudgementDocument(Document):
    """The content of `judgement.json`.

    `format` is that of the dumps; `tried_on_real_files` is false if its reader was written from documentation alone.
    `pictures` are the differences from what is specified for the engine's own inputs.  `files` are the SHA-256 of the
    dumps, if they were hashed.
    """

    number: ClassVar[int | None] = SCHEMA

    schema_number: int = Field(alias="schema")
    harness: HarnessEntry
    verdict: str
    reason: str
    model: str
    model_sha256: str
    engine: str | None
    dumps: str
    format: str
    tried_on_real_files: bool
    vectors: int
    vectors_from: str | None
    bytes: int
    outputs: Sequence[str]
    missing_outputs: Sequence[str]
    layers: Sequence[LayerEntry]
    not_in_dumps: Sequence[str]
    unmatched: Sequence[str]
    problems: Sequence[str]
    notes: Sequence[str]
    decisions: Sequence[DecisionsEntry]
    first_layer: str | None
    arithmetic: Sequence[ArithmeticEntry]
    unexplained: Sequence[str]
    pictures: Sequence[PictureEntry]
    files: dict[str, str]
