"""`harness plan`: the assignment of layers to items, and their hand-overs."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli._group import Command
from harness.cli._options import as_json, pass_workspace, planned, require_alone
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.boards.profile import Profile
    from harness.plan.plan import Plan
    from harness.plan.plan_check import Assessment
    from harness.runs.entries import MemoryEntry


@click.command("plan", cls=Command, epilog="Example: harness plan --board xavier --model acas_coc -o PLAN")
@planned
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder to write the description of all items to."
)
@click.option("--force", is_flag=True, help="Replace another plan in the folder of -o.")
@click.option(
    "--load", type=click.Path(path_type=Path), help="Folder to read the plan from; its files may have been edited."
)
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    board: str,
    model: str,
    output: Path | None,
    force: bool,
    load: Path | None,
    items: tuple[str, ...] | None,
    **asked: Any,
) -> None:
    """Show which item computes which layers of a model, and check it, without using the board."""
    console = Console.open(as_json=as_json)
    if load:
        require_alone("--load", board, model, items, *asked.values())
        show_folder(load, output, space, console, force=force)
    elif board and model:
        show_plan(board, model, asked | {"items": items}, output, space, console, force=force)
    else:
        raise click.UsageError("give --board and --model, or --load FOLDER")


def show_plan(
    board: str,
    model: str,
    choices: dict[str, Any],
    output: Path | None,
    workspace: Workspace,
    console: Console,
    *,
    force: bool,
) -> None:
    """Make the plan and show its checks; `choices` are options of a request, `force` replaces another plan."""
    from harness import targets
    from harness.runs import job

    found = targets.load_boards(workspace.boards).board(board)
    _tell(job.planned(workspace.model(model), found, choices), found, output, console, force=force)


def show_folder(folder: Path, output: Path | None, workspace: Workspace, console: Console, *, force: bool) -> None:
    """Read the plan that is described in `folder` and show its checks."""
    from harness import targets
    from harness.plan import folder as plan_folder

    made = plan_folder.read(folder)
    _tell(made, targets.load_boards(workspace.boards).board(made.board), output, console, force=force)


def _tell(made: Plan, board: Profile, output: Path | None, console: Console, *, force: bool) -> None:
    """Check that the plan's targets can compute it and that it is sound, print it, write its description."""
    from harness.build import bundle, codegen
    from harness.plan import plan_check
    from harness.report.plan_table import plan_table
    from harness.runs.description import memory_entry, plan_entry
    from harness.runs.document import kind, where

    bundle.check_targets(made, board)
    assessed = plan_check.assess(made)
    plan_check.require_sound(assessed)
    estimate = bundle.estimate(made, board)
    program = codegen.generate(made)
    bundle.check_memory(program, board)
    needed = memory_entry(program)
    console.show(plan_table(made, board), Text(memory_text(needed)), *map(Text, estimate), assessment_table(assessed))
    if output:
        _write(made, assessed, output, force=force)
        console.note(f"description written to {output}; run it with: harness run --plan {shlex.quote(str(output))}")
    entries = {"memory": needed.to_json(), "assessment": plan_check.document(assessed).to_json()}
    described = plan_entry(made, where(made, board, kind(board))).to_json()
    console.document(described | {"forecast": list(estimate)} | entries)


def memory_text(needed: MemoryEntry) -> str:
    """Return the bytes that a program needs, next to the figures of other tools, as lines of text."""
    acetone = f"{needed.acetone:,}" if needed.acetone else "none, as layers are no sequence"
    return (
        f"memory: constants {needed.constants:,} bytes, buffers of a block {needed.buffers:,} bytes\n"
        f"buffers of a vector: {needed.own:,} bytes with --buffers keep, {needed.shared:,} with --buffers reuse; "
        f"computed for other tools: arena of TensorFlow Lite Micro {needed.tflm:,}, arrays of ACETONE {acetone}"
    )


def _write(made: Plan, assessed: Assessment, output: Path, *, force: bool) -> None:
    from harness.plan import folder as plan_folder

    is_new = not output.exists()
    try:
        (plan_folder.write if force else plan_folder.write_new)(made, assessed, output)
    except OSError as error:
        if is_new:
            shutil.rmtree(output, ignore_errors=True)  # an incomplete plan, as on a full disk
        where = error.filename or output
        raise RequestError(f"cannot write {where}: {error.strerror}", "name another folder with -o") from error


def assessment_table(assessed: Assessment) -> Table:
    """Return the table of checks of a sound plan, with the method of the equivalence check."""
    from harness.plan import plan_check

    net, found = plan_check.document(assessed).net, assessed.equivalence
    sizes = f"{net.places} places, {net.transitions} transitions ({net.syncs} syncs)"
    markings = f", {net.markings:,} markings" if net.markings else ""
    title = f"Checked before execution in {assessed.wall_s:.2f} s on a Petri net of {sizes}{markings}"
    table = Table(title=title, box=None, show_header=False)
    for check in assessed.examination.checks:
        table.add_row("holds", check.statement)
    table.add_row("holds", f"the items have exactly the firing orders of the network (by {found.decided_by})")
    table.add_row("holds", "every interleaving of the schedules respects the net")
    return table
