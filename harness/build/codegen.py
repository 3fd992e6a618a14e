"""The generated `network.c` of a plan: constants, buffers, the code of every task, the items' schedules.

Its comments name the ONNX node of every task, so that a person can walk from a line on the board back to the model.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import targets
from harness.core.arrays import file_type
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.operators.tensor import Tensor
from harness.plan.items.description import columns_text
from harness.plan.launches import (
    Merge,
    PlannedLaunch,
    input_array,
    is_on_device,
    item_views,
    merges_of,
    output_buffer,
    place_of,
    planned_launches,
    require_lowerings,
    source_buffers,
)
from harness.plan.plan import Compute, HandOver, Plan, Step, Task
from harness.targets.generated import C_TYPES, ItemCode, LayerCode, Stage, Table

ARENA = "arena"
"""The name in `network.c` of the bytes that buffers share."""


@dataclasses.dataclass(frozen=True)
class Storage:
    """A buffer or table of `network.c`: its bytes, and the functions that have its address.

    `offset` is its first byte in the arena, if it shares bytes with others.
    """

    name: str
    size: int
    users: frozenset[str]
    offset: int | None = None


@dataclasses.dataclass(frozen=True)
class Forward:
    """The calls of a task's forward: `merges` before its loop, then `stages` in it, in this order.

    For each function the objects that its arguments point to; None is the forward's own frame.
    """

    name: str
    merges: tuple[tuple[str, tuple[str | None, ...]], ...]
    stages: tuple[tuple[str, tuple[str | None, ...]], ...]
    driver: tuple[str, ...]
    uses_execution: bool


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """The code generated from a plan.

    `items` and `tasks` hold the code of each, in the plan's order, the tasks with the stages that merge their sources.
    `source` is the text of `network.c`, `storage` all its buffers and tables: nothing else of the network may be
    written when it runs.  `forwards` are those of all tasks, which only the schedule may call; `ends` are by item the
    functions that end an execution, None where the tasks have ended it.
    """

    plan: Plan
    items: tuple[ItemCode, ...]
    tasks: tuple[LayerCode, ...]
    launches: tuple[PlannedLaunch, ...]
    source: str
    storage: tuple[Storage, ...]
    forwards: tuple[Forward, ...]
    ends: tuple[Forward | None, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """The constants of all tasks."""
        return tuple(table for code in self.tasks for table in code.tables)

    @property
    def files(self) -> dict[str, bytes]:
        """The generated files by their paths in the bundle: `network.c`, and its large constants."""
        constants = {table.file: table.content for table in self.tables if table.file}
        return {"network.c": self.source.encode()} | constants


def generate(plan: Plan) -> Program:
    """Generate the code of a plan; raise RequestError if a target cannot compute one of its layers exactly."""
    require_lowerings(plan)
    _require_no_device(plan)
    launches, views = planned_launches(plan), item_views(plan)
    items = tuple(
        targets.find(item.target).generate(item.name, of_item) for item, of_item in zip(plan.items, views, strict=True)
    )
    of_item = [iter(code.tasks) for code in items]
    tasks = tuple(_with_merges(plan, task, next(of_item[task.item])) for task in plan.tasks)
    served = _served(plan, launches)
    text = _source(plan, items, tasks, launches, served)
    storage, forwards = _storage(plan, items, tasks, served), _forwards(plan, tasks, served)
    return Program(plan, items, tasks, launches, text, storage, forwards, tuple(_ends(plan, items)))


def _require_no_device(plan: Plan) -> None:
    """Raise RequestError if a buffer that shares bytes belongs to an item whose driver decides when it is accessed."""
    for task in plan.tasks:
        item = plan.items[task.item]
        if task.offset is not None and not targets.shares_buffers(item.target):
            raise RequestError(
                f"buffer {task.name} of item {item.name} is in the arena, but target {item.target} accesses it at any "
                "time between two hand-overs",
                "leave the task out of the arena in plan.yaml, or make the plan again: harness plan --buffers reuse",
            )


def _source(
    plan: Plan,
    items: Sequence[ItemCode],
    codes: Sequence[LayerCode],
    launches: Sequence[PlannedLaunch],
    served: Sequence[Sequence[Task]],
) -> str:
    """Return the text of `network.c`; its comments name the ONNX node of every table."""
    network = plan.network
    includes = "\n".join(f'#include "{header}"' for header in sorted(_headers(plan)))
    tables = [table for code in codes for table in code.tables]
    stages = [(stage, task.item) for code, task in zip(codes, plan.tasks, strict=True) for stage in code.stages]
    texts = [
        f"/* The network {_printable(network.name)}, generated from its ONNX file (SHA-256 {network.sha256}). */",
        f'#include "network.h"\n\n#include <string.h>\n\n{includes}',
        f"enum {{ BLOCK = {plan.block} }};",
        *(_input_buffer(network, tensor) for tensor in network.inputs),
        *_arena_text(plan),
        *dict.fromkeys(text for code in codes for text in code.shared.values()),
        *(_task_text(plan, *of_task) for of_task in zip(plan.tasks, codes, served, strict=True)),
        _input_table(network),
        _task_table(plan),
        _layer_table(plan),
        *(_item_text(plan, index, code) for index, code in enumerate(items)),
        _hand_over_table(plan.hand_overs),
        _constant_table(tables),
        _stage_table(stages),
        _launch_table(plan, launches),
        _network_table(plan, items, (len(tables), len(stages), len(launches))),
    ]
    return "\n\n".join(texts) + "\n"


def _headers(plan: Plan) -> set[str]:
    """Return the headers of the targets and of the lowerings that are used."""
    headers: set[str] = set()
    for item, views in zip(plan.items, item_views(plan), strict=True):
        target = targets.find(item.target)
        headers.update(target.headers())
        headers.update(header for lowering in target.used(views) for header in lowering.headers)
    return headers


def _type(dtype: np.dtype[Any]) -> str:
    """Return the type of values in a dump, as C text."""
    return f'"{file_type(dtype).str}"'


def _printable(name: str) -> str:
    """Return `name` without what could end a C comment or string."""
    return re.sub(r"[^A-Za-z0-9_./:+-]", "_", name)


def _with_merges(plan: Plan, task: Task, code: LayerCode) -> LayerCode:
    merges = (merge.stage for merge in _merges_in_buffers(plan, task))
    return dataclasses.replace(code, stages=(*merges, *code.stages), target=plan.items[task.item].target)


def _storage(
    plan: Plan, items: Sequence[ItemCode], codes: Sequence[LayerCode], served: Sequence[Sequence[Task]]
) -> tuple[Storage, ...]:
    users: dict[str, set[str]] = {}
    sizes = {}
    for tensor in plan.network.inputs:
        name = input_array(plan.network, tensor)
        users[name] = set()
        sizes[name] = plan.block * tensor.size * tensor.dtype.itemsize
    for task, code, of_launch in zip(plan.tasks, codes, served, strict=True):
        part, item = plan.part(task), plan.items[task.item].name
        sizes[_array(task)] = task.buffers * plan.block * part.size * part.dtype.itemsize
        merges = [merge for other in of_launch for merge in _merges_in_buffers(plan, other)]
        for merge in merges:
            sizes[merge.buffer] = plan.block * merge.stage.output_width * merge.stage.output_dtype.itemsize
        read = [*_arrays_read(plan, of_launch), *(merge.buffer for merge in merges)]
        for name in (_array(task), *read):
            users.setdefault(name, set()).add(f"{task.name}_forward")
        if items[task.item].finish:
            users[_array(task)].add(_end(item))
        for table in code.tables:
            sizes[table.name] = table.values.nbytes
            users[table.name] = {f"{item}_init", *(stage.name for stage in code.stages)}
    offsets = {_array(task): task.offset * plan.block for task in plan.tasks if task.offset is not None}
    stored = [Storage(name, size, frozenset(users[name]), offsets.get(name)) for name, size in sizes.items()]
    if plan.arena:
        stored.append(Storage(ARENA, plan.block * plan.arena, frozenset()))
    return tuple(stored)


def _arrays_read(plan: Plan, launch: Sequence[Task]) -> Iterator[str]:
    """Yield the arrays of tasks and of the network's inputs that the tasks of a launch read."""
    yield from (_array(task) for task in _read(plan, launch))
    for task in launch:
        for source in plan.sources(task):
            if not source.writers:
                yield input_array(plan.network, source.tensor)


