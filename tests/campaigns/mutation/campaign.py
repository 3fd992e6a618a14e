"""One mutant on one network: is it found by a run, by the proof, and does the diagnosis name it?"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis import proof
from harness.analysis.compare import compare
from harness.analysis.diagnosis import Diagnosis, cases, diagnose
from harness.analysis.proof import Effort, ProofStep, Question, Side, answers, composition, launches
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.core.file_digest import file_sha256
from harness.execution import dumps, program
from harness.execution.probe import Probe
from harness.execution.program import Deployed
from harness.operators.add import Add
from harness.operators.obligations import Extent, StageKind
from harness.plan import planner
from harness.plan.plan import Plan
from harness.runs.chunks import DIAGNOSED
from harness.targets import STAND_INS
from tests.campaigns.mutation import target_c, target_cuda, target_tiovx, target_vitis
from tests.campaigns.mutation.mutants import Mutant
from tests.campaigns.mutation.networks import Subject
from tests.campaigns.mutation.target_cuda import PAST_THE_SELF_TEST, TOLERANT, network_alone, past_the_inspection
from tests.campaigns.mutation.target_tiovx import past_the_trial
from tests.simulators.tiovx.boards import with_dsp
from tests.simulators.vitis.boards import with_fabric
from tests.support.programs.board_program import BoardProgram, build_patched

COMPOSED = 256  # vectors of each whole run under delays
EFFORT = Effort(launches=[1000] * 4, network=1000, block=64, random_vectors=1 << 12, overlapping=256, late_us=10_000)
FLOATS = 1 << 32
START_TIMEOUT_S = 60.0
SELF_TEST = "does not compute the specification"


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


class Guard(enum.Enum):
    """What may refuse a program before anything is claimed of it."""

    BUILD = "B"
    """The build, which inspects the code for the GPU, and tries the thresholds for a DSP or an FPGA."""
    START = "S"
    """The program itself, whose self-test comes before all else."""
    RUN = "E"
    """The run, which ends with an error."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    `differing` activations of the run are wrong; some claim of each of the steps `failed` does not hold.  `named` is
    by the diagnosis of the run or, where nothing differs in that, of the proof; None where there is none.  All claims
    about single layers are `complete`, or some were tried on samples.  Of what comes before any claim, `refused` by
    these: the others are of what would have been, had they not been there.
    """

    differing: int
    failed: tuple[ProofStep, ...]
    named: Named | None
    complete: bool = True
    refused: tuple[Guard, ...] = ()

    @property
    def shown(self) -> bool:
        """Whether the run has shown that the program is wrong."""
        return self.differing > 0 or Guard.RUN in self.refused

    @property
    def missed(self) -> bool:
        """Whether every claim holds of a program of which the run has shown that it is wrong."""
        return self.shown and not self.failed

    @property
    def held(self) -> bool:
        """Whether every claim holds, and nothing speaks against it."""
        return not self.shown and not self.failed


@dataclass(frozen=True)
class Suspect:
    """A program that may be wrong, and whether its build would have refused it."""

    program: BoardProgram
    refused: bool

    def deployed(self, folder: Path, *, self_test: bool = False) -> Deployed:
        """On this machine as a board; the self-test of a program that has one is only heeded if asked for."""
        deployed = self.program.deployed(folder)
        words = () if self_test else ("env", f"{PAST_THE_SELF_TEST}=1")
        return dataclasses.replace(deployed, command=(*words, *deployed.command))

    @property
    def identity(self) -> str:
        """The same if the compilers make the same code for the network: the self-test on a GPU calls more than that."""
        folder = self.program.path.parent
        on_gpu = [network_alone(path.read_text(encoding="ascii")) for path in folder.glob("device/*.ptx")]
        if not on_gpu:
            stand_ins = sorted((folder / STAND_INS).glob("*.so*"))
            return " ".join(map(file_sha256, [self.program.path, *stand_ins]))
        sources = [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.c"))]
        return hashlib.sha256("".join([*sources, *on_gpu]).encode()).hexdigest()


@dataclass(frozen=True)
class Workshop:
    """What the programs of a target are built with: the profile of this machine, and a folder for what they share."""

    board: Profile
    target: str
    objects: Path

    def plan(self, subject: Subject) -> Plan:
        """The right one: every item has the target; what that refuses is computed by an item of target c."""
        if self.target == target_tiovx.C7X:
            return planner.make(subject.network, with_dsp(self.board))
        if self.target == target_vitis.VITIS:
            return planner.make(subject.network, with_fabric(self.board))
        return planner.make(subject.network, self.board, [self.target] * len(self.board.items))

    def build(self, mutant: Mutant | None, subject: Subject, folder: Path) -> Suspect:
        """The mutant of the subject's program, or that itself, in a new folder."""
        made = self.plan(subject)
        wrong, patches = (mutant.plan(made), mutant.patches(made, self.target)) if mutant else (made, ())
        tolerant = TOLERANT if self.target in target_cuda.INJECTIONS else ()
        with past_the_inspection() as of_ptx, past_the_trial() as of_thresholds:
            program = build_patched(wrong, self.board, folder, [*tolerant, *patches], self.flags, objects=self.objects)
        return Suspect(program, bool(of_ptx or of_thresholds))

    @property
    def flags(self) -> tuple[str, ...]:
        """What stands in for a GPU, a DSP or an FPGA need not be fast."""
        return () if self.target in {"c", target_c.VECTOR} else ("-O1",)


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
        return Probe(self.deployed, program.options(self.made), self.timeout_s, self.scratch)


