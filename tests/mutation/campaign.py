"""One mutant on one network: is it found by a run, by the proof, and does the diagnosis name it?"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import dumps, execute, network_c, plan, proof
from harness.chunks import DIAGNOSED
from harness.compare import compare
from harness.diagnosis import Diagnosis, cases, diagnose
from harness.errors import BoardError
from harness.execute import Deployed
from harness.network import Add, Array, QGemm
from harness.plan import Plan
from harness.probe import Probe
from harness.profile import Profile
from harness.proof import Question, Side, Step, cause, composition
from harness.targets import Part
from tests.kernels.board_program import BoardProgram, build_patched, compile_common
from tests.mutation.mutants import Mutant
from tests.mutation.networks import Subject

COMPOSED = 256  # vectors of each whole run under delays
FLOATS = 1 << 32
NETWORK_ITEM = "network"


class Named(enum.Enum):
    """What the diagnosis says of the layers that are wrong themselves."""

    ALONE = "alone"
    """Of every one the right cause, and of one at least no other."""
    AMONG = "among others"
    """Of every one the right cause, with others that explain as much."""
    NOT = "not"
    """Of one no cause explains everything."""
    WRONG = "WRONG"
    """Of one only wrong causes explain everything."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    `differing` activations of the run are wrong; some claim of each of the steps `failed` does not hold.  `named` is
    by the diagnosis of the run or, where nothing differs in that, of the proof; None where there is none.  All claims
    about single layers are `complete`, or some were tried on samples.
    """

    differing: int
    failed: tuple[Step, ...]
    named: Named | None
    complete: bool = True

    @property
    def missed(self) -> bool:
        """Whether every claim holds of a program of which the run has shown that it is wrong."""
        return self.differing > 0 and not self.failed

    @property
    def held(self) -> bool:
        """Whether every claim holds, and nothing speaks against it."""
        return not self.differing and not self.failed


@dataclass(frozen=True)
class Workshop:
    """What the programs of a target are built with: the profile of this machine, and kernels/common compiled once."""

    board: Profile
    target: str
    common: Path

    @classmethod
    def open(cls, board: Profile, target: str, subject: Subject, folder: Path) -> Workshop:
        """`folder` will keep the object file, which is the same for every network."""
        return cls(board, target, compile_common(_plan(board, target, subject), board, folder))

    def plan(self, subject: Subject) -> Plan:
        """The right one."""
        return _plan(self.board, self.target, subject)

    def build(self, mutant: Mutant | None, subject: Subject, folder: Path) -> BoardProgram:
        """The mutant of the subject's program, or that itself, in a new folder."""
        made = self.plan(subject)
        wrong, patches = (mutant.plan(made), mutant.patches(made, self.target)) if mutant else (made, ())
        return build_patched(wrong, self.board, folder, patches, common=self.common)


def _plan(board: Profile, target: str, subject: Subject) -> Plan:
    """The network's item has the target, the others keep theirs."""
    targets = [target if name == NETWORK_ITEM else item.target for name, item in board.items.items()]
    return plan.make(subject.network, board, targets)


@dataclass(frozen=True)
class Trial:
    """A deployed program that should compute the subject's network by the plan `made`, and a folder for files."""

    subject: Subject
    made: Plan
    deployed: Deployed
    scratch: Path
    timeout_s: float = 60.0

    @property
    def probe(self) -> Probe:
        """What the proof asks with."""
        return Probe(self.deployed, execute.options(self.made), self.timeout_s, self.scratch)


def attempt(
    program: BoardProgram, subject: Subject, made: Plan, causes: Sequence[str], scratch: Path, *, all_floats: bool
) -> Outcome:
    """What `harness prove` does with a program that should be that of the plan, by the same functions."""
    trial = Trial(subject, made, program.deployed(scratch / "run"), scratch)
    differing, diagnoses = run(trial)
    failed = failed_steps(trial, all_floats=all_floats)
    if not differing and Step.REQUANTIZATION in failed:
        diagnoses = diagnosed_by_the_proof(trial)
    complete = not any(isinstance(layer, Add) for layer in subject.network.layers)
    return Outcome(differing, failed, named(diagnoses, causes), complete)


