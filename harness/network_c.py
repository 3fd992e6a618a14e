"""The generated `network.c` of a plan: constants, buffers, the code of every task, the items' schedules.

Its comments name the ONNX node of every task, so that a person can walk from a line on the board back to the model.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from harness import targets
from harness.network import Layer
from harness.plan import Compute, HandOver, Item, Plan, Step, Task
from harness.targets import C_TYPES, LayerCode, Part, Stage, Table


def source(plan: Plan) -> str:
    """The generated `network.c`: constants, buffers and schedule; its comments name the ONNX node of every table."""
    network = plan.network
    includes = sorted({header for item in plan.items for header in targets.find(item.target).headers()})
    parts, codes = [plan.part(task) for task in plan.tasks], task_codes(plan)
    texts = [
        f"/* The network {_printable(network.name)}, generated from its ONNX file (SHA-256 {network.sha256}). */",
        '#include "network.h"\n\n#include <string.h>\n\n' + "\n".join(f'#include "{header}"' for header in includes),
        f"enum {{ BLOCK = {plan.block} }};",
        f"static float input[BLOCK][{network.input_width}]; /* tensor {_printable(network.input_name)} */",
        *(_task_text(plan, *of_task) for of_task in zip(plan.tasks, parts, codes, strict=True)),
        _task_table(plan),
        _layer_table(plan),
        *(_item_text(plan, index, item, codes) for index, item in enumerate(plan.items)),
        _hand_over_table(plan.hand_overs),
        _constant_table([table for code in codes for table in code.tables]),
        _stage_table(
            [(stage, task.item) for code, task in zip(codes, plan.tasks, strict=True) for stage in code.stages]
        ),
        _network_table(plan, codes),
    ]
    return "\n\n".join(texts) + "\n"


def _printable(name: str) -> str:
    """`name` without what could end a C comment or string."""
    return re.sub(r"[^A-Za-z0-9_./:+-]", "_", name)


def task_codes(plan: Plan) -> list[LayerCode]:
    """What the items' targets generate for every task; among the stages those that bring its sources together."""
    return [_task_code(plan, task, plan.part(task)) for task in plan.tasks]


def _task_code(plan: Plan, task: Task, part: Layer) -> LayerCode:
    code = targets.find(plan.items[task.item].target).generate(part, _source_buffers(plan, task))
    merges = (_merge_stage(task, part, index) for index, _ in _split_sources(plan, task))
    return dataclasses.replace(code, stages=(*merges, *code.stages))


def _source_buffers(plan: Plan, task: Task) -> list[str]:
    """What the task's code calls the buffers of its sources."""
    return [_source_buffer(task, index, writers) for index, writers in enumerate(plan.sources(task))]


def _source_buffer(task: Task, index: int, writers: tuple[Task, ...]) -> str:
    if not writers:
        return "input"
    return _output(writers[0]) if len(writers) == 1 else _merged(task, index)


def _output(task: Task) -> str:
    return f"{task.name}_output"


def _array(task: Task) -> str:
    """What the buffer is called, or the array of its copies."""
    return _output(task) if task.buffers == 1 else f"{task.name}_copies"


def _merged(task: Task, source: int) -> str:
    return f"{task.name}_source_{source}"


def _task_text(plan: Plan, task: Task, part: Layer, code: LayerCode) -> str:
    """The buffer of a task, its code, and its function for the schedule."""
    whole = plan.network.layers[task.layer]
    columns = "" if part is whole else f", columns {task.start} to {task.stop - 1} of {whole.width}"
    tensors = f"reads {' and '.join(map(_printable, part.sources))}, writes {_printable(part.output)}"
    lines = [
        f"/* Layer {task.layer}, {part.operator}: node {_printable(part.node)}{columns}, {tensors}. */",
        _buffer(task, part),
        *(
            _merge_code(plan, _merge_stage(task, part, index), _merged(task, index), writers)
            for index, writers in _split_sources(plan, task)
        ),
        *([code.definitions] if code.definitions else []),
        f"\nstatic void {task.name}_forward(size_t vectors, {_execution(plan, task)})\n{{",
        *_copies(plan, task),
        *(_merge(task, part, index, writers) for index, writers in _split_sources(plan, task)),
        f"{code.forward}\n}}",
    ]
    return "\n".join(lines)


