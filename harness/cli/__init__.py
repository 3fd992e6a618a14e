"""Assembles the commands; turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import click

from harness import __version__, workspace
from harness.cli import boards, evidence, history, models, nightly, work
from harness.errors import EXIT_BUG, EXIT_INFRASTRUCTURE, HarnessError
from harness.screen import Screen

COMMANDS = (
    *(work.run, work.prove, work.measure, work.plan, work.firmware, work.doctor),
    models.models,
    boards.boards,
    nightly.nightly,
    *(history.history, history.diff, history.report, history.serve),
    *(evidence.verify, evidence.sign),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
@click.option("--boards", type=click.Path(path_type=Path), envvar="HARNESS_BOARDS", help="The laboratory file.")
@click.option("--runs", type=click.Path(path_type=Path), envvar="HARNESS_RUNS", help="Where run folders go.")
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.pass_context
def cli(context: click.Context, boards: Path | None, runs: Path | None, debug: bool) -> None:  # noqa: ARG001 - see main
    """Take a quantised ONNX network to a board and show, bit for bit, that what runs there is the network."""
    context.obj = workspace.find(boards, runs)


for command in COMMANDS:
    cli.add_command(command)


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
