"""Terminal summaries of runs and measurements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from harness.analysis.proof_document import ProofDocument
from harness.core.console import Console
from harness.core.document import Content
from harness.core.outcome import Outcome
from harness.core.table import Table
from harness.core.text import plural, shortened
from harness.plan.conformance import ConformanceEntry
from harness.report.proof_section import Group, effort, parts, unseparated
from harness.runs.entries import AccuracyEntry, DifferenceEntry, FailingEntry, LayerEntry, RunDocument, StreamEntry
from harness.runs.facts import (
    acceptance,
    accuracy_notes,
    bounded_texts,
    diagnosed,
    effect_text,
    engines_text,
    gather,
    number_text,
    place,
    whole_text,
)

STYLES = {Outcome.IDENTICAL: "bold green", Outcome.WITHIN_BOUND: "bold magenta", Outcome.DIFFERS: "bold red"}


def show(content: Content, report: Path, console: Console) -> None:
    """Show the result of a run or a proof on the terminal, the verdict last; `report` is the page with more details."""
    document = RunDocument.view(content)
    if document.proof:
        console.show(
            _proof_table(document.proof), Text(effort(document.proof)), *map(Text, unseparated(document.proof))
        )
    console.show(_layer_table(document.layers), Text(str(document.coverage["text"])))
    if document.model.stream:
        console.show(_stream_table(document.model.stream), Text(stream_text(document.model.stream)))
    if ratio := _ratio_text(document.layers):
        console.show(Text(ratio))
    if document.reference.engines:
        console.show(Text(f"reference: {engines_text(document.reference)}, which agree"))
    for output in document.whole_network:
        console.show(Text(f"ONNX Runtime, whole network: {whole_text(output)}"))
    for text in bounded_texts(document):
        console.show(Text(text))
    if document.accuracy:
        console.show(_accuracy_table(document.accuracy), *map(Text, accuracy_notes(document.accuracy)))
    if document.fetch == "mismatch":
        console.show(Text("dumps with the hash of the reference stayed on the board (--fetch all fetches them)"))
    if document.conformance:
        console.show(Text(_traced_text(document.conformance)))
    _show_places(document, console)
    _show_verdict(document, console)
    console.show(Text(f"report: {report}"))


def _show_places(document: RunDocument, console: Console) -> None:
    """Show what ran elsewhere than on hardware."""
    if document.board.kind == "emulated":
        what = "a real aarch64 Linux" if document.board.address else "a processor without an operating system"
        warning = f"{document.board.name} was EMULATED: {what}, but its times are not MET"
        console.show(Text(warning, style="yellow"))
    if stand_ins := gather(document).stand_ins:
        played = ", ".join(f"{item.name} by {item.ran_on}" for item in stand_ins)
        console.show(Text(f"not on hardware: item {played}", style="yellow"))


def _show_verdict(document: RunDocument, console: Console) -> None:
    """Show the verdict, its effect on the outputs of the network, and its likely cause."""
    console.show(Text(f"{document.verdict}: {document.reason}", style=STYLES[Outcome(document.verdict)]))
    if document.verdict == Outcome.WITHIN_BOUND:
        console.show(Text(acceptance(document)))
    if document.effect:
        console.show(Text(f"effect: {effect_text(document)} ({document.effect.layer})", style="bold red"))
    for where, text in diagnosed(document):
        console.show(Text(f"diagnosis of {where}: {text}"))
    if document.failing:
        console.show(Text(_failing_text(document.failing)))


def show_measurement(document: Mapping[str, Any], report: Path, console: Console) -> None:
    """Show the result of a measurement on the terminal; `report` is the page with more details."""
    from harness.report.measurements.terminal import show as show_measured  # with SciPy: see harness.report

    show_measured(document, report, console)


def stream_text(stream: StreamEntry) -> str:
    """Return the cost of a step, and what was compared with the whole network."""
    share = stream.operations_of_whole / stream.operations if stream.operations else 1
    return (
        f"stream along axis {stream.axis}: a step has {plural(stream.pulse, 'new frame')} and takes "
        f"{stream.operations:,} operations, the whole network {stream.operations_of_whole:,} ({share:.1f} x); "
        f"{stream.history_bytes:,} bytes of frames and states are kept; the whole network confirmed the reference in "
        f"{plural(stream.windows, 'window')} of {stream.window} of the {stream.steps} steps of each stream"
    )


def _stream_table(stream: StreamEntry) -> Table:
    table = Table("layer of the stream", "delay", "new", "of", right=("delay", "new", "of"))
    for layer in stream.layers:
        unit = "step" if layer.axis is None else "frame"
        table.add_row(layer.name, plural(layer.delay, unit), f"{layer.new:,}", f"{layer.length:,}")
    return table


def _failing_text(case: FailingEntry) -> str:
    where = f"layer {case.layer}, unit {case.unit}: expected {case.expected}, found {case.actual}"
    used = f"{len(case.inputs)} of {case.of_inputs} inputs not zero"
    end = "; ".join(part for part in (case.note, f"replay: {case.replay}" if case.replay else "") if part)
    return f"smallest failing case, {where}, {used}; {end}"


def _ratio_text(layers: Sequence[LayerEntry]) -> str:
    """Return how near to a bound ONNX Runtime came; empty if it had to agree on every bit."""
    bounded = [(layer.reference_ratio, layer.name) for layer in layers if layer.reference_ratio is not None]
    if not bounded:
        return ""
    ratio, name = max(bounded)
    return (
        f"ONNX Runtime rounds {plural(len(bounded), 'layer')} in another way: each value is within its bound, the "
        f"largest difference is {ratio:.3g} of it (layer {name})"
    )


def _accuracy_table(judged: AccuracyEntry) -> Table:
    """Return a row for each number, and a column for each side."""
    names = [column.name for column in judged.columns]
    table = Table(judged.metric, *names, right=names, title=f"Accuracy against labels, layer {judged.layer}")
    for number in judged.columns[-1].numbers:
        table.add_row(number, *(number_text(number, column) for column in judged.columns))
    return table


def _traced_text(traced: ConformanceEntry) -> str:
    result = "all in the planned order" if traced.conforms else "NOT all in the planned order"
    names = ", ".join(condition.name for condition in traced.conditions)
    each = "" if traced.vectors is None else f" of {plural(traced.vectors, 'vector')}"
    return f"traced {traced.executions:,} executions{each} ({names}): {result}"


def _layer_table(layers: Sequence[LayerEntry]) -> Table:
    """Return a row for every layer that differs, and one for each sequence of layers of one item that do not."""
    differing = any(layer.differing for layer in layers)
    numbers = ("compared", "differing", "its own") if differing else ("compared", "differing")
    table = Table("layer", "item", "ran on", *numbers, right=numbers)
    if differing:
        table.add_column("first difference")
    for alike in _alike(layers):
        first, last = alike[0], alike[-1]
        name = first.name if len(alike) == 1 else f"{first.name} to {last.name} ({len(alike)} layers)"
        compared = sum(layer.compared for layer in alike)
        scope = f"{compared:,}" if first.kept else "overwritten"
        cells = (f"{first.item} ({first.target})", first.ran_on, scope, _count(first.differing))
        details = (_count(first.own), _first(first.first_difference)) if differing else ()
        table.add_row(name, *cells, *details)
    return table


def _alike(layers: Sequence[LayerEntry]) -> Iterator[list[LayerEntry]]:
    """Yield each layer that differs by itself, and the others with their neighbours of the same item, kept or not."""

    def key(layer: LayerEntry) -> tuple[object, ...]:
        return layer.item, layer.target, layer.ran_on, layer.kept, layer.name if layer.differing else ""

    for _, found in itertools.groupby(layers, key):
        yield list(found)


def _count(number: int) -> Text:
    return Text(f"{number:,}", style="bold red" if number else "")


def _first(difference: DifferenceEntry | None) -> str:
    if difference is None:
        return ""
    return f"{place(difference)}: expected {difference.expected}, found {difference.actual}"


def _proof_table(proof: ProofDocument) -> Table:
    """Return a row for each step and side: cases and times of different sides are never added up."""
    table = Table("claims", "answered by", "method", "cases", "time", "result", right=("cases", "time"))
    for part in parts(proof):
        for index, group in enumerate(part.groups):
            method = "every case" if group.complete else "samples"
            numbers = f"{group.cases:,}", f"{group.time_s:.1f} s"
            table.add_row("" if index else part.shows, group.answered_by, method, *numbers, _result(group))
    return table


def _result(group: Group) -> Text:
    if not group.refuted:
        return Text("holds", style="green")
    first = group.refuted[0]
    where = f"layer {first.layer}: " if first.layer else ""
    return Text(f"FAILS, {where}{shortened(str(first.counterexample))}", style="bold red")
