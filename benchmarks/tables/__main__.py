"""`python -m benchmarks.tables`: measure the networks of a paper, and write its tables with these numbers."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from benchmarks.tables import acetone as ecrts
from benchmarks.tables import builds, peers
from benchmarks.tables import forms as writing
from benchmarks.tables import tflite as thesis
from benchmarks.tables.acetone import Examined
from benchmarks.tables.acetone_numbers import PAPER
from benchmarks.tables.builds import Code
from benchmarks.tables.document import Sources, TableEntry, TablesDocument
from harness import __version__, targets
from harness.boards.connect import Connection
from harness.boards.locks import LOCK_WAIT_S, session
from harness.boards.profile import Profile
from harness.boards.workspace import Workspace, write_whole
from harness.cli._options import Words, as_json, pass_workspace
from harness.cli.main import main
from harness.core.console import Console
from harness.core.document import write_json
from harness.core.errors import unknown_name
from harness.core.installation import revision
from harness.core.text import plural
from harness.runs import folder as run_folder

NAME = "python -m benchmarks.tables"
DOCUMENT = "tables.json"


@click.command(epilog="Example: .venv/bin/python -m benchmarks.tables acetone --peers lenet5.json")
@click.argument("paper", type=click.Choice(["acetone", "tflite"]))
@click.option(
    "--board",
    "profiles",  # --boards is the file of all
    multiple=True,
    default=("host", "kv260"),
    show_default=True,
    help="Board of the tables; repeat the option for several.",
)
@click.option("--model", "models", multiple=True, help="Network of the tables; default: all of the paper.")
@click.option("--items", type=Words(), help="Codes of the tables, e.g. c,c:vector.")
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Time that a program is measured; 0: sizes and bounds alone.",
)
@click.option(
    "--peers",
    "documents",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Times of other tools: a document of benchmarks/run_peers.py --network NAME --json; may be repeated.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the tables; default: tables-PAPER.")
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    paper: str,
    models: Sequence[str],
    seconds: float,
    output: Path | None,
    **of_acetone: Any,
) -> int:
    """Write the tables of a paper with the numbers of this machine beside its own, as CSV, LaTeX, Markdown and HTML.

    The tables `acetone` build the networks of the paper in all forms of code and measure them; the tables `tflite`
    compare LiteRT with ONNX Runtime. Exit code 1 if outputs of a program, or a layer, are wrong.
    """
    console = Console.open(as_json=as_json)
    folder = output or Path(f"tables-{paper}")
    if paper == "tflite":
        return tflite(models, seconds, folder, space, console)
    return acetone(models, seconds, folder, space, console, **of_acetone)


def acetone(
    names: Sequence[str],
    seconds: float,
    folder: Path,
    workspace: Workspace,
    console: Console,
    profiles: Sequence[str],
    items: Sequence[str] | None,
    documents: Sequence[Path],
) -> int:
    """Measure, write all forms of the tables, and return the exit code: 1 if outputs are wrong."""
    models = _chosen("model", names, ecrts.MODELS)
    codes = _chosen("target", items, ecrts.CODES)
    boards = [targets.load_boards(workspace.boards).board(name) for name in profiles]
    known = {path.stem for path in workspace.model_files()}
    of_peers, started = peers.read(documents), f"{run_folder.now():%Y-%m-%dT%H:%M:%SZ}"
    forms = [Code(target, level) for target in codes for level in ecrts.LEVELS]
    with console.progress("measuring", len(models) * len(boards) * len(forms)) as bar:
        examined = []
        for name in models:
            network = Examined(name, None)
            if name in known:
                network = _examined(name, boards, forms, seconds, workspace, console, bar.advance)
            else:
                console.note(ecrts.absent(name))
                bar.advance(len(boards) * len(forms))
            examined.append(dataclasses.replace(network, peers=of_peers.get(name, ())))
    sources = Sources()
    document = _document(PAPER, ecrts.tables(examined, profiles, sources), sources, started)
    return _write(document, folder, list(ecrts.differing(examined)), console)


def tflite(names: Sequence[str], seconds: float, folder: Path, workspace: Workspace, console: Console) -> int:
    """Convert, compare, write all forms of the tables, and return the exit code: 1 if a layer differs."""
    models = _chosen("model", names, thesis.MODELS)
    known, started = {path.stem for path in workspace.model_files()}, f"{run_folder.now():%Y-%m-%dT%H:%M:%SZ}"
    compared, sources = [], Sources()
    with console.progress("comparing", len(models) * thesis.INPUTS) as bar:
        for name in models:
            if name in known:
                compared.append(thesis.compared(workspace.model(name), seconds, bar.advance))
            else:
                console.note(thesis.absent(name))
                bar.advance(thesis.INPUTS)
    document = _document(thesis.PAPER, thesis.tables(compared, models, sources), sources, started)
    return _write(document, folder, [network.model for network in compared if network.wrong], console)


def _write(document: TablesDocument, folder: Path, wrong: Sequence[str], console: Console) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / DOCUMENT, document)
    for name, text in writing.reports(document).items():
        write_whole(folder / name, text.encode())
    console.document(document.to_json() | {"wrong": list(wrong)})
    console.show(*writing.terminal(document), Text(f"{folder / writing.PAGE}"))
    for name in wrong:
        console.note(f"wrong outputs: {name}")
    return int(bool(wrong))


def _examined(
    name: str,
    profiles: Sequence[Profile],
    forms: Sequence[Code],
    seconds: float,
    workspace: Workspace,
    console: Console,
    advance: Callable[[int], None],
) -> Examined:
    def reach(profile: Profile, cache: Path) -> AbstractContextManager[Connection]:
        locks = workspace.locks(profile)
        return session(profile, locks, cache, "tables", LOCK_WAIT_S, console.note, counting=profile.emulated)

    console.note(f"{name}: computing the outputs of the specification and of ONNX Runtime")
    network = workspace.model(name)
    case = builds.checked(network) if seconds else builds.unchecked(network)
    programs = []
    for profile in profiles:
        console.note(f"{name}: building and measuring {plural(len(forms), 'program')} for {profile.name}")
        for built in builds.examine(case, profile, forms, workspace.cache, reach, seconds):
            programs.append(built)
            advance(1)
    return Examined(name, case, programs)


def _document(title: str, made: Sequence[TableEntry], sources: Sources, started: str) -> TablesDocument:
    return TablesDocument(
        schema=1,
        paper=title,
        started=started,
        harness=f"{__version__} ({revision() or 'unknown revision'})",
        command=[*NAME.split(), *sys.argv[1:]],
        tables=made,
        sources=list(sources.texts),
    )


def _chosen(kind: str, names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the chosen ones in the order of the paper, all by default; RequestError for an unknown name."""
    for name in names or ():
        if name not in known:
            raise unknown_name(kind, name, known)
    return [name for name in known if name in (names or known)]


if __name__ == "__main__":
    main(command, NAME)
