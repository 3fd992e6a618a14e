"""JUnit XML of a run: a case for every layer, step of a proof, deployment mode and trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.core.junit import Case, Problem, write
from harness.core.outcome import Outcome
from harness.core.text import shortened
from harness.report.proof_section import parts
from harness.runs.entries import HypothesisEntry, LayerEntry, RunDocument
from harness.runs.facts import (
    Facts,
    acceptance,
    bounded_text,
    bounded_texts,
    clean,
    explains_all,
    gather,
    place,
    value_text,
)


def junit(content: Mapping[str, Any]) -> str:
    """Return the JUnit XML of a run document; ValueError if its verdict contradicts its layers."""
    run = RunDocument.view(clean(content))
    facts = gather(run)
    name = f"{run.board.name}.{run.model.name}"
    cases = [*_layers(run, name, facts), *_others(run, name)]
    return write(
        name,
        cases,
        timestamp=str(getattr(run, "started", "")),
        time_s=getattr(run, "wall_s", 0),
        properties=_properties(run, facts),
    )


def _properties(run: RunDocument, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of further facts for CI: hashes, and where each item ran."""
    yield "verdict", run.verdict
    yield "reason", str(getattr(run, "reason", ""))
    yield "vectors", str(run.stimuli.count)
    yield "activations", str(facts.compared)
    yield "ran", facts.where
    yield "times", "compared only, not measured" if facts.on_hardware else "not MET: not all of it ran on hardware"
    for item in run.plan.items:
        yield f"item.{item.name}", f"target {item.target}, ran on {item.ran_on}"
    for number, text in enumerate(bounded_texts(run)):
        yield f"bounded.{number}", text
    for part in ("model", "bundle", "stimuli"):
        yield f"{part}.sha256", str(getattr(getattr(run, part, None), "sha256", None) or "not recorded")


def _layers(run: RunDocument, name: str, facts: Facts) -> Iterator[Case]:
    for layer in run.layers:
        problem = None
        if layer.differing:
            problem = _failure(_message(layer), _explanation(run, layer, facts.differing_layers[0].name))
        elif layer.bounded and run.verdict == Outcome.DIFFERS:
            problem = Problem("skipped", f"within its bound; the run differs: {bounded_text(layer)}")
        elif layer.bounded and not run.accepted:
            problem = Problem("failure", f"within bound, {acceptance(run)}", run.verdict, bounded_text(layer))
        elif not layer.kept:
            problem = Problem("skipped", "its activations are overwritten on the board: --buffers reuse")
        yield Case(name, layer.name, problem)


def _others(run: RunDocument, name: str) -> Iterator[Case]:
    """Yield the steps of the proof, the deployment mode and the traces, as far as the run has them."""
    for part in parts(run.proof):
        lines = [f"{claim.layer or 'network'}: {claim.counterexample}" for claim in part.refuted]
        yield Case(f"{name}.proof", part.shows, _failure(shortened(lines[0]), lines) if lines else None)
    if result := run.deployed:
        message = f"{result.differing:,} of {result.compared:,} outputs differ with --dump last, with or without times"
        yield Case(f"{name}.deployed", "deployment mode", _failure(message) if result.differing else None)
    conditions, violations = (run.conformance.conditions, run.conformance.violations) if run.conformance else ((), ())
    for condition in conditions:
        message = f"{condition.violations:,} steps in {condition.executions:,} executions were not in order"
        lines = [line for line in violations if line.startswith(f"{condition.name}: ")]
        yield Case(f"{name}.trace", condition.name, _failure(message, lines) if condition.violations else None)


def _failure(message: str, lines: Iterable[str] = ()) -> Problem:
    return Problem("failure", message, "differs", "\n".join(lines))


def _message(layer: LayerEntry) -> str:
    counts = f"{layer.differing:,} of {layer.compared:,} activations differ, {layer.own:,} caused by the layer itself"
    first = layer.first_difference
    if not first:
        return counts
    expected, actual = value_text(first.expected), value_text(first.actual)
    return f"{counts}; first: {place(first)}: expected {expected}, found {actual}"


def _explanation(run: RunDocument, layer: LayerEntry, first: str) -> Iterator[str]:
    yield f"{layer.operator} of item {layer.item}, target {layer.target}, ran on {layer.ran_on}"
    if layer.name != first:
        yield f"{first} differs before it: check that layer first"
    headline = run.diagnosis if explains_all(run) else None
    for diagnosis in run.diagnoses:
        if diagnosis.layer == layer.name and headline and layer.name != headline.layer:
            yield f"diagnosis: see layer {headline.layer}: one cause explains both"
        elif diagnosis.layer == layer.name:
            yield f"diagnosis: {(headline or diagnosis).text}"
            yield from map(_hypothesis, diagnosis.hypotheses)
    failing = run.failing
    if failing and failing.layer == layer.name:
        yield f"smallest failing case: {failing.replay or failing.note}"


def _hypothesis(hypothesis: HypothesisEntry) -> str:
    explained = f"{hypothesis.explained:,} of {hypothesis.of:,} explained"
    return f"  {hypothesis.cause}: {explained}, {hypothesis.contradicted:,} contradicted"
