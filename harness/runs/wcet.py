"""The bounds of a program as evidence: the document, its folder, and its verification.

runs/<time>_wcet_<board>_<model>/
    model.onnx       the model, byte for byte
    plan/            the description of the plan (harness plan -o)
    bundle/          the program, and the manifest of what it was built from
    flow_facts.ffx   flow facts for OTAWA; flow_facts.ais annotations as those of aiT
    report.html
    wcet.json        written last and atomically
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from harness import __version__
from harness.analysis import wcet
from harness.analysis.wcet import cycles, flow_facts
from harness.analysis.wcet.bounds import PER_BYTE, PER_COPY, PER_ROUNDING, Bounds, LayerBound
from harness.analysis.wcet.graph import PROCESSORS
from harness.boards.identity import HARDWARE
from harness.boards.profile import Profile, restored
from harness.build import codegen
from harness.build.bundle import MANIFEST, PROGRAM, Bundle, Manifest, compiled, name_of
from harness.build.debug_lines import line_of
from harness.core import strict_json
from harness.core.document import BELIEVED, CheckedBy, Document, Entries, write_json
from harness.core.errors import HarnessError, RequestError, ToolError
from harness.core.file_digest import file_sha256, folder_sha256
from harness.core.installation import revision
from harness.core.safe_io import read_document
from harness.plan import folder as plan_folder
from harness.plan import plan_check
from harness.plan.plan import Plan
from harness.runs.entries import OMITTED, AnyDocument, HarnessEntry
from harness.runs.folder import RunFolder, now
from harness.targets.base import COMPILED
from harness.targets.compiler_flags import is_zig

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
OfProgram, Believed = CheckedBy("bounds"), CheckedBy(BELIEVED)


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

    name: Annotated[str, Believed]
    llvm_mca: Annotated[str, Believed]
    assumptions: Annotated[Sequence[str], Believed]


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
    began: Annotated[str, Believed]
    wall_s: Annotated[float, Believed]
    board: Annotated[str, CheckedBy("plan")]
    model: Annotated[str, CheckedBy("plan")]
    model_sha256: Annotated[str, CheckedBy("plan")]
    profile: Annotated[Mapping[str, Any], CheckedBy("bundle")]
    bundle: Annotated[str, CheckedBy("bundle")]
    program_sha256: Annotated[str, CheckedBy("bundle")]
    compiler: Annotated[str, CheckedBy("bundle")]
    flags: Annotated[Sequence[str], CheckedBy("bundle")]
    machine: Annotated[str, OfProgram]
    assumptions: Annotated[Sequence[str], OfProgram]
    core: CoreEntry = OMITTED
    layers: Annotated[Sequence[LayerEntry], OfProgram]
    items: Annotated[Sequence[ItemEntry], OfProgram]
    unbounded: Annotated[Sequence[UnboundedEntry], OfProgram]
    instructions: Annotated[int, OfProgram]
    cycles: Annotated[int, Believed] = OMITTED
    measured: Annotated[Sequence[MeasuredEntry], Believed] = ()
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


@dataclass(frozen=True)
class Request:
    """A program to bound: what it was generated from, its bundle and board, the core model of the estimate, if any."""

    program: codegen.Program
    bundle: Bundle
    profile: Profile
    core: str | None

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return self.program.plan


def require_processor(profile: Profile) -> None:
    """Raise RequestError for a board with a processor whose machine code is not followed."""
    machine = "32-bit Arm" if profile.bare_metal else platform.machine() if profile.local else "aarch64"
    if machine not in PROCESSORS:
        raise RequestError(
            f"board {profile.name}: programs for {machine} are not bounded",
            f"choose a board with {' or '.join(PROCESSORS)}, for example one that is emulated: kv260",
        )


def default_core(profile: Profile) -> str | None:
    """Return the core model of a board: that of its compiler's -mcpu, if there is one."""
    named = [flag.partition("=")[2].replace("_", "-") for flag in profile.toolchain.flags if flag.startswith("-mcpu=")]
    return next((name for name in reversed(named) if name in cycles.CORES), None)