def _forwards(plan: Plan, codes: Sequence[LayerCode], served: Sequence[Sequence[Task]]) -> tuple[Forward, ...]:
    found = []
    arrays = {output_buffer(task): _array(task) for task in plan.tasks}
    for task, code, of_launch in zip(plan.tasks, codes, served, strict=True):
        merges: tuple[tuple[str, tuple[str | None, ...]], ...] = tuple(
            (merge.stage.name, (None, merge.buffer)) for other in of_launch for merge in _merges_in_buffers(plan, other)
        )
        sources = [arrays.get(name, name) for name in source_buffers(plan, task)]
        resets = [stage.name for stage in code.stages if stage.part is StageKind.RESET]
        merges += tuple((name, (*sources, _array(task))) for name in resets)
        before = [_array(task)] if resets else []  # what the execution before has left
        called = () if code.driver else _called(code, [*before, *sources], _array(task))
        copies = bool(_copies(plan, task, of_launch))
        found.append(Forward(f"{task.name}_forward", merges, called, code.driver, copies))
    return tuple(found)


def _ends(plan: Plan, items: Sequence[ItemCode]) -> Iterator[Forward | None]:
    for item, code in zip(plan.items, items, strict=True):
        driver = tuple(dict.fromkeys(name for task in code.tasks for name in task.driver))
        yield Forward(_end(item.name), (), (), driver, uses_execution=False) if code.finish else None


