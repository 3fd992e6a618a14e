"""Assembles the commands; turns errors into messages and exit codes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import click

from harness import __version__, workspace
from harness.errors import EXIT_BUG, EXIT_INFRASTRUCTURE, HarnessError
from harness.screen import Screen
from harness.workspace import Workspace

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, nothing else there.")


class _Words(click.ParamType[tuple[str, ...]]):
    """Words with commas between them."""

    name = "words"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> tuple[str, ...]:
        return tuple(value.split(",") if value else ()) if isinstance(value, str) else value


class _Duration(click.ParamType[float]):
    """Seconds, from a number with its unit."""

    name = "time"
    units_s: ClassVar = {"s": 1, "m": 60, "h": 3600}

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh])", str(value))
        if not match or not float(match[1]):
            self.fail(f"{value!r} is no time: write 90s, 15m or 8h", param, context)
        return float(match[1]) * self.units_s[match[2]]


def _planned(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a plan."""
    options = (
        click.option("--block", type=click.IntRange(1, 1_000_000), help="Vectors between two hand-overs of items."),
        click.option("--sync", type=click.Choice(["barrier", "flag"]), help="How items hand over."),
        click.option("--split", type=_Words(), help="How layers are distributed, e.g. dense_2=network,pipeline."),
        click.option("--items", type=_Words(), help="One target for each item of the board, e.g. c,c."),
        click.option("--model", help="A name under models/ or the path of an ONNX file."),
        click.option("--board", help="A board of boards.yaml."),
    )
    for option in options:
        command = option(command)
    return command


_seed = click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the generated vectors.")
_traced = click.option(
    "--trace",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Executions traced and replayed on the plan's Petri net, most of them under delays; 0: none.",
)
_run_folder = click.option(
    "--run-folder", metavar="FOLDER", help="Where the evidence goes; else runs/<time>_<board>_<model>."
)
_precise = click.option("--x64-quant-precision", is_flag=True, help="Set session.x64quantprecision in the reference.")


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
@_seed
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
@click.option("--resume", type=click.Path(path_type=Path), help="Go on with the unfinished run in this folder.")
@_traced
@_precise
@_run_folder
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
    return command.run(request, resume, space, Screen.open(as_json=as_json))


@cli.command()
@_planned
@click.option("--vectors", default="10000", show_default=True, help="Compared as by run: how many, or a .npy file.")
@_seed
@click.option(
    "--floats",
    type=click.Choice(["all", "thresholds"]),
    help="Inputs of QuantizeLinear on the board: all 2^32 (default, but on an emulated board), or where codes change.",
)
@_traced
@_precise
@_run_folder
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


@cli.command()
@_planned
@click.option("--samples", type=click.IntRange(1, 50_000_000), help="Executions, 100,000; of an emulated board 2,000.")
@click.option("--duration", metavar="TIME", type=_Duration(), help="Go on for so long at least: 90s, 15m, 8h.")
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
    help="A former measurement: has anything become slower? More of them tell the noise.",
)
@_seed
@_precise
@_run_folder
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
    return command.measure(asked, planned, against, space, Screen.open(as_json=as_json))


@cli.command()
@_planned
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


@cli.command()
@_planned
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the description of all items to this folder."
)
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
    load: Path | None,
    items: tuple[str, ...] | None,
    **asked: Any,
) -> None:
    """Show which item computes which layers of a model, and what is known of that, without touching the board."""
    from harness.commands import plan as command

    screen = Screen.open(as_json=as_json)
    if load:
        _require_alone("--load", board, model, items, *asked.values())
        command.load(load, output, space, screen)
    elif board and model:
        command.show(board, model, asked | {"targets": items}, output, space, screen)
    else:
        raise click.UsageError("give --board and --model, or --load FOLDER")


def _require_alone(option: str, *others: object) -> None:
    """The folder of a plan says all that other options would."""
    if any(other is not None for other in others):
        raise click.UsageError(
            f"{option} names a plan, which says board, model, items, split, sync and block: leave the others out"
        )


