"""Facts for the reports of a run: its document, cleaned and checked for contradictions, and sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.analysis.compare import Difference
from harness.boards.identity import EMULATED, HARDWARE, VIRTUAL
from harness.core import safe_io
from harness.core.outcome import Outcome
from harness.core.strict_json import number
from harness.core.text import plural
from harness.runs.entries import (
    AccuracyEntry,
    ColumnEntry,
    DiagnosisEntry,
    DifferenceEntry,
    DisagreementEntry,
    ItemEntry,
    LayerEntry,
    ReferenceEntry,
    RunDocument,
    WholeOutputEntry,
)


@dataclass(frozen=True)
class Facts:
    """The sums over all layers, the layers that differ, and the items that did not run on hardware.

    `own` are the differing activations that the layer itself causes.

    `where` completes a verdict, so that an emulated board is not mistaken for hardware.  `bound_share` is the largest
    difference of a bounded layer as a share of its bound.
    """

    compared: int
    differing: int
    own: int
    differing_layers: tuple[LayerEntry, ...]
    stand_ins: tuple[ItemEntry, ...]
    emulated: bool
    where: str
    bound_share: str

    @property
    def on_hardware(self) -> bool:
        """Return whether all items ran on the board's hardware; if not, no time is a MET."""
        return not self.emulated and not self.stand_ins


