"""The layout of records: random launches, followed element by element, against the definition in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from harness.operators.arg_extremum import ArgExtremum
from harness.operators.tensor import Tensor
from harness.targets import TaskView
from harness.targets.vitis import records
from harness.targets.vitis.records import Flow, Record, RecordField

UINT8 = np.dtype(np.uint8)
OUTSIDE = ("input", "far_output", "split_source_0")

Element = tuple[str, int]
"""A buffer's name and the number of the element in it."""


def work(name: str, source: str, input_width: int, width: int, *, is_output: bool) -> TaskView:
    read, written = Tensor(source, (input_width,), UINT8), Tensor(name, (width,), UINT8)
    layer = ArgExtremum(name, name, "ArgMax", (read,), written, largest=True, last=False)
    return TaskView(layer, (source,), is_output)


@st.composite
def launches(draw: st.DrawFn) -> list[TaskView]:
    """Layers that read any buffer there is, some from outside; what no layer reads, somebody wants."""
    widths = {name: draw(st.integers(1, 4)) for name in OUTSIDE}
    drawn: list[tuple[str, str]] = []
    for number in range(draw(st.integers(1, 7))):
        drawn.append((f"layer_{number}", draw(st.sampled_from(sorted(widths)))))
        widths[f"layer_{number}_output"] = draw(st.integers(1, 4))
    read = {source for _, source in drawn}
    return [
        work(
            name,
            source,
            widths[source],
            widths[f"{name}_output"],
            is_output=f"{name}_output" not in read or draw(st.booleans()),
        )
        for name, source in drawn
    ]


def elements(name: str, width: int) -> list[Element]:
    return [(name, index) for index in range(width)]


def content(record: Record) -> list[Element]:
    """What a record says that it holds; its places are where it says that they are."""
    found = [element for place in record.places for element in elements(place.name, place.width)]
    for place in record.places:
        assert found[place.start : place.stop] == elements(place.name, place.width)
        assert record.start_of(place.name) == place.start
    assert len(found) == record.width
    return found


def passed(flow: Flow, of: TaskView, stream: Sequence[Element]) -> list[Element]:
    """What a layer that does as its flow says writes, element by element; it must have met its input."""
    ranges = records.kept_ranges(flow)
    taken, written = [], []
    for index, element in enumerate(stream):
        if flow.reads[0].start <= index < flow.reads[0].stop:
            taken.append(element)
        if any(start <= index < stop for start, stop in ranges):
            written.append(element)
    assert taken == elements(of.sources[0], of.layer.input.size)
    assert len(written) == flow.kept_width
    return [*written, *elements(f"{of.layer.name}_output", of.layer.size)]


def from_outside(launch: Sequence[TaskView]) -> list[Element]:
    """The sources that no layer of the launch writes, each once, as they are first used."""
    written = {f"{each.layer.name}_output" for each in launch}
    found: list[Element] = []
    for each in launch:
        new = elements(each.sources[0], each.layer.input.size)
        if each.sources[0] not in written and new[0] not in found:
            found += new
    return found


def survives(element: Element, launch: Sequence[TaskView], number: int) -> bool:
    """Whether it is needed behind layer `number`."""
    readers = [each for each in launch[number + 1 :] if each.sources[0] == element[0]]
    wanted = [each for each in launch if f"{each.layer.name}_output" == element[0] and each.is_output]
    return bool(readers or wanted)


@for_all(launches(), st.booleans())
def test_every_layer_meets_its_input_and_lets_pass_what_is_needed(launch: list[TaskView], everything: bool) -> None:
    stream = from_outside(launch)
    assert content(records.given(launch)) == stream
    for number, (flow, each) in enumerate(zip(records.flows(launch, everything), launch, strict=True)):
        assert content(flow.before) == stream
        expected = [element for element in stream if everything or survives(element, launch, number)]
        stream = passed(flow, each, stream)
        assert stream == expected + elements(f"{each.layer.name}_output", each.layer.size)
        assert content(flow.after) == stream
        assert flow.output == RecordField(f"{each.layer.name}_output", flow.kept_width, each.layer.size)
    assert content(records.made(launch, everything)) == stream


@for_all(launches())
def test_what_leaves_is_what_is_wanted_or_everything(launch: list[TaskView]) -> None:
    outputs = [(f"{each.layer.name}_output", each) for each in launch]
    wanted = [element for name, each in outputs if each.is_output for element in elements(name, each.layer.size)]
    all_of_them = [element for name, each in outputs for element in elements(name, each.layer.size)]
    assert content(records.made(launch, everything=False)) == wanted
    assert content(records.made(launch, everything=True)) == from_outside(launch) + all_of_them


@for_all(launches(), st.booleans())
def test_ranges_are_in_order_and_as_few_as_can_be(launch: list[TaskView], everything: bool) -> None:
    for flow in records.flows(launch, everything):
        bounds = [bound for each in records.kept_ranges(flow) for bound in each]
        assert bounds == sorted(set(bounds)), "neither empty nor touching"


def test_a_chain_keeps_nothing() -> None:
    chain = [work("a", "input", 3, 2, is_output=False), work("b", "a_output", 2, 4, is_output=True)]
    assert [records.kept_ranges(flow) for flow in records.flows(chain, everything=False)] == [(), ()]
    assert [records.kept_ranges(flow) for flow in records.flows(chain, everything=True)] == [((0, 3),), ((0, 5),)]


def test_a_source_that_is_read_later_stands_in_front() -> None:
    """x -> a, a -> b, x -> c; somebody outside wants b and c."""
    launch = [
        work("a", "x", 3, 2, is_output=False),
        work("b", "a_output", 2, 4, is_output=True),
        work("c", "x", 3, 1, is_output=True),
    ]
    first, second, third = records.flows(launch, everything=False)
    assert first.after == Record((RecordField("x", 0, 3), RecordField("a_output", 3, 2)))
    assert (second.reads[0].start, records.kept_ranges(second)) == (3, ((0, 3),))
    assert second.after == Record((RecordField("x", 0, 3), RecordField("b_output", 3, 4)))
    assert (third.reads[0].start, records.kept_ranges(third)) == (0, ((3, 7),))
    assert records.made(launch, everything=False) == Record(
        (RecordField("b_output", 0, 4), RecordField("c_output", 4, 1))
    )


def test_what_is_not_there_has_no_place() -> None:
    with pytest.raises(KeyError):
        Record((RecordField("x", 0, 3),)).start_of("y")
