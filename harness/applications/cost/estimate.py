"""The costs of a network: its own numbers, those of a plan, and what a board does not offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness import targets
from harness.applications.cost import sources
from harness.applications.cost.document import (
    SCHEMA,
    CostDocument,
    LayerEntry,
    LimitEntry,
    MemoryEntry,
    MisfitEntry,
    ProgramEntry,
)
from harness.applications.cost.program import Sizes, sizes
from harness.applications.cost.sources import Numbers
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.build.codegen import Program
from harness.core.errors import RequestError, ToolError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.operations import moved_bytes, operations_of
from harness.plan import arena, launches, memory, planner
from harness.plan.plan import Buffers, Plan, buffer_bytes, task_bytes
from harness.runs import job
from harness.runs.document import kind


@dataclass
class _Planned:
    """A network on a board: the plan and its program where they exist, what does not fit, and what is not known."""

    profile: Profile
    plan: Plan | None = None
    program: Program | None = None
    misfits: list[MisfitEntry] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def of_network(network: Network) -> CostDocument:
    """Return the numbers of a network alone."""
    layers = [_layer(layer, _buffer(layer), _constants(layer)) for layer in network.layers]
    inputs = sum(tensor.size * tensor.dtype.itemsize for tensor in network.inputs)
    needed = MemoryEntry(
        constants=_total(layers, lambda layer: layer.constants),
        tables=0,
        keep=inputs + sum(layer.buffers for layer in layers),
        reuse=memory.in_sequence(network),
    )
    return _document(network, layers, needed, _undefined(network))


def on_board(
    network: Network, profile: Profile, choices: Mapping[str, Any], runs: Path, cache: Path, *, builds: bool = False
) -> CostDocument:
    """Return the numbers of a network on a board; `choices` are options of a request, `builds` compiles the program.

    ToolError if the program is to be built and its compiler fails.
    """
    planned = _planned(network, profile, choices)
    if planned.plan is None or planned.program is None:
        alone = of_network(network)
        reason = "code, buffers and times: there is no program, as the network does not fit"
        return alone.model_copy(update={
            "board": profile.name, "kind": kind(profile), "misfits": planned.misfits,
            "unknown": [*alone.unknown, reason],
        })  # fmt: skip
    plan, program = planned.plan, planned.program
    built = None if planned.misfits else _built(program, profile, cache, planned.unknown, builds=builds)
    known = sources.measured(runs, plan), sources.bounds(runs, plan)
    if not any(known):
        planned.unknown.append(
            f"times and cycles: no measurement of {network.name} on {profile.name} by these targets, and no bound, is "
            f"in {runs}; harness measure and harness wcet write them"
        )
    layers = _layers(plan, program, built and built[1], known)
    devices = dict.fromkeys(name for layer in layers if layer.constants is None for name in layer.targets)
    if devices:
        planned.unknown.append(f"constants in the kernels of {', '.join(devices)}: its own compiler places them")
    needed = MemoryEntry(
        constants=_total(layers, lambda layer: layer.constants),
        tables=sum(layer.tables for layer in layers),
        keep=_block_bytes(plan, "keep"),
        reuse=_block_bytes(plan, "reuse"),
    )
    document = _document(network, layers, needed, [*_undefined(network), *planned.unknown])
    measured, bound = (numbers and numbers.entry for numbers in known)
    return document.model_copy(update={
        "board": profile.name, "kind": kind(profile), "block": plan.block, "buffers": choices.get("buffers") or "keep",
        "program": built and _program(*built), "limits": _limits(program, profile, built and built[1]),
        "measured": measured, "bound": bound, "forecast": bundle.estimate(plan, profile), "misfits": planned.misfits,
    })  # fmt: skip


def _planned(network: Network, profile: Profile, choices: Mapping[str, Any]) -> _Planned:
    """Plan the network and generate its program, as far as the board takes it."""
    planned = _Planned(profile)
    for refusal in planner.refusals(network, profile, choices.get("items")):
        planned.misfits.append(
            MisfitEntry(
                layer=refusal.layer.name,
                operator=refusal.layer.operator,
                target=refusal.target,
                reason=refusal.reason,
                remedy=refusal.remedy,
            )
        )
    if planned.misfits:
        return planned
    planned.plan = job.planned(network, profile, choices)  # a wrong option, such as a split, is an invalid request
    try:
        bundle.check_targets(planned.plan, profile)
    except RequestError as error:
        planned.misfits.append(_misfit(error))
    planned.program = program = codegen.generate(planned.plan)
    try:
        bundle.check_memory(program, profile)
    except RequestError as error:
        planned.misfits.append(_misfit(error))
    return planned


def _misfit(error: RequestError) -> MisfitEntry:
    return MisfitEntry(layer="", operator="", target="", reason=error.message, remedy=error.hint)


def _built(
    program: Program, profile: Profile, cache: Path, unknown: list[str], *, builds: bool
) -> tuple[str, Sizes] | None:
    """Return the hash and the sizes of the built program; None, and why in `unknown`, if it was not built."""
    tasks = [task.name for task in program.plan.tasks]
    if builds:
        built = bundle.build(program, profile, cache)
        return built.sha256, sizes(built.folder / bundle.PROGRAM, tasks)
    try:
        folder = bundle.built_folder(program, profile, cache)
    except ToolError as error:
        unknown.append(f"code: {error.message}")
        return None
    if folder is None:
        unknown.append("code: this program was not built; --build compiles it, as harness run does")
        return None
    return folder.name, sizes(folder / bundle.PROGRAM, tasks)


def _program(sha256: str, built: Sizes) -> ProgramEntry:
    return ProgramEntry(
        bundle=sha256[:16], stored=built.stored, written=built.written, code=sum(built.functions.values())
    )


def _limits(program: Program, profile: Profile, built: Sizes | None) -> list[LimitEntry]:
    """Return the memories of a processor, or the budget of buffers of a board with an operating system."""
    plan, board = program.plan, profile.bare_metal
    if board is None:
        needed, budget = plan.block * launches.vector_bytes(plan), profile.memory_budget_mib << 20
        return [LimitEntry(name="memory budget", needed=needed, limit=budget, of="buffers of a block, with copies")]
    code, data = bundle.memory_needs(program, board)
    if built is None:
        parts = "constants; code is unknown", f"{data.name}, stack, open files"
        needs = code.size, data.size + data.beside
    else:
        parts = "the program: code, constants, initial values", "the program's data, stack, open files"
        needs = built.stored, built.written + data.beside
    return [
        LimitEntry(name=name, needed=needed, limit=limit, of=part)
        for name, needed, limit, part in zip(
            ("code memory", "data memory"), needs, (code.limit, data.limit), parts, strict=True
        )
    ]


def _layers(
    plan: Plan, program: Program, built: Sizes | None, known: tuple[Numbers | None, Numbers | None]
) -> list[LayerEntry]:
    """Return the entries of all layers; the tasks of a split layer are added."""
    code_of = dict(zip(plan.tasks, program.tasks, strict=True))
    entries = []
    for index, layer in enumerate(plan.network.layers):
        tasks = plan.tasks_of(index)
        tables = [table for task in tasks for table in code_of[task].tables]
        items = dict.fromkeys(plan.items[task.item] for task in tasks)
        of_layer = [numbers and numbers.of_layers.get(layer.name) for numbers in known]
        entry = _layer(
            layer,
            plan.block * sum(task.buffers * task_bytes(plan.network, task) for task in tasks),
            _stored(tables, [targets.find(item.target) for item in items]),
        )
        changes = {
            "items": [item.name for item in items],
            "targets": [item.target for item in items],
            "code": built and sum(built.functions[task.name] for task in tasks),
            "tables": sum(table.values.nbytes for table in tables if table.computed),
            "measured": of_layer[0],
            "bound": of_layer[1],
        }
        entries.append(entry.model_copy(update=changes))
    return entries


def _stored(tables: Sequence[targets.Table], on: Sequence[targets.Target]) -> int | None:
    """Return the bytes of the constants that the program stores; None if they are in kernels of another compiler."""
    is_in_kernels = bool(tables) and all(table.computed for table in tables)
    if is_in_kernels and all(target.compiler() is not None for target in on):
        return None
    return sum(table.values.nbytes for table in tables if not table.computed)


def _layer(layer: Layer, buffers: int, constants: int | None) -> LayerEntry:
    operations = operations_of(layer)
    return LayerEntry(
        name=layer.name,
        operator=layer.operator,
        items=[],
        targets=[],
        multiply_adds=operations.multiply_adds if operations else None,
        operations=operations.others if operations else None,
        moved_bytes=moved_bytes(layer),
        constants=constants,
        code=None,
        tables=0,
        buffers=buffers,
        measured=None,
        bound=None,
    )


def _document(
    network: Network, layers: Sequence[LayerEntry], needed: MemoryEntry, unknown: Sequence[str]
) -> CostDocument:
    return CostDocument(
        schema=SCHEMA,
        model=network.name,
        model_sha256=network.sha256,
        board=None,
        kind=None,
        block=1,
        buffers="keep",
        layers=layers,
        multiply_adds=_total(layers, lambda layer: layer.multiply_adds),
        operations=_total(layers, lambda layer: layer.operations),
        moved_bytes=_total(layers, lambda layer: layer.moved_bytes),
        memory=needed,
        program=None,
        limits=[],
        measured=None,
        bound=None,
        forecast=[],
        misfits=[],
        unknown=unknown,
    )


def _total(layers: Sequence[LayerEntry], number: Callable[[LayerEntry], int | None]) -> int:
    return sum(number(layer) or 0 for layer in layers)


def _undefined(network: Network) -> list[str]:
    """Return the statement about layers whose operations are in no sum."""
    operators = dict.fromkeys(layer.operator for layer in network.layers if operations_of(layer) is None)
    return [f"operations of {', '.join(operators)}: no definition in the exact language"] if operators else []


def _buffer(layer: Layer) -> int:
    return layer.size * layer.dtype.itemsize


def _constants(layer: Layer) -> int:
    return sum(np.asarray(value).nbytes for value in layer.constants().values())


def _block_bytes(plan: Plan, buffers: Buffers) -> int:
    other = arena.with_buffers(plan, plan.block, buffers)
    return plan.block * buffer_bytes(plan.network, other.tasks)