def bound(
    request: Request, runs: Path, measured: Mapping[str, Any], advance: Callable[[int], object]
) -> tuple[WcetDocument, Path]:
    """Bound the program, and write the evidence, all but the report, to a new folder; return document and folder.

    `measured` are the documents of the measurements of this bundle by their names.
    """
    began, started = now(), time.perf_counter()
    program = request.bundle.folder / PROGRAM
    folds = _folds_constants(request.bundle.inputs["command"])

    def line(address: int) -> str:
        return line_of(request.program, request.profile, program, address)

    bounds = wcet.of_program(request.program, program, advance, line, folds_constants=folds)
    _require_bounded(bounds, request.plan)
    estimated, version = cycles.estimate(bounds, request.core) if request.core else ((), "")
    layers = layer_entries(bounds, estimated)
    items = item_entries(layers, bounds.threads)
    folder = RunFolder.create(runs, f"wcet_{request.plan.board}", request.plan.network.name, began).path
    (folder / "chunks").rmdir()
    _write(request, bounds, folder)
    total = sum(item.instructions for item in items)
    optional: dict[str, Any] = {}
    if request.core:
        optional["core"] = CoreEntry(name=request.core, llvm_mca=version, assumptions=cycles.ASSUMPTIONS)
        optional["cycles"] = sum(estimated)
    found = WcetDocument(
        schema=SCHEMA,
        harness=HarnessEntry(version=__version__, revision=revision()),
        began=f"{began:%Y-%m-%dT%H:%M:%SZ}",
        wall_s=round(time.perf_counter() - started, 3),
        board=request.plan.board,
        model=request.plan.network.name,
        model_sha256=request.plan.network.sha256,
        profile=request.profile.kept(),
        bundle=request.bundle.sha256,
        program_sha256=bounds.sha256,
        compiler=request.bundle.compiler,
        flags=request.bundle.flags,
        machine=bounds.machine,
        assumptions=ASSUMPTIONS,
        layers=layers,
        items=items,
        unbounded=unbounded_entries(request.plan, items),
        instructions=total,
        measured=compared(measured, layers, optional.get("cycles")),
        files={},
        **optional,
    )
    return found, folder


def write(folder: Path, document: WcetDocument, page: str) -> WcetDocument:
    """Write the page and, after everything else, the document, which lists all files; return it."""
    (folder / REPORT).write_text(page, encoding="utf-8")
    document = document.model_copy(update={"files": folder_sha256(folder)})
    write_json(folder / DOCUMENT, document)
    return document


def _write(request: Request, bounds: Bounds, folder: Path) -> None:
    (folder / MODEL).write_bytes(request.plan.network.onnx_bytes)
    plan_folder.write(request.plan, plan_check.assess(request.plan), folder / PLAN)
    (folder / BUNDLE).mkdir()
    for name in (PROGRAM, MANIFEST):
        shutil.copyfile(request.bundle.folder / name, folder / BUNDLE / name)
    (folder / FFX).write_text(flow_facts.ffx(bounds), encoding="utf-8")
    (folder / AIS).write_text(flow_facts.ais(bounds), encoding="utf-8")


def measurements(runs: Path, names: Sequence[str], built: Bundle) -> dict[str, AnyDocument]:
    """Return the measurements of a program among the folders of these names: instructions, or times on hardware."""
    found = {}
    for name in names:
        path = runs / name / "run.json"
        if not path.is_file():
            continue
        try:
            content = AnyDocument.view(read_document(path))
            ran = content.bundle.sha256, content.bundle.files[PROGRAM]
            if content.kind == "measure" and ran == (built.sha256, built.files[PROGRAM]):
                found[name] = content
        except (AttributeError, HarnessError, LookupError, TypeError, ValueError):
            continue  # of another version, or damaged: harness verify says so
    return found


def compared(
    measured: Mapping[str, AnyDocument], layers: Sequence[LayerEntry], cycles_of_core: int | None
) -> list[MeasuredEntry]:
    """Return the ratios of bound and estimate to the maxima of measurements, layer by layer, of the same bundle.

    Instructions are compared wherever they were counted, cycles on hardware only.  Times have no ratio.  A count
    contains the code of the schedule between its readings, the same for each layer: at most the fewest instructions by
    which the count of a layer exceeds its bound, which are subtracted.
    """
    bounds = {layer.name: layer.instructions + layer.library for layer in layers}
    found = []
    for name, content in measured.items():
        unit, place = content.measured.unit, content.board.kind
        counts = {part.name: part.max for part in content.parts if part.alone and part.executions is not OMITTED}
        if counts.keys() != bounds.keys() or (unit == "cycles" and place != HARDWARE):
            continue
        around = max(0, min(counts[layer] - bounds[layer] for layer in bounds)) if unit == "instructions" else 0
        maximum = sum(counts.values()) - around * len(counts)
        base = sum(bounds.values()) if unit == "instructions" else cycles_of_core
        if base is not None and maximum > 0:
            ratio = round(base / maximum, 6)
            found.append(MeasuredEntry(run=name, place=place, unit=unit, maximum=maximum, schedule=around, ratio=ratio))
    return found


