"""The verdict of a judgement, and the arithmetic of the engine that explains its differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import __version__
from harness.analysis.compare import Difference, difference_map
from harness.analysis.diagnosis import Hypothesis
from harness.applications.judge.activations import quantisations
from harness.applications.judge.arithmetic import models
from harness.applications.judge.document import (
    SCHEMA,
    ArithmeticEntry,
    CauseEntry,
    DecisionsEntry,
    JudgementDocument,
    LayerEntry,
    ValueEntry,
)
from harness.applications.judge.dumps import Dumps
from harness.applications.judge.judgement import Judge
from harness.applications.judge.matching import Matched, step_of
from harness.applications.judge.results import Judgement, LayerJudgement
from harness.core.installation import revision
from harness.core.outcome import Ending, Outcome
from harness.core.text import plural
from harness.model.network import Network
from harness.runs.entries import HarnessEntry
from harness.runs.verdict import picture

SUSPICIOUS = 0.5
"""Share of differing values of the first layer from which on the dumps may be of another model or of other vectors."""


POWER = 0.5
"""Significand of powers of two."""


@dataclass(frozen=True)
class Conclusion:
    """The verdict with its reason; `first` is the first layer whose own arithmetic differs."""

    ending: Ending
    first: LayerJudgement | None
    arithmetic: tuple[ArithmeticEntry, ...]
    unexplained: tuple[str, ...]


def conclude(judgement: Judgement) -> Conclusion:
    """Decide the verdict; `identical` needs all outputs of the model, all vectors, and no difference anywhere."""
    wrong = [layer for layer in judgement.layers if layer.own > layer.nan or _off(layer)]
    affected = [layer for layer in judgement.layers if layer.unequal]
    arithmetic = tuple(_arithmetic(judgement, affected))
    named = {name for entry in arithmetic for name in entry.layers}
    unexplained = tuple(layer.layer.name for layer in affected if layer.layer.name not in named)
    first = next(iter(wrong or affected), None)
    return Conclusion(_ending(judgement, wrong), first, arithmetic, unexplained)


def _off(layer: LayerJudgement) -> int:
    """Return the values that are none of the model's, without NaN."""
    return max(layer.off - layer.nan, 0)


def _ending(judgement: Judgement, wrong: Sequence[LayerJudgement]) -> Ending:
    layers = judgement.layers
    if wrong:
        return Ending(Outcome.DIFFERS, _difference(judgement, wrong))
    reasons = [*_missing(judgement), *judgement.problems]
    if reasons:
        return Ending(Outcome.INCONCLUSIVE, "; ".join(reasons), "reference")
    compared = sum(layer.compared for layer in layers)
    where = f"{plural(len(layers), 'layer')} over {plural(judgement.vectors, 'vector')}"
    unequal = sum(layer.differing or 0 for layer in layers)
    if unequal:
        ratio = max(layer.ratio for layer in layers)
        reason = f"{unequal:,} of {compared:,} activations of {where} differ, each by at most {ratio:.2g} of its bound"
        return Ending(Outcome.WITHIN_BOUND, reason)
    converted = [layer.layer.name for layer in layers if layer.is_converted]
    codes = f"; those of {', '.join(converted)} are numbers in the dumps, compared as codes" if converted else ""
    reason = f"all {compared:,} activations of {where} are bit for bit those of the reference{codes}"
    return Ending(Outcome.IDENTICAL, reason)


def _difference(judgement: Judgement, wrong: Sequence[LayerJudgement]) -> str:
    first, names = wrong[0], ", ".join(layer.layer.name for layer in wrong[:4])
    more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
    own = sum(layer.own for layer in wrong)
    are = "activation is" if own == 1 else "activations are"
    text = f"{own:,} {are} other than specified for the engine's own inputs, in {names}{more}"
    off = sum(_off(layer) for layer in wrong)
    if off:
        text += f"; {off:,} values are none of the model's, such as numbers between two codes"
    suspicious = first.index == judgement.layers[0].index and first.own > SUSPICIOUS * max(first.own_compared, 1)
    if suspicious and not first.explanation.complete:
        text += (
            f"; {first.layer.name} differs in {first.own / first.own_compared:.0%} of its values: "
            "are the dumps of another model, or of other vectors?"
        )
    return text


def _missing(judgement: Judgement) -> Iterator[str]:
    if judgement.missing_outputs:
        yield f"the dumps lack the outputs {', '.join(map(repr, judgement.missing_outputs))} of the model"
    if not judgement.vectors:
        yield "the dumps have no vectors"
    nan = [layer.layer.name for layer in judgement.layers if layer.nan]
    if nan:
        count = sum(layer.nan for layer in judgement.layers)
        yield f"NaN in {', '.join(nan)}, where the specification has a number ({plural(count, 'value')})"
    for layer in judgement.layers:
        if layer.unbounded:
            yield (
                f"{layer.layer.name}: {plural(layer.unbounded, 'differing value')} have no finite bound: "
                "dump the layers before it"
            )


