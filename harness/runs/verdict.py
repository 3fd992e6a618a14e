"""The verdict of a run and its grounds: a function of the chunks, the coverage, the proof and the traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.compare import NOTHING, Comparison, Difference, difference_map
from harness.analysis.diagnosis import Diagnosis, DifferenceSummary, Hypothesis, common, map_shape, merge, named
from harness.analysis.local import LocalResult
from harness.analysis.proof import Side
from harness.analysis.proof_document import ProofDocument
from harness.core.errors import BoardError
from harness.core.outcome import Outcome
from harness.core.text import plural, shortened
from harness.execution import dumps
from harness.model.network import Network
from harness.operators.counters import LayerCoverage, Met
from harness.plan import claims
from harness.plan.conformance import ConformanceEntry
from harness.plan.plan import Plan
from harness.reference import coverage, max_ratio
from harness.reference.whole_network import NOTHING as NO_WHOLE
from harness.reference.whole_network import Whole
from harness.runs import entries
from harness.runs.entries import Results
from harness.runs.folder import ChunkRecord


@dataclass(frozen=True)
class Observations:
    """The observations of a run: its chunks, the coverage, and its proof and traces if requested.

    `changed` is the number of vectors with a wrong output of the network.
    """

    records: Sequence[ChunkRecord]
    covered: Sequence[LayerCoverage]
    proof: ProofDocument | None
    conformance: ConformanceEntry | None
    changed: int

    @property
    def whole(self) -> Whole:
        """The outputs of ONNX Runtime with the whole model over all chunks."""
        return sum((record.whole for record in self.records), NO_WHOLE)

    @property
    def deployed(self) -> Comparison | None:
        """The last layer's result in deployment mode over all chunks; None if it was not requested."""
        results = [record.deployed.result for record in self.records if record.deployed]
        return reduce(Comparison.__add__, results, NOTHING) if results else None

    @property
    def refutes(self) -> bool:
        """Return whether deployment mode differs, a claim of the proof fails, or a trace is no path of the net."""
        wrong_outputs = self.deployed is not None and self.deployed.differing > 0
        wrong_claim = self.proof is not None and not self.proof.holds
        return wrong_outputs or wrong_claim or (self.conformance is not None and not self.conformance.conforms)


def changed_vectors(folder: Path, network: Network, records: Sequence[ChunkRecord]) -> int:
    """Return the number of vectors for which a value of the last layer differs, from the dumps in a run's folder.

    BoardError if a dump is not the one that was compared.
    """
    last, changed = network.layers[-1], 0
    for record in (record for record in records if record.layers[-1].differing):
        if last.size == 1:
            changed += record.layers[-1].differing
            continue
        sides = {"reference": record.reference_sha256[-1], "target": record.target_sha256[-1]}
        name = f"{record.index:05}/{dumps.file_name(len(network.layers) - 1, last)}"
        expected, actual = (
            dumps.read(folder / kind / name, last, record.stop - record.start, sha256) for kind, sha256 in sides.items()
        )
        changed += int(np.count_nonzero(difference_map(expected, actual).any(axis=1)))
    return changed


def results(plan: Plan, ran_on: Sequence[str], count: int, observations: Observations) -> Results:
    """Return the verdict on `count` vectors and its grounds: a function of the observations.

    `ran_on` states where each item really ran.  BoardError if any activation was not compared.
    """
    network, records = plan.network, observations.records
    totals = _totals(plan, count, [record.layers for record in records])
    near = _near(plan, records)
    differing = [layer.name for layer, total in zip(network.layers, totals, strict=True) if total.differing]
    wrong = [layer.name for layer, total in zip(network.layers, totals, strict=True) if total.own]
    diagnoses = merge(diagnosis for record in records for diagnosis in record.diagnoses)
    summaries = merge(summary for record in records for summary in record.portraits)
    return Results(
        layers=_layers(plan, ran_on, totals, observations, near),
        coverage={
            "text": coverage.describe(network, observations.covered),
            **_counts(coverage.total(observations.covered)),
        },
        **_outputs(network, count, observations.whole, near),
        deployed=observations.deployed,
        proof=observations.proof,
        conformance=observations.conformance,
        verdict=_verdict(observations, near, differs=bool(differing)).value,
        reason="; ".join(_reasons(plan, count, totals, observations, near)),
        effect=_effect(network, count, observations.changed) if differing and not near else None,
        diagnosis=_headline(network, diagnoses, wrong),
        diagnoses=[_diagnosis(network, diagnosis) for diagnosis in diagnoses],
        pictures=[picture(network, count, summary) for summary in summaries],
    )


