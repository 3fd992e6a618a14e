"""The entries of `case.json`, the document of an assurance case."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from harness.applications.case import gsn
from harness.core import strict_json
from harness.core.document import Document, Entries

SCHEMA = 1
DOCUMENT, YAML, PAGE, TABLE = "case.json", "case.yaml", "index.html", "objectives.csv"
PICTURE, PDF = "argument.svg", "case.pdf"
EVIDENCE = "evidence"
"""The folder of the files that the case keeps itself."""

Origin = Literal["hardware", "this machine", "emulation", "simulation", "analysis", "file"]
"""The source of a leaf: a board, this machine as the board, an emulated board or virtual machine, a board with
simulated items, a computation without a board, a file of the model."""


class VersionEntry(Entries):
    """The version that wrote the case."""

    version: str
    revision: str | None


class TemplateEntry(Entries):
    """The template of the argument."""

    name: str
    sha256: str
    standard: str


class RequestEntry(Entries):
    """The request: `model` is the name or path that was given, the others are the options of a plan that were given."""

    board: str
    model: str
    items: tuple[str, ...] | None
    split: tuple[str, ...] | None
    sync: Literal["barrier", "flag"] | None
    buffers: Literal["keep", "reuse"] | None

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of the plan as words of a command line."""
        lists = ((key, ",".join(value)) for key in ("items", "split") if (value := getattr(self, key)) is not None)
        texts = ((key, value) for key in ("sync", "buffers") if (value := getattr(self, key)) is not None)
        return tuple(f"--{key}={value}" for key, value in (*lists, *texts))


class ModelEntry(Entries):
    """The model that the case is about."""

    name: str
    sha256: str
    layers: int


class LeafEntry(Entries):
    """A folder of evidence, or a file; `path` is relative to the folder of the case.

    `sha256` is that of its document, `files` has those of all files of a folder.  `where` says where it ran, in words.
    `network_sha256` is that of the network inside a hybrid model, whose own hash is `model_sha256`.
    """

    kind: str
    path: str
    sha256: str
    files: Mapping[str, str]
    model_sha256: str | None
    network_sha256: str | None
    bundle: str | None
    revision: str | None
    board: str
    date: str
    origin: Origin
    where: str


class ElementEntry(Entries):
    """An element of the argument; `label` is its text in the picture.

    An undeveloped goal names the `command` that provides its evidence, and where it must run (`needs`).
    A solution has a `leaf`; it is `refuted` if this leaf shows the opposite.
    """

    text: str
    label: str
    supported_by: Sequence[str] = ()
    in_context_of: Sequence[str] = ()
    undeveloped: bool = False
    command: str = ""
    needs: str = ""
    leaf: str = ""
    refuted: bool = False


class ObjectiveEntry(Entries):
    """An objective of the study's table, the goal that argues it, and the limits of its evidence."""

    id: str
    section: str
    text: str
    goal: str
    limits: str


