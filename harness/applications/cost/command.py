"""`harness models cost`: operations, memory and known times of each layer, and what a board does not offer."""

from __future__ import annotations

from typing import Any

import click

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, of_board, of_plan, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, EXIT_REQUEST


@click.command("cost", epilog="Example: harness models cost resnet8_int8 --board cortex-m4 --block 1")
@click.argument("model", shell_complete=_completion.models)
@of_board
@of_plan
@click.option("--build", "builds", is_flag=True, help="Compile the program, so that the size of its code is known.")
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, model: str, board: str | None, *, builds: bool, **choices: Any) -> int:
    """Show what each layer of MODEL needs: operations, constants, code, memory, and times that are known.

    Without --board these are the network's own numbers. With it, those of the program that its targets compute, and
    what does not fit. Times and cycles are those of measurements and bounds in the folder of runs: none is estimated.

    Exit code: 0 done, 2 the network does not fit or the request is invalid, 3 the compiler failed (--build).
    """
    from harness import targets
    from harness.applications.cost import estimate, terminal

    if board is None and (builds or any(value is not None for value in choices.values())):
        raise click.UsageError("--build and the options of a plan are those of a board: add --board")
    console, network = Console.open(as_json=as_json), space.model(model)
    if board is None:
        document = estimate.of_network(network)
    else:
        profile = targets.load_boards(space.boards).board(board)
        with console.progress(f"{'building' if builds else 'planning'} {network.name} for {board}", 1) as bar:
            document = estimate.on_board(network, profile, choices, space.runs, space.cache, builds=builds)
            bar.advance(1)
    terminal.show(document, console)
    console.document(document.to_json())
    return EXIT_REQUEST if document.misfits else EXIT_DONE
