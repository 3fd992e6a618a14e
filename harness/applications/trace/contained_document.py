"""The document of `harness trace --elf`: whether an application contains the proved code of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from harness.core.document import Document, Entries

SCHEMA = 1
DOCUMENT = "contained.json"


class PlaceEntry(Entries):
    """A section of an object: its address in the application, and its bytes."""

    object: str
    section: str
    address: int
    size: int


class CalledEntry(Entries):
    """A function that the network calls: its address, None if it is imported, and the object that has its code.

    `provided_by` is an object of the bundle or a member of a library, or says that the system provides the function.
    `is_proved` holds for an object of the bundle.  `veneers` are the addresses by way of which it is called.
    """

    name: str
    address: int | None
    provided_by: str
    is_proved: bool
    callers: Sequence[str]
    veneers: Sequence[int]


class DifferenceEntry(Entries):
    """A difference: the symbol and its object, the kind, the address (None if nothing is there), and the reason."""

    object: str
    symbol: str
    kind: str
    address: int | None
    reason: str
    bytes: int


class ContainedDocument(Document):
    """The verdict about an application, `contained` or `differs`, and what it rests on.

    `entry` is the symbol of the network in the application; `run_verdict` is that of the run, `run_board` the
    kind of board on which it ran (hardware, emulated, ...), None without one.
    `program_sha256` is that of the bundle's program; `files` are those of the folder of evidence, if there is one.
    """

    number: ClassVar[int] = SCHEMA

    schema_number: int = Field(alias="schema")
    harness: Mapping[str, str | None]
    began: str
    application: str
    application_sha256: str
    machine: str
    run: str | None
    run_verdict: str | None
    run_board: str | None
    proof_holds: bool | None
    model: str
    model_sha256: str
    board: str
    bundle: str
    compiler: str
    program_sha256: str
    object_sha256: str
    verdict: Literal["contained", "differs"]
    entry: str | None
    other_networks: Sequence[str]
    compared_bytes: int
    places: Sequence[PlaceEntry]
    called: Sequence[CalledEntry]
    differences: Sequence[DifferenceEntry]
    assumptions: Sequence[str]
    files: Mapping[str, str]
