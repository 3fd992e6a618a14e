"""`harness measure`: its options; the work is in measure_flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.boards.workspace import Workspace
from harness.cli.options import Duration, as_json, planned, precise, run_folder, seed
from harness.core.console import Console


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
    from harness.cli import measure_flow as command

    if not (planned["board"] and planned["model"]):
        raise click.UsageError("give --board and --model")
    asked = {"samples": samples, "duration": duration, "scope": scope, "count": count, "load": load, "warmup": warmup}
    bases = [space.run(path) for path in against]
    return command.measure(asked, planned, bases, space, Console.open(as_json=as_json))
