"""The graph of a network or an item -> text, to be read by people and by `harness.plan.nnef.parser`, bit for bit.

A float32 is written as the shortest decimal that is read as its bits again.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.core.arrays import Array
from harness.plan.items.graphs import (
    External,
    Get,
    Graph,
    Instruction,
    ItemGraph,
    Join,
    Operand,
    Operation,
    Part,
    Send,
    Shared,
    Value,
    Variable,
)
from harness.plan.nnef.fragments import EXCHANGE, PARTS, needed
from harness.plan.nnef.parser import EXTENSIONS, VERSION

WIDTH = 120
INDENT = "    "


def graph_text(graph: Graph, parameters: Mapping[str, Array], traces: Mapping[str, str]) -> str:
    """Return a `graph.nnef`: valid NNEF 1.0.

    `parameters` are those of the labels, of which the text says the types; `traces` is a comment for every operation,
    by the tensor that it gives.
    """
    return _document(graph, f"graph {graph.name}", parameters, traces, ())


def item_text(graph: ItemGraph, parameters: Mapping[str, Array], traces: Mapping[str, str]) -> str:
    """Return the file of one item, in the paper's syntax; the arguments are those of `graph_text`."""
    return _document(graph, f"graphitem {graph.item} {graph.name}", parameters, traces, graph.shared)


def decimal(value: float) -> str:
    """Return the shortest decimal that is read as the same float32, with a point or an exponent."""
    number = np.float32(value)
    magnitude = abs(float(number))
    if magnitude == 0 or 1e-4 <= magnitude < 1e9:
        text = np.format_float_positional(number, unique=True, trim="0")
    else:
        text = np.format_float_scientific(number, unique=True, trim="0")
    return text if np.float32(float(text)) == number else repr(float(number))


def _document(
    graph: Graph, title: str, parameters: Mapping[str, Array], traces: Mapping[str, str], shared: Sequence[Shared]
) -> str:
    operations = [entry.operation for entry in graph.instructions if isinstance(entry, Operation)]
    fragments = [fragment.text for fragment in needed(operations)]
    fragments += EXCHANGE.values() if isinstance(graph, ItemGraph) else []
    read = [_tensor(given) for entry in graph.instructions if isinstance(entry, Operation) for given in entry.inputs]
    fragments += [text for name, text in PARTS.items() if any(f"{name}(" in each for each in read)]
    head = [f"version {VERSION};\n", "".join(f"extension {name};\n" for name in EXTENSIONS), *fragments]
    body = [_declarations(graph.instructions, parameters, shared), *_steps(graph.instructions, traces)]
    interface = f"{title}({', '.join(graph.inputs)}) -> ({', '.join(graph.outputs)})\n"
    inner = textwrap.indent("\n".join(part for part in body if part), INDENT)
    return "\n".join([*head, f"{interface}{{\n{inner}}}\n"])


def _declarations(
    instructions: Iterable[Instruction], parameters: Mapping[str, Array], shared: Iterable[Shared]
) -> str:
    """Return the inputs, the parameters and the shared variables, one a line, with aligned signs of equality."""
    lines = []
    for entry in instructions:
        if isinstance(entry, External):
            text = f"external<scalar>(shape = {_value(entry.shape)});  # {entry.dtype}"
            lines.append((entry.output, text))
        elif isinstance(entry, Variable):
            kind = parameters[entry.label].dtype
            generic = "scalar" if kind == np.float32 else "integer"
            text = f"variable<{generic}>(shape = {_value(entry.shape)}, label = '{entry.label}');  # {kind.name}"
            lines.append((entry.output, text))
    lines += [(entry.name, f"variablesync<scalar>(shape = {_value(entry.shape)});") for entry in shared]
    width = max((len(name) for name, _ in lines), default=0)
    return "".join(f"{name:{width}} = {text}\n" for name, text in lines)


def _steps(instructions: Iterable[Instruction], traces: Mapping[str, str]) -> Iterable[str]:
    """Return the lines of computations, sends and gets, in their order."""
    for entry in instructions:
        match entry:
            case Operation():
                comment = f"# {traces[entry.output]}\n" if entry.output in traces else ""
                yield f"{comment}{_operation(entry)}"
            case Send():
                yield f"{entry.shared} = send_var([{', '.join(entry.destinations)}], {entry.data});\n"
            case Get():
                yield f"{entry.output} = get_var({entry.source}, {entry.shared});\n"


def _operation(operation: Operation) -> str:
    """Return `output = operation(tensors,` and the constants on lines of their own if they do not fit."""
    head = f"{operation.output} = {operation.operation}("
    tensors = [_tensor(given) for given in operation.inputs]
    constants = [f"{name} = {_value(value)}" for name, value in operation.attributes]
    line = f"{head}{', '.join([*tensors, *constants])});"
    room = WIDTH - len(INDENT)
    if len(line) <= room:
        return f"{line}\n"
    indent = INDENT
    groups = [_filled(tensors, room - len(indent)), _filled(constants, room - len(indent))]
    inner = ",\n".join(textwrap.indent(group, indent) for group in groups if group)
    return f"{head}\n{inner});\n"


def _filled(arguments: Sequence[str], width: int) -> str:
    """Return arguments with commas, in lines of at most `width` where one argument is not longer; none is broken."""
    lines: list[str] = []
    for number, argument in enumerate(arguments):
        text = argument if number == len(arguments) - 1 else f"{argument},"
        if lines and len(lines[-1]) + 1 + len(text) < width:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return "\n".join(lines)


def _tensor(given: Operand) -> str:
    match given:
        case str():
            return given
        case Join():
            return f"join([{', '.join(given.tensors)}], runs = {given.runs})"
        case Part(whole, region):
            return f"part({_tensor(whole)}, runs = {region.runs}, begin = {region.start}, end = {region.stop})"
    return f"concat([{', '.join(map(_tensor, given))}], axis = 1)"


def _value(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return decimal(value)
        case str():
            return f"'{value}'"
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
    return str(value)
