"""The whole argument: its questions in their order, asked on the board and on this machine side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event

import numpy as np
import numpy.typing as npt

from harness import targets
from harness.analysis.proof import answers, composition, constants
from harness.analysis.proof.claims import Claim, Question, Side, effort_of
from harness.build.codegen import Program
from harness.core.errors import ReferenceFailed
from harness.execution.probe import Probe
from harness.model.analysis.ranges import ranges
from harness.model.network import Network
from harness.operators import sum_orders
from harness.operators.base import Layer
from harness.operators.obligations import Extent, ProofStep, StageKind
from harness.operators.region import Region
from harness.operators.tensor import FLOAT32
from harness.plan.launches import item_views, merged_places
from harness.plan.plan import Plan
from harness.targets import LayerCode


@dataclass(frozen=True)
class Subject:
    """Subject of a proof: a network, the tasks with the code of their targets, the program's probe.

    `parts` are whole layers, or some columns of one.  Once it is `abandoned` no answer is wanted any more.  Without a
    `probe` no program is asked: its answers are the right ones.  `merges` are the places in the inputs of merging
    stages of the values that they give, by the stages' names; `regions` are the columns of the parts, by default side
    by side.
    """

    network: Network
    parts: Sequence[Layer]
    codes: Sequence[LayerCode]
    probe: Probe | None
    abandoned: Event = field(default_factory=Event)
    merges: Mapping[str, npt.NDArray[np.intp]] = field(default_factory=dict)
    regions: Sequence[Region] = ()

    @classmethod
    def of(cls, program: Program, probe: Probe | None) -> Subject:
        """Return the subject of a proof of `program`."""
        plan = program.plan
        parts = [plan.part(task) for task in plan.tasks]
        regions = [task.region for task in plan.tasks]
        return cls(plan.network, parts, program.tasks, probe, merges=merged_places(plan), regions=regions)

    def abandon(self) -> None:
        """End running steps on the board and in the reference with an error."""
        self.abandoned.set()
        if self.probe:
            self.probe.deployed.board.close()


@dataclass(frozen=True)
class Proof:
    """All claims, in the order of the argument."""

    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        """Return whether every claim holds."""
        return all(claim.holds for claim in self.claims)

    @property
    def incomplete(self) -> tuple[Claim, ...]:
        """The claims that were tried on some of their cases only; those of whole runs among them."""
        return tuple(claim for claim in self.claims if not claim.question.complete)


def prove(
    asked: Sequence[Question],
    on_claim: Callable[[int, Claim], object],
    abandon: Callable[[], object],
    known: Mapping[int, Claim] | None = None,
) -> Proof:
    """Ask everything, in the order given.

    `known` are claims of an earlier attempt by the number of the question, which is not asked again; `on_claim` gets
    each other claim, with its number, as soon as it is made.  After the first failure or an interrupt, `abandon` is
    called, which ends the steps that still run.
    ReferenceFailed if the reference contradicts itself, BoardError if the board does not answer.
    """
    earlier = known or {}

    def ask(number: int, question: Question) -> Claim:
        if number in earlier:
            return earlier[number]
        claim = question.ask()
        _require_reference(claim)
        on_claim(number, claim)
        return claim

    with ExitStack() as stack:
        pools = {side: stack.enter_context(ThreadPoolExecutor(1)) for side in Side}
        answers = [pools[question.side].submit(ask, number, question) for number, question in enumerate(asked)]
        try:
            ended = wait(answers, return_when=FIRST_EXCEPTION).done
            return Proof(tuple(answer.result() for answer in sorted(ended, key=answers.index)))
        except BaseException:
            for answer in answers:
                answer.cancel()
            abandon()
            raise


def _require_reference(claim: Claim) -> None:
    """Raise ReferenceFailed if the reference answered wrongly: that is no fault of the board."""
    if claim.question.side is Side.REFERENCE and not claim.holds:
        raise ReferenceFailed(
            f"the claim '{claim.question.statement}' does not hold: {claim.counterexample}",
            "the fault is in this program or its reference, not on the board: report it, or compare the reader of your "
            "own package (entry points harness.readers) with its operator",
        )


def in_order(questions: Iterable[Question]) -> list[Question]:
    """Sort questions by the steps of the argument."""
    return sorted(questions, key=lambda question: list(ProofStep).index(question.step))


def questions(subject: Subject, extent: Extent | Sequence[Extent]) -> Iterator[Question]:
    """Yield all that is asked of single stages, to this extent or to that of each part, and of the reference."""
    extents = [extent] * len(subject.parts) if isinstance(extent, Extent) else extent
    yield from constants.questions(subject.network, subject.parts, subject.codes, subject.probe, subject.regions)
    for layer in subject.network.layers:
        if layer.rounded.swept:
            yield answers.reference_agrees(subject.network, layer, subject.abandoned)
        of_layer = zip(subject.regions, subject.parts, strict=False)
        parts = [each for each in of_layer if each[1].output.name == layer.output.name and each[1] is not layer]
        if parts:
            yield composition.dividing(layer, parts)
    for part, code, of_part in zip(subject.parts, subject.codes, extents, strict=True):
        merges = [stage for stage in code.stages if stage.part is StageKind.MERGE]
        yield from (composition.merging(part, merge, subject.merges[merge.name], subject.probe) for merge in merges)
        stages = {stage.part: stage for stage in code.stages}
        for obligation in (*part.obligations(of_part), *sum_orders.obligations(part)):
            yield answers.question(obligation, part, stages[obligation.part], subject.probe)


def of_plan(plan: Plan, ran_on: Sequence[str], *, all_floats: bool) -> list[str]:
    """Return the assumptions about a plan; `ran_on` is where each item ran."""
    places = {item.name: where for item, where in zip(plan.items, ran_on, strict=True)}
    stand_ins = {item: where for item, where in places.items() if where != targets.HARDWARE}
    granted = {item.name: targets.find(item.target).assumptions for item in plan.items}
    of_items = {item: sentences for item, sentences in granted.items() if sentences}
    stated = assumptions(plan.network, stand_ins, all_floats=all_floats, of_items=of_items)
    return [*stated, *_of_large_networks(plan, ran_on), *_of_events(plan)]


def _of_large_networks(plan: Plan, ran_on: Sequence[str]) -> Iterator[str]:
    """Yield the assumption about stand-ins that are asked for less."""
    names = [plan.items[item].name for item in effort_of(ran_on, plan.network).limited]
    if names:
        yield (
            f"Stages of {' and '.join(names)}, which ran on stand-ins, compute all positions of an image alike: the "
            "network is large, so each code of a term of a convolution's sum, and each pair of codes of two operands, "
            "was tried at one position at least; sums at the border of an image had the extremes and random vectors."
        )


def _of_events(plan: Plan) -> Iterator[str]:
    """Yield the assumption about items that hand over on a device, where events order them."""
    views = zip(plan.items, item_views(plan), strict=True)
    names = [item.name for item, launches in views if any(task.awaited for launch in launches for task in launch)]
    if names:
        yield (
            f"Streams and events keep the order that the documentation of their driver promises, for items "
            f"{' and '.join(names)}. The launches for which each launch waits were read from the program; that it "
            "waits, and records its event behind its work, is in the fixed source of the driver code."
        )


def assumptions(
    network: Network, stand_ins: Mapping[str, str], *, all_floats: bool, of_items: Mapping[str, str]
) -> Iterator[str]:
    """Yield the assumptions of a proof in whole sentences.

    `stand_ins` says by item what played the hardware that it is for; `of_items` what its target takes for granted.
    """
    for item, stand_in in stand_ins.items():
        yield (
            f"Item {item} ran on a stand-in, {stand_in}: what is shown of it holds for its source as compiled for "
            "that, not for the machine code of the hardware, and not for the hardware."
        )
    for item, sentences in of_items.items():
        yield f"Of item {item}: {sentences}"
    yield "The same instructions with the same operands give the same result whenever they run."
    yield (
        "Of the machine code was read which variables and arguments each function uses, not at which index: indices "
        "stay inside their arrays, functions keep the calling convention of the processor, a function reads nothing "
        "of its stack frame that it has not written, and no code or sum that a stage reads is an address. The fixed "
        "sources of the board program (kernels/program, and the driver code of a target) do with tasks, buffers and "
        "flags what they say. The code of other devices was not read."
    )
    yield from _of_layers(layer for layer in network.layers if layer.sums)
    yield (
        "No column of a layer depends on other columns in a way that vectors with equal, differently ordered and NaN "
        "values in any two columns do not show. In a sweep each value passes through one column."
    )
    if not all_floats:
        yield (
            "Division by a positive constant, clamping and rounding are monotone on the board, as IEEE 754 requires, "
            "and one NaN is like another: the places where its code changes settle QuantizeLinear."
        )
    yield from _of_layers(layer for layer in network.layers if not layer.sums)
    overflowing = [
        layer.name
        for layer in network.layers
        if not layer.stimuli.takes_every_input
        and any(tensor.dtype == FLOAT32 and math.isinf(tensor.bound) for tensor in layer.inputs)
    ]
    if overflowing:
        bounds = ranges(network, {}, None).bounds
        layers = [layer for layer in network.layers if layer.name in overflowing]
        inside = all(np.isfinite(bounds[name]).all() for layer in layers for name in layer.sources)
        yield (
            "Inputs with which float values overflow and a result is NaN, as of a sum of infinities of both signs or "
            "of a product of 0 and an infinity, have no specified result and were not tried; layers that read values "
            f"which can overflow: {', '.join(overflowing)}. By intervals, "
            f"{'no value that they read overflows' if inside else 'such a value can overflow'} for inputs in the box "
            "of the network."
        )
    for module in sorted({type(layer).__module__ for layer in network.layers}):
        if not module.startswith("harness."):
            layers_of_module = [layer.name for layer in network.layers if type(layer).__module__ == module]
            yield (
                f"The operators of layers {', '.join(layers_of_module)} are defined by {module}, a package of a third "
                "party, whose reader also states their constants: both were taken as they are."
            )
    yield (
        "The barriers and flags of the program keep the order that POSIX and C11 promise of them. That the plan has "
        "them wherever its net needs them was decided for every interleaving; on the board delays were injected into "
        "each item, and items that may work at the same time were shifted against each other."
    )
    yield (
        "The reference: ONNX Runtime and the integer specification agree on every case, but both were run by this "
        "program, on this machine, and the specification is what its authors measured of ONNX Runtime."
    )


def _of_layers(layers: Iterable[Layer]) -> list[str]:
    """Return the assumptions of proofs of these layers, each sentence once."""
    return list(dict.fromkeys(sentence for layer in layers for sentence in layer.assumptions()))
