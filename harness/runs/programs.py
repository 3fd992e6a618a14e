"""The program of a model, of the folder of a plan, or of the folder of a run, built again for commands that read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import targets
from harness.boards import profile
from harness.boards.identity import EMULATED, HARDWARE
from harness.boards.profile import Profile
from harness.boards.workspace import Workspace
from harness.build import bundle, codegen
from harness.build.bundle import Bundle
from harness.build.codegen import Program
from harness.core.errors import RequestError, unknown_name
from harness.core.safe_io import read_document
from harness.plan import folder as plan_folder
from harness.plan.plan import Plan
from harness.runs import DOCUMENT, REQUEST, job
from harness.runs.entries import AnyDocument
from harness.runs.folder import RunFolder


@dataclass(frozen=True)
class Subject:
    """A plan and its board; of a run also the name of its bundle and its folder, None without one."""

    plan: Plan
    board: Profile
    bundle_sha256: str | None = None
    run: Path | None = None


@dataclass(frozen=True)
class RunResult:
    """The result of a finished run: the name of its folder, its kind, verdict, vectors, and whether its proof holds.

    `board` is the kind of board on which it ran: hardware, emulated, this machine or virtual machine.
    """

    name: str
    kind: str
    board: str
    verdict: str
    vectors: int
    proof_holds: bool | None


def result_of(run: Path) -> RunResult | None:
    """Return the result of the run in a folder; None if it is unfinished."""
    if not (run / DOCUMENT).is_file():
        return None
    document = AnyDocument.view(read_document(run / DOCUMENT))
    proof = getattr(document, "proof", None)
    return RunResult(
        run.resolve().name,
        document.kind,
        document.board.kind,
        document.verdict,
        document.stimuli.count,
        None if proof is None else bool(proof.holds),
    )


def board_text(kind: str) -> str:
    """Return the kind of board of a result, so that nobody takes an emulated one for hardware."""
    return {EMULATED: "on an EMULATED board", HARDWARE: "on hardware"}.get(kind, f"on {kind}")


def run_of(space: Workspace, name: str) -> str:
    """Return the path of a run by its folder, or its name under the folder of runs; RequestError if there is none."""
    for path in (Path(name), space.runs / name):
        if (path / REQUEST).is_file():
            return str(path)
    raise unknown_name("run", name, [path.parent.name for path in space.runs.glob(f"*/{REQUEST}")])


def subject(space: Workspace, model: str, choices: Mapping[str, Any]) -> Subject:
    """Return the plan of `model`: the name or path of a model, or the folder of a plan or of a run.

    `choices` are board, items, split and buffers, and possibly block and sync, None where not given; RequestError if
    a folder has them already.
    """
    path = Path(model)
    boards = targets.load_boards(space.boards)
    if len(path.parts) == 1 and not path.is_dir() and (space.runs / path).is_dir():
        path = space.runs / path
    if not path.is_dir():
        board = boards.board(choices["board"] or "host")
        return Subject(job.planned(space.model(model), board, {"block": None, "sync": None, **choices}), board)
    is_run = (path / REQUEST).is_file()
    if any(value is not None for value in choices.values()):
        raise RequestError(f"{model} has a plan, which defines {', '.join(choices)}", "omit these options")
    plan = plan_folder.read(path / "plan" if is_run else path)
    if not is_run:
        return Subject(plan, boards.board(plan.board))
    request = RunFolder(path).read_request()
    return Subject(plan, profile.restored(request["profile"]), request["bundle"], path)


def build(of: Subject, cache: Path, action: str) -> tuple[Program, Bundle]:
    """Generate and build the program; RequestError if a run had another bundle, or if layers have no code of ours.

    `action` says what is impossible then.
    """
    bundle.require_stages(of.plan, action)
    bundle.check_targets(of.plan, of.board)
    program = codegen.generate(of.plan)
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    built = bundle.build(program, of.board, cache)
    if of.bundle_sha256 not in {None, built.sha256}:
        recorded = str(of.bundle_sha256)[:16]
        raise RequestError(
            f"{of.run}: the run has bundle {recorded}, but the sources, the profile and the compiler here give "
            f"{built.sha256[:16]}",
            "check out the revision that run.json names, or name the plan in place of the run: RUN/plan",
        )
    return program, built
