"""The folder of a plan: its description, and the Petri net of its items, to read, to check and to run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.core.errors import RequestError
from harness.plan.items.translation import fixed_places
from harness.plan.nnef import folder as description
from harness.plan.petri import picture, pnml
from harness.plan.plan import Plan
from harness.plan.plan_check import Assessment

MOST_NAMED = 5


def write(plan: Plan, assessed: Assessment, folder: Path) -> None:
    """Write the description of `plan`, and the net of its items as PNML and, without its parameters, as Graphviz text.

    RequestError if there is a file, or a folder with other things, in the place.
    """
    description.write(plan, folder)
    (folder / "net.pnml").write_text(pnml.write(assessed.net), encoding="utf-8")
    drawn = picture.dot(assessed.net, fixed_places(assessed.items))
    (folder / "net.dot").write_text(drawn, encoding="utf-8")


def write_new(plan: Plan, assessed: Assessment, folder: Path) -> None:
    """Write the plan as `write` does, unless the folder holds something else than exactly this plan.

    RequestError then, naming the files that differ: they may have been edited.
    """
    with tempfile.TemporaryDirectory() as scratch:
        new = Path(scratch) / "plan"
        write(plan, assessed, new)
        wanted, found = _contents(new), _contents(folder)
    if found == wanted:
        return
    if found:
        names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED))
        raise RequestError(
            f"{folder} exists and is not this plan: {shown} would change or be lost",
            "name another folder, or replace the plan with --force",
        )
    write(plan, assessed, folder)


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their names; empty if the folder does not exist."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def read(folder: Path) -> Plan:
    """Return the plan of the description in `folder`; raise RequestError, which names the file, if it is invalid."""
    return description.read(folder)
