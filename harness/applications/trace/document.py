"""The document of `harness trace`: which ONNX node each byte of a program belongs to, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from harness.core.document import Document, Entries

SCHEMA = 1


class OwnerEntry(Entries):
    """The owner of code or data: tasks of the plan, items, or support code, which the text names; several share it."""

    tasks: Sequence[str]
    items: Sequence[str]
    support: Sequence[str]


class NodeEntry(Entries):
    """One layer: its ONNX node, its tensors, its formula, and the tasks that compute it."""

    layer: int
    name: str
    node: str
    operator: str
    reads: Sequence[str]
    writes: str
    shape: Sequence[int]
    dtype: str
    formula: str
    specification: str
    tasks: Sequence[str]


class TaskEntry(Entries):
    """A layer, or some columns of it, on one item: the module that generates its code, its lines in network.c."""

    name: str
    layer: int
    item: str
    target: str
    columns: str | None
    lowering: str
    lines: tuple[int, int]


class InlinedEntry(Entries):
    """A function whose code is part of another function: how often, in how many bytes, and where it is defined."""

    name: str
    file: str
    line: int
    calls: int
    size: int


class FunctionEntry(Entries):
    """A function of the program, or code without one: its source line, its addresses and its owner.

    `fused` is the number of instructions that multiply and add with one rounding.
    """

    name: str
    kind: str
    address: int
    size: int
    section: str
    file: str | None
    line: int | None
    owner: OwnerEntry
    inlined: Sequence[InlinedEntry]
    calls: Sequence[str]
    fused: int


class ConstantEntry(Entries):
    """Data of the program: `name` is its symbol, None for data that only its address names.

    `sha256` are the first 16 digits of the hash of its bytes in the program file, None for data that the start of the
    program sets to zero.  `expected_sha256` is that of the bytes that the model gives, for a table.
    """

    name: str | None
    kind: str
    address: int
    size: int
    section: str
    file: str | None
    line: int | None
    owner: OwnerEntry
    dtype: str | None
    shape: Sequence[int] | None
    sha256: str | None
    expected_sha256: str | None
    origin: str | None
    used_by: Sequence[str]


class SectionEntry(Entries):
    """The bytes of a section by their owner."""

    name: str
    address: int
    size: int
    nodes: int
    items: int
    support: int
    padding: int
    unattributed: int


class DeviceEntry(Entries):
    """A kernel or symbol in another file of the bundle, of the tasks that it computes."""

    file: str
    name: str
    kind: str
    line: int | None
    address: int | None
    size: int | None
    tasks: Sequence[str]


class EvidenceEntry(Entries):
    """One claim of a proof about a layer: whether it is `complete`, and whether it was shown in the run, if one is."""

    step: str
    statement: str
    method: str
    answered_by: str
    cases: int
    complete: bool
    shown: bool | None


class StepEntry(Entries):
    """One step from node to machine code: what is stated, what shows it, and what is assumed."""

    step: str
    statement: str
    shown_by: Sequence[str]


class ArgumentEntry(Entries):
    """The argument that a task computes its node, step by step, with the claims of a proof that support it."""

    task: str
    steps: Sequence[StepEntry]
    evidence: Sequence[EvidenceEntry]


class Gap(Entries):
    """Code or data that belongs to nothing known."""

    address: int
    size: int
    section: str
    text: str


class TraceabilityDocument(Document):
    """All links of one program."""

    number: ClassVar[int | None] = SCHEMA

    schema_number: int = Field(alias="schema")
    kind: Literal["traceability"] = "traceability"
    harness: dict[str, str | None]
    model: str
    model_sha256: str
    board: str
    machine: str
    compiler: str
    flags: Sequence[str]
    bundle_sha256: str
    program_sha256: str
    nodes: Sequence[NodeEntry]
    tasks: Sequence[TaskEntry]
    functions: Sequence[FunctionEntry]
    constants: Sequence[ConstantEntry]
    devices: Sequence[DeviceEntry]
    sections: Sequence[SectionEntry]
    unattributed: Sequence[Gap]
    differing: Sequence[str]
    argument: Sequence[ArgumentEntry]
    assumptions: Sequence[str]

    @property
    def all(self) -> tuple[FunctionEntry | ConstantEntry, ...]:
        """Return code and data."""
        return (*self.functions, *self.constants)
