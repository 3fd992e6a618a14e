"""Configuration differences between two measurements that may explain a timing shift."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.core.document import Content
from harness.runs.entries import AnyDocument, ItemEntry

VOLATILE = {"clock", "boot_id", "processors"}  # of the environment: the date, the start, a text with clocks of now
LONGEST = 300
NOTHING = "nothing"


def _settings(document: AnyDocument) -> str:
    reached = ((one.path, one.reached) for one in document.state.settings)
    return "; ".join(f"{path}: {value}" for path, value in reached)


def _items(document: AnyDocument) -> str:
    return "; ".join(f"{one.name}: {one.target}{_core(one)}" for one in document.plan.items)


def _core(item: ItemEntry) -> str:
    return "" if item.core is None else f" on core {item.core}"


def _tasks(document: AnyDocument) -> str:
    return "; ".join(
        f"{one.layer} {'..'.join(map(str, one.columns[:2]))}{f' of {one.columns[2]} runs' if one.columns[2:] else ''} "
        f"by {one.item} in stage {one.stage}"
        for one in document.plan.tasks
    )


TOPICS: Mapping[str, Callable[[AnyDocument], Any]] = {
    "program": lambda document: document.bundle.sha256[:16],
    "compiler": lambda document: document.bundle.compiler,
    "flags": lambda document: " ".join(document.bundle.flags),
    "items": _items,
    "tasks": _tasks,
    "hand-over": lambda document: document.plan.sync,
    "buffers": lambda document: "reused" if document.plan.arena else "kept",
    "options of the program": lambda document: " ".join(document.measured.options),
    "vectors": lambda document: document.stimuli.sha256[:16],
    "executions": lambda document: document.measured.samples,
    "warm-up": lambda document: document.measured.warmup,
    "duration, s": lambda document: document.measured.duration_s,
    "SCHED_FIFO": lambda document: document.measured.fifo,
    "memory locked": lambda document: document.measured.memory_locked,
    "CPU DMA latency held": lambda document: document.measured.dma_latency_held,
    "clock": lambda document: document.clock.source,
    "load": lambda document: " ".join(document.load.argv),
    "settings of the board": _settings,
    "throttled": lambda document: "; ".join(document.state.throttled),
    "harness": lambda document: " ".join(map(str, (document.harness.version, document.harness.revision))),
}


def changed(base_content: Content, new_content: Content) -> list[dict[str, str]]:
    """Return topic, base and new of all differences between two documents, except results."""
    base, new = AnyDocument.view(base_content), AnyDocument.view(new_content)
    both = [*topic_changes(TOPICS, base, new), *_environment(base, new)]
    return [{"topic": topic, "base": before, "new": after} for topic, before, after in both]


def topic_changes(
    topics: Mapping[str, Callable[[AnyDocument], Any]], base: AnyDocument, new: AnyDocument
) -> Iterator[tuple[str, str, str]]:
    """Yield the topics whose values differ, with both values as text."""
    for topic, read in topics.items():
        before, after = entry(read, base), entry(read, new)
        if before != after:
            yield topic, _text(before), _text(after)


def entry(read: Callable[[AnyDocument], Any], document: AnyDocument) -> Any:
    """Return the entry, None for a document without it, such as one of an earlier version."""
    try:
        return read(document)
    except AttributeError:
        return None


def _environment(base: AnyDocument, new: AnyDocument) -> Iterator[tuple[str, str, str]]:
    before, after = base.board.environment, new.board.environment
    for topic in dict.fromkeys([*before, *after]):
        if topic not in VOLATILE and before.get(topic) != after.get(topic):
            yield f"board, {topic}", _text(before.get(topic)), _text(after.get(topic))


def _text(value: Any) -> str:
    text = NOTHING if value in {None, ""} else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
