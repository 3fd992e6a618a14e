"""The main command: its subcommands, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from types import FrameType

import click

from harness import __version__
from harness.cli._group import LazyGroup
from harness.cli._options import NAME, common, usage_error
from harness.core import installation, registry
from harness.core.console import Console, abandon
from harness.core.errors import EXIT_BUG, EXIT_INFRASTRUCTURE, HarnessError, ToolError, notes_of
from harness.core.interrupts import interrupt, reason

OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE}
"""Error numbers of a full disk, a read-only file system or missing rights: they are not bugs of this program."""
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
ENDING = (signal.SIGTERM, signal.SIGHUP)

COMMANDS = (
    *(
        "init",
        "doctor",
        "run",
        "open",
        "prove",
        "trace",
        "judge",
        "reduce",
        "decide",
        "measure",
        "profile",
        "wcet",
        "export",
        "history",
        "diff",
        "verify",
        "case",
    ),
    *("sign", "models", "plan", "boards", "nightly", "report", "serve", "firmware", "completion"),
)
"""The commands in the order of their use, from the first run to the installation of firmware."""


def _print_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        revision = installation.revision() or "unknown"
        click.echo(f"harness {__version__}, revision {revision}, from {installation.PACKAGE}")
        context.exit()


@click.group(
    cls=LazyGroup,
    package="harness.cli",
    modules={name: registry.COMMANDS.get(name, f".{name}") for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nDocumentation: {installation.ROOT}/README.md",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print version, revision and folder.",
)
@common
def cli() -> None:
    """Run an ONNX network on a board and show, bit for bit, that the board computes that network."""


def main(command: click.Command = cli, name: str = NAME) -> None:
    """Run a command line and exit with its code; a bug exits with 4, never with 1 (differs)."""
    _open_standard_streams()
    _end_as_interrupted()
    try:
        code = _ended(command, name)
    except OSError:  # the message itself cannot be written
        abandon(sys.stdout, sys.stderr)
        code = EXIT_INFRASTRUCTURE
    sys.exit(code)


def _open_standard_streams() -> None:
    """Open the null device for each closed standard stream.

    Otherwise the next opened file, for example a file of evidence, gets the number of the closed stream, and the
    messages of this program are written into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or os.fdopen(STANDARD_OUTPUT, "w")
    sys.stderr = sys.stderr or os.fdopen(STANDARD_ERROR, "w")


def _end_as_interrupted() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that the board is restored; `nohup` still ignores SIGHUP."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt_once)


def _interrupt_once(number: int, _frame: FrameType | None) -> None:
    """Interrupt at the first signal and ignore later ones: shell and kernel both signal a closed terminal."""
    for each in ENDING:
        signal.signal(each, lambda *_: None)
    raise interrupt(number)


def _ended(command: click.Command, name: str) -> int | None:
    """Return the exit code of the command; a command that returns None has succeeded."""
    try:
        code: int | None = command.main(prog_name=name, standalone_mode=False)
    except HarnessError as error:
        return _report(error)
    except click.ClickException as error:
        return _report_usage(error)
    except (click.Abort, KeyboardInterrupt) as error:  # click raises Abort from KeyboardInterrupt
        ending, console = error.__cause__ or error, Console.open(as_json=False)
        for line in (f"stopped: {reason(ending)}", *notes_of(ending)):
            console.note(line)
        return EXIT_INFRASTRUCTURE
    except SystemExit as error:  # click's, with 1, if the reader has closed the output
        abandon(sys.stdout, sys.stderr)
        return EXIT_INFRASTRUCTURE if error.code else None
    except Exception as error:  # noqa: BLE001 - the last resort: whatever is left is a bug
        return _report_unforeseen(error)
    return code


def _report_usage(error: click.ClickException) -> int:
    """Report an error of click as an error of this program; a group without a subcommand shows its help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    return _report(usage_error(error))


def _report_unforeseen(error: Exception) -> int:
    if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
        return _report(ToolError(f"this machine: {error}", "fix its permissions or free disk space, then try again"))
    traceback.print_exc()
    print("error: this is a bug in harness; please report it with the lines above", file=sys.stderr)  # noqa: T201
    return EXIT_BUG


def _report(error: HarnessError) -> int:
    if "--debug" in sys.argv:
        traceback.print_exc()
    console = Console.open(as_json="--json" in sys.argv)
    console.failure(error)
    try:
        console.document({"error": error.message, "hint": error.hint, "exit_code": error.exit_code} | error.details)
    except OSError:
        abandon(sys.stdout)
    return error.exit_code
