"""C text of the calls of IREE's functions: a function for each stage, which makes the dispatches of its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.errors import ToolError
from harness.targets.iree.schedule import Copy, Dispatch, Fill, Place, Schedule
from harness.targets.iree.static import ALIGNMENT, FRAME_LIMIT, Kernel, padded


@dataclass(frozen=True)
class Compiled:
    """A compiled function: its schedule, the name of its library, none without dispatches, and its object file."""

    kernel: Kernel
    schedule: Schedule
    library: str
    content: bytes


def text(made: Sequence[Compiled]) -> str:
    """Return the C source."""
    head = '/* The calls of the functions that IREE has compiled. */\n#include "iree.h"\n\n#include <string.h>\n'
    return "\n".join([head, *map(_of_kernel, made)])


def functions(schedule: Schedule) -> tuple[str, ...]:
    """Return the functions of a schedule in the order of their first calls."""
    return tuple(dict.fromkeys(dispatch.function for dispatch in schedule.dispatches))


def _of_kernel(made: Compiled) -> str:
    kernel, schedule, name = made.kernel, made.schedule, made.kernel.name
    _require_constants(made)
    _require_sizes(made)
    externals = [f"extern iree_function {function};\n" for function in functions(schedule)]
    parameters = ", ".join(f"const void *in_{number}" for number in range(len(kernel.arguments)))
    lines = _buffers(made)
    if schedule.dispatches:
        lines.append("const struct iree_environment environment = {0};")
    for step in schedule.steps:
        lines += _step(made, step)
    if not _is_output(made, schedule.result):
        lines.append(f"(void)memcpy(out, {_pointer(made, schedule.result)}, {kernel.output});")
    unused = [f"(void)in_{number};" for number in range(len(kernel.arguments))]
    body = "\n".join(f"    {line}" for line in (*unused, *lines))
    return (
        f"{''.join(externals)}void {name}_iree({parameters}, void *out);\nvoid {name}_require(void);\n\n"
        f"void {name}_iree({parameters}, void *out)\n{{\n{body}\n}}\n\n{_require(made)}"
    )


def _require_constants(made: Compiled) -> None:
    """Raise ToolError if a dispatch or a copy may write a table."""
    first = len(made.kernel.arguments) - made.kernel.tables
    written = [step.target for step in made.schedule.steps if not isinstance(step, Dispatch)]
    for dispatch in made.schedule.dispatches:
        written += [place for place, is_written in zip(dispatch.bindings, dispatch.written, strict=True) if is_written]
    if any(not place.fresh and place.number >= first for place in written):
        raise ToolError(
            f"layer {made.kernel.layer}: {made.kernel.name} writes results in the place of a constant",
            "use another target for this layer",
        )


def _require_sizes(made: Compiled) -> None:
    """Raise ToolError if a part leaves its buffer, if buffers exceed a stack, or if the result is not the output."""
    kernel, schedule = made.kernel, made.schedule
    places = [place for dispatch in schedule.dispatches for place in dispatch.bindings]
    places += [place for step in schedule.steps if isinstance(step, Copy) for place in step]
    places += [step.target for step in schedule.steps if isinstance(step, Fill)]
    for place in (*places, schedule.result):
        whole = (schedule.buffers if place.fresh else kernel.arguments)[place.number]
        if place.offset + place.size > whole:
            raise ToolError(
                f"layer {kernel.layer}: {kernel.name} uses bytes {place.offset} to {place.offset + place.size} of a "
                f"buffer of {whole}",
                "use another target for this layer",
            )
    if sum(schedule.buffers) > FRAME_LIMIT:
        raise ToolError(
            f"layer {kernel.layer}: {kernel.name} takes {sum(schedule.buffers):,} bytes of a stack, of at most "
            f"{FRAME_LIMIT:,}",
            "use another target for this layer",
        )
    if schedule.result.size != kernel.output:
        raise ToolError(
            f"layer {kernel.layer}: {kernel.name} has a result of {schedule.result.size} bytes, not {kernel.output}",
            "use another target for this layer",
        )


def _buffers(made: Compiled) -> list[str]:
    """Return the buffers of the schedule's own, but for the one that is the output."""
    return [
        f"unsigned char buffer_{number}[{padded(size)}] __attribute__((aligned({ALIGNMENT})));"
        for number, size in enumerate(made.schedule.buffers)
        if not _is_output_buffer(made, number)
    ]


