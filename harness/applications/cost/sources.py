"""Numbers of layers that earlier commands left under runs/: measurements of a board, and bounds of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.applications.cost.document import SourceEntry
from harness.core import registry
from harness.core.document import Number
from harness.core.errors import RequestError
from harness.core.outcome import Outcome
from harness.plan.plan import Plan
from harness.runs.history import index
from harness.runs.history.index import RunFilter
from harness.runs.history.run_record import Run, State

WCET = "wcet.json"
VERDICTS = (Outcome.MEASURED, Outcome.VARIES, Outcome.REGRESSED)
"""Those of measurements with right outputs."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of layers by their names, with the entry that says where they come from."""

    entry: SourceEntry
    of_layers: Mapping[str, Number]


def measured(runs: Path, plan: Plan) -> Numbers | None:
    """Return the numbers of the best measurement of this model by these targets of this board; None without one.

    Cycles come before times of the hardware, these before counts of instructions, and those before times that are not
    MET; numbers of layers before those of the network; later before earlier.
    """
    if not runs.is_dir():
        return None
    with index.opened(runs) as records:
        named = records.find(RunFilter(board=plan.board, model=plan.network.name))
    usable = [record for record in named if _describes(record, plan)]
    return _numbers(min(usable, key=_rank), plan) if usable else None


def _describes(record: Run, plan: Plan) -> bool:
    """Return whether a record is a measurement of the network of a plan, computed right and by the same targets."""
    is_measured = record.state is State.FINISHED and record.action == "measure" and record.verdict in VERDICTS
    same_targets = record.targets == ",".join(item.target for item in plan.items)
    return is_measured and record.model_sha256 == plan.network.sha256 and same_targets and bool(record.parts)


def _rank(record: Run) -> tuple[int, bool]:
    """Return the place of a record in the order of preference, the least first."""
    units = {"cycles": 0, "ns": 1 if record.met else 3, "instructions": 2}
    return units.get(record.unit, len(units)), record.scope != "layer"


def _numbers(record: Run, plan: Plan) -> Numbers:
    is_time = record.unit == "ns"
    amounts = {part.name: part.median if is_time else part.minimum for part in record.parts}
    names = [layer.name for layer in plan.network.layers]
    known = {name: amounts[name] for name in names if amounts.get(name) is not None} if record.scope == "layer" else {}
    of_layers = {name: number for name, number in known.items() if number is not None}
    caution = f", NOT MET: {record.not_met}" if is_time and not record.met else ""
    entry = SourceEntry(
        run=record.name,
        unit=record.unit,
        statistic="median" if is_time else "least",
        place=f"{record.items}{caution}",
        total=sum(of_layers.values()) if of_layers else None,
        network=record.parts[0].median if is_time and record.scope == "network" else None,
    )
    return Numbers(entry, of_layers)


def bounds(runs: Path, plan: Plan) -> Numbers | None:
    """Return the instructions, or the estimated cycles, of the latest bound of this model and these targets."""
    for folder in _folders(runs):
        try:
            document = registry.document("wcet").read(folder / WCET)
        except RequestError:  # damaged or of a later version: `harness verify` says why
            continue
        if document.board == plan.board and document.model_sha256 == plan.network.sha256:
            targets = {layer.name: layer.target for layer in document.layers}
            own = {task.name: plan.items[task.item].target for task in plan.tasks if task.name in targets}
            if targets == own:
                return _bounds(folder, document, plan)
    return None


def _folders(runs: Path) -> Sequence[Path]:
    return sorted((path.parent for path in runs.glob(f"*/{WCET}")), reverse=True)


def _bounds(folder: Path, document: Any, plan: Plan) -> Numbers:
    is_cycles = document.core is not None
    of_tasks = dict(_amounts(document, is_cycles=is_cycles))
    of_layers: dict[str, Number] = {}
    for index_of_layer, layer in enumerate(plan.network.layers):
        tasks = [task.name for task in plan.tasks_of(index_of_layer)]
        if all(name in of_tasks for name in tasks):
            of_layers[layer.name] = sum(of_tasks[name] for name in tasks)
    of_core = f"LLVM's model of {document.core.name}, an estimate" if is_cycles else "at most, from the machine code"
    entry = SourceEntry(
        run=folder.name,
        unit="cycles" if is_cycles else "instructions",
        statistic="estimate" if is_cycles else "bound",
        place=of_core,
        total=sum(of_layers.values()) if len(of_layers) == len(plan.network.layers) else None,
        network=None,
    )
    return Numbers(entry, of_layers)


def _amounts(document: Any, *, is_cycles: bool) -> Iterator[tuple[str, int]]:
    for layer in document.layers:
        yield layer.name, layer.cycles if is_cycles else layer.instructions + layer.library
