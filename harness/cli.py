"""Assembles the commands; turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from harness import __version__, workspace
from harness.errors import EXIT_BUG, EXIT_INFRASTRUCTURE, HarnessError
from harness.screen import Screen
from harness.workspace import Workspace

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, nothing else there.")


class _Items(click.ParamType[tuple[str, ...]]):
    name = "targets"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> tuple[str, ...]:
        return tuple(value.split(",")) if isinstance(value, str) else value


def _planned(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a plan."""
    options = (
        click.option("--block", type=click.IntRange(1, 1_000_000), help="Vectors between two hand-overs of items."),
        click.option("--items", type=_Items(), help="One target for each item of the board, e.g. c,c."),
        click.option("--model", help="A name under models/ or the path of an ONNX file."),
        click.option("--board", help="A board of boards.yaml."),
    )
    for option in options:
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
@click.option("--boards", type=click.Path(path_type=Path), envvar="HARNESS_BOARDS", help="The laboratory file.")
@click.option("--runs", type=click.Path(path_type=Path), envvar="HARNESS_RUNS", help="Where run folders go.")
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.pass_context
def cli(context: click.Context, boards: Path | None, runs: Path | None, debug: bool) -> None:  # noqa: ARG001 - see main
    """Take a quantised ONNX network to a board and show, bit for bit, that what runs there is the network."""
    context.obj = workspace.find(boards, runs)


@cli.command()
@_planned
@click.option("--vectors", default="100000", show_default=True, help="How many, or a .npy file of them.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the generated vectors.")
@click.option(
    "--chunk", type=click.IntRange(1), default=10_000, show_default=True, help="Vectors a step; unit of resume."
)
@click.option(
    "--fetch", type=click.Choice(["all", "mismatch"]), default="all", show_default=True, help="Dumps that travel."
)
@click.option("--resume", type=click.Path(path_type=Path), help="Go on with the unfinished run in this folder.")
@click.option("--x64-quant-precision", is_flag=True, help="Set session.x64quantprecision in the reference.")
@as_json
@click.pass_obj
def run(space: Workspace, /, as_json: bool, resume: Path | None, board: str, model: str, **asked: Any) -> int:
    """Run a model on a board and compare every activation with the reference.

    Exit code: 0 identical, 1 differs, 2 the request is wrong, 3 inconclusive.
    """
    from harness.commands import run as command
    from harness.jobs import Request

    if not resume and not (board and model):
        raise click.UsageError("give --board and --model, or --resume RUN")
    request = Request(board=board, model=model, **asked)
    return command.run(request, resume, space, Screen.open(as_json=as_json))


@cli.command()
@_planned
@as_json
@click.pass_obj
def plan(space: Workspace, /, as_json: bool, board: str, model: str, **asked: Any) -> None:
    """Show which item computes which layers of a model, without touching the board."""
    from harness.commands import plan as command

    if not (board and model):
        raise click.UsageError("give --board and --model")
    command.show(board, model, asked["items"], asked["block"], space, Screen.open(as_json=as_json))


@cli.command()
@as_json
@click.pass_obj
def doctor(space: Workspace, /, as_json: bool) -> int:
    """Tell what this machine has, what is missing for which board, and the command that brings it."""
    from harness.commands import doctor as command

    return command.examine(space, Screen.open(as_json=as_json))


def main() -> None:
    """Run the command line and exit with its code; a bug exits with 4, never with 1 (differs)."""
    try:
        code = cli.main(standalone_mode=False)
    except HarnessError as error:
        sys.exit(_report(error))
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        Screen.open(as_json=False).note("interrupted")
        code = EXIT_INFRASTRUCTURE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_INFRASTRUCTURE
    except Exception:  # noqa: BLE001 - the last resort: whatever is left is a bug
        traceback.print_exc()
        print("error: this is a bug in harness; please report it with the lines above", file=sys.stderr)  # noqa: T201
        code = EXIT_BUG
    sys.exit(code)


def _report(error: HarnessError) -> int:
    if "--debug" in sys.argv:
        traceback.print_exc()
    screen = Screen.open(as_json="--json" in sys.argv)
    screen.document({"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
    screen.failure(error)
    return error.exit_code
