"""`harness trace`: from each ONNX node to its machine code, and back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import Words, as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, RequestError, unknown_name
from harness.core.table import Table
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.trace.document import ConstantEntry, FunctionEntry, OwnerEntry, TraceabilityDocument
    from harness.applications.trace.traced import Traced

MOST_GAPS = 20
"""Unattributed places that are shown; --json has all of them."""
COLUMNS = ("node", "operator", "layer", "task", "item", "target", "kind", "symbol", "dtype", "shape", "sha256",
           "source", "address", "end", "bytes", "section", "support")  # fmt: skip


@click.command("trace", epilog="Example: harness trace acas_coc --board host --items c,c --html trace.html")
@click.argument("model", metavar="MODEL", required=False, shell_complete=_completion.models)
@click.option("--board", shell_complete=_completion.boards, help="Board: a name in boards.yaml; default: host.")
@click.option("--block", type=click.IntRange(1, 1_000_000), help="Vectors of a block, as for run; an export has 1.")
@click.option("--items", type=Words(), shell_complete=_completion.targets, help="Target of each item, e.g. c,c.")
@click.option("--split", type=Words(), help="Distribution of layers over items, e.g. dense_2=network,pipeline.")
@click.option("--buffers", type=click.Choice(["keep", "reuse"]), help="Buffers, as for run.")
@click.option("--reverse", is_flag=True, help="List symbols in the order of their addresses, each with its node.")
@click.option("--at", metavar="ADDRESS", help="Show what is at an address of the program, e.g. 0x4012a0.")
@click.option("--symbol", help="Show a function, table or buffer.")
@click.option("--node", help="Show a node, by the name of the ONNX node or of the layer.")
@click.option("--argument", is_flag=True, help="Show for each node why its code computes it, step by step.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all links as CSV.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page: nodes beside their code.")
@click.option(
    "--elf",
    metavar="APP",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Compare this linked application with the object of the network: does it contain the proved code?",
)
@click.option("--run", metavar="RUN", help="MODEL as the run whose code an application contains.")
@click.option(
    "--library",
    "libraries",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --elf: accept functions that the network calls from this static library; can be repeated.",
)
@click.option(
    "--evidence",
    is_flag=True,
    help="With --elf: keep application, objects and result in a new folder under runs/, for harness verify and case.",
)
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str | None,
    reverse: bool,
    at: str | None,
    symbol: str | None,
    node: str | None,
    argument: bool,
    csv_file: Path | None,
    html: Path | None,
    elf: Path | None,
    run: str | None,
    libraries: tuple[Path, ...],
    evidence: bool,
    **asked: Any,
) -> int:
    """Trace each ONNX node of MODEL to its tables, functions, source lines and addresses in the program, and back.

    MODEL is a model, the folder of a plan (harness plan -o), or the folder of a run.

    With --elf: find each section of the network's object in a linked application, relocate it again, and compare all
    bytes, the targets of calls, and the functions that the network calls.

    Exit code: 0 every byte of code and constants has an owner, 1 some have none, or a table differs, 2 the request is
    invalid, 3 the program cannot be built or read.  With --elf: 0 contained, 1 differs.
    """
    console = Console.open(as_json=as_json)
    name = _subject(space, model, run)
    if sum(map(bool, (at, symbol, node))) > 1 or (reverse and argument):
        raise click.UsageError("give one of --at, --symbol and --node, and one of --reverse and --argument")
    if elf is not None:
        if any((at, symbol, node, reverse, argument, csv_file)):
            raise click.UsageError("--elf compares an application: omit the options that select links")
        from harness.applications.trace import elf_command

        application = elf_command.Application(elf, libraries, keep=evidence)
        comparison = elf_command.compare(space, name, application, asked, console)
        if html:
            _write(html, elf_command.html(comparison), console)
        return EXIT_DONE if comparison.verdict == "contained" else EXIT_DIFFERS
    if libraries or evidence:
        raise click.UsageError("--library and --evidence are for --elf APP")
    links = traced(space, name, asked, console)
    console.note("reading the program")
    document = links.document()
    if at is not None:
        _tell_address(links, document, _address(at), console)
        return EXIT_DONE
    if symbol is not None or node is not None:
        document = _selected(document, symbol, node)
    console.document(document.to_json())
    if csv_file:
        _write(csv_file, _csv(document), console)
    if html:
        from harness.applications.trace import page

        _write(html, page.html(links, document), console)
    _show(document, console, reverse=reverse, argument=argument)
    return EXIT_DIFFERS if document.unattributed or document.differing else EXIT_DONE


def _subject(space: Workspace, model: str | None, run: str | None) -> str:
    """Return the name of a model, or the path of a folder."""
    if (model is None) == (run is None):
        raise click.UsageError("give MODEL, or --run RUN")
    if run is None:
        return str(model)
    from harness.runs import programs

    return programs.run_of(space, run)


def _show(document: TraceabilityDocument, console: Console, *, reverse: bool, argument: bool) -> None:
    if argument:
        console.show(*_arguments(document))
    elif reverse:
        console.show(_reverse_table(document))
    else:
        console.show(_table(document))
    console.show(*_summary(document))


def traced(space: Workspace, model: str, asked: dict[str, Any], console: Console) -> Traced:
    """Build the program of a model, plan or run, and the same program with debug data, and read both."""
    from harness.analysis.proof_document import ProofDocument
    from harness.applications.trace.traced import Traced
    from harness.build import bundle
    from harness.runs import programs

    of = programs.subject(space, model, asked)
    console.note(f"building {of.plan.network.name} for board {of.board.name}, and once more with debug data")
    program, built = programs.build(of, space.cache, "a trace cannot find the machine code of")
    proven = of.run / "proof.json" if of.run else None
    proof = ProofDocument.read(proven) if proven and proven.is_file() else None
    return Traced.of(program, built, bundle.with_debug_data(program, of.board, built, space.cache), proof)


def _address(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise RequestError(f"--at {text}: not an address", "write it in hexadecimal, e.g. 0x4012a0") from None


def _write(path: Path, text: str, console: Console) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror}", "name another file") from error
    console.note(f"written: {path}")


def _selected(document: TraceabilityDocument, symbol: str | None, node: str | None) -> TraceabilityDocument:
    """Return the part of the document about a symbol or a node; RequestError if there is none."""
    functions, constants = document.functions, document.constants
    if symbol is not None:
        functions = [function for function in functions if symbol in {function.name, function.name.partition(".")[0]}]
        constants = [constant for constant in constants if constant.name == symbol]
        owners = [*(function.owner for function in functions), *(constant.owner for constant in constants)]
        tasks = {name for owner in owners for name in owner.tasks}
        if not functions and not constants:
            raise unknown_name("symbol", symbol, [part.name for part in document.all if part.name])
    else:
        tasks = _tasks_of(document, str(node))
        functions = [function for function in functions if tasks & {*function.owner.tasks}]
        constants = [constant for constant in constants if tasks & {*constant.owner.tasks}]
    return document.model_copy(
        update={
            "nodes": [entry for entry in document.nodes if tasks & {*entry.tasks}],
            "tasks": [task for task in document.tasks if task.name in tasks],
            "functions": functions,
            "constants": constants,
            "devices": [device for device in document.devices if tasks & {*device.tasks}],
            "argument": [claim for claim in document.argument if claim.task in tasks],
        }
    )


def _tasks_of(document: TraceabilityDocument, node: str) -> set[str]:
    """Return the tasks of a node, which is named by its own name, that of its layer, or of a task."""
    nodes = [entry for entry in document.nodes if node in {entry.node, entry.name, *entry.tasks}]
    if not nodes:
        names = {name for entry in document.nodes for name in (entry.node, entry.name)}
        raise unknown_name("node", node, sorted(names))
    return {name for entry in nodes for name in entry.tasks}


def _tell_address(found: Traced, document: TraceabilityDocument, address: int, console: Console) -> None:
    """Print what is at an address; RequestError if the program has nothing there."""
    holders = [each for each in document.all if each.address <= address < each.address + each.size]
    section = found.analysis.program.section_at(address)
    if not holders:
        low, high = (f"{edge:#x}" for edge in _range(found))
        where = f"padding or tables of the linker in {section.name}" if section else "no section of the program"
        raise RequestError(f"--at {address:#x}: {where}", f"the program has addresses from {low} to {high}")
    place = found.debug.place_at(address)
    holder = min(holders, key=lambda each: each.size)
    nodes = [each.node for each in document.nodes if {*each.tasks} & {*holder.owner.tasks}]
    inlined = found.debug.inlined_at(holder.address, address)
    chain = [f"{one.name} ({one.place.text}), called at {called.text}" for one, called in inlined]
    lines = found.text_of(place.file) if place else []
    source = lines[place.line - 1].strip() if place and place.line <= len(lines) else None
    entry = {
        "address": address,
        "symbol": holder.name,
        "offset": address - holder.address,
        "section": holder.section,
        "kind": holder.kind,
        "source": place.text if place else None,
        "text": source,
        "inlined": chain,
        "nodes": nodes,
        "owner": holder.owner.to_json(),
    }
    console.document(entry)
    table = Table(box=None, show_header=False)
    rows = {
        "address": f"{address:#x} in {holder.section}",
        "symbol": f"{holder.name or 'none'} + {address - holder.address:#x} ({holder.kind})",
        "source": f"{place.text}: {source}" if place and source else place.text if place else "none",
        "inlined": "\n".join(chain) or "none",
        "node": ", ".join(nodes) or "none",
        "owner": _owner(holder.owner),
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    console.show(table)


def _range(found: Traced) -> tuple[int, int]:
    sections = [section for section in found.analysis.program.sections if section.address and not section.thread_local]
    return min(section.address for section in sections), max(section.end for section in sections)


def _owner(owner: OwnerEntry) -> str:
    """Return the owner as people read it."""
    names = [*owner.tasks, *(f"item {name}" for name in owner.items), *owner.support]
    return ", ".join(names) or "UNATTRIBUTED"


def _source(each: FunctionEntry | ConstantEntry) -> str:
    return f"{each.file}:{each.line}" if each.line else each.file or ""


def _extent(each: FunctionEntry | ConstantEntry) -> str:
    return f"{each.address:#x}-{each.address + each.size:#x}"


def _table(document: TraceabilityDocument) -> Table:
    """Return the links from nodes to code, node by node."""
    title = f"{document.model} on {document.board}, {document.machine}, program {document.program_sha256[:16]}"
    table = Table("node", "item", "kind", "symbol", "type", "SHA-256", "source", "addresses", title=title)
    tasks = {task.name: task for task in document.tasks}
    for node in document.nodes:
        for name in node.tasks:
            rows = [each for each in document.all if each.name and name in each.owner.tasks]
            for index, each in enumerate(rows):
                layer = "" if name == node.node else f", {name}"
                head = (f"{node.node}{layer} ({node.operator})", f"{tasks[name].item} ({tasks[name].target})")
                table.add_row(*(head if not index else ("", "")), *_cells(each), end_section=index == len(rows) - 1)
            devices = [each for each in document.devices if name in each.tasks]
            for device in devices:
                where = f"{device.address:#x}" if device.address is not None else ""
                line = f"{device.file}:{device.line}" if device.line else device.file
                table.add_row("", "", f"kernel ({device.kind})", device.name, "", "", line, where)
    return table


def _cells(each: FunctionEntry | ConstantEntry) -> tuple[str, ...]:
    shape = getattr(each, "shape", None)
    kind = f"{each.dtype} {'x'.join(map(str, shape))}" if shape is not None else ""  # type: ignore[union-attr]
    sha256 = getattr(each, "expected_sha256", None) or getattr(each, "sha256", None) or ""
    return each.kind, each.name or "", kind, sha256, _source(each), _extent(each)


def _reverse_table(document: TraceabilityDocument) -> Table:
    """Return the links from code and data to nodes, in the order of addresses."""
    table = Table("addresses", "section", "kind", "symbol", "source", "owner")
    for each in sorted(document.all, key=lambda one: one.address):
        name = each.name or getattr(each, "origin", None) or ""
        table.add_row(_extent(each), each.section, each.kind, Text(name), _source(each), Text(_owner(each.owner)))
    return table


def _arguments(document: TraceabilityDocument) -> Iterator[Text | Table]:
    for each in document.argument:
        yield Text(f"\n{each.task}", style="bold")
        table = Table("step", "statement", "shown by")
        for step in each.steps:
            table.add_row(step.step, Text(step.statement), Text("\n".join(step.shown_by)), end_section=True)
        yield table
        claims = Table("claim of a proof", "answered by", "cases", "", box=None, header_style="bold")
        for claim in each.evidence:
            state = {None: "asked by harness prove", True: "holds", False: "does NOT hold"}[claim.shown]
            extent = f"{claim.cases:,}{'' if claim.complete else ' (samples)'}"
            claims.add_row(Text(claim.statement), claim.answered_by, extent, state)
        yield claims
    yield Text("\nAssumptions", style="bold")
    yield from (Text(f"- {text}") for text in document.assumptions)


def _summary(document: TraceabilityDocument) -> Iterator[Text]:
    """Yield how many bytes have which owner, and what has none."""
    sections = [
        each for each in document.sections if each.name.startswith((".text", ".rodata", ".init", ".fini", ".data"))
    ]
    names = ("nodes", "items", "support", "padding", "unattributed")
    counts = {name: sum(getattr(each, name) for each in sections) for name in names}
    text = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    yield Text(f"bytes of code and constants: {text}")
    for gap in document.unattributed[:MOST_GAPS]:
        yield Text(
            f"UNATTRIBUTED: {gap.text}, {plural(gap.size, 'byte')} at {gap.address:#x} in {gap.section}", style="red"
        )
    if len(document.unattributed) > MOST_GAPS:
        yield Text(f"and {len(document.unattributed) - MOST_GAPS:,} more", style="red")
    for name in document.differing:
        yield Text(f"DIFFERS: table {name} has other bytes in the program than the model gives", style="red")


def _csv(document: TraceabilityDocument) -> str:
    """Return all links, one for each owner of each function and constant."""
    nodes = {name: node for node in document.nodes for name in node.tasks}
    tasks = {task.name: task for task in document.tasks}
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for each in sorted(document.all, key=lambda one: one.address):
        for name in each.owner.tasks or [""]:
            rows.writerow(_row(each, name, nodes, tasks))
    return file.getvalue()


def _row(each: FunctionEntry | ConstantEntry, task: str, nodes: dict[str, Any], tasks: dict[str, Any]) -> Sequence[Any]:
    node, entry = nodes.get(task), tasks.get(task)
    shape = getattr(each, "shape", None)
    return (
        *((node.node, node.operator, node.name, task, entry.item, entry.target) if node and entry else ("",) * 6),
        each.kind,
        each.name or "",
        getattr(each, "dtype", None) or "",
        "x".join(map(str, shape)) if shape is not None else "",
        getattr(each, "sha256", None) or "",
        _source(each),
        f"{each.address:#x}",
        f"{each.address + each.size:#x}",
        each.size,
        each.section,
        "; ".join((*(f"item {name}" for name in each.owner.items), *each.owner.support)),
    )