def _called(code: LayerCode, sources: Sequence[str], output: str) -> tuple[tuple[str, tuple[str | None, ...]], ...]:
    """Return the stages that a forward calls one after the other, from the sources to the output."""
    own = [stage for stage in code.stages if stage.part not in (StageKind.MERGE, StageKind.RESET)]
    between = len(own) - 1
    ends: list[str | None] = [*[None] * between, output]
    starts: list[tuple[str | None, ...]] = [tuple(sources), *[(None,)] * between]
    return tuple((stage.name, (*begin, end)) for stage, begin, end in zip(own, starts, ends, strict=True))


def _served(plan: Plan, launches: Sequence[PlannedLaunch]) -> list[Sequence[Task]]:
    """Return for every task the tasks whose sources its forward prepares: a whole launch at its first, else none."""
    heads = {launch.tasks[0].name: launch.tasks for launch in launches}
    return [heads.get(task.name, ()) for task in plan.tasks]


def _array(task: Task) -> str:
    """Return the name of the buffer, or of the array of its copies."""
    return output_buffer(task) if task.buffers == 1 else f"{task.name}_copies"


def _task_text(plan: Plan, task: Task, code: LayerCode, served: Sequence[Task]) -> str:
    """Return the buffer of a task, its code, and its function for the schedule."""
    whole, part = plan.network.layers[task.layer], plan.part(task)
    columns = "" if part is whole else f", {columns_text(task.region)} of {whole.size}"
    tensors = f"reads {' and '.join(map(_printable, part.sources))}, writes {_printable(part.output.name)}"
    lines = [
        f"/* Layer {task.layer}, {part.operator}: node {_printable(part.node)}{columns}, {tensors}. */",
        _buffer(task, part),
        *_buffers_ahead(plan, task, served),
        *(_merge_code(plan, merge) for other in served for merge in _merges_in_buffers(plan, other)),
        *([code.definitions] if code.definitions else []),
        f"\nstatic void {task.name}_forward(size_t vectors, {_execution(plan, task, served)})\n{{",
        *_copies(plan, task, served),
        *(_merge(merge) for other in served for merge in _merges_in_buffers(plan, other)),
        f"{code.forward}\n}}",
    ]
    return "\n".join(lines)


def _merges_in_buffers(plan: Plan, task: Task) -> list[Merge]:
    """Return the sources of `task` that the program brings together."""
    return [merge for merge in merges_of(plan, task) if not is_on_device(plan, task, merge.source)]


