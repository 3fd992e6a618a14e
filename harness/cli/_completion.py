"""Completion of boards, models, targets and runs in the shell; see `harness completion`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from harness.boards import workspace
from harness.core.errors import HarnessError

if TYPE_CHECKING:
    from harness.boards.workspace import Workspace

Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def _of_workspace(names: Callable[[Workspace], Iterable[Any]]) -> Completion:
    """Return a completion that completes the last word of a comma-separated list with `names`."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        given = (context.meta.get(f"harness.{name}") for name in ("boards", "runs", "lab"))
        before, comma, word = incomplete.rpartition(",")
        try:
            found = names(workspace.find(*given))
            return [f"{before}{comma}{name}" for name in found if str(name).startswith(word)]
        except (HarnessError, OSError, UnicodeDecodeError):  # a completion cannot show a message
            return []

    return complete


def _boards(space: Workspace) -> Iterable[Any]:
    """Return the names in both files of boards, without the slower checks of `profile.load`."""
    from harness.core import strict_yaml

    paths = [path for path in (space.boards, space.boards.with_suffix(".local.yaml")) if path.exists()]
    documents = (strict_yaml.load(path.read_text(encoding="utf-8"), path) for path in paths)
    return dict.fromkeys(name for document in documents if isinstance(document, dict) for name in document)


def _targets(_space: Workspace) -> Iterable[str]:
    from harness import targets

    return targets.names()


def _runs(space: Workspace) -> Iterable[str]:
    """Return `last` and the names of all run folders, the newest first."""
    return [workspace.LAST, *space.run_names()]


boards, targets, runs = _of_workspace(_boards), _of_workspace(_targets), _of_workspace(_runs)
models = _of_workspace(lambda space: [path.stem for path in space.model_files()])
