"""`harness case build`: from a model and a board to an argument whose leaves are evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace, planned
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE, HarnessError, InfrastructureError
from harness.core.table import Table
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.case.entries import CaseDocument
    from harness.applications.case.leaves import Leaf
    from harness.applications.case.subject import Subject

COLOURS = {
    "supported": "green",
    "emulated": "yellow",
    "undeveloped": "dim",
    "not checked": "bold yellow",
    "refuted": "bold red",
    "failed": "bold red",
}


@click.command("build", epilog="Example: harness case build --board xavier --model acas_coc")
@planned
@click.option(
    "--evidence",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    multiple=True,
    metavar="RUN",
    help="Evidence to use: a run folder, a name under runs/, or the certificate of a decision; repeat the option. "
    "Default: all usable evidence under runs/.",
)
@click.option("--run/--no-run", default=True, show_default=True, help="Run what is missing: prove, measure, wcet.")
@click.option("--pdf", is_flag=True, help="Also print the page to case.pdf, with Chromium.")
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    board: str,
    model: str,
    evidence: tuple[Path, ...],
    run: bool,
    pdf: bool,
    **asked: Any,
) -> int:
    """Build the assurance case of a model on a board: an argument, its evidence and what is missing.

    Exit code: 0 built, also with undeveloped goals; 1 evidence refutes a goal; 2 the request is invalid; 3 a board or
    tool failed, and the case is built without its evidence.
    """
    from harness.applications.case import build, page
    from harness.applications.case.entries import RequestEntry
    from harness.applications.case.subject import Subject

    if not (board and model):
        raise click.UsageError("give --board and --model")
    console = Console.open(as_json=as_json)
    options = {key: asked[key] for key in ("items", "split", "sync", "buffers")}
    subject = Subject.of(RequestEntry(board=board, model=placed(model), **options), space)
    if pdf:
        page.require_browser()
    page.require_dot()
    with console.progress(f"collecting evidence of {subject.network.name} on {board}", 1) as bar:
        if evidence:
            paths = [path if path.is_file() else space.run(path) for path in evidence]
            leaves = build.named(paths, subject, space.runs)
        else:
            leaves = build.found(space.runs, subject, console.note)
        bar.advance(1)
    failures = _run_missing(leaves, subject, asked, space, console) if run else []
    document, folder = build.build(subject, leaves, space.runs, page.pages, page.pdf if pdf else lambda _: None)
    console.show(*summary(document, folder))
    for failure in failures:
        console.note(f"failed: {failure}")
    console.document(result(document, folder) | {"failures": failures})
    if "refuted" in document.states().values():
        return EXIT_DIFFERS
    return EXIT_INFRASTRUCTURE if failures else EXIT_DONE


def placed(model: str) -> str:
    """Return the name of a model, or its absolute path: a case is checked from any folder."""
    return str(Path(model).absolute()) if "/" in model or model.endswith(".onnx") else model


def _run_missing(
    leaves: dict[str, Leaf], subject: Subject, asked: Mapping[str, Any], space: Workspace, console: Console
) -> list[str]:
    """Run each command whose evidence is missing, and add its folder to `leaves`; return failures of board or tool."""
    from harness.applications.case.leaves import evidence_of, read

    failures = []
    for title, role, step in _steps(subject, asked, space, console):
        if found := evidence_of(role, leaves):
            console.note(f"{title}: {found[0].name} is used")
            continue
        console.note(f"{title}: no usable evidence, it is run now")
        try:
            leaf = read(step(), space.runs, with_files=False)
            leaves[leaf.name] = leaf
            if reason := subject.staleness(leaf):  # for example of a checkout with changes
                console.note(f"warning: {title}: harness case check will reject {leaf.name}: {reason}")
        except InfrastructureError as error:
            failures.append(f"{title}: {error.message}")
        except HarnessError as error:  # for example no bounds for this processor: the goal stays undeveloped
            console.note(f"{title}: {error.message}")
    return failures


def _steps(
    subject: Subject, asked: Mapping[str, Any], space: Workspace, console: Console
) -> Iterator[tuple[str, str, Callable[[], Path]]]:
    """Yield the commands that provide evidence: a name, the role of the evidence, and the command itself."""
    from harness.core import registry
    from harness.pipeline import measure, run
    from harness.pipeline.prove import default_floats
    from harness.runs.job import Request

    board, model = subject.profile.name, subject.request.model
    request = Request(board=board, model=model, **asked)

    def proved() -> Path:
        proof = dataclasses.replace(request, vectors="10000", floats=default_floats(subject.profile))
        return run.execute(proof, None, space, console)[1]

    def compared() -> Path:
        return run.execute(request, None, space, console)[1]

    def measured() -> Path:
        single = dataclasses.replace(request, block=None)
        return measure.execute(measure.build_request(single, space), space, console)[1]

    def bounded() -> Path:
        folder: Path = registry.evidence("wcet.json").make(space, board, model, {**asked, "block": None}, console)
        return folder

    yield "prove", "proof", proved
    yield "run", "comparison", compared  # for targets without a proof; the folder of a proof has a comparison too
    yield "measure", "measurement", measured
    yield "wcet", "bounds", bounded


def summary(document: CaseDocument, folder: Path) -> tuple[Any, ...]:
    """Return the objectives, what is undeveloped, and where the case is."""
    return (*tables(document, document.states()), Text(f"case: {folder / 'index.html'}"))


def tables(document: CaseDocument, states: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the coverage of the objectives, and the undeveloped goals with the commands that provide them."""
    title = f"{document.model.name} on {document.request.board}: objectives of {document.template.standard}"
    objectives = Table("", "objective", "state", "evidence from", title=title, box=None)
    for objective in document.objectives:
        origins = sorted({document.leaves[leaf].origin.upper() for leaf in document.leaves_below(objective.goal)})
        state = Text(states[objective.goal], style=COLOURS[states[objective.goal]])
        objectives.add_row(objective.id, objective.text, state, ", ".join(origins) or "none")
    missing = Table("goal", "provided by", "needs", title="undeveloped", box=None)
    for name in document.undeveloped_below(document.top):
        element = document.elements[name]
        missing.add_row(f"{name} {element.label}", element.command, element.needs)
    from harness.applications.case.entries import SUBSTITUTES

    emulated = [name for name, leaf in document.leaves.items() if leaf.origin in SUBSTITUTES]
    note = f"{plural(len(emulated), 'leaf', 'leaves')} not from hardware: {', '.join(emulated)}" if emulated else ""
    return (objectives, missing, *([Text(note, style="bold yellow")] if note else []))


def result(document: CaseDocument, folder: Path) -> dict[str, Any]:
    """Return the case as JSON types, with the states of its elements."""
    return {
        "case": str(folder),
        "model": document.model.to_json(),
        "board": document.request.board,
        "states": document.states(),
        "undeveloped": document.undeveloped_below(document.top),
        "leaves": {name: leaf.origin for name, leaf in document.leaves.items()},
    }