def _verdict(observations: Observations, near: LocalResult | None, *, differs: bool) -> Outcome:
    if differs or observations.refutes:
        return Outcome.DIFFERS
    return Outcome.WITHIN_BOUND if near else Outcome.IDENTICAL


def _near(plan: Plan, records: Sequence[ChunkRecord]) -> LocalResult | None:
    """Return how near the bounded layers are to their bounds over all chunks; None if every layer is exact.

    BoardError if a chunk was not compared as the claims of the plan's targets require.
    """
    results = [record.local for record in records if record.local]
    required = len(records) if claims.bounded(plan) else 0
    if len(results) != required:
        raise BoardError(f"{len(results)} of {len(records)} chunks were compared within bounds", "start a new run")
    return reduce(LocalResult.__add__, results) if results else None


def _outputs(network: Network, count: int, whole: Whole, near: LocalResult | None) -> dict[str, Any]:
    """Return the entries that only networks with a tolerance have."""
    outputs: dict[str, Any] = {}
    if whole.outputs:
        outputs["whole_network"] = [entries.WholeOutputEntry(**dataclasses.asdict(output)) for output in whole.outputs]
    if near:
        outputs["network_outputs"] = _output_differences(network, count, near)
    return outputs


def _reasons(
    plan: Plan, count: int, totals: Sequence[Comparison], observations: Observations, near: LocalResult | None
) -> Iterator[str]:
    """Yield the clauses of the reason."""
    if observations.proof:
        yield _proved(observations.proof)
    yield _compared(plan, count, totals, near)
    if observations.deployed:
        yield _in_deployment(observations.deployed)
    if observations.conformance and not observations.conformance.conforms:
        yield _strayed(observations.conformance)


def _in_deployment(result: Comparison) -> str:
    """Return the clause on deployment mode."""
    first = result.first
    if not result.differing or not first:
        return f"in deployment mode all {result.compared:,} outputs are the same"
    scope = f"{result.differing:,} of {result.compared:,} outputs"
    where = f"column {first.unit} of vector {first.vector}: {first.actual}, expected {first.expected}"
    return f"in deployment mode (--dump last, with or without times) {scope} differ, first {where}"


def _strayed(traces: ConformanceEntry) -> str:
    """Return the clause on traces that contradict the plan."""
    count = sum(condition.violations for condition in traces.conditions)
    where = f"traces of {traces.executions:,} executions"
    return f"{count:,} steps in {where} were not in order, first {traces.violations[0]}"


def _totals(plan: Plan, count: int, chunks: Sequence[tuple[Comparison, ...]]) -> list[Comparison]:
    """Return each layer's result over all chunks; BoardError for activations that were kept and not compared."""
    totals = [reduce(Comparison.__add__, column, NOTHING) for column in zip(*chunks, strict=True)]
    for layer, total, is_kept in zip(plan.network.layers, totals, plan.kept, strict=True):
        expected = count * layer.size * is_kept
        if total.compared != expected:
            raise BoardError(f"layer {layer.name}: {total.compared} activations were compared, not {expected}")
    return totals


def _layers(
    plan: Plan,
    ran_on: Sequence[str],
    totals: Sequence[Comparison],
    observations: Observations,
    near: LocalResult | None,
) -> list[entries.LayerEntry]:
    """Return the entries of all layers; one that does not apply to a layer is not set."""
    whole = observations.whole
    layers = []
    for index, (total, covered) in enumerate(zip(totals, observations.covered, strict=True)):
        optional: dict[str, Any] = {
            "reference_ratio": max_ratio(record.ratios[index] for record in observations.records if record.ratios)
        }
        if whole.ratios and whole.ratios[index] is not None:
            optional["whole_ratio"] = whole.ratios[index]
        if near and near.bounded[index]:
            optional["bounded"] = near.bounded[index]
        if not plan.kept[index]:
            optional["kept"] = False
        layers.append(_layer(plan, ran_on, index, total, covered, optional))
    return layers


