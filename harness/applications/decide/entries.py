"""The documents of a decision: `request.decide.json` and `decide.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from harness.core.document import Document, Entries, Number
from harness.runs.entries import OMITTED

SCHEMA = 1
"""Schema number of the request; a finished decision of schema FINISHED lists its files."""
FINISHED = 2
ENUMERATION: Literal["enumeration"] = "enumeration"
BOUNDS: Literal["bounds"] = "bounds"


class AxisEntry(Entries):
    """One axis of the partition: its cuts in physical units and the codes that they reach."""

    name: str
    unit: str
    wraps: bool
    intervals: int
    codes: tuple[int, int]


class PartitionEntry(Entries):
    """The boxes, and the code vectors that they reach, each counted once; None beyond 2^53, which JSON cannot state."""

    axes: Sequence[AxisEntry]
    boxes: int
    code_vectors: int | None


class PropertyEntry(Entries):
    """The property: its text, the SHA-256 of each file that states it, and the names of the decisions."""

    kind: str
    text: str
    sha256: dict[str, str]
    decisions: Sequence[str]
    ties: str


class ModelEntry(Entries):
    """The model: `prove` of the same SHA-256 shows that a board computes it."""

    name: str
    sha256: str


class StatedDocument(Document):
    """The model, the property and the boxes of a decision."""

    number: ClassVar[int | None] = SCHEMA

    schema_number: int = Field(alias="schema")
    model: ModelEntry
    property: PropertyEntry
    partition: PartitionEntry


class RequestDocument(StatedDocument):
    """The decision that was asked for; sufficient to resume it."""

    method: Literal["enumeration"] = ENUMERATION
    slab_axis: int
    slab_codes: int


GPU = "CUDA"
"""The first word of kernels that run on a GPU."""


class SlabEntry(Entries):
    """A slab: the codes `first` to `last` of the slab axis, with all codes of the other axes."""

    first: int
    last: int
    code_vectors: int
    decisions_sha256: str
    time_s: Number
    kernel: str
    engine_sha256: str
    machine: str


class CountsEntry(Entries):
    """The number of boxes by result; each decision's number of boxes in which it occurs."""

    safe: int
    violated: int
    undecided: int
    by_decision: dict[str, int]


class DecisionDocument(RequestDocument):
    """A finished decision; `files` has the SHA-256 of all other files of its folder."""

    number: ClassVar[int | None] = FINISHED

    harness: dict[str, str | None]
    verdict: str
    counts: CountsEntry
    slabs: Sequence[SlabEntry]
    decisions_sha256: str
    witnesses_sha256: str
    began: str
    wall_s: Number
    cpu_s: Number
    code_vectors_per_s: Number
    files: dict[str, str] = OMITTED

    @property
    def processor(self) -> str:
        """The unit that the speed refers to."""
        on_gpu = {slab.kernel.startswith(GPU) for slab in self.slabs}
        return "one core" if on_gpu <= {False} else "one core or GPU" if False in on_gpu else "one GPU"


class BoundsRequestDocument(StatedDocument):
    """The decision by bounds that was asked for; a violation is sought among `samples_of_a_box` code vectors."""

    method: Literal["bounds"] = BOUNDS
    samples_of_a_box: int
    seed: int


class BoundsDocument(BoundsRequestDocument):
    """A finished decision by bounds; `by_decision` counts the boxes in which a code vector with it was found.

    `files` has the SHA-256 of all other files of its folder.
    """

    number: ClassVar[int | None] = FINISHED

    harness: dict[str, str | None]
    verdict: str
    counts: CountsEntry
    possible_sha256: str
    reached_sha256: str
    witnesses_sha256: str
    began: str
    wall_s: Number
    cpu_s: Number
    machine: str
    files: dict[str, str] = OMITTED
