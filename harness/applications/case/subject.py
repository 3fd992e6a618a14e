"""The subject of a case as it is now: model, board, plan, kernels and compiler; evidence about another one is stale."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import targets
from harness.applications.case.entries import RequestEntry
from harness.applications.case.leaves import (
    APPLICATION,
    BOUNDS,
    CERTIFICATE,
    DECIDE,
    DECISIONS,
    FILE,
    HYBRID,
    OF_A_PLAN,
    Leaf,
    files_of_model,
    layout,
)
from harness.boards.profile import Profile
from harness.boards.workspace import Workspace
from harness.build import bundle, codegen
from harness.core import registry
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.installation import SOURCES, git, is_committed, revision
from harness.model.network import Network
from harness.plan.plan import Plan
from harness.runs import job

NOT_OF_EVIDENCE = (
    "harness/report",
    "harness/runs/history",
    "harness/applications/nightly",
    "harness/applications/case",
)
"""Folders of pages, nights and cases: no evidence of a board depends on them."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A request, and what it selects now; `sources` are the answers of `changed_sources` by revision."""

    request: RequestEntry
    model_file: Path
    network: Network
    profile: Profile
    plan: Plan
    cache: Path
    sources: dict[str | None, str] = field(default_factory=dict)

    @classmethod
    def of(cls, request: RequestEntry, workspace: Workspace) -> Subject:
        """Return the present subject of a request; RequestError if it is invalid."""
        file = workspace.model_file(request.model)
        profile, network = targets.load_boards(workspace.boards).board(request.board), workspace.model(request.model)
        asked = {key: getattr(request, key) for key in ("items", "split", "sync", "buffers")}
        plan = job.planned(network, profile, asked | {"block": None})
        return cls(request, file, network, profile, plan, workspace.cache)

    @functools.cached_property
    def files(self) -> dict[str, Path]:
        """Return the property and the table beside the model, by name."""
        return {path.name: path for path in files_of_model(self.model_file)}

    def staleness(self, leaf: Leaf) -> str:
        """Return why evidence is not about the present subject; empty if it is.

        ToolError if a compiler is missing, so that this cannot be decided.
        """
        if leaf.entry.kind == FILE:
            return self._changed_file(leaf.name, leaf.entry.sha256)
        if leaf.subject_sha256 != self.network.sha256:
            return f"model {self.network.name} has another SHA-256 now"
        if leaf.entry.kind in DECISIONS:
            stated = leaf.document.property["sha256"]
            return next(filter(None, (self._changed_file(name, sha256) for name, sha256 in stated.items())), "")
        return self._changed_program(leaf)

    def contradiction(self, leaf: Leaf) -> str:
        """Return why a certificate is not that of the decisions beside it; empty if it is, and for other evidence.

        The certificate must not be stale.
        """
        if leaf.entry.kind != CERTIFICATE:
            return ""
        try:
            file = self.files[next(iter(leaf.document.property["sha256"]))]
            registry.evidence(DECIDE).require_decisions(leaf.path, self.network, file)
        except RequestError as error:
            return error.message
        return ""

    def _changed_file(self, name: str, sha256: str) -> str:
        path = self.files.get(name)
        if path is None:
            return f"{name} is not beside the model any more"
        return "" if file_sha256(path) == sha256 else f"{path} has other bytes now"

    def _changed_program(self, leaf: Leaf) -> str:
        if leaf.entry.board != self.profile.name:
            return f"it is about board {leaf.entry.board}"
        made = leaf.plan()
        if leaf.entry.kind != HYBRID and layout(made) != layout(self.plan):
            return "its plan has other items, targets or tasks than the plan of the case now"
        made_by = leaf.entry.revision
        if made_by not in self.sources:
            self.sources[made_by] = changed_sources(made_by, NOT_OF_EVIDENCE)
        if self.sources[made_by]:
            return self.sources[made_by]
        is_analysed = leaf.entry.kind in {APPLICATION, BOUNDS}
        now = bundle.build(codegen.generate(made), self.profile, self.cache)
        if now.sha256 == leaf.entry.bundle:
            ran = leaf.document.program_sha256 if is_analysed else leaf.document.bundle.files.get(bundle.PROGRAM)
            return "" if ran == now.files[bundle.PROGRAM] else f"bundle {now.sha256[:16]} has another program than it"
        before = leaf.document.compiler if is_analysed else leaf.document.bundle.compiler
        if before != now.compiler:
            return f"the compiler is {now.compiler} now, it was {before}"
        return f"kernels, flags or generated code changed: the bundle is {now.sha256[:16]} now"


def changed_sources(made_by: str | None, without: Sequence[str] = ()) -> str:
    """Return whether this version has other sources than the revision that made evidence; empty if they are the same.

    Documentation, tests and models may differ, and the folders `without`.
    """
    here = revision()
    if not is_committed(made_by):
        return f"it was made by {made_by or 'an unknown revision'}, with sources that no revision has"
    if made_by == here:
        return ""
    if git("diff", "--quiet", made_by, "--", *SOURCES, *(f":(exclude){folder}" for folder in without)) is not None:
        return ""
    return f"it was made by revision {made_by}, whose sources differ from those of {here or 'this installation'}"


def require_kind(leaf: Leaf) -> None:
    """Raise RequestError for evidence that no case uses."""
    if leaf.entry.kind not in {*OF_A_PLAN, *DECISIONS}:
        raise RequestError(
            f"{leaf.path}: this file is no evidence", "name a folder under runs/, or the certificate of a decision"
        )
