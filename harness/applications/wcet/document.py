"""The documents of the bounds of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from harness.applications.wcet import flow_facts
from harness.applications.wcet.bounds import PER_BYTE, PER_COPY, PER_ROUNDING, Bounds, LayerBound
from harness.build.bundle import MANIFEST, PROGRAM
from harness.core.document import UNCHECKED, CheckedBy, Document, Entries
from harness.plan.plan import Plan
from harness.runs.entries import OMITTED, HarnessEntry

DOCUMENT, MODEL, PLAN, BUNDLE, REPORT = "wcet.json", "model.onnx", "plan", "bundle", "report.html"
FFX, AIS = "flow_facts.ffx", "flow_facts.ais"
FILES = (MODEL, FFX, AIS, REPORT, f"{BUNDLE}/{PROGRAM}", f"{BUNDLE}/{MANIFEST}")  # beside the document and the plan
SCHEMA = 2  # 1 named neither the items without a bound nor the profile
ASSUMPTIONS = (
    "the processor executes the machine code of the program as its manual says",
    "one vector, in the first copy of each buffer; the code of the schedule between layers is not part of a bound",
    "the functions of the C library that it calls were found by the loader, when it started or in a warm-up",
    f"a call of memcpy, memmove or memset takes at most {PER_COPY} instructions and {PER_BYTE} for each byte",
    f"a call of rintf, fminf or fmaxf takes at most {PER_ROUNDING} instructions",
)
CHECKED_BY_BOUNDS = CheckedBy("bounds")


class PlaceEntry(Entries):
    """An instruction: its function and its address in the program's file."""

    function: str
    address: int


class LoopEntry(Entries):
    """A loop, called from a chain of call sites: the edges back to its header for each entry, at most."""

    function: str
    header: int
    calls: Sequence[int]
    most: int


class LibraryEntry(Entries):
    """Calls of a function of the C library, from one place, each with so many bytes."""

    name: str
    address: int
    bytes: int
    calls: int


class ExtentEntry(Entries):
    """The bytes of a buffer or table that a layer reads or writes, from `start` up to `end`."""

    name: str
    written: bool
    start: int
    end: int


class LayerEntry(Entries):
    """The bound of a layer: `instructions` of the program, `library` assumed of the C library, `cycles` estimated.

    `stack` is in bytes, without the C library.  `decided_by_data` lists the branches that data decide, both ways of
    which the bound contains; `addressed_by_data` the loads whose address data decide.  `unconfirmed` are tables that
    are not read to their ends, because the compiler put what they hold into instructions: the bounds of the loops over
    them follow from the machine code alone.
    """

    name: str
    item: str
    target: str
    function: str
    address: int
    instructions: int
    library: int
    cycles: int = OMITTED
    stack: int
    functions: Sequence[str]
    decided_by_data: Sequence[PlaceEntry]
    addressed_by_data: Sequence[int]
    library_calls: Sequence[LibraryEntry]
    loops: Sequence[LoopEntry]
    accessed: Sequence[ExtentEntry]
    unconfirmed: Sequence[str]


class ItemEntry(Entries):
    """The sum of the layers of an item for one vector; `stack` is that of its thread, without the C library."""

    name: str
    target: str
    instructions: int
    cycles: int = OMITTED
    stack: int


class UnboundedEntry(Entries):
    """An item of a target without bounds: its layers are missing in all sums."""

    name: str
    target: str
    layers: Sequence[str]


class CoreEntry(Entries):
    """The core model of the estimate in cycles."""

    name: Annotated[str, UNCHECKED]
    llvm_mca: Annotated[str, UNCHECKED]
    assumptions: Annotated[Sequence[str], UNCHECKED]


class MeasuredEntry(Entries):
    """A measurement of the same bundle, and the ratio of the bound or estimate to its maximum.

    `unit` is instructions or cycles.  `place` says where it ran: times of emulated boards are never here.  `schedule`
    is what was subtracted from the count of each layer for the code between two readings.
    """

    run: str
    place: str
    unit: str
    maximum: int
    schedule: int
    ratio: float


