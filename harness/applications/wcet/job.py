"""A bound of a program, and the folder of its evidence.

runs/<time>_wcet_<board>_<model>/
    model.onnx       the model, byte for byte
    plan/            the description of the plan (harness plan -o)
    bundle/          the program, and the manifest of what it was built from
    flow_facts.ffx   flow facts for OTAWA; flow_facts.ais annotations as those of aiT
    report.html
    wcet.json        written last and atomically
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.applications.wcet import cycles, flow_facts
from harness.applications.wcet.bounds import Bounds, of_program
from harness.applications.wcet.document import (
    AIS,
    ASSUMPTIONS,
    BUNDLE,
    DOCUMENT,
    FFX,
    MODEL,
    PLAN,
    REPORT,
    SCHEMA,
    CoreEntry,
    LayerEntry,
    MeasuredEntry,
    WcetDocument,
    item_entries,
    layer_entries,
    unbounded_entries,
)
from harness.applications.wcet.graph import PROCESSORS
from harness.boards.identity import HARDWARE
from harness.boards.profile import Profile
from harness.build import codegen
from harness.build.bundle import MANIFEST, PROGRAM, Bundle
from harness.build.debug_lines import line_of
from harness.core.document import write_json
from harness.core.errors import HarnessError, RequestError
from harness.core.file_digest import folder_sha256
from harness.core.installation import revision
from harness.core.safe_io import read_document
from harness.plan import folder as plan_folder
from harness.plan import plan_check
from harness.plan.plan import Plan
from harness.runs.entries import OMITTED, AnyDocument, HarnessEntry
from harness.runs.folder import RunFolder, now
from harness.targets.compiler_flags import is_zig


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
    machine = platform.machine() if profile.local else "aarch64"
    if profile.bare_metal:
        machine = "thumb" if "-mthumb" in profile.toolchain.flags else "A32 of Arm"
    if machine not in PROCESSORS:
        raise RequestError(
            f"board {profile.name}: programs for {machine} are not bounded",
            f"choose a board with {' or '.join(PROCESSORS)}, for example kv260 or cortex-m7, which are emulated",
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
    folds = folds_constants(request.bundle.inputs["command"])

    def line(address: int) -> str:
        return line_of(request.program, request.profile, program, address)

    bounds = of_program(request.program, program, advance, line, folds_constants=folds)
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
    wcet_document = WcetDocument(
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
    return wcet_document, folder


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


def folds_constants(command: Sequence[str]) -> bool:
    """Return whether a compiler puts what constant tables hold into instructions."""
    return is_zig(command[0])


def _require_bounded(bounds: Bounds, plan: Plan) -> None:
    """Raise RequestError if no layer has a bound."""
    if not bounds.layers:
        raise RequestError(
            f"no layer of {plan.network.name} on board {plan.board} is computed by a target with bounds",
            "choose --items c, c:generic, c:inlined, c:unrolled or c:vector",
        )
