"""Sentences about a judgement, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator

from harness.applications.judge.document import ArithmeticEntry, JudgementDocument, LayerEntry
from harness.core.outcome import Outcome
from harness.core.text import plural

MOST_CAUSES = 3
"""Causes of one layer that are listed."""


def arithmetic_text(entry: ArithmeticEntry) -> str:
    """Return what one arithmetic explains, as a sentence."""
    where = plural(len(entry.layers), "layer")
    causes = [entry.cause, *entry.also]
    others = f"; or {len(causes) - MOST_CAUSES} more that give the same here" if len(causes) > MOST_CAUSES else ""
    values = "the differing value" if entry.values == 1 else f"all {entry.values:,} differing values"
    verb = "is" if entry.values == 1 else "are"
    text = f"{values} of {where} ({', '.join(entry.layers)}) {verb} explained by: "
    text += "; or ".join(causes[:MOST_CAUSES]) + others
    if entry.specification:
        text += f"; specification: {entry.specification}"
    if entry.contradicted_in:
        text += f"; not in {', '.join(entry.contradicted_in)}, where it would show"
    return text


def largest_text(layer: LayerEntry) -> str:
    """Return the largest difference of a layer from the reference: in codes, or as a share of the largest number."""
    if not layer.differing:
        return ""
    if layer.unit != "ulp":
        return f"{layer.largest:,.4g} {'code' if layer.largest == 1 else layer.unit}"
    share = f" ({layer.distance / layer.range:.2g} of the range)" if layer.range else ""
    return f"{layer.distance:.3g}{share}"


def first_text(document: JudgementDocument) -> str:
    """Return the first layer whose own arithmetic differs, with its first value; empty if there is none."""
    for layer in document.layers:
        first = layer.own_first
        if layer.name == document.first_layer and first is not None:
            place = f"vector {first.vector}, place {first.unit}: {first.actual} for {first.expected}"
            return f"first layer with other values for its own inputs: {layer.name} ({layer.operator}), {place}"
    return ""


def unexplained(document: JudgementDocument) -> Iterator[str]:
    """Yield what is known about differences without a known arithmetic, those within their bounds in one line."""
    left = [layer for layer in document.layers if layer.name in document.unexplained]
    within = [layer.name for layer in left if not layer.own and layer.seen]
    unsought = [layer.name for layer in left if not layer.seen and not layer.off]
    if unsought:
        yield f"causes were not searched in {', '.join(unsought)}"
    if within:
        yield f"within their bounds, by arithmetic that is not known here: {', '.join(within)}"
    for layer in left:
        if layer.own and (layer.seen or layer.off):
            yield f"{layer.name}: {unexplained_text(layer)}"


def unexplained_text(layer: LayerEntry) -> str:
    """Return what is known about the differences of a layer that no known arithmetic explains."""
    if layer.off:
        return f"{layer.off:,} values lie between the codes of the model, so that no arithmetic of its sums is searched"
    if layer.nearest is None:
        return f"no known arithmetic explains its differences: {layer.seen}"
    nearest = layer.nearest
    unchecked = f", {layer.unchecked:,} not checked" if layer.unchecked else ""
    return (
        f"no known arithmetic explains all differences; partly: {nearest.cause} ({nearest.explained:,} of "
        f"{nearest.checked:,} differing values, {nearest.contradicted:,} values contradict it{unchecked})"
    )


def remarks(document: JudgementDocument) -> Iterator[str]:
    """Yield what a reader must know beside the numbers."""
    yield from document.notes
    notes: dict[str, list[str]] = {}
    for layer in document.layers:
        for note in layer.notes:
            notes.setdefault(note, []).append(layer.name)
    for note, layers in notes.items():
        yield f"{note}: {', '.join(layers)}"
    if document.verdict == Outcome.DIFFERS:
        yield from document.problems
    if document.unmatched:
        shown = ", ".join(document.unmatched[:10])
        more = f" and {len(document.unmatched) - 10} more" if len(document.unmatched) > 10 else ""
        yield f"not in the model: {shown}{more}"
    if not document.tried_on_real_files:
        yield (
            f"the reader of {document.format} was written from public documentation: "
            "not tried on files of the real tool"
        )
