"""Layout of the records that pass through a launch: the place of every buffer, stated here only.

A launch's kernel is a row of layers.  A record, one a vector, passes through all of them: at first it holds the
sources of the launch from outside, each once, in the order of their first use.  A layer reads its inputs from the
record, lets those buffers pass that are still needed, in their order, and appends its own output.  Needed is what a
later layer of the launch reads or another item reads; everything, if all activations are asked for.

Buffers have the names of TaskView.sources; a layer's output is `<layer.name>_output`.  Widths are in elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from harness.operators.base import Layer
from harness.targets.generated import Launch, TaskView


@dataclass(frozen=True)
class RecordField:
    """A buffer of `width` elements in a record, the first of which is element `start` of it."""

    name: str
    start: int
    width: int

    @property
    def stop(self) -> int:
        """The end: the place after its last element."""
        return self.start + self.width


@dataclass(frozen=True)
class Record:
    """Buffers in sequence, without gaps, each once."""

    places: tuple[RecordField, ...]

    @property
    def width(self) -> int:
        """Its elements."""
        return self.places[-1].stop if self.places else 0

    def place(self, name: str) -> RecordField:
        """Return the place of the buffer; raise KeyError if it has none."""
        return {place.name: place for place in self.places}[name]

    def start_of(self, name: str) -> int:
        """Return the buffer's first element; raise KeyError if it is not there."""
        return self.place(name).start


@dataclass(frozen=True)
class Flow:
    """The change of a record by a layer: it reads places `reads` of `before`; the last place of `after` is its output.

    The others of `after` are what it lets pass.
    """

    before: Record
    reads: tuple[RecordField, ...]
    after: Record

    @property
    def output(self) -> RecordField:
        """The place that the layer has appended, in the record after it."""
        return self.after.places[-1]

    @property
    def kept(self) -> tuple[RecordField, ...]:
        """The places that the layer passes on, in the record before it."""
        return tuple(self.before.place(place.name) for place in self.after.places[:-1])

    @property
    def kept_width(self) -> int:
        """Elements of these."""
        return self.output.start


def kept_ranges(flow: Flow) -> tuple[tuple[int, int], ...]:
    """Return the elements of the record before a layer that pass it, as few ranges: from, to (excluded)."""
    ranges: list[tuple[int, int]] = []
    for place in flow.kept:
        if ranges and ranges[-1][1] == place.start:
            ranges[-1] = (ranges[-1][0], place.stop)
        else:
            ranges.append((place.start, place.stop))
    return tuple(ranges)


def output_of(layer: Layer) -> str:
    """Return the name of the buffer that a layer writes."""
    return f"{layer.name}_output"


def given(launch: Launch) -> Record:
    """Return the inputs: the buffers that the launch reads and does not write itself."""
    own = {output_of(task.layer) for task in launch}
    pairs = (pair for task in launch for pair in zip(task.sources, task.layer.inputs, strict=True))
    widths = {source: tensor.size for source, tensor in pairs if source not in own}
    return _record(widths.items())


def made(launch: Launch, everything: bool) -> Record:
    """Return the outputs that are read outside of the launch; or everything, the inputs first."""
    return flows(launch, everything)[-1].after


def most_words(launch: Launch) -> tuple[int, int]:
    """Return the largest number of words a vector that the kernel is given, and that it makes.

    Besides the launch, a proof asks for single stages: a sum of a layer's inputs, and the code of its sums.
    """
    stages = (size for task in launch for size in (sum(each.size for each in task.layer.inputs), task.layer.size))
    return max(given(launch).width, *stages), made(launch, everything=True).width


def flows(launch: Launch, everything: bool) -> tuple[Flow, ...]:
    """Return the change of the record by every layer of a launch, in order."""
    found: list[Flow] = []
    record = given(launch)
    for number, task in enumerate(launch):
        needed = None if everything else _needed_behind(launch, number)
        reads = tuple(map(record.place, task.sources))
        found.append(Flow(record, reads, _after(record, task.layer, needed)))
        record = found[-1].after
    return tuple(found)


def _needed_behind(launch: Sequence[TaskView], number: int) -> AbstractSet[str]:
    """Return the buffers that the layers after this one read, or that are read outside of the launch."""
    read = {source for task in launch[number + 1 :] for source in task.sources}
    return read | {output_of(task.layer) for task in launch if task.is_output}


def _after(before: Record, layer: Layer, needed: AbstractSet[str] | None) -> Record:
    """Return the places of a record that are needed, None for all, and after them the output of `layer`."""
    kept = [(place.name, place.width) for place in before.places if needed is None or place.name in needed]
    return _record([*kept, (output_of(layer), layer.size)])


def _record(buffers: Iterable[tuple[str, int]]) -> Record:
    """Return these buffers, by their names and widths, in sequence."""
    named = tuple(buffers)
    starts = itertools.accumulate((width for _, width in named), initial=0)
    return Record(tuple(RecordField(name, start, width) for (name, width), start in zip(named, starts, strict=False)))