def _is_output_buffer(made: Compiled, number: int) -> bool:
    """Return whether a buffer is the output: its result begins it, and the caller's memory is large enough."""
    result = made.schedule.result
    fits = made.schedule.buffers[number] <= padded(made.kernel.output)
    return result.fresh and result.number == number and result.offset == 0 and fits


def _is_output(made: Compiled, place: Place) -> bool:
    return place.fresh and _is_output_buffer(made, place.number)


def _pointer(made: Compiled, place: Place) -> str:
    name = "out" if _is_output(made, place) else f"{'buffer' if place.fresh else 'in'}_{place.number}"
    return f"(unsigned char *){name}" + (f" + {place.offset}" if place.offset else "")


def _step(made: Compiled, step: Dispatch | Copy | Fill) -> list[str]:
    if isinstance(step, Dispatch):
        return _dispatch(made, step)
    target = _pointer(made, step.target)
    if isinstance(step, Copy):
        return [f"(void)memcpy({target}, {_pointer(made, step.source)}, {step.target.size});"]
    number = f"(uint{8 * step.width}_t){step.number % 256**step.width}u"
    return [
        "{",
        f"    const uint{8 * step.width}_t number = {number};",
        f"    for (size_t at = 0; at < {step.target.size}u; at += sizeof number)",
        f"        (void)memcpy({target} + at, &number, sizeof number);",
        "}",
    ]


def _dispatch(made: Compiled, dispatch: Dispatch) -> list[str]:
    x, y, z = dispatch.workgroups
    constants = ", ".join(f"{value & 0xFFFFFFFF}u" for value in dispatch.constants)
    counts = f"{len(dispatch.constants)}, {x}, {y}, {z}, 1, {len(dispatch.bindings)}"
    shape = f"1, 1, 1, {counts}, {'constants' if constants else 'NULL'}"
    loops = [
        f"for (uint32_t {axis} = 0; {axis} < {count}u; ++{axis})"
        for axis, count in (("z", z), ("y", y), ("x", x))
        if count > 1
    ]
    places = [axis if count > 1 else "0" for axis, count in (("x", x), ("y", y), ("z", z))]
    if places[2] != "0":
        places[2] = "(uint16_t)z"
    indent = "    " * (len(loops) + 1)
    return [
        "{",
        f"    void *const bindings[] = {{{', '.join(_pointer(made, place) for place in dispatch.bindings)}}};",
        f"    const size_t lengths[] = {{{', '.join(str(place.size) for place in dispatch.bindings)}}};",
        *([f"    const uint32_t constants[] = {{{constants}}};"] if constants else []),
        f"    const struct iree_dispatch dispatch = {{{shape}, bindings, lengths}};",
        *("    " * (depth + 1) + loop for depth, loop in enumerate(loops)),
        f"{indent}{{",
        f"{indent}    const struct iree_workgroup workgroup = {{{', '.join(places)}, 0, 0, NULL, 0}};",
        f"{indent}    if ({dispatch.function}(&environment, &dispatch, &workgroup) != 0)",
        f"{indent}        __builtin_trap();",
        f"{indent}}}",
        "}",
    ]


def _require(made: Compiled) -> str:
    """Return the function that compares the library with what is called."""
    name, called = made.kernel.name, functions(made.schedule)
    if not called:
        return f"void {name}_require(void)\n{{\n}}\n"
    first = {dispatch.function: dispatch for dispatch in reversed(made.schedule.dispatches)}
    rows = ", ".join(f"{{{each}, {len(first[each].constants)}, {len(first[each].bindings)}}}" for each in called)
    return (
        f"extern iree_query {made.library}_library_query;\n\nvoid {name}_require(void)\n{{\n"
        f"    const struct iree_call calls[] = {{{rows}}};\n"
        f'    iree_require({made.library}_library_query, "{made.library}", calls, {len(called)});\n}}\n'
    )
