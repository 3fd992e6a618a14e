"""`harness report --tables`: measure the networks of a paper, and write its tables with these numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from harness import __version__, targets
from harness.boards.connect import Connection
from harness.boards.locks import session
from harness.boards.profile import Profile
from harness.boards.workspace import Workspace, write_whole
from harness.cli._journal import LOCK_WAIT_S
from harness.core.console import Console
from harness.core.document import write_json
from harness.core.errors import unknown_name
from harness.core.installation import revision
from harness.core.text import plural
from harness.report import tables as report
from harness.runs import folder as run_folder
from harness.runs.job import command_line
from harness.runs.tables import acetone as paper
from harness.runs.tables import builds, peers
from harness.runs.tables import tflite as thesis
from harness.runs.tables.acetone import Examined
from harness.runs.tables.acetone_numbers import PAPER
from harness.runs.tables.builds import Code
from harness.runs.tables.document import Sources, TableEntry, TablesDocument

DOCUMENT = "tables.json"


@dataclass(frozen=True)
class Asked:
    """The options of the tables."""

    profiles: Sequence[str]
    models: Sequence[str]
    items: Sequence[str] | None
    seconds: float
    peers: Sequence[Path]
    output: Path | None


def acetone(asked: Asked, workspace: Workspace, console: Console) -> int:
    """Measure, write all forms of the tables, and return the exit code: 1 if outputs are wrong."""
    models = _chosen("model", asked.models, paper.MODELS)
    codes = _chosen("target", asked.items, paper.CODES)
    profiles = [targets.load_boards(workspace.boards).board(name) for name in asked.profiles]
    known = {path.stem for path in workspace.model_files()}
    of_peers, started = peers.read(asked.peers), f"{run_folder.now():%Y-%m-%dT%H:%M:%SZ}"
    forms = [Code(target, level) for target in codes for level in paper.LEVELS]
    with console.progress("measuring", len(models) * len(profiles) * len(forms)) as bar:
        found = []
        for name in models:
            network = Examined(name, None)
            if name in known:
                network = _examined(name, profiles, forms, asked.seconds, workspace, console, bar.advance)
            else:
                console.note(paper.absent(name))
                bar.advance(len(profiles) * len(forms))
            found.append(dataclasses.replace(network, peers=of_peers.get(name, ())))
    sources = Sources()
    document = _document(PAPER, paper.tables(found, asked.profiles, sources), sources, started)
    return _write(document, asked.output or Path("tables-acetone"), list(paper.differing(found)), console)


def tflite(asked: Asked, workspace: Workspace, console: Console) -> int:
    """Convert, compare, write all forms of the tables, and return the exit code: 1 if a layer differs."""
    models = _chosen("model", asked.models, thesis.MODELS)
    known, started = {path.stem for path in workspace.model_files()}, f"{run_folder.now():%Y-%m-%dT%H:%M:%SZ}"
    found, sources = [], Sources()
    with console.progress("comparing", len(models) * thesis.INPUTS) as bar:
        for name in models:
            if name in known:
                found.append(thesis.compared(workspace.model(name), asked.seconds, bar.advance))
            else:
                console.note(thesis.absent(name))
                bar.advance(thesis.INPUTS)
    document = _document(thesis.PAPER, thesis.tables(found, models, sources), sources, started)
    return _write(
        document, asked.output or Path("tables-tflite"), [each.model for each in found if each.wrong], console
    )


def _write(document: TablesDocument, folder: Path, wrong: Sequence[str], console: Console) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / DOCUMENT, document)
    for name, text in report.reports(document).items():
        write_whole(folder / name, text.encode())
    console.document(document.to_json() | {"wrong": list(wrong)})
    console.show(*report.terminal(document), Text(f"{folder / report.PAGE}"))
    for each in wrong:
        console.note(f"wrong outputs: {each}")
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
    found = []
    for profile in profiles:
        console.note(f"{name}: building and measuring {plural(len(forms), 'program')} for {profile.name}")
        for built in builds.examine(case, profile, forms, workspace.cache, reach, seconds):
            found.append(built)
            advance(1)
    return Examined(name, case, found)


def _document(title: str, made: Sequence[TableEntry], sources: Sources, started: str) -> TablesDocument:
    return TablesDocument(
        schema=1,
        paper=title,
        started=started,
        harness=f"{__version__} ({revision() or 'unknown revision'})",
        command=command_line(),
        tables=made,
        sources=list(sources.texts),
    )


def _chosen(kind: str, names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Return the chosen ones in the order of the paper, all by default; RequestError for an unknown name."""
    for name in names or ():
        if name not in known:
            raise unknown_name(kind, name, known)
    return [name for name in known if name in (names or known)]