def clean(value: Any) -> Any:
    """Return a JSON value without characters that are invalid or misleading in a report."""
    if isinstance(value, str):
        return safe_io.clean(value)
    if isinstance(value, Mapping):
        return {clean(key): clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [clean(entry) for entry in value]
    return value


def gather(run: RunDocument) -> Facts:
    """Return the facts of a run document; ValueError if its verdict contradicts its layers."""
    layers, kind = run.layers, run.board.kind
    differing_layers = tuple(layer for layer in layers if layer.differing)
    stand_ins = tuple(item for item in run.plan.items if item.ran_on != HARDWARE)
    strayed = run.conformance is not None and not run.conformance.conforms
    refuted = (run.proof is not None and not run.proof.holds) or (
        run.deployed is not None and run.deployed.differing > 0
    )
    _check_verdict(run.verdict, layers, differing_layers, refuted=refuted, strayed=strayed)
    return Facts(
        sum(layer.compared for layer in layers),
        sum(layer.differing for layer in layers),
        sum(layer.own for layer in layers),
        differing_layers,
        stand_ins,
        kind == EMULATED,
        where_it_ran(kind, stand_ins),
        _share(max((number(layer.bounded.ratio) for layer in layers if layer.bounded), default=0.0)),
    )


def where_it_ran(kind: str, stand_ins: tuple[Any, ...]) -> str:
    """Describe where a run was executed, from the kind of the board and the items that are simulated."""
    if kind in {EMULATED, VIRTUAL}:
        return "on an emulated board" if kind == EMULATED else "on a virtual machine"
    return f"on {kind}, in part by stand-ins" if stand_ins else f"on {kind}"


def _check_verdict(
    verdict: str, layers: Sequence[LayerEntry], differing: tuple[LayerEntry, ...], *, refuted: bool, strayed: bool
) -> None:
    """Raise ValueError if the verdict contradicts the layers, such as `identical` without a comparison.

    `refuted` says that a claim of a proof does not hold, or that deployment mode differs, `strayed` that a trace is no
    path of the plan's net.
    """
    if verdict not in {Outcome.IDENTICAL, Outcome.WITHIN_BOUND, Outcome.DIFFERS}:
        raise ValueError(f"a report shows the verdicts identical, within bound and differs, not {verdict!r}")
    bounded = [layer.name for layer in layers if layer.bounded]
    if verdict != Outcome.DIFFERS and (verdict == Outcome.WITHIN_BOUND) != bool(bounded):
        raise ValueError(f"the verdict is {verdict}, but {len(bounded)} layers are bounded")
    if (verdict == Outcome.DIFFERS) != (bool(differing) or refuted or strayed):
        others = " and a claim" * refuted + " and a trace" * strayed
        raise ValueError(f"the verdict is {verdict}, but {len(differing)} layers differ{others}")
    idle = [layer.name for layer in layers if bool(layer.compared) is not layer.kept]
    if idle or not any(layer.compared for layer in layers):
        raise ValueError(f"nothing was compared of: {', '.join(idle) or 'any layer'}")


def explains_all(run: RunDocument) -> bool:
    """Return whether one cause explains all layers that were diagnosed, two at least."""
    return run.diagnosis is not None and len(run.diagnosis.layers) > 1


@dataclass(frozen=True)
class Explanation:
    """The cause to read first: it explains all `values` differing values that were examined in `layers`.

    `right` is the specification, `others` the number of other causes that explain the same values.  `followers` are the
    differing layers that computed their own inputs correctly, `unexplained` the wrong layers that are not in `layers`.
    """

    cause: str
    right: str
    layers: tuple[str, ...]
    values: int
    others: int
    followers: int
    unexplained: tuple[str, ...]

    @property
    def evidence(self) -> str:
        """Return the values with which the cause is consistent."""
        where = f"all {self.values:,} differing values examined in {', '.join(self.layers)}"
        others = (
            f"; so {'is' if self.others == 1 else 'are'} {plural(self.others, 'other cause')}" if self.others else ""
        )
        return f"consistent with {where}{others}"

    @property
    def scope(self) -> str:
        """Return the explanation of the other differing layers; empty if there are none."""
        wrong = f"not explained: {', '.join(self.unexplained)}" if self.unexplained else ""
        if not self.followers:
            return wrong
        verb, whose = ("differs", "its") if self.followers == 1 else ("differ", "their")
        followers = f"{plural(self.followers, 'other layer')} {verb} only because of {whose} inputs"
        return "; ".join(part for part in (wrong, followers) if part)

    @property
    def text(self) -> str:
        """Return the whole explanation in one line."""
        specification = f" (specification: {self.right})" if self.right else ""
        return "; ".join(part for part in (f"{self.cause}{specification}: {self.evidence}", self.scope) if part)


def explanation(run: RunDocument) -> Explanation | None:
    """Return the cause that explains all diagnosed layers, else that of the first one; None if no cause is known."""
    if not run.diagnosis or not run.diagnosis.cause:
        return None
    cause = run.diagnosis.cause
    layers = tuple(run.diagnosis.layers) or (run.diagnosis.layer,)
    diagnoses = [diagnosis for diagnosis in run.diagnoses if diagnosis.layer in layers]
    hypotheses = [hypothesis for diagnosis in diagnoses for hypothesis in diagnosis.hypotheses]
    return Explanation(
        cause,
        right=next((hypothesis.right for hypothesis in hypotheses if hypothesis.cause == cause), ""),
        layers=layers,
        values=sum(diagnosis.looked_at for diagnosis in diagnoses),
        others=len(_common_causes(diagnoses) - {cause}),
        followers=sum(layer.differing > 0 and layer.own == 0 for layer in run.layers),
        unexplained=_wrong_besides(run, layers),
    )


def _wrong_besides(run: RunDocument, layers: Sequence[str]) -> tuple[str, ...]:
    """Return the layers with differences of their own that are not among these."""
    return tuple(layer.name for layer in run.layers if layer.own and layer.name not in layers)


def _common_causes(diagnoses: Sequence[DiagnosisEntry]) -> set[str]:
    """Return the causes that explain all of each diagnosis."""
    causes = [{one.cause for one in diagnosis.hypotheses if one.explains_all} for diagnosis in diagnoses]
    return set.intersection(*causes) if causes else set()


def effect_text(run: RunDocument) -> str:
    """Return how many decisions or outputs of the network changed; empty if the document does not state it."""
    if not (effect := run.effect):
        return ""
    verb = "changes" if effect.changed == 1 else "change"
    return f"{effect.changed:,} of {effect.of:,} {effect.what} {verb}"


def diagnosed(run: RunDocument) -> list[tuple[str, str]]:
    """Return the diagnoses to print, as pairs of place and text: the headline cause, or else one per layer."""
    if found := explanation(run):
        return [(f"layer{'s' * (len(found.layers) > 1)} {', '.join(found.layers)}", found.text)]
    return [(f"layer {found.layer}", found.text) for found in run.diagnoses]


def acceptance(run: RunDocument) -> str:
    """Return whether the verdict `within bound` was accepted, and how to accept it."""
    if run.accepted:
        return "accepted by --accept bound"
    return "not accepted, exit code 1: --accept bound accepts layers that are within their bound, but not exact"


def bound_share(layer: LayerEntry) -> str:
    """Return the largest difference of a layer as a share of its bound; empty for an exact layer."""
    return _share(number(layer.bounded.ratio)) if layer.bounded else ""


def _share(ratio: float) -> str:
    return f"{100 * ratio:.3g} %" if ratio < 1 else f"{100 * ratio:,.0f} %" if math.isfinite(ratio) else "infinite"


def bounded_texts(run: RunDocument) -> list[str]:
    """Return how near each bounded layer is to its bound, and how far the network's outputs are from the reference."""
    layers = [bounded_text(layer) for layer in run.layers if layer.bounded]
    return [*layers, *(f"output of the network, {text}" for text in output_texts(run))]


def bounded_text(layer: LayerEntry) -> str:
    """Return how near a bounded layer is to its bound."""
    share = f"{layer.bounded.unequal:,} of {layer.compared:,} values have other bits" if layer.bounded else ""
    return f"{layer.name} ({layer.target}): largest difference {bound_share(layer)} of the bound; {share}"


def output_texts(run: RunDocument) -> list[str]:
    """Return how far the network's outputs are from the reference, if the run has bounded layers."""
    return [
        f"{output.layer}: {output.unequal:,} of {output.values:,} values have other bits than the reference, "
        f"at most {number(output.largest):.3g} apart"
        for output in run.network_outputs
    ]


def engines_text(reference: ReferenceEntry) -> str:
    """Return the engines that agreed on the reference, with their versions."""
    return ", ".join(f"{engine.name} {engine.version}" for engine in reference.engines)


def disagreement_text(disagreement: DisagreementEntry) -> str:
    """Return the place at which engines of the reference disagreed, and the values of all."""
    values = ", ".join(f"{name} {value}" for name, value in disagreement.values.items())
    where = f"layer {disagreement.layer} ({disagreement.operator})"
    return f"{where}, vector {disagreement.vector}, index {disagreement.index}: {values}"


def whole_text(output: WholeOutputEntry) -> str:
    """Return how near an output of ONNX Runtime with the whole model is to the specification."""
    if not output.compared:
        return (
            f"{output.output} has no bound: codes before it can differ, or the errors of all layers exceed its values"
        )
    every = output.compared == output.values
    scope = plural(output.vectors, "vector") if every else f"{output.compared:,} of {output.values:,} values"
    share = f"{100 * output.ratio:.2g} % of the propagated bound (at most {output.bound:.2g})"
    return f"{output.output} within {share}, {scope}"


def place(difference: Difference | DifferenceEntry) -> str:
    """Return where a difference is, counted from 0: `vector 17, unit 3`; of a split layer also in which part of it."""
    part = f" ({difference.part})" if isinstance(difference, DifferenceEntry) and difference.part else ""
    return f"vector {difference.vector:,}, unit {difference.unit:,}{part}"


def value_text(value: float | str) -> str:
    """Return an activation: an integer, or a float32 with its bits."""
    value = number(value)
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"  # JSON does not keep its bits
    single = np.float32(value)
    return f"{single!s} (0x{int(single.view(np.uint32)):08x})"


SHARES = ("top-1", "top-5")


def number_text(name: str, column: ColumnEntry) -> str:
    """Return a number of a column of accuracy for people: shares in percent, None as undefined."""
    number = column.numbers.get(name)
    if number is None:
        return "undefined"
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:.2%}" if name in SHARES else f"{number:.6g}"


def accuracy_rows(judged: AccuracyEntry) -> list[tuple[str, list[str]]]:
    """Return a row for each number: its name, and its text in each column."""
    return [(name, [number_text(name, column) for column in judged.columns]) for name in judged.columns[-1].numbers]


def accuracy_notes(judged: AccuracyEntry) -> list[str]:
    """Return what a reader of the numbers has to know, as clauses."""
    notes = [f"no column of the float model: {judged.float_absent}"] if judged.float_absent else []
    if judged.metric == "accuracy":
        notes.append("of equal scores the lowest class counts as larger")
    if judged.metric == "accuracy" and judged.columns[-1].confusion is None:
        notes.append(f"no confusion matrix of {judged.size:,} classes")
    return notes
