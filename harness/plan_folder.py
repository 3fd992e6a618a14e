"""The folder of a plan: its description, and the Petri net of its items, to read, to check and to run."""

from __future__ import annotations

from pathlib import Path

from harness.assessment import Assessment
from harness.items.translation import fixed_places
from harness.nnef import folder as description
from harness.petri import picture, pnml
from harness.plan import Plan


def write(plan: Plan, assessed: Assessment, folder: Path) -> None:
    """Write the description of `plan`, and the net of its items as PNML and, without its parameters, as a picture.

    RequestError if there is a file, or a folder with other things, in the place.
    """
    description.write(plan, folder)
    (folder / "net.pnml").write_text(pnml.write(assessed.net), encoding="utf-8")
    drawn = picture.svg(assessed.net, fixed_places(assessed.items))
    (folder / "net.svg").write_text(drawn, encoding="utf-8")


def read(folder: Path) -> Plan:
    """The plan that the description in `folder` says; RequestError for whatever is wrong with it, by file."""
    return description.read(folder)
