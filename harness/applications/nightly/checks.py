"""Checks of all entries before a night starts, so that a wrong entry does not fail during the night."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness import targets
from harness.applications.nightly.job_commands import Comparable
from harness.applications.nightly.matrix import Taken, command_line
from harness.boards.profile import BoardProfiles, Profile
from harness.boards.workspace import Workspace
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.plan import plan_check
from harness.runs import job
from harness.runs.history.night_record import Action, Entry
from harness.runs.measurement import request
from harness.runs.measurement.request import MeasurementOptions

MEASURED = ("samples", "scope", "count", "load", "warmup", "duration_s")


class Checks:
    """Checks against these boards and models; plans are made, but nothing is built."""

    def __init__(self, profiles: BoardProfiles, workspace: Workspace) -> None:
        self.board = profiles.board
        self._model = cache(workspace.model)

    def model(self, name: str) -> Network:
        """Return the model of that name; each model is read once."""
        return self._model(name)

    def entry(self, entry: Entry, given: Mapping[str, Any]) -> None:
        """Raise RequestError if the entry is invalid; `given` are its options."""
        if entry.action == "case":  # its board and model are known, and it uses neither
            return
        board = self.board(entry.board)
        plan = job.planned(self.model(entry.model), board, given)
        for item in plan.items:
            targets.find(item.target)
        job.require_comparable(plan, entry.action, given.get("fetch"))
        plan_check.require_sound(plan_check.assess(plan))
        if entry.action == "measure":
            _measurement_options(board, given)
            _check_measured(entry, given)
        else:
            _check_vectors(given["vectors"], given.get("cover"))


def comparer(profiles: BoardProfiles, workspace: Workspace, commands: Mapping[Action, Taken]) -> Comparable:
    """Return a function that checks whether `harness measure --against` accepts a former measurement."""

    def comparable(entry: Entry, former: Path) -> bool:
        from harness.runs.measurement import base  # imports SciPy, which is slow

        given, board = commands["measure"].read(command_line(entry)), profiles.board(entry.board)
        try:
            plan = job.planned(workspace.model(entry.model), board, {**given, "block": 1})
            base.read(former, board, plan, _measurement_options(board, given))
        except RequestError:
            return False
        return True

    return comparable


def _measurement_options(board: Profile, given: Mapping[str, Any]) -> MeasurementOptions:
    return request.options_for(board, **{name: given[name] for name in MEASURED})


def _check_vectors(vectors: str, cover: float | None) -> None:
    """Check the number of vectors, or that their file exists."""
    if vectors.isdigit():
        if int(vectors) == 0:
            raise RequestError("vectors: 0: nothing would be compared", "give a number of vectors or a .npy file")
    elif cover is not None:
        raise RequestError("cover searches for vectors, but vectors names a file", "give a number")
    elif not _is_file(vectors):
        raise RequestError(f"vectors: there is no file {vectors[:200]}", "give a number of vectors or a .npy file")


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # not a valid file name
        return False


def _check_measured(entry: Entry, given: Mapping[str, Any]) -> None:
    if given["block"] not in {None, 1}:
        raise RequestError("block: a measurement executes one vector at a time", "omit it")
    if entry.against and given["count"] == "cycles":
        raise RequestError("against compares times and instructions, not cycles", "omit count")