def _buffer(task: Task, part: Layer) -> str:
    """Return the declaration of the buffer, with copies for executions that run at the same time."""
    copies = f"[{task.buffers}]" if task.buffers > 1 else ""
    array = f"{_array(task)}{copies}[BLOCK][{part.size}]"
    if task.offset is not None:
        return f'extern {C_TYPES[part.dtype.name]} {array} __attribute__((visibility("hidden"), aligned(64)));'
    return f"static {C_TYPES[part.dtype.name]} {array} __attribute__((aligned(64)));"


def _arena_text(plan: Plan) -> list[str]:
    """Return the arena and the symbols of the buffers in it, as a list; empty if no buffers share bytes.

    The symbols are defined for the assembler: each buffer keeps its name, type and size.  No function of the schedule
    uses two buffers that have a byte in common, as its sources and its output are needed at the same time.
    """
    if not plan.arena:
        return []
    lines = [
        line
        for task in plan.tasks
        if task.offset is not None
        for line in (
            f".type {_array(task)}, %object",
            f".set {_array(task)}, {ARENA} + {task.offset * plan.block}",
            f".size {_array(task)}, {plan.block * plan.part(task).size * plan.part(task).dtype.itemsize}",
        )
    ]
    return [
        "/* Buffers share bytes: each is written when those before it in the same bytes have been read. */\n"
        f"static unsigned char {ARENA}[BLOCK * {plan.arena}] __attribute__((aligned(64), used));\n"
        "__asm__(\n" + "\n".join(f'    "{line}\\n"' for line in lines) + ");"
    ]


def _buffers_ahead(plan: Plan, task: Task, served: Sequence[Task]) -> list[str]:
    """Return the buffers that a launch reads and that are defined below its first task: C permits both declarations."""
    return [_buffer(other, plan.part(other)) for other in _read(plan, served) if place_of(other) > place_of(task)]


def _read(plan: Plan, served: Sequence[Task]) -> list[Task]:
    """Return the tasks outside a launch whose buffers it reads; what it writes itself it has on its device."""
    writers = (writer for other in served for source in plan.sources(other) for writer in source.writers)
    return [writer for writer in dict.fromkeys(writers) if writer not in served]


def _merge_code(plan: Plan, merge: Merge) -> str:
    """Return the buffer in which a source is merged, and the stage that does it, for the schedule and the proof."""
    stage, writers = merge.stage, merge.source.writers
    c_type, given, width = C_TYPES[stage.input_dtype.name], stage.input_width, stage.output_width
    origins = [f"by item {plan.items[writer.item].name}" for writer in writers] or ["the network's input"]
    places = merge.places()
    buffers = np.searchsorted(merge.starts, places, side="right") - 1
    copies = "\n".join(
        _copy(np.flatnonzero(buffers == number), (places - start)[buffers == number], number, origin)
        for number, (start, origin) in enumerate(zip(merge.starts, origins, strict=True))
        if (buffers == number).any()
    )
    parts = ", ".join(f"&in[v * {given} + {start}]" for start in merge.starts)
    return (
        f"static {c_type} {merge.buffer}[BLOCK][{width}] __attribute__((aligned(64)));\n"
        f"static ONE_CODE void {stage.name}(const {c_type} *const *in, {c_type} *restrict out)\n{{\n{copies}\n}}\n"
        f"static void {stage.name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    const {c_type} *in = inputs;\n    {c_type} *out = outputs;\n"
        f"    for (size_t v = 0; v < vectors; ++v)\n"
        f"        {_merge_call(stage, parts, f'&out[v * {width}]')}\n}}"
    )


def _copy(to: npt.NDArray[np.intp], places: npt.NDArray[np.intp], buffer: int, origin: str) -> str:
    """Return the statement that copies the values at `places` of a buffer to `to`: runs of one length, evenly apart."""
    [ends] = np.nonzero((np.diff(to) != 1) | (np.diff(places) != 1))
    length, count = int(ends[0]) + 1 if len(ends) else len(to), len(ends) + 1
    target, source = (str(int(each[0])) for each in (to, places))
    loop = ""
    if count > 1:
        steps = int(to[length] - to[0]), int(places[length] - places[0])
        grid = [first + np.add.outer(np.arange(count) * step, np.arange(length)).reshape(-1)
                for first, step in zip((to[0], places[0]), steps, strict=True)]  # fmt: skip
        if not all(np.array_equal(*pair) for pair in zip(grid, (to, places), strict=True)):
            raise ValueError(f"the values of buffer {buffer} that are copied are no runs evenly apart")
        loop = f"    for (size_t run = 0; run < {count}; ++run)\n    "
        target, source = f"{target} + run * {steps[0]}", f"{source} + run * {steps[1]}"
    given = f"in[{buffer}]" if source == "0" else f"&in[{buffer}][{source}]"
    return f"{loop}    (void)memcpy(&out[{target}], {given}, {length} * sizeof *out); /* {origin} */"


