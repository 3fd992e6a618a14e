"""`manifest.json` of an exported library: its origin, its numbers, and the SHA-256 of every file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from harness.core.document import Document, Entries

SCHEMA = 1
MANIFEST = "manifest.json"


class EvidenceEntry(Entries):
    """The run of the exported program: its folder's name, its kind, verdict, and the number of compared vectors.

    `board_kind` is hardware, emulated, this machine or virtual machine.
    """

    run: str
    kind: str
    board_kind: str
    verdict: str
    vectors: int
    proof_holds: bool | None


class MemoryEntry(Entries):
    """Bytes of the network's object in memory; `stack` is a sufficient size, None if none is known."""

    code: int
    constants: int
    ram: int
    stack: int | None


class ExportDocument(Document):
    """The content of `manifest.json`; `proved` has the SHA-256 of the objects in the archive, by their names."""

    number: ClassVar[int] = SCHEMA

    schema_number: int = Field(alias="schema")
    harness: Mapping[str, str | None]
    name: str
    form: str
    model: str
    model_sha256: str
    board: str
    items: Mapping[str, str]
    block: int
    bundle: str
    compiler: str
    flags: Sequence[str]
    evidence: EvidenceEntry | None
    memory: MemoryEntry
    vectors: int
    proved: Mapping[str, str]
    files: Mapping[str, str]