def run(trial: Trial) -> tuple[int, list[Diagnosis]]:
    """The number of differing activations, and what the diagnosis says of the layers to blame."""
    subject, found = trial.subject, executed(trial)
    differing = sum(compare(*pair).differing for pair in zip(subject.expected, found, strict=True))
    blamed = cases(trial.made.network, subject.vectors, subject.expected, dict(enumerate(found)), 0, trial.made.block)
    return differing, [diagnose(case) for case in [case for case in blamed if case.own][:DIAGNOSED]]


def diagnosed_by_the_proof(trial: Trial) -> list[Diagnosis]:
    """What a claim says of the cause where it does not hold: of the end of each QGemm."""
    pairs = zip(trial.made.network.layers, network_c.task_codes(trial.made), strict=True)
    stages = ((layer, stage) for layer, code in pairs for stage in code.stages if stage.part is Part.FINISH)
    diagnoses = (cause.diagnose(layer, stage, trial.probe) for layer, stage in stages if isinstance(layer, QGemm))
    return [diagnosis for diagnosis in diagnoses if diagnosis.differing]


def executed(trial: Trial) -> list[Array]:
    """All layers' dumps, each with the length and the hash that it must have."""
    layers, count = trial.made.network.layers, len(trial.subject.vectors)
    upload, options = trial.scratch / "vectors.npy", execute.options(trial.made)
    dumps.write(upload, trial.subject.vectors)
    done = execute.execute_chunk(trial.deployed, 0, upload, count, layers, options, trial.timeout_s)
    return list(execute.collect(trial.deployed, done, range(len(layers)), layers, trial.scratch).values())


def failed_steps(trial: Trial, *, all_floats: bool) -> tuple[Step, ...]:
    """The steps of the argument in which some claim does not hold.

    What takes long is only asked where all else holds: whole runs under delays, and every float32 (`all_floats`).
    """
    of_stages = list(_questions(trial, all_floats=all_floats))
    quick, long = (
        [question for question in of_stages if (question.cases == FLOATS) is every_float]
        for every_float in (False, True)
    )
    for asked in (quick, _composition(trial), long):
        failed = {question.step for question in asked if not _holds(question)}
        if failed:
            return tuple(step for step in Step if step in failed)
    return ()


def _questions(trial: Trial, *, all_floats: bool) -> Iterator[Question]:
    subject = proof.Subject(
        trial.made.network, trial.made.network.layers, network_c.task_codes(trial.made), trial.probe
    )
    asked = proof.questions(subject, all_floats=all_floats)
    return (question for question in asked if question.side is Side.BOARD)


def _composition(trial: Trial) -> Iterator[Question]:
    vectors, expected = trial.subject.vectors[:COMPOSED], [values[:COMPOSED] for values in trial.subject.expected]
    return composition.questions(trial.made, trial.deployed, vectors, expected, trial.timeout_s, trial.scratch)


def _holds(question: Question) -> bool:
    """A program that does not answer, or answers another question, is not shown to be right."""
    try:
        return question.ask().holds
    except BoardError:
        return False


def named(diagnoses: Iterable[Diagnosis], causes: Sequence[str]) -> Named | None:
    """How what the diagnosis says of every wrong layer stands to the right causes."""
    found = [{hypothesis.cause for hypothesis in diagnosis.complete} for diagnosis in diagnoses]
    if not found:
        return None
    right = set(causes)
    if any(complete and not complete & right for complete in found):
        return Named.WRONG
    if not all(found):
        return Named.NOT
    return Named.ALONE if any(complete <= right for complete in found) else Named.AMONG