def _execution(plan: Plan, task: Task, served: Sequence[Task]) -> str:
    """Return the parameter that selects the copies of the buffers."""
    return "uint64_t execution" if _copies(plan, task, served) else "uint64_t execution __attribute__((unused))"


def _copies(plan: Plan, task: Task, served: Sequence[Task]) -> list[str]:
    """Return the declarations of the copies for the execution, under the names that the code uses."""
    layers = plan.network.layers
    return [
        f"    {C_TYPES[layers[other.layer].dtype.name]} (*{output_buffer(other)})[{other.size}] = "
        f"{_array(other)}[execution % {other.buffers}u];"
        for other in [*_read(plan, served), task]
        if other.buffers > 1
    ]


def _merge(merge: Merge) -> str:
    """Return the loop in which a reader brings a source together."""
    given = ", ".join(f"{part}[v]" for part in merge.parts)
    call = _merge_call(merge.stage, given, f"{merge.buffer}[v]")
    return f"    for (size_t v = 0; (v < vectors) && (v < BLOCK); ++v)\n        {call}"


def _merge_call(stage: Stage, parts: str, merged: str) -> str:
    return f"{stage.name}((const {C_TYPES[stage.input_dtype.name]} *const[]){{{parts}}}, {merged});"


def _input_buffer(network: Network, tensor: Tensor) -> str:
    array = f"{input_array(network, tensor)}[BLOCK][{tensor.size}]"
    return f"static {C_TYPES[tensor.dtype.name]} {array}; /* tensor {_printable(tensor.name)} */"


def _table(array: str, rows: Iterable[str]) -> str:
    """Return the definition of a constant array of structures, `array` its structure and its name."""
    return f"static const struct {array}[] = {{\n" + "\n".join(rows) + "\n};"


def _input_table(network: Network) -> str:
    rows = [
        f'    {{"{_printable(tensor.name)}", {_type(tensor.dtype)}, {tensor.size}, {tensor.dtype.itemsize}, '
        f"&{input_array(network, tensor)}[0][0]}},"
        for tensor in network.inputs
    ]
    return _table("network_input inputs", rows)


def _task_table(plan: Plan) -> str:
    rows = [
        f'    {{"{task.name}", {task.size}, {task.runs}, {_array(task)}, {task.buffers}, {task.stage}, '
        f"{task.layer}, {task.name}_forward}},"
        for task in plan.tasks
    ]
    return _table("task tasks", rows)


def _layer_table(plan: Plan) -> str:
    """Return the layers; of one whose activations are overwritten no column is dumped."""
    rows = [
        f'    {{"{layer.name}", {_type(layer.dtype)}, {layer.size * plan.kept[index]}, {layer.dtype.itemsize}, '
        f"&tasks[{plan.tasks.index(own[0])}], {len(own) if plan.kept[index] else 1}}},"
        for index, layer in enumerate(plan.network.layers)
        for own in [plan.tasks_of(index)]
    ]
    return _table("layer layers", rows)


def _item_text(plan: Plan, index: int, code: ItemCode) -> str:
    item, steps = plan.items[index], "\n".join(_step_row(plan, index, step) for step in plan.schedules[index])
    end = f"static void {_end(item.name)}(size_t vectors)\n{{\n{code.finish}\n}}\n\n" if code.finish else ""
    return (
        f"/* Item {item.name}, target {item.target}. */\n{code.definitions}"
        f"static void {item.name}_init(const struct options *options __attribute__((unused)))\n"
        f"{{\n{code.initialise}\n}}\n\n"
        f"static void {item.name}_close(void)\n{{\n{code.close}\n}}\n\n"
        f"{end}"
        f"static const struct step {item.name}_steps[] = {{\n{steps}\n}};"
    )


