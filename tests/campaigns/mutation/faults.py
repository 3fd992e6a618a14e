"""What goes wrong around the network: a dump that is cut short, a bundle that is not today's, items that hang."""

from __future__ import annotations

import dataclasses
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.boards.local import LocalBoard
from harness.boards.profile import Profile
from harness.boards.work_folder import claim
from harness.build import bundle, codegen
from harness.build.bundle import PROGRAM, Bundle
from harness.core.errors import BoardError
from harness.core.file_digest import file_sha256
from harness.execution import program
from harness.execution.program import Deployed
from harness.plan import planner
from tests.campaigns.mutation.campaign import Trial, run
from tests.campaigns.mutation.networks import Subject
from tests.support.programs.board_program import BoardProgram, Patch, build_patched

ROWS = "execution.vectors * layer->width"
PARTIES = "network.hand_overs[i].parties"


@dataclass(frozen=True)
class Fault:
    """`deploy` puts the faulty program of a network on this machine as a board; a run of it comes to `verdict`.

    That is a regular expression.  The run may take `timeout_s`.
    """

    name: str
    deploy: Callable[[Subject, Profile, Path], Deployed]
    verdict: str
    timeout_s: float = 60.0

    def run(self, subject: Subject, board: Profile, folder: Path) -> str:
        """The verdict and the reason; `folder` is empty, and is left out of the paths that the reason names."""
        try:
            deployed = self.deploy(subject, board, folder)
            trial = Trial(subject, planner.make(subject.network, board), deployed, folder, self.timeout_s)
            differing, _ = run(trial)
        except BoardError as error:
            return f"inconclusive: {error.message}".replace(f"{folder}/", "")
        return f"differs: {differing:,} activations" if differing else "identical"


def _patched(subject: Subject, board: Profile, folder: Path, *patches: Patch) -> BoardProgram:
    return build_patched(planner.make(subject.network, board), board, folder / "patched", patches)


def _truncated_dump(subject: Subject, board: Profile, folder: Path) -> Deployed:
    short = Patch("kernels/program/record.c", ROWS, ROWS.replace("execution.vectors", "(execution.vectors - 1)"))
    return _patched(subject, board, folder, short).deployed(folder / "run")


def _endless_wait(subject: Subject, board: Profile, folder: Path) -> Deployed:
    stuck = Patch("kernels/program/schedule.c", PARTIES, f"{PARTIES} + 1")
    return _patched(subject, board, folder, stuck).deployed(folder / "run")


def _stale_bundle(subject: Subject, board: Profile, folder: Path) -> Deployed:
    """The files are those of another program, and so are their hashes."""
    built, stale = _built(subject, board, folder), _patched(subject, board, folder).path
    files = {PROGRAM: file_sha256(stale)}
    return _deploy(dataclasses.replace(built, folder=stale.parent, files=files), folder)


def _stale_program(subject: Subject, board: Profile, folder: Path) -> Deployed:
    """The archive of the bundle that is kept on the board holds another program."""
    built = _built(subject, board, folder)
    _deploy(built, folder)
    [kept] = (folder / "work" / "bundles").iterdir()
    with tarfile.open(kept, "w") as tar:
        tar.add(_patched(subject, board, folder).path, PROGRAM)
    return _deploy(built, folder)


def _built(subject: Subject, board: Profile, folder: Path) -> Bundle:
    return bundle.build(codegen.generate(planner.make(subject.network, board)), board, folder)


def _deploy(built: Bundle, folder: Path) -> Deployed:
    return program.deploy(LocalBoard(), built, claim(LocalBoard(), str(folder / "work"), ""), "run")


FAULTS = (
    Fault(
        "truncated dump: each block lacks its last vector",
        _truncated_dump,
        r"inconclusive: .*: [\d,]+ of [\d,]+ bytes arrived, [\d,]+ are missing",
    ),
    Fault(
        "barriers that wait for one item more than there is", _endless_wait, "inconclusive: .* did not end within", 2
    ),
    Fault(
        "stale bundle: another program under its name, with hashes that fit",
        _stale_bundle,
        "inconclusive: .* is bundle patched",
    ),
    Fault("stale program in the archive that is kept on the board: it is sent again", _stale_program, "identical"),
)
