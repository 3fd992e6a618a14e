"""Differences between two runs and their possible causes: a pure function of two documents.

The order is: the verdict, the layers that differ, then possible causes.  Facts that always change (time, duration,
command) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from harness.core.document import Content
from harness.runs.entries import AnyDocument
from harness.runs.measurement.config_diff import NOTHING, changed, entry, topic_changes

CHUNKING = ("chunk", "dumps fetched")  # topics that change only the distribution of activations over files
NO_CHANGE = "no relevant change"  # the beginning of a headline


@dataclass(frozen=True)
class Change:
    """A topic with its former and its current value, as text."""

    topic: str
    before: str
    after: str


@dataclass(frozen=True)
class LayerChange:
    """Activations of a layer that differ from the reference; None if a run has no such layer."""

    layer: str
    before: int | None
    after: int | None

    @property
    def words(self) -> str:
        """Return the change as text."""
        before, after = self.before or 0, self.after or 0
        if not before:
            return "differs now"
        if not after:
            return "differs no more"
        return "differs as before" if before == after else "still differs"


@dataclass(frozen=True)
class Difference:
    """Differences between two runs; `results` are changes of results, `causes` are their possible causes."""

    results: tuple[Change, ...]
    layers: tuple[LayerChange, ...]
    causes: tuple[Change, ...]

    @property
    def nothing(self) -> bool:
        """Return whether nothing relevant changed."""
        return not self.results and not self.causes and all(one.before == one.after for one in self.layers)


def _ran_on(document: AnyDocument) -> str:
    return "; ".join(f"{item.name}: {item.ran_on}" for item in document.plan.items)


RESULTS: Mapping[str, Callable[[AnyDocument], Any]] = {
    "verdict": lambda document: document.verdict,
    "wrong outputs": lambda document: document.outputs.differing,
    "proof": lambda document: document.proof and ("holds" if document.proof.holds else "fails"),
    "traces": lambda document: (
        document.conformance and ("in order" if document.conformance.conforms else "out of order")
    ),
    "activations compared": lambda document: (
        f"{sum(layer.compared for layer in document.layers):,}" if document.layers else None
    ),
}
CAUSES: Mapping[str, Callable[[AnyDocument], Any]] = {
    "what was done": lambda document: document.kind,
    "model": lambda document: document.model.name,
    "model, SHA-256": lambda document: document.model.sha256[:16],
    "board": lambda document: document.board.name,
    "kind of board": lambda document: document.board.kind,
    "items ran on": _ran_on,
    "quantity": lambda document: document.measured.quantity,
    "scope": lambda document: document.measured.scope,
    "kind of load": lambda document: document.load.name,
    "block": lambda document: document.plan.block,
    "chunk": lambda document: document.chunk,
    "dumps fetched": lambda document: document.fetch,
    "reference: onnxruntime": lambda document: document.reference.onnxruntime,
    "reference: instruction set": lambda document: document.reference.isa,
    "this machine": lambda document: document.host.platform,
}
ORDER = (
    *("what was done", "model", "model, SHA-256", "compiler", "flags", "program", "harness"),
    *("board", "kind of board", "items ran on", "board, kernel", "clock", "settings of the board", "throttled"),
    *("items", "tasks", "hand-over", "buffers", "block", "quantity", "scope", "kind of load", "load"),
    *("vectors", "reference: onnxruntime", "reference: instruction set"),
)
"""Order of the topics, which include those of harness.runs.measurement.config_diff; other topics follow."""


def difference(first: Content, second: Content) -> Difference:
    """Return the difference between the documents of two finished runs.

    Raise AttributeError, LookupError, TypeError or ValueError if one of them is not such a document.
    """
    before, after = AnyDocument.view(first), AnyDocument.view(second)
    causes = [*starmap(Change, topic_changes(CAUSES, before, after)), *_recorded(before, after)]
    order = {topic: rank for rank, topic in enumerate(ORDER)}
    results = [*starmap(Change, topic_changes(RESULTS, before, after)), *_content(before, after)]
    return Difference(
        tuple(results),
        tuple(_layers(before, after)),
        tuple(sorted(causes, key=lambda change: order.get(change.topic, len(order)))),
    )


def _recorded(before: AnyDocument, after: AnyDocument) -> Iterator[Change]:
    """Yield changes of program, plan, options, settings and environment."""
    for one in changed(before, after):
        if (one["base"], one["new"]) != (NOTHING, NOTHING):  # an empty list on one side, a missing value on the other
            yield Change(one["topic"], one["base"], one["new"])


def _layers(before: AnyDocument, after: AnyDocument) -> Iterator[LayerChange]:
    """Yield the layers that differ from the reference in at least one run, in the order of the model."""
    was, now = _differing(before), _differing(after)
    for name in dict.fromkeys([*now, *was]):
        if was.get(name) or now.get(name):
            yield LayerChange(name, was.get(name), now.get(name))


def _differing(document: AnyDocument) -> dict[str, int]:
    return {str(layer.name): int(layer.differing) for layer in document.layers}


def _content(before: AnyDocument, after: AnyDocument) -> Iterator[Change]:
    """Yield a change of the outputs' hash if everything else is unchanged."""
    one, other = ((run.model.sha256, run.stimuli.sha256, run.bundle.sha256) for run in (before, after))
    same = one == other and all(entry(CAUSES[topic], before) == entry(CAUSES[topic], after) for topic in CHUNKING)
    was, now = before.content_sha256, after.content_sha256
    if same and was and now and was != now:
        yield Change("content, SHA-256", str(was)[:16], str(now)[:16])


def headline(found: Difference, first: Content, second: Content, times: Sequence[str] = ()) -> str:
    """Return a summary in one sentence; `times` are the verdicts on times, empty if there are none."""
    before, after = AnyDocument.view(first).verdict, AnyDocument.view(second).verdict
    both = {"differs": "both differ", "varies": "both vary"}.get(after, f"both are {after}")
    moved = [word for word in dict.fromkeys(times) if word in {"slower", "faster"}]
    if found.nothing and not moved:
        return f"{NO_CHANGE}: {both}"
    if before != after:
        return f"{before} before, {after} now"
    if moved:
        return f"{both}, but times moved: {' and '.join(moved)}"
    if found.results or any(one.before != one.after for one in found.layers):
        return f"{both}, but not in the same way"
    return f"{both}; {len(found.causes)} possible causes changed"
