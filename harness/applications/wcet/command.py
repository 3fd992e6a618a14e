"""`harness wcet`: bounds of what a program executes for one vector, from its machine code, without the board."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli._options import as_json, pass_workspace, planned
from harness.core.console import Console
from harness.core.errors import EXIT_DONE
from harness.core.table import Table
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.wcet.document import WcetDocument


@click.command("wcet", epilog="Example: harness wcet --board kv260 --model lenet5_int8 --items c:inlined,c:inlined")
@planned
@click.option(
    "--core",
    metavar="NAME",
    help="Core model of the estimate in cycles, e.g. cortex-a53, or none; default: that of the compiler's -mcpu.",
)
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, board: str, model: str, core: str | None, **asked: Any) -> int:
    """Bound the instructions of each layer for one vector from the program's machine code, without using the board.

    Cycles are an estimate of a core model, no bound of the hardware; they need llvm-mca.

    Exit code: 0 bounded, 2 the request is invalid, 3 a tool is missing or the machine code is not understood.
    """
    if not (board and model):
        raise click.UsageError("give --board and --model")
    console = Console.open(as_json=as_json)
    document, folder = bounded(space, board, model, core, asked, console)
    console.show(*summary(document), Text(f"evidence: {folder}"))
    console.document(document.to_json() | {"run": str(folder)})
    return EXIT_DONE


def bounded(
    space: Workspace, board: str, model: str, core: str | None, asked: Mapping[str, Any], console: Console
) -> tuple[WcetDocument, Path]:
    """Bound the program of these options of a plan; return the document, and the folder of the evidence."""
    from harness import targets
    from harness.applications.wcet import job as wcet
    from harness.applications.wcet import page
    from harness.build import bundle, codegen
    from harness.runs import job

    profile = targets.load_boards(space.boards).board(board)
    wcet.require_processor(profile)
    # One vector in a block, as in measurements.
    plan = job.planned(space.model(model), profile, {**asked, "block": asked["block"] or 1})
    bundle.check_targets(plan, profile)
    program = codegen.generate(plan)
    with console.progress(f"building {plan.network.name} for {plan.board}", 1) as bar:
        built = bundle.build(program, profile, space.cache)
        bar.advance(1)
    wanted = None if core == "none" else core or wcet.default_core(profile)
    measured = wcet.measurements(space.runs, space.run_names(), built)
    request = wcet.Request(program, built, profile, wanted)
    with console.progress(f"bounding {plan.network.name} on {plan.board}", len(plan.tasks)) as bar:
        document, folder = wcet.bound(request, space.runs, measured, bar.advance)
    return wcet.write(folder, document, page.html(document)), folder


def summary(document: WcetDocument) -> tuple[Any, ...]:
    """Return the result for people."""
    return (_layers(document), *map(Text, lines(document)))


def lines(document: WcetDocument) -> list[str]:
    """Return the sums, what data decide, and the comparison with measurements, as lines of text."""
    found = [
        f"item {item.name} ({item.target}): at most {item.instructions:,} instructions, "
        f"{item.stack:,} bytes of stack in its thread"
        for item in document.items
    ]
    found += [
        f"item {item.name} ({item.target}): no bound; {plural(len(item.layers), 'layer')} missing above, "
        "as only target c is bounded"
        for item in document.unbounded
    ]
    branches = sum(len(layer.decided_by_data) for layer in document.layers)
    what = (
        f"data decide {branches} branches; the bound has the costlier way of each"
        if branches
        else "no branch depends on data"
    )
    found.append(f"no recursion, no dynamic memory, no call that is not resolved; {what}")
    unconfirmed = sum(bool(layer.unconfirmed) for layer in document.layers)
    if unconfirmed:
        found.append(
            f"the compiler put constants of {unconfirmed} layers into instructions: the plan confirms their loops over "
            "outputs, not those over tables"
        )
    if document.core:
        found.append(
            f"cycles: {document.cycles:,} by LLVM's model of {document.core.name} (llvm-mca {document.core.llvm_mca}): "
            "an estimate, no bound of the hardware"
        )
    for each in document.measured:
        kind = "estimate" if each.unit == "cycles" else "bound"
        less = f", less {each.schedule} of the schedule for each layer" if each.schedule else ""
        counted = f"{each.maximum:,} {each.unit}{less}, {each.place}"
        found.append(f"{kind} / maximum of {each.run}: {each.ratio:.4f} ({counted})")
    return found


def _layers(document: WcetDocument) -> Table:
    title = f"{document.model} on {document.board}, {document.machine}: at most, for one vector"
    estimated = bool(document.core)
    numbers = ("instructions", "share", *(("cycles (estimate)",) if estimated else ()), "stack")
    table = Table("layer", "item", *numbers, "", right=numbers, title=title, box=None, padding=(0, 2, 0, 0))
    for layer in document.layers:
        count = layer.instructions + layer.library
        share = count / document.instructions if document.instructions else 0.0
        cells = [layer.name, layer.item, f"{count:,}", f"{share:.1%}"]
        cells += [f"{layer.cycles:,}"] if estimated else []
        notes = ["branches on data"] if layer.decided_by_data else []
        notes += [f"{layer.library:,} assumed of libc"] if layer.library else []
        table.add_row(*cells, f"{layer.stack:,}", ", ".join(notes))
    return table
