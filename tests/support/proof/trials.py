"""Right and wrong programs of small networks on this machine, and what the questions of a proof say of them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.analysis import proof
from harness.analysis.compare import numbers
from harness.analysis.proof import Claim, Effort, ProofStep, Question, Side, Subject, composition, launches
from harness.boards.profile import Profile
from harness.build import codegen
from harness.build.codegen import Program
from harness.core.arrays import Array
from harness.execution.probe import Probe
from harness.execution.program import options
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.obligations import Extent, StageKind
from harness.operators.qgemm import QGemm
from harness.plan import planner
from harness.plan.plan import Buffers, Plan, Sync
from harness.targets import Stage, Table
from tests.integration.programs.test_probe import right_outputs
from tests.support.programs.board_program import BoardProgram, Patch, build_patched, references, uniform_vectors

Change = Callable[[QGemm], QGemm]
VECTORS = 100
TIMEOUT_S = 60
EFFORT = Effort(launches=[2000] * 4, network=2000, block=4, random_vectors=1 << 12, overlapping=1500, late_us=50_000)


@dataclass(frozen=True)
class Workshop:
    """Where programs are built, in folders of their own; `objects` keeps what all have in common."""

    board: Profile
    objects: Path
    folder: Path
    count: Iterator[int] = field(default_factory=itertools.count)

    def trial(
        self,
        net: Network,
        patches: Sequence[Patch] = (),
        change: Change | None = None,
        block: int = 64,
        split: Sequence[str] = (),
        sync: Sync | None = None,
        buffers: Buffers = "keep",
    ) -> Trial:
        """A program of `net` that is wrong by the patches of its sources and the change of every QGemm."""
        folder = self.folder / str(next(self.count))
        wrong = _changed(net, change) if change else net
        choices = {"block": block, "split": split, "sync": sync, "buffers": buffers}
        plan = planner.make(wrong, self.board, **choices)
        program = build_patched(plan, self.board, folder / "bundle", patches, objects=self.objects)
        (folder / "scratch").mkdir()
        right = planner.make(net, self.board, **choices)
        probe = Probe(program.deployed(folder / "run"), options(right), TIMEOUT_S, folder / "scratch")
        return Trial(right, program, probe)


def _changed(net: Network, change: Change) -> Network:
    layers = (change(layer) if isinstance(layer, QGemm) else layer for layer in net.layers)
    return dataclasses.replace(net, layers=tuple(layers))


@dataclass(frozen=True)
class Trial:
    """A program on this machine, and the plan that it should follow."""

    made: Plan
    program: BoardProgram
    probe: Probe

    @property
    def network(self) -> Network:
        return self.made.network

    @cached_property
    def generated(self) -> Program:
        return codegen.generate(self.made)

    @property
    def subject(self) -> Subject:
        return Subject.of(self.generated, self.probe)

    @property
    def parts(self) -> list[Layer]:
        """What the tasks of the plan compute."""
        return [self.made.part(task) for task in self.made.tasks]

    def questions(self, *, all_floats: bool = False) -> list[Question]:
        """To the program, but for whole runs."""
        return self.asking(self.probe, all_floats=all_floats)

    def asking(self, probe: Probe | None, *, all_floats: bool = False) -> list[Question]:
        """To the program, or to nobody."""
        asked = proof.questions(Subject.of(self.generated, probe), Extent(all_floats=all_floats))
        return [question for question in asked if question.side is Side.BOARD]

    def refuted(self, layer: str | None = None) -> dict[tuple[ProofStep, str | None], Claim]:
        """The first claims that do not hold, by step and layer, each with a counterexample that is found to be true.

        By default those of all layers.
        """
        claims = [question.ask() for question in self.questions() if layer in {None, question.layer}]
        failed = [claim for claim in claims if not claim.holds]
        for claim in failed:
            self.check(claim)
        return {(claim.question.step, claim.question.layer): claim for claim in reversed(failed)}

    def composed(self) -> list[Claim]:
        """What whole runs under delays say."""
        net = self.network
        vectors = uniform_vectors(net, VECTORS, seed=1)
        asked = composition.questions(
            self.made, self.probe.deployed, vectors, references(net, vectors), TIMEOUT_S, self.probe.scratch, EFFORT
        )
        return [question.ask() for question in asked]

    def launched(self, effort: Effort = EFFORT) -> list[Claim]:
        """What launches say that run in their own buffers."""
        net = self.network
        vectors = uniform_vectors(net, VECTORS, seed=1)
        asked = launches.questions(self.generated, self.probe, vectors, references(net, vectors), effort)
        return [question.ask() for question in asked]

    def tables(self) -> list[Table]:
        return [table for code in self.generated.tasks for table in code.tables]

    def stage(self, layer: Layer, part: StageKind) -> Stage:
        code = self.generated.tasks[[part.name for part in self.parts].index(layer.name)]
        return next(stage for stage in code.stages if stage.part is part)

    def check(self, claim: Claim) -> None:
        """The counterexample names a value of the program, and another that the formula gives."""
        if claim.question.step is ProofStep.CONSTANTS:
            self._check_table(claim.counterexample)
            return
        layer = next(part for part in self.parts if part.name == claim.question.layer)
        stage = self.stage(layer, PARTS.get(claim.question.step, StageKind.COMPUTE))
        column, inputs, found, wanted = _parsed(claim.counterexample, stage)
        assert _same(numbers(self.probe.outputs(stage, inputs))[0, column], found)
        assert _same(numbers(right_outputs(layer, stage, inputs))[0, column], wanted)
        assert not _same(found, wanted)

    def _check_table(self, counterexample: str) -> None:
        match = re.match(r"table (\w+)\[(\d+)\]\[(\d+)\] holds (0x\w+), the model says (0x\w+) \(", counterexample)
        assert match, counterexample
        tables, at = self.tables(), (int(match[2]), int(match[3]))
        index = [table.name for table in tables].index(match[1])
        for values, text in ((self.probe.tables(tables)[index], match[4]), (tables[index].values, match[5])):
            assert int(text, 16) == int.from_bytes(np.atleast_2d(values)[at].tobytes(), "little")
            assert len(text) == 2 + 2 * values.itemsize


def _same(one: float, other: float) -> bool:
    """And of the same sign, where both are 0."""
    return bool(one == other and np.signbit(one) == np.signbit(other))


STEP = r"column (\d+): (\S+)(?: \((0x\w+)\))? becomes (\S+), expected ([^;\s]+)(; .*)?"  # and the likely cause
PARTS = {
    ProofStep.ACCUMULATION: StageKind.ACCUMULATE,
    ProofStep.REQUANTIZATION: StageKind.FINISH,
    ProofStep.COMPOSITION: StageKind.MERGE,
}


def _parsed(counterexample: str, stage: Stage) -> tuple[int, Array, float, float]:
    """Column, a vector of inputs, the output found and the right one."""
    whole = re.fullmatch(r"column (\d+) of inputs \[(.*)\]: (\S+), expected ([^;\s]+)(; .*)?", counterexample)
    if whole:
        inputs = np.array([[float(value) for value in whole[2].split(",")]]).astype(stage.input_dtype)
        return int(whole[1]), inputs, float(whole[3]), float(whole[4])
    step = re.fullmatch(STEP, counterexample)
    assert step, counterexample
    bits = int(step[3], 16) if step[3] else int(step[2]) % 2**32
    inputs = np.full((1, stage.input_width), bits, np.uint32).view(stage.input_dtype)
    return int(step[1]), inputs, float(step[4]), float(step[5])