def _layer(
    plan: Plan,
    ran_on: Sequence[str],
    index: int,
    total: Comparison,
    covered: LayerCoverage,
    optional: dict[str, Any],
) -> entries.LayerEntry:
    layers, tasks = plan.network.layers, plan.tasks_of(index)
    layer, items = layers[index], [plan.items[task.item] for task in tasks]
    return entries.LayerEntry(
        index=index,
        name=layer.name,
        operator=layer.operator,
        reads=[other.name for other in layers if other.output.name in layer.sources],
        items=[item.name for item in items],
        item=_distinct(item.name for item in items),
        target=_distinct(item.target for item in items),
        ran_on=_distinct(ran_on[task.item] for task in tasks),
        compared=total.compared,
        differing=total.differing,
        own=total.own,
        first_difference=_first_difference(plan, index, total.first) if total.first else None,
        coverage=_counts(covered),
        **optional,
    )


def _first_difference(plan: Plan, layer: int, difference: Difference) -> entries.DifferenceEntry:
    """Return the first difference of a layer; of a split layer with the part that contains it."""
    values, tasks = dataclasses.asdict(difference), plan.tasks_of(layer)
    if len(tasks) == 1:
        return entries.DifferenceEntry(**values)
    width = plan.network.layers[layer].size
    task = next(task for task in tasks if task.region.has(difference.unit, width))
    return entries.DifferenceEntry(**values, part=f"{task.name} of {plan.items[task.item].name}")


def _distinct(texts: Iterable[str]) -> str:
    """Return every different text once."""
    return " + ".join(dict.fromkeys(texts))


def _counts(covered: LayerCoverage) -> dict[str, Met]:
    return {quantity.value: met for quantity, met in covered.items()}


def _output_differences(network: Network, count: int, near: LocalResult) -> list[entries.OutputDifferenceEntry]:
    """Return the outputs of the network over `count` vectors, compared with the reference."""
    return [
        entries.OutputDifferenceEntry(
            layer=network.layers[output.layer].name,
            values=count * network.layers[output.layer].size,
            unequal=output.unequal,
            largest=output.largest,
        )
        for output in near.outputs
    ]


def _compared(plan: Plan, vectors: int, totals: Sequence[Comparison], near: LocalResult | None) -> str:
    """Return the clause on the comparison of all layers."""
    compared, kept = sum(total.compared for total in totals), sum(plan.kept)
    layers = str(kept) if kept == len(totals) else f"{kept} of {len(totals)}"
    scope = f"{compared:,} activations of {layers} layers over {vectors:,} vectors"
    names = [layer.name for layer in plan.network.layers]
    differing = [name for name, total in zip(names, totals, strict=True) if total.differing]
    if near:
        text = _near_text(plan, scope, differing, totals, near)
        return f"{text}, each for the inputs that the board computed"
    lost = [name for name, is_kept in zip(names, plan.kept, strict=True) if not is_kept]
    unknown = (
        f"; those of {shortened(', '.join(lost))} were overwritten, as buffers are reused: run without "
        "--buffers reuse to compare every layer"
        if lost
        else ""
    )
    if not differing:
        return f"all {scope} are bit for bit those of the reference{unknown}"
    return f"{sum(total.differing for total in totals):,} of {scope} differ, first in layer {differing[0]}{unknown}"


def _near_text(
    plan: Plan, scope: str, differing: Sequence[str], totals: Sequence[Comparison], near: LocalResult
) -> str:
    """Return the clause on layers that were compared with the specification for their own inputs."""
    if differing:
        wrong = sum(total.differing for total in totals)
        return f"{wrong:,} of {scope} differ or are beyond their bound, first in layer {differing[0]}"
    bounded = {layer.name: result for layer, result in zip(plan.network.layers, near.bounded, strict=True) if result}
    largest = max(result.ratio for result in bounded.values())
    exact = len(near.bounded) - len(bounded)
    others = f"{plural(exact, 'other layer')} bit for bit, " if exact else ""
    within = f"within {100 * largest:.3g} % of their bound"
    return f"all {scope} hold: {others}those of {shortened(', '.join(bounded))} {within}"