def _arithmetic(judgement: Judgement, affected: Sequence[LayerJudgement]) -> Iterator[ArithmeticEntry]:
    """Yield the causes that explain all differences of most layers, then those of the rest."""
    left = list(affected)
    while left:
        of_causes: dict[str, list[LayerJudgement]] = {}
        for layer in left:
            for hypothesis in layer.explanation.complete:
                of_causes.setdefault(hypothesis.cause, []).append(layer)
        if not of_causes:
            return
        cause = max(of_causes, key=lambda cause: len(of_causes[cause]))
        layers = of_causes[cause]
        also = [other for other, explained in of_causes.items() if other != cause and explained == layers]
        [hypothesis] = [one for one in layers[0].explanation.complete if one.cause == cause]
        yield ArithmeticEntry(
            cause=cause,
            also=also,
            specification=hypothesis.right,
            layers=[layer.layer.name for layer in layers],
            values=sum(layer.unequal for layer in layers),
            contradicted_in=list(_silent(judgement, cause)),
        )
        left = [layer for layer in left if layer not in layers]


def _silent(judgement: Judgement, cause: str) -> Iterator[str]:
    """Yield the layers as specified in which the cause would show, on the first vectors."""
    for layer in judgement.layers:
        sample = layer.sample
        if layer.unequal or sample is None:
            continue
        with np.errstate(all="ignore"):
            output = next((model.output for model in models(layer.layer, sample.inputs) if model.cause == cause), None)
        if output is not None and difference_map(output, sample.actual).any():
            yield layer.layer.name


def document(
    network: Network, judge: Judge, judgement: Judgement, dumps: Dumps, matched: Matched, about: dict[str, Any]
) -> JudgementDocument:
    """Return the document; `about` has the entries engine, dumps, vectors_from and files."""
    conclusion = conclude(judgement)
    known = {layer.layer.name for layer in judgement.layers}
    return JudgementDocument(
        schema=SCHEMA,
        harness=HarnessEntry(version=__version__, revision=revision()),
        verdict=str(conclusion.ending.outcome),
        reason=conclusion.ending.reason,
        model=network.name,
        model_sha256=network.sha256,
        format=dumps.format,
        tried_on_real_files=dumps.tried,
        vectors=judgement.vectors,
        bytes=judge.nbytes,
        outputs=judgement.outputs,
        missing_outputs=judgement.missing_outputs,
        layers=[_layer(layer, matched) for layer in judgement.layers],
        not_in_dumps=[layer.name for layer in network.layers if layer.name not in known],
        unmatched=matched.unmatched,
        problems=judgement.problems,
        notes=[*dumps.notes, *_steps(network, judgement, matched)],
        decisions=[
            DecisionsEntry(output=one.output, vectors=one.vectors, changed=one.changed, first=one.first)
            for one in judgement.decisions
            if one.vectors
        ],
        first_layer=conclusion.first.layer.name if conclusion.first else None,
        arithmetic=list(conclusion.arithmetic),
        unexplained=list(conclusion.unexplained),
        pictures=[picture(network, judgement.vectors, layer.summary) for layer in judgement.layers if layer.summary],
        **about,
    )


def _steps(network: Network, judgement: Judgement, matched: Matched) -> Iterator[str]:
    """Yield the steps of an engine whose values lie between the codes of the model."""
    scales = quantisations(network)
    for judged in judgement.layers:
        name = judged.layer.output.name
        step = step_of(matched.activations[name]) if _off(judged) else None
        if step is not None and name in scales:
            power = ", a power of two" if np.frexp(step)[0] == POWER else ""
            own = f"{judged.layer.name}: the engine's values are multiples of {step:.8g}{power}"
            yield f"{own}; the scale of the model is {scales[name].scale:.8g}"


def _layer(judged: LayerJudgement, matched: Matched) -> LayerEntry:
    layer, explanation = judged.layer, judged.explanation
    activation = matched.activations[layer.output.name]
    nearest = explanation.nearest
    units = {"i": "codes", "u": "codes", "f": "ulp"}
    return LayerEntry(
        name=layer.name,
        node=layer.node,
        operator=layer.operator,
        tensor=layer.output.name,
        name_in_dumps=activation.dumped.name,
        notes=list(activation.notes),
        claim="bounded" if layer.errors.has_tolerance else "exact",
        compared=judged.compared,
        differing=judged.differing,
        first=_value(judged.first),
        largest=judged.largest,
        unit=units.get(layer.dtype.kind, "steps"),
        distance=judged.distance,
        range=judged.range,
        own_compared=judged.own_compared,
        unequal=judged.unequal,
        own=judged.own,
        own_first=_value(judged.own_first),
        unbounded=judged.unbounded,
        ratio=judged.ratio,
        nan=judged.nan,
        off=judged.off,
        with_layers=list(judged.chain),
        seen=explanation.diagnosis.seen.text(explanation.diagnosis.noun) if explanation.diagnosis else "",
        causes=[_cause(cause, explanation.checked) for cause in explanation.complete],
        nearest=_cause(nearest, explanation.checked) if nearest else None,
        unchecked=explanation.unchecked,
    )


def _value(difference: Difference | None) -> ValueEntry | None:
    if difference is None:
        return None
    return ValueEntry(
        vector=difference.vector, unit=difference.unit, expected=difference.expected, actual=difference.actual
    )


def _cause(hypothesis: Hypothesis, checked: int) -> CauseEntry:
    return CauseEntry(
        cause=hypothesis.cause,
        specification=hypothesis.right,
        explained=hypothesis.explained,
        checked=checked,
        contradicted=hypothesis.contradicted,
    )


def files_of(path: Path) -> list[Path]:
    """Return all files of the dumps."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