def _end(item: str) -> str:
    return f"{item}_end_execution"


def _step_row(plan: Plan, item: int, step: Step) -> str:
    if isinstance(step, Compute):
        return f"    {{STEP_TASK, {step.task}}}, /* {plan.tasks[step.task].name} */"
    hand_over = plan.hand_overs[step.hand_over]
    by_flag = "RAISE" if item == hand_over.writer else "WAIT"
    kind = "MEET" if plan.sync == "barrier" else by_flag
    return f"    {{STEP_{kind}, {step.hand_over}}}, /* {hand_over.name} */"


def _hand_over_table(hand_overs: tuple[HandOver, ...]) -> str:
    rows = [f'    {{"{hand_over.name}", {len(hand_over.items)}}},' for hand_over in hand_overs] or ["    {NULL, 0},"]
    return _table("hand_over hand_overs", rows)


def _constant_table(tables: list[Table]) -> str:
    """Return the constants by their names, for the proof."""
    rows = [
        f'    {{"{table.name}", {_type(table.values.dtype)}, {rows}, {columns}, {table.values.dtype.itemsize}, '
        f"{table.name}}},"
        for table in tables
        for rows, columns in [np.atleast_2d(table.values).shape]
    ]
    return _table("table tables", rows or ["    {NULL, NULL, 0, 0, 0, NULL},"])


def _stage_table(stages: list[tuple[Stage, int]]) -> str:
    """Return the stages, each with the item that it belongs to."""
    rows = [
        f'    {{"{stage.name}", {item}, {_type(stage.input_dtype)}, {stage.input_width}, {stage.input_dtype.itemsize}, '
        f"{_type(stage.output_dtype)}, {stage.output_width}, {stage.output_dtype.itemsize}, {stage.name}_stage}},"
        for stage, item in stages
    ]
    return _table("stage stages", rows)


def _launch_table(plan: Plan, launches: Sequence[PlannedLaunch]) -> str:
    """Return the launches, for the proof: what each reads and writes."""
    numbers = {task.name: index for index, task in enumerate(plan.tasks)}
    inputs = {tensor: index for index, tensor in enumerate(plan.network.inputs, start=len(plan.tasks))}
    arrays, rows = [], []
    for number, launch in enumerate(launches):
        read = ", ".join(
            str(numbers[source.name] if isinstance(source, Task) else inputs[source]) for source in launch.sources
        )
        run = ", ".join(f"{{{numbers[task.name]}, {int(task in launch.outputs)}}}" for task in launch.tasks)
        arrays += [
            f"static const size_t launch_{number}_sources[] = {{{read}}};",
            f"static const struct launched launch_{number}_tasks[] = {{{run}}};",
        ]
        of = f"launch_{number}_sources, {len(launch.sources)}, launch_{number}_tasks, {len(launch.tasks)}"
        rows.append(f"    {{{launch.item}, {of}}}, /* {launch.tasks[0].name} */")
    return "\n".join([*arrays, _table("launch launches", rows)])


def _network_table(plan: Plan, of_items: Sequence[ItemCode], counts: tuple[int, int, int]) -> str:
    network, (tables, stages, launches) = plan.network, counts
    items = "\n".join(
        f'    {{"{item.name}", "{item.target}", {item.name}_init, {item.name}_close, '
        f"{_end(item.name) if code.finish else 'NULL'}, {code.reread}, {code.device}, "
        f"{item.name}_steps, {len(schedule)}}},"
        for item, schedule, code in zip(plan.items, plan.schedules, of_items, strict=True)
    )
    name = _printable(network.name)
    return (
        f"static const struct item items[] = {{\n{items}\n}};\n\n"
        f'const struct network network = {{\n    "{name}", BLOCK, inputs, {len(network.inputs)}, {plan.depth},\n'
        f"    layers, {len(network.layers)}, tasks, {len(plan.tasks)}, items, {len(plan.items)},\n"
        f"    hand_overs, {len(plan.hand_overs)},\n"
        f"    tables, {tables}, stages, {stages}, launches, {launches},\n}};"
    )
