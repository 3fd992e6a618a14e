"""The document of `harness models cost`: what each layer needs, and what a board does not offer.

All sizes are bytes.  None is a number that is not known; `unknown` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from harness.core.document import Document, Entries, Number

SCHEMA = 1


class LayerEntry(Entries):
    """The costs of a layer for one vector; its buffers are those of a block.

    `operations` are those of the definition besides `multiply_adds`, see `harness.operators.operations`.  `constants`
    are what the targets store, `tables` what the program computes when it starts, and `code` the functions of the
    layer.  `constants` are None where the kernels of a device contain them; `tables` are then copies that the program
    reads from there.  `measured` and `bound` have the units of the entries of the document.  Without a board,
    `constants` are those of the definition.
    """

    name: str
    operator: str
    items: Sequence[str]
    targets: Sequence[str]
    multiply_adds: int | None
    operations: int | None
    moved_bytes: int
    constants: int | None
    code: int | None
    tables: int
    buffers: int
    measured: Number | None
    bound: Number | None


class MemoryEntry(Entries):
    """Bytes of the constants, the computed tables, and the buffers of a block, the input included.

    `keep` and `reuse` are the buffers with the activations of all layers kept, and with an arena of shared bytes.
    """

    constants: int
    tables: int
    keep: int
    reuse: int


class ProgramEntry(Entries):
    """A built program: the bytes of its sections that are stored, and of those that it writes.

    `code` are the functions of all layers; functions that several layers share, and the board program, are the rest.
    """

    bundle: str
    stored: int
    written: int
    code: int


class LimitEntry(Entries):
    """A memory of the board: the bytes that are needed, and why this is all that is known; `limit` is its size."""

    name: str
    needed: int
    limit: int
    of: str


class SourceEntry(Entries):
    """The source of numbers of layers: a folder under runs/, and what its numbers are.

    `total` is the sum of the layers, None if the folder has no numbers of layers; `network` is the number of the whole
    network, if it has one.
    """

    run: str
    unit: str
    statistic: str
    place: str
    total: Number | None
    network: Number | None


class MisfitEntry(Entries):
    """A layer that the board's targets refuse, or a limit (without a layer), with the reason and a remedy."""

    layer: str
    operator: str
    target: str
    reason: str
    remedy: str


class CostDocument(Document):
    """The costs of a network, on a board if there is one.

    `memory` has the buffers of a block on the board; without a board, those of a vector for layers in sequence.
    `forecast` are the lines of the targets about resources of devices and predicted times.
    """

    number: ClassVar[int | None] = SCHEMA

    schema_number: int = Field(alias="schema")
    model: str
    model_sha256: str
    board: str | None
    kind: str | None
    block: int
    buffers: str
    layers: Sequence[LayerEntry]
    multiply_adds: int
    operations: int
    moved_bytes: int
    memory: MemoryEntry
    program: ProgramEntry | None
    limits: Sequence[LimitEntry]
    measured: SourceEntry | None
    bound: SourceEntry | None
    forecast: Sequence[str]
    misfits: Sequence[MisfitEntry]
    unknown: Sequence[str]