@cli.command()
@as_json
@click.pass_obj
def doctor(space: Workspace, /, as_json: bool) -> int:
    """Tell what this machine has, what is missing for which board, and the command that brings it."""
    from harness.commands import doctor as command

    return command.examine(space, Screen.open(as_json=as_json))


@cli.group()
def models() -> None:
    """Bring networks in, quantise them, show them as text."""


_new_model = click.option("-o", "--output", required=True, help="Its name under models/, or a path ending in .onnx.")
_force = click.option("--force", is_flag=True, help="Replace the model that is there.")


@models.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_new_model
@_force
@as_json
@click.pass_obj
def models_import(space: Workspace, /, as_json: bool, file: Path, output: str, force: bool) -> None:
    """Bring in a dense network, float or quantised, from .onnx or .nnet.

    Its value is kept: the result is checked against the file's own arithmetic, or refused with the node and the reason.
    """
    from harness.commands.models import bring_in as command

    command.bring_in(file, space.new_model(output, force=force), Screen.open(as_json=as_json))


@models.command("quantize")
@click.argument("file", type=click.Path(path_type=Path))
@_new_model
@click.option(
    "--weights",
    type=click.Choice(["int8-per-column", "int8", "uint8"]),
    default="int8-per-column",
    show_default=True,
    help="Type of the weights, and whether a scale serves a column or the tensor.",
)
@click.option(
    "--ranges",
    type=click.Choice(["calibration", "bounds"]),
    default="calibration",
    show_default=True,
    help="Activation ranges: met by vectors drawn from the box, or bounds that hold on all of it.",
)
@click.option("--vectors", type=click.IntRange(1), default=100_000, show_default=True, help="Drawn for calibration.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the drawn vectors.")
@click.option("--equalize", is_flag=True, help="Bring hidden neurons to more equal reach; best with --residual 2.")
@click.option(
    "--residual", type=click.IntRange(1, 8), default=1, show_default=True, help="Order of the weights' expansion."
)
@click.option(
    "--scores",
    type=click.Choice(["float32", "uint8"]),
    default="float32",
    show_default=True,
    help="Type of the last layer's output; uint8 scores tie.",
)
@click.option("--select", type=click.Choice(["none", "argmax", "argmin"]), default="none", help="Add a last layer.")
@click.option("--box", help="LOW:HIGH of every input, or one pair for each, with commas; else the file's.")
@_force
@as_json
@click.pass_obj
def models_quantize(
    space: Workspace, /, as_json: bool, file: Path, output: str, force: bool, box: str | None, **asked: Any
) -> None:
    """Quantise a float dense network without data, from its weights and its input box alone."""
    from harness.commands.models import quantize as command

    command.quantize(file, space.new_model(output, force=force), box, asked, Screen.open(as_json=as_json))


@models.command("show")
@click.argument("name")
@click.option("--text", type=click.Path(path_type=Path), help="Write the whole model as text to this file.")
@as_json
@click.pass_obj
def models_show(space: Workspace, /, as_json: bool, name: str, text: Path | None) -> None:
    """Show a model as text, one line an operator; NAME is a name under models/ or a path."""
    from harness.commands.models import show as command

    command.show(name, text, space, Screen.open(as_json=as_json))


@models.command("load")
@click.argument("file", type=click.Path(path_type=Path))
@_new_model
@_force
@as_json
@click.pass_obj
def models_load(space: Workspace, /, as_json: bool, file: Path, output: str, force: bool) -> None:
    """Read back, byte for byte, the model that `show --text FILE` wrote."""
    from harness.commands.models import load as command

    command.load(file, space.new_model(output, force=force), Screen.open(as_json=as_json))


@models.command("list")
@as_json
@click.pass_obj
def models_list(space: Workspace, /, as_json: bool) -> None:
    """List the models: layers, parameters, provenance, hash."""
    from harness.commands.models import listing as command

    command.list_models(space, Screen.open(as_json=as_json))


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
