"""A forgery: a change of a true run, after which the folder claims something false."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.runs.verification.folder import RUN
from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import Change, all_of, in_run


@dataclass(frozen=True)
class Using:
    """A change that needs other true runs, or keys."""

    make: Callable[[Bases], Change]


@dataclass(frozen=True)
class Forgery:
    """A change of the run `base`.

    `redone` says that the forger makes hashes and reports again afterwards; `needs_key` that only the check of the
    laboratory's signature finds the forgery, as nothing but the envelope is false.
    """

    kind: str
    name: str
    base: str
    change: Change | Using
    redone: bool = True
    needs_key: bool = False

    def change_for(self, bases: Bases) -> Change:
        """Return the change, made with these runs."""
        return self.change.make(bases) if isinstance(self.change, Using) else self.change


def forgeries(
    kind: str, rows: Mapping[str, tuple[str, Change | Using]], *, redone: bool = True, needs_key: bool = False
) -> list[Forgery]:
    """Return the forgeries of a table: their bases and changes by their names."""
    return [Forgery(kind, name, base, change, redone, needs_key) for name, (base, change) in rows.items()]


def files_of(other: str, *names: str, then: Change = lambda _: None) -> Using:
    """Return a change that puts files or folders of another run in place, those that it has."""

    def make(bases: Bases) -> Change:
        def change(folder: Path) -> None:
            for name in names:
                _copy(bases.folder(other) / name, folder / name)
            then(folder)

        return change

    return Using(make)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.rmtree(target)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def entry_of(other: str, *keys: str) -> Using:
    """Return a change that takes an entry of run.json from another run."""

    def make(bases: Bases) -> Change:
        there: Any = run_json(bases.folder(other))
        for key in keys:
            there = there[key]

        def change(run: dict[str, Any]) -> None:
            for key in keys[:-1]:
                run = run[key]
            run[keys[-1]] = there

        return in_run(change)

    return Using(make)


def right_revision(*before: Change) -> Using:
    """Return these changes, and one that names the revision of a right run."""

    def make(bases: Bases) -> Change:
        harness = run_json(bases.run)["harness"]
        return all_of(*before, in_run(lambda run: run.update(harness=harness)))

    return Using(make)


def run_json(folder: Path) -> dict[str, Any]:
    """Return the document of a true run."""
    found: dict[str, Any] = json.loads((folder / RUN).read_text(encoding="utf-8"))
    return found