def attempt(
    suspect: Suspect, subject: Subject, made: Plan, causes: Sequence[str], scratch: Path, *, all_floats: bool
) -> Outcome:
    """What `harness prove` does with a program that should be that of the plan, by the same functions."""
    trial = Trial(subject, made, suspect.deployed(scratch / "run"), scratch)
    refused = [guard for guard, refuses in _guards(suspect, scratch).items() if refuses]
    try:
        differing, diagnoses = run(trial)
    except BoardError:
        refused, differing, diagnoses = [*refused, Guard.RUN], 0, []
    failed = failed_steps(trial, all_floats=all_floats)
    if not differing and ProofStep.REQUANTIZATION in failed and Guard.RUN not in refused:
        diagnoses = diagnosed_by_the_proof(trial)
    complete = not any(isinstance(layer, Add) for layer in subject.network.layers)
    return Outcome(differing, failed, named(diagnoses, causes), complete, tuple(refused))


def _guards(suspect: Suspect, scratch: Path) -> Mapping[Guard, bool]:
    return {Guard.BUILD: suspect.refused, Guard.START: _fails_its_self_test(suspect, scratch)}


def _fails_its_self_test(suspect: Suspect, scratch: Path) -> bool:
    try:
        program.devices(suspect.deployed(scratch / "run", self_test=True), START_TIMEOUT_S)
    except BoardError as error:
        return SELF_TEST in error.message
    return False


def run(trial: Trial) -> tuple[int, list[Diagnosis]]:
    """The number of differing activations, and what the diagnosis says of the layers to blame."""
    subject, found = trial.subject, executed(trial)
    differing = sum(compare(*pair).differing for pair in zip(subject.expected, found, strict=True))
    blamed = cases(trial.made.network, subject.vectors, subject.expected, dict(enumerate(found)), 0, trial.made.block)
    return differing, [diagnose(case) for case in [case for case in blamed if case.own][:DIAGNOSED]]


def diagnosed_by_the_proof(trial: Trial) -> list[Diagnosis]:
    """What a claim says of the cause where it does not hold: of the end of each QGemm."""
    pairs = zip(trial.made.network.layers, codegen.generate(trial.made).tasks, strict=True)
    stages = ((layer, stage) for layer, code in pairs for stage in code.stages if stage.part is StageKind.FINISH)
    diagnoses = (
        answers.diagnose(obligation.notable(), layer.sums, stage, trial.probe)
        for layer, stage in stages
        if layer.sums is not None
        for obligation in layer.obligations(Extent(all_floats=False, random_vectors=0))
        if obligation.notable is not None
    )
    return [diagnosis for diagnosis in diagnoses if diagnosis.differing]


def executed(trial: Trial) -> list[Array]:
    """All layers' dumps, each with the length and the hash that it must have."""
    layers, count = trial.made.network.layers, len(trial.subject.vectors)
    upload, options = trial.scratch / "vectors.npy", program.options(trial.made)
    dumps.write(upload, trial.subject.vectors)
    done = program.execute_chunk(trial.deployed, 0, upload, count, layers, options, trial.timeout_s)
    return list(program.collect(trial.deployed, done, range(len(layers)), layers, trial.scratch).values())


def failed_steps(trial: Trial, *, all_floats: bool) -> tuple[ProofStep, ...]:
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
            return tuple(step for step in ProofStep if step in failed)
    return ()


def _questions(trial: Trial, *, all_floats: bool) -> Iterator[Question]:
    codes = codegen.generate(trial.made).tasks
    subject = proof.Subject(trial.made.network, trial.made.network.layers, codes, trial.probe)
    asked = proof.questions(subject, Extent(all_floats=all_floats))
    return (question for question in asked if question.side is Side.BOARD)


def _composition(trial: Trial) -> Iterator[Question]:
    vectors, expected = trial.subject.vectors[:COMPOSED], [values[:COMPOSED] for values in trial.subject.expected]
    yield from launches.questions(codegen.generate(trial.made), trial.probe, vectors, expected, EFFORT)
    yield from composition.questions(
        trial.made, trial.deployed, vectors, expected, trial.timeout_s, trial.scratch, EFFORT
    )


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