@dataclass(frozen=True)
class Finding:
    """A claim of the evidence, and whether it holds."""

    claim: str
    holds: bool
    finding: str


def verify(path: Path, advance: Callable[[int], object] = lambda _: None) -> Iterator[Finding]:
    """Yield the claims of the bounds in a folder, each checked again; RequestError if it has no document."""
    document = WcetDocument.read(path / DOCUMENT)
    made = plan_folder.read(path / PLAN)
    program = codegen.generate(made)
    stated = (document.board, document.model, document.model_sha256, document.model_sha256)
    same = (made.board, made.network.name, made.network.sha256, file_sha256(path / MODEL)) == stated
    yield Finding(
        "plan", same, "the plan is of this board and model" if same else "the plan is of another board or model"
    )
    yield _bundle(path, document, program)
    yield _bounds(path, document, program, advance)


def _bundle(path: Path, document: WcetDocument, program: codegen.Program) -> Finding:
    manifest = Manifest.read(path / BUNDLE / MANIFEST)
    try:
        built = compiled(program, restored(document.profile)) if document.profile else {PROGRAM}
    except (KeyError, ValueError):
        return Finding("bundle", False, "its profile is not one that this version of harness keeps")
    sources = {
        name: sha256
        for name, sha256 in manifest.files.items()
        if name not in built and not name.startswith(f"{COMPILED}/")
    }
    name = name_of(sources, manifest.compiler, manifest.flags, manifest.inputs.to_json())
    generated = {file: hashlib.sha256(content).hexdigest() for file, content in program.files.items()}
    stated = (document.bundle, document.program_sha256, document.compiler, list(document.flags))
    found = (name, file_sha256(path / BUNDLE / PROGRAM), manifest.compiler, list(manifest.flags))
    if stated != found or manifest.files[PROGRAM] != document.program_sha256:
        return Finding("bundle", False, "the manifest is of another program")
    if any(sources.get(file) != sha256 for file, sha256 in generated.items()):
        return Finding("bundle", False, "the plan gives other generated code than the bundle was built from")
    return Finding("bundle", True, "the manifest names this program, and the code that the plan gives")


def _bounds(path: Path, document: WcetDocument, program: codegen.Program, advance: Callable[[int], object]) -> Finding:
    folds = _folds_constants(Manifest.read(path / BUNDLE / MANIFEST).inputs.command)
    try:
        bounds = wcet.of_program(program, path / BUNDLE / PROGRAM, advance, folds_constants=folds)
    except ToolError as error:
        return Finding("bounds", False, error.message)
    wrong = next(_wrong(path, document, bounds, program.plan), None)
    right = f"all {len(document.layers)} layers have these bounds, {document.instructions:,} instructions"
    return Finding("bounds", wrong is None, wrong or right)


def _wrong(path: Path, document: WcetDocument, bounds: Bounds, plan: Plan) -> Iterator[str]:
    """Yield what is not in accordance with the program's bounds, as they are found again."""
    again, stated, items = layer_entries(bounds), document.layers, document.items
    for layer, own in zip(stated, again, strict=False):
        if _plain(layer) != _plain(own):
            yield f"the bound of {own.name} is not that of the program"
    if len(stated) != len(again) or [*map(_plain, items)] != [*map(_plain, item_entries(again, bounds.threads))]:
        yield "the layers or items are not those of the program"
    missing = [*map(_plain, unbounded_entries(plan, items))]
    if document.schema_number == SCHEMA and [*map(_plain, document.unbounded)] != missing:
        yield "the items without a bound are not those of the plan"
    total = sum(item.instructions for item in items)
    if (total, document.machine, tuple(document.assumptions)) != (document.instructions, bounds.machine, ASSUMPTIONS):
        yield "sum, machine or assumptions are not those of the program"
    for file, text in ((FFX, flow_facts.ffx(bounds)), (AIS, flow_facts.ais(bounds))):
        if (path / file).read_text(encoding="utf-8") != text:
            yield f"{file} is not that of the program"


def _plain(entry: Entries) -> str:
    """Return an entry without its estimate as JSON."""
    return strict_json.text({key: value for key, value in entry.to_json().items() if key != "cycles"})


def _folds_constants(command: Sequence[str]) -> bool:
    """Return whether a compiler puts what constant tables hold into instructions."""
    return is_zig(command[0])


def _require_bounded(bounds: Bounds, plan: Plan) -> None:
    """Raise RequestError if no layer has a bound."""
    if not bounds.layers:
        raise RequestError(
            f"no layer of {plan.network.name} on board {plan.board} is computed by a target with bounds",
            "choose --items c, c:generic, c:inlined, c:unrolled or c:vector",
        )