def _proved(proof: ProofDocument) -> str:
    """Return the clause on the proof."""
    failed = [claim for claim in proof.claims if not claim.holds]
    if failed:
        where = f", layer {failed[0].layer}" if failed[0].layer else ""
        return f"the proof fails{where}: {shortened(str(failed[0].counterexample))}"
    cases = sum(claim.cases for claim in proof.claims if claim.answered_by == Side.BOARD.value and claim.complete)
    sampled = dict.fromkeys(claim.layer for claim in proof.claims if claim.layer and not claim.complete)
    scope = f"for every input, but for samples of layer {', '.join(sampled)}" if sampled else "for every input"
    return f"shown {scope}, by {cases:,} cases on the board, under {len(proof.assumptions)} stated assumptions"


def _effect(network: Network, count: int, changed: int) -> entries.EffectEntry:
    """Return how many of `count` vectors have a wrong output of the network."""
    last = network.layers[-1]
    what = "decisions" if last.dtype == np.int64 else "outputs"  # ArgMax and ArgMin write int64
    return entries.EffectEntry(layer=last.name, what=what, changed=changed, of=count)


def _headline(network: Network, diagnoses: Sequence[Diagnosis], wrong: Sequence[str]) -> entries.HeadlineEntry | None:
    """Return the one diagnosis to read first: the cause that explains all wrong layers, or that of the first layer.

    `layers` are those that `cause` explains; `cause` is None if no known cause explains everything.
    """
    if not diagnoses:
        return None
    layers, shared = [network.layers[diagnosis.layer].name for diagnosis in diagnoses], common(diagnoses)
    first = diagnoses[0]
    if not shared:
        cause = first.complete[0].cause if first.complete else None
        return entries.HeadlineEntry(layer=layers[0], layers=layers[:1], cause=cause, text=first.text)
    values = sum(diagnosis.differing for diagnosis in diagnoses)
    rest = [layer for layer in wrong if layer not in layers]
    note = f"; not looked at, but wrong themselves: {', '.join(rest)}" if rest else ""
    scope = f"all {values:,} differing values looked at in {len(layers)} layers"
    text = f"one cause explains {scope}: {named(shared)}{note}"
    return entries.HeadlineEntry(layer=layers[0], layers=layers, cause=shared[0].cause, text=text)


def _diagnosis(network: Network, diagnosis: Diagnosis) -> entries.DiagnosisEntry:
    """Return the sentence, and the hypotheses: all that explain everything, and the nearest."""
    nearest = diagnosis.ranked[: max(len(diagnosis.complete), 5)]
    return entries.DiagnosisEntry(
        layer=network.layers[diagnosis.layer].name,
        text=diagnosis.text,
        differing=diagnosis.total,
        looked_at=diagnosis.differing,
        hypotheses=[_hypothesis(hypothesis, diagnosis) for hypothesis in nearest],
    )


def _hypothesis(hypothesis: Hypothesis, diagnosis: Diagnosis) -> entries.HypothesisEntry:
    return entries.HypothesisEntry(
        cause=hypothesis.cause,
        right=hypothesis.right,
        explains_all=hypothesis in diagnosis.complete,
        explained=hypothesis.explained,
        of=diagnosis.differing,
        contradicted=hypothesis.contradicted,
        example=hypothesis.example,
    )


def picture(network: Network, count: int, summary: DifferenceSummary) -> entries.PictureEntry:
    """Summarize the differences of a layer; a row of the map is one line, which is shorter than a list of numbers."""
    layer = network.layers[summary.layer]
    columns, rows = map_shape(count, layer.size)
    empty = (0,) * rows
    lines = zip(*(summary.cells.get(column, empty) for column in range(columns)), strict=True)
    return entries.PictureEntry(
        layer=layer.name,
        vectors=count,
        units=layer.size,
        map=[" ".join(map(str, line)) for line in lines],
        steps=summary.steps,
        tie_distances=summary.tie_distances,
    )