def _split_sources(plan: Plan, task: Task) -> list[tuple[int, tuple[Task, ...]]]:
    """The sources of `task` that several tasks write, by their positions."""
    return [(index, writers) for index, writers in enumerate(plan.sources(task)) if len(writers) > 1]


def _buffer(task: Task, part: Layer) -> str:
    """With copies for executions that are under way at the same time, where it takes any."""
    copies = f"[{task.buffers}]" if task.buffers > 1 else ""
    array = f"{_array(task)}{copies}[BLOCK][{part.width}]"
    return f"static {C_TYPES[part.dtype.name]} {array} __attribute__((aligned(64)));"


def _merge_code(plan: Plan, stage: Stage, merged: str, writers: tuple[Task, ...]) -> str:
    """The buffer in which a source comes together, and the stage that does it, for the schedule and the proof."""
    c_type, width = C_TYPES[stage.input_dtype.name], stage.input_width
    copies = "\n".join(
        f"    memcpy(&out[{writer.start}], in[{number}], {writer.stop - writer.start} * sizeof *out); "
        f"/* by item {plan.items[writer.item].name} */"
        for number, writer in enumerate(writers)
    )
    parts = ", ".join(f"&in[v * {width} + {writer.start}]" for writer in writers)
    return (
        f"static {c_type} {merged}[BLOCK][{width}] __attribute__((aligned(64)));\n"
        f"static ONE_CODE void {stage.name}(const {c_type} *const *in, {c_type} *out)\n{{\n{copies}\n}}\n"
        f"static void {stage.name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    const {c_type} *in = inputs;\n    {c_type} *out = outputs;\n"
        f"    for (size_t v = 0; v < vectors; ++v)\n"
        f"        {_merge_call(stage, parts, f'&out[v * {width}]')}\n}}"
    )


def _execution(plan: Plan, task: Task) -> str:
    """The parameter that tells which copies of the buffers are meant."""
    return "size_t execution" if _copies(plan, task) else "size_t execution __attribute__((unused))"


def _copies(plan: Plan, task: Task) -> list[str]:
    """Under the names that the code uses, the copies that belong to the execution."""
    layers, sources = plan.network.layers, [writer for writers in plan.sources(task) for writer in writers]
    return [
        f"    {C_TYPES[layers[other.layer].dtype.name]} (*{_output(other)})[{other.stop - other.start}] = "
        f"{_array(other)}[execution % {other.buffers}];"
        for other in dict.fromkeys([*sources, task])
        if other.buffers > 1
    ]


def _merge(task: Task, part: Layer, source: int, writers: tuple[Task, ...]) -> str:
    """The reader brings together what several items have computed."""
    outputs = ", ".join(f"{_output(writer)}[v]" for writer in writers)
    return (
        f"    for (size_t v = 0; v < vectors && v < BLOCK; ++v)\n"
        f"        {_merge_call(_merge_stage(task, part, source), outputs, f'{_merged(task, source)}[v]')}"
    )


def _merge_stage(task: Task, part: Layer, source: int) -> Stage:
    dtype, width = part.input_dtype, part.input_width
    return Stage(Part.MERGE, f"{_merged(task, source)}_{Part.MERGE.value}", dtype, width, dtype, width)


def _merge_call(stage: Stage, parts: str, merged: str) -> str:
    return f"{stage.name}((const {C_TYPES[stage.input_dtype.name]} *const[]){{{parts}}}, {merged});"


def _task_table(plan: Plan) -> str:
    rows = [
        f'    {{"{task.name}", {task.stop - task.start}, {_array(task)}, {task.buffers}, {task.stage}, '
        f"{task.name}_forward}},"
        for task in plan.tasks
    ]
    return "static const struct task tasks[] = {\n" + "\n".join(rows) + "\n};"