class WcetDocument(Document):
    """The content of `wcet.json`."""

    number: ClassVar[int | None] = SCHEMA
    schema_number: Annotated[int, CheckedBy("bounds")] = Field(alias="schema")
    harness: HarnessEntry
    began: Annotated[str, UNCHECKED]
    wall_s: Annotated[float, UNCHECKED]
    board: Annotated[str, CheckedBy("plan")]
    model: Annotated[str, CheckedBy("plan")]
    model_sha256: Annotated[str, CheckedBy("plan")]
    profile: Annotated[Mapping[str, Any], CheckedBy("bundle")]
    bundle: Annotated[str, CheckedBy("bundle")]
    program_sha256: Annotated[str, CheckedBy("bundle")]
    compiler: Annotated[str, CheckedBy("bundle")]
    flags: Annotated[Sequence[str], CheckedBy("bundle")]
    machine: Annotated[str, CHECKED_BY_BOUNDS]
    assumptions: Annotated[Sequence[str], CHECKED_BY_BOUNDS]
    core: CoreEntry = OMITTED
    layers: Annotated[Sequence[LayerEntry], CHECKED_BY_BOUNDS]
    items: Annotated[Sequence[ItemEntry], CHECKED_BY_BOUNDS]
    unbounded: Annotated[Sequence[UnboundedEntry], CHECKED_BY_BOUNDS]
    instructions: Annotated[int, CHECKED_BY_BOUNDS]
    cycles: Annotated[int, UNCHECKED] = OMITTED
    measured: Annotated[Sequence[MeasuredEntry], UNCHECKED] = ()
    files: Annotated[Mapping[str, str], CheckedBy("files")]

    @classmethod
    def converted(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add empty entries to a document of schema 1: the items without a bound, and the profile."""
        return {**content, "unbounded": [], "profile": {}}


def layer_entries(bounds: Bounds, estimated: Sequence[int] = ()) -> list[LayerEntry]:
    """Return the entries of all layers; `estimated` are their cycles, if a core model was asked for."""
    found = [_layer(layer) for layer in bounds.layers]
    if estimated:
        return [each.model_copy(update={"cycles": own}) for each, own in zip(found, estimated, strict=True)]
    return found


def _layer(layer: LayerBound) -> LayerEntry:
    executed, recorded = layer.execution, layer.execution.recorded
    name_of_function = {address: function.name for address, function in executed.functions.items()}
    library = sorted(recorded.library.items(), key=lambda each: (each[0].site, each[0].size))
    loops = sorted(flow_facts.loops(layer).items(), key=lambda each: (each[0][0].calls, each[0][1]))
    return LayerEntry(
        name=layer.layer,
        item=layer.item,
        target=layer.target,
        function=layer.function,
        address=executed.root.function,
        instructions=layer.instructions,
        library=layer.library,
        stack=layer.stack,
        functions=sorted(name_of_function.values()),
        decided_by_data=[PlaceEntry(function=name, address=place) for name, place in layer.decided_by_data],
        addressed_by_data=sorted(recorded.addressed_by_data),
        library_calls=[
            LibraryEntry(name=call.name, address=call.site, bytes=call.size, calls=count) for call, count in library
        ],
        loops=[
            LoopEntry(function=name_of_function[of.function], header=header, calls=of.calls, most=most)
            for (of, header), most in loops
        ],
        accessed=[
            ExtentEntry(name=each.name, written=each.write, start=each.start, end=each.end) for each in layer.accessed
        ],
        unconfirmed=layer.unconfirmed,
    )


def item_entries(layers: Sequence[LayerEntry], threads: Mapping[str, int]) -> list[ItemEntry]:
    """Return the sums of the items, in the order of their first layers."""
    found = []
    for name in dict.fromkeys(layer.item for layer in layers):
        own = [layer for layer in layers if layer.item == name]
        entry = ItemEntry(
            name=name,
            target=own[0].target,
            instructions=sum(layer.instructions + layer.library for layer in own),
            stack=threads[name],
        )
        of_core = [layer.cycles for layer in own if layer.cycles is not OMITTED]
        found.append(entry.model_copy(update={"cycles": sum(of_core)}) if of_core else entry)
    return found


def unbounded_entries(plan: Plan, items: Sequence[ItemEntry]) -> list[UnboundedEntry]:
    """Return the items of a plan that are not among the bounded `items`, in their order."""
    bounded = {item.name for item in items}
    return [
        UnboundedEntry(
            name=item.name, target=item.target, layers=[task.name for task in plan.tasks if task.item == index]
        )
        for index, item in enumerate(plan.items)
        if item.name not in bounded
    ]