class CaseDocument(Document):
    """The content of `case.json`: `files` are its other files, `content_sha256` is that of all other entries."""

    number: ClassVar[int | None] = SCHEMA

    schema_number: int = Field(alias="schema")
    kind: Literal["case"] = "case"
    harness: VersionEntry
    built: str
    template: TemplateEntry
    request: RequestEntry
    model: ModelEntry
    elements: Mapping[str, ElementEntry]
    leaves: Mapping[str, LeafEntry]
    objectives: Sequence[ObjectiveEntry]
    files: Mapping[str, str] = Field(default_factory=dict)
    content_sha256: str = ""

    @property
    def supports(self) -> dict[str, Sequence[str]]:
        """Return what supports each element."""
        return {name: element.supported_by for name, element in self.elements.items()}

    @property
    def top(self) -> str:
        """Return the identifier of the top goal, which is the first element."""
        return next(iter(self.elements))

    def leaves_below(self, goal: str) -> list[str]:
        """Return the leaves of all solutions below a goal, in the order of the argument."""
        below = gsn.reached(self.supports, [goal])
        return list(dict.fromkeys(one.leaf for name, one in self.elements.items() if name in below and one.leaf))

    def undeveloped_below(self, goal: str) -> list[str]:
        """Return the undeveloped goals below a goal, and itself."""
        below = gsn.reached(self.supports, [goal])
        return [name for name, one in self.elements.items() if name in below and one.undeveloped]

    def states(self, failed_leaves: Collection[str] = (), unchecked_leaves: Collection[str] = ()) -> dict[str, str]:
        """Return the state of each goal, strategy and solution; the worst state below an element is its own.

        Emulated elements are supported, but not by the hardware of the board.  `failed_leaves` are the leaves that a
        check rejected, `unchecked_leaves` those that it could not check.
        """
        failed = [name for name, one in self.elements.items() if one.leaf in failed_leaves]
        refuted = [name for name, one in self.elements.items() if one.refuted]
        unchecked = [name for name, one in self.elements.items() if one.leaf in unchecked_leaves]
        open_goals = [name for name, one in self.elements.items() if one.undeveloped]
        emulated = [
            name for name, one in self.elements.items() if one.leaf and self.leaves[one.leaf].origin in SUBSTITUTES
        ]
        found = dict.fromkeys((name for name in self.elements if gsn.kind_of(name) in ARGUED), SUPPORTED)
        ranked = ((EMULATED, emulated), (UNDEVELOPED, open_goals), (UNCHECKED, unchecked), (REFUTED, refuted))
        for state, names in (*ranked, (FAILED, failed)):
            found |= dict.fromkeys(gsn.above(self.supports, names), state)
        return found


SUPPORTED, EMULATED, UNDEVELOPED = "supported", "emulated", "undeveloped"
UNCHECKED, REFUTED, FAILED = "not checked", "refuted", "failed"
SUBSTITUTES: tuple[Origin, ...] = ("emulation", "simulation")
"""Origins that say nothing of the hardware of a board."""
ARGUED = {gsn.GOAL, gsn.STRATEGY, gsn.SOLUTION}


def content_sha256(document: CaseDocument) -> str:
    """Return the SHA-256 of all entries of a case but this hash itself."""
    content: dict[str, Any] = {key: value for key, value in document.to_json().items() if key != "content_sha256"}
    return hashlib.sha256(strict_json.text(content).encode()).hexdigest()


def yaml_of(document: CaseDocument) -> str:
    """Return `case.yaml`: the argument in the format of gsn2x, with the evidence of each solution as attributes."""
    elements: dict[str, dict[str, Any]] = {}
    for name, element in document.elements.items():
        found: dict[str, Any] = {"text": element.text}
        found |= {gsn.SUPPORTED_BY: list(element.supported_by)} if element.supported_by else {}
        found |= {gsn.IN_CONTEXT_OF: list(element.in_context_of)} if element.in_context_of else {}
        found |= {gsn.UNDEVELOPED: True} if element.undeveloped else {}
        found |= {key: value for key in ("command", "needs") if (value := getattr(element, key))}
        if element.leaf:
            found |= _attributes(document.leaves[element.leaf])
            found["classes"] = [found["origin"].replace(" ", "-"), *(["refuted"] if element.refuted else [])]
        elements[name] = found
    name = f"case-{document.model.name}-{document.request.board}"
    return gsn.text(name, f"{document.template.standard}; built {document.built}", elements)


def _attributes(leaf: LeafEntry) -> dict[str, str]:
    """Return the evidence of a solution as texts; gsn2x accepts any attribute that is a text."""
    found = {"url": link(leaf), "path": leaf.path, "sha256": leaf.sha256, "revision": leaf.revision or "unknown"}
    return found | {"board": leaf.board or "none", "date": leaf.date, "origin": leaf.origin, "where": leaf.where}


def link(leaf: LeafEntry) -> str:
    """Return the address of the page of a leaf, relative to the case, or of the file itself."""
    return f"{leaf.path}/report.html" if "report.html" in leaf.files else leaf.path