def _layer_table(plan: Plan) -> str:
    rows = [
        f'    {{"{layer.name}", "{layer.dtype.str}", {layer.width}, {layer.dtype.itemsize}, '
        f"&tasks[{plan.tasks.index(own[0])}], {len(own)}}},"
        for index, layer in enumerate(plan.network.layers)
        for own in [plan.tasks_of(index)]
    ]
    return "static const struct layer layers[] = {\n" + "\n".join(rows) + "\n};"


def _item_text(plan: Plan, index: int, item: Item, codes: list[LayerCode]) -> str:
    pairs = zip(codes, plan.tasks, strict=True)
    own = [code.initialise for code, task in pairs if task.item == index and code.initialise]
    body = "\n".join(own)
    steps = "\n".join(_step_row(plan, index, step) for step in plan.schedules[index])
    return (
        f"/* Item {item.name}, target {item.target}. */\n"
        f"static void {item.name}_init(void)\n{{\n{body}\n}}\n\n"
        f"static void {item.name}_close(void)\n{{\n}}\n\n"
        f"static const struct step {item.name}_steps[] = {{\n{steps}\n}};"
    )


def _step_row(plan: Plan, item: int, step: Step) -> str:
    if isinstance(step, Compute):
        return f"    {{STEP_TASK, {step.task}}}, /* {plan.tasks[step.task].name} */"
    hand_over = plan.hand_overs[step.hand_over]
    by_flag = "RAISE" if item == hand_over.writer else "WAIT"
    kind = "MEET" if plan.sync == "barrier" else by_flag
    return f"    {{STEP_{kind}, {step.hand_over}}}, /* {hand_over.name} */"


def _hand_over_table(hand_overs: tuple[HandOver, ...]) -> str:
    rows = [f'    {{"{hand_over.name}", {len(hand_over.items)}}},' for hand_over in hand_overs] or ["    {NULL, 0},"]
    return "static const struct hand_over hand_overs[] = {\n" + "\n".join(rows) + "\n};"


def _constant_table(tables: list[Table]) -> str:
    """The constants by their names, for the proof."""
    rows = [
        f'    {{"{table.name}", "{table.values.dtype.str}", {rows}, {columns}, {table.values.dtype.itemsize}, '
        f"{table.name}}},"
        for table in tables
        for rows, columns in [np.atleast_2d(table.values).shape]
    ]
    return "static const struct table tables[] = {\n" + "\n".join(rows or ["    {NULL, NULL, 0, 0, 0, NULL},"]) + "\n};"


def _stage_table(stages: list[tuple[Stage, int]]) -> str:
    """The stages, each with the item that it belongs to."""
    rows = [
        f'    {{"{stage.name}", {item}, "{stage.input_dtype.str}", {stage.input_width}, {stage.input_dtype.itemsize}, '
        f'"{stage.output_dtype.str}", {stage.output_width}, {stage.output_dtype.itemsize}, {stage.name}_stage}},'
        for stage, item in stages
    ]
    return "static const struct stage stages[] = {\n" + "\n".join(rows) + "\n};"


def _network_table(plan: Plan, codes: list[LayerCode]) -> str:
    network = plan.network
    tables, stages = (sum(map(len, parts)) for parts in zip(*((c.tables, c.stages) for c in codes), strict=True))
    items = "\n".join(
        f'    {{"{item.name}", "{item.target}", {item.name}_init, {item.name}_close, {item.name}_steps, '
        f"{len(schedule)}}},"
        for item, schedule in zip(plan.items, plan.schedules, strict=True)
    )
    name = _printable(network.name)
    return (
        f"static const struct item items[] = {{\n{items}\n}};\n\n"
        f'const struct network network = {{\n    "{name}", BLOCK, {network.input_width}, &input[0][0], {plan.depth},\n'
        f"    layers, {len(network.layers)}, tasks, {len(plan.tasks)}, items, {len(plan.items)},\n"
        f"    hand_overs, {len(plan.hand_overs)},\n"
        f"    tables, {tables}, stages, {stages},\n}};"
    )
