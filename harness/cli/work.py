"""The commands that work with one model on one board: run, prove, measure, plan, firmware, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.options import Duration, as_json, planned, precise, run_folder, seed, traced
from harness.screen import Screen
from harness.workspace import Workspace


@click.command()
@planned
@click.option("--vectors", default="100000", show_default=True, help="How many, or a .npy file of them.")
@seed
@click.option(
    "--cover",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Search for vectors until this share of all codes of all layers is met, or nothing new is found; "
    "--vectors is then the most.",
)
@click.option(
    "--chunk", type=click.IntRange(1), default=10_000, show_default=True, help="Vectors a step; unit of resume."
)
@click.option(
    "--fetch", type=click.Choice(["all", "mismatch"]), default="all", show_default=True, help="Dumps that travel."
)
@click.option("--plan", help="A folder of `harness plan -o` in place of board, model and all that makes a plan.")
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Go on with this unfinished run: a folder, or its name under runs/.",
)
@traced
@precise
@run_folder
@as_json
@click.pass_obj
def run(space: Workspace, /, as_json: bool, resume: Path | None, board: str, model: str, **asked: Any) -> int:
    """Run a model on a board and compare every activation with the reference.

    Exit code: 0 identical, 1 differs, 2 the request is wrong, 3 inconclusive.
    """
    from harness.commands import run as command
    from harness.jobs import Request

    if resume and (asked["plan"] or asked["run_folder"]):
        raise click.UsageError("--resume goes on with the plan and in the folder of its run: leave the others out")
    if asked["plan"]:
        _require_alone("--plan", board, model, *(asked[key] for key in ("items", "split", "sync", "block")))
    elif not resume and not (board and model):
        raise click.UsageError("give --board and --model, --plan FOLDER, or --resume RUN")
    request = Request(board=board, model=model, **asked)
    return command.run(request, space.run(resume) if resume else None, space, Screen.open(as_json=as_json))


@click.command()
@planned
@click.option("--vectors", default="10000", show_default=True, help="Compared as by run: how many, or a .npy file.")
@seed
@click.option(
    "--floats",
    type=click.Choice(["all", "thresholds"]),
    help="Inputs of QuantizeLinear on the board: all 2^32 (default, but on an emulated board), or where codes change.",
)
@traced
@precise
@run_folder
@as_json
@click.pass_obj
def prove(space: Workspace, /, as_json: bool, board: str, model: str, floats: str | None, **asked: Any) -> int:
    """Show that a model on a board gives the reference's activations for every input, and state what is assumed.

    Exit code: 0 every claim holds, 1 one does not, 2 the request is wrong, 3 inconclusive.
    """
    from harness import profile
    from harness.commands import run as command
    from harness.jobs import Request

    if not (board and model):
        raise click.UsageError("give --board and --model")
    emulated = profile.load(space.boards).board(board).emulated
    request = Request(board=board, model=model, floats=floats or ("thresholds" if emulated else "all"), **asked)
    return command.run(request, None, space, Screen.open(as_json=as_json))


@click.command()
@planned
@click.option("--samples", type=click.IntRange(1, 50_000_000), help="Executions, 100,000; of an emulated board 2,000.")
@click.option("--duration", metavar="TIME", type=Duration(), help="Go on for so long at least: 90s, 15m, 8h.")
@click.option(
    "--scope", type=click.Choice(["network", "item", "layer"]), help="What is timed: network; counted: layer."
)
@click.option(
    "--count",
    type=click.Choice(["time", "instructions", "cycles"]),
    help="Read a clock, or a counter of the processor; of an emulated board instructions.",
)
@click.option(
    "--load",
    type=click.Choice(["idle", "memory", "cpu", "io", "network"]),
    default="idle",
    show_default=True,
    help="What else the board does meanwhile.",
)
@click.option("--warmup", type=click.IntRange(0), help="Executions before those that count; else the profile's.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="RUN",
    help="A former measurement, a folder or its name under runs/: has anything become slower? "
    "More of them tell the noise.",
)
@seed
@precise
@run_folder
@as_json
@click.pass_obj
def measure(
    space: Workspace,
    /,
    as_json: bool,
    against: tuple[Path, ...],
    samples: int | None,
    duration: float | None,
    scope: str | None,
    count: str | None,
    load: str,
    warmup: int | None,
    **planned: Any,
) -> int:
    """Measure the execution times of a model on a board, or count its instructions, with all that can disturb them.

    Exit code: 0 measured, 1 wrong outputs, varying counts or slower than --against, 2 the request is wrong,
    3 inconclusive.
    """
    from harness.commands import measure as command

    if not (planned["board"] and planned["model"]):
        raise click.UsageError("give --board and --model")
    asked = {"samples": samples, "duration": duration, "scope": scope, "count": count, "load": load, "warmup": warmup}
    bases = [space.run(path) for path in against]
    return command.measure(asked, planned, bases, space, Screen.open(as_json=as_json))


@click.command()
@planned
@click.option(
    "--sdk",
    type=click.Path(path_type=Path),
    help="TDA4VM: TI's Processor SDK RTOS; else the profile's tiovx.sdk or TIOVX_SDK.",
)
@click.option("--dry-run", is_flag=True, help="Look at tools and board, say what would be done, and change nothing.")
@as_json
@click.pass_obj
def firmware(
    space: Workspace,
    /,
    as_json: bool,
    board: str,
    model: str,
    sdk: Path | None,
    dry_run: bool,
    items: tuple[str, ...] | None,
    **asked: Any,
) -> int:
    """Build a model's kernels with the vendor's tools, install them on the board, start them there, ask who they are.

    On a TDA4VM they become part of its DSP's firmware, and the board is restarted; on a KV260 they are an application
    for its fabric, which is loaded.  --model is acas_coc unless it is given.

    Exit code: 0 the board runs these kernels, 2 the request is wrong, 3 something failed.
    """
    from harness import plan, profile
    from harness.commands import firmware as command

    if not board:
        raise click.UsageError("give --board")
    screen, found = Screen.open(as_json=as_json), profile.load(space.boards).board(board)
    command.check_real(found)
    made = plan.make(space.model(model or "acas_coc"), found, items, **asked)
    return command.install(made, found, sdk, space, screen, dry_run=dry_run)


@click.command()
@planned
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the description of all items to this folder."
)
@click.option("--force", is_flag=True, help="Replace another plan in the folder of -o.")
@click.option("--load", type=click.Path(path_type=Path), help="Read the plan from such a folder, changed or not.")
@as_json
@click.pass_obj
def plan(
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
    """Show which item computes which layers of a model, and what is known of that, without touching the board."""
    from harness.commands import plan as command

    screen = Screen.open(as_json=as_json)
    if load:
        _require_alone("--load", board, model, items, *asked.values())
        command.load(load, output, space, screen, force=force)
    elif board and model:
        command.show(board, model, asked | {"targets": items}, output, space, screen, force=force)
    else:
        raise click.UsageError("give --board and --model, or --load FOLDER")


def _require_alone(option: str, *others: object) -> None:
    """The folder of a plan says all that other options would."""
    if any(other is not None for other in others):
        raise click.UsageError(
            f"{option} names a plan, which says board, model, items, split, sync and block: leave the others out"
        )


@click.command()
@as_json
@click.pass_obj
def doctor(space: Workspace, /, as_json: bool) -> int:
    """Tell what this machine has, what is missing for which board, and the command that brings it."""
    from harness.commands import doctor as command

    return command.examine(space, Screen.open(as_json=as_json))
