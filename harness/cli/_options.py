"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click

from harness.boards import workspace
from harness.cli import _completion
from harness.core.errors import RequestError

NAME = "harness"


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Store the value of a common option; a value after the command replaces a value before it."""
    if value:
        context.meta[f"harness.{option.name}"] = value


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that are accepted before and after each command."""
    option = functools.partial(click.option, callback=_keep, expose_value=False)
    path = click.Path(path_type=Path)
    for add in (
        option("--debug", is_flag=True, help="Show the Python traceback of an error."),
        option("--runs", type=path, help="Folder of runs (HARNESS_RUNS); default: runs/ of the lab."),
        option("--boards", type=path, help="File of boards (HARNESS_BOARDS); default: boards.yaml of the lab."),
        option("--lab", type=path, help="Lab folder (HARNESS_LAB); default: the nearest folder with a boards.yaml."),
    ):
        command = add(command)
    return command


def pass_workspace(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the workspace that the common options name as the first argument, and accept these options."""

    @functools.wraps(command)
    def with_workspace(*arguments: Any, **options: Any) -> Any:
        given = click.get_current_context().meta
        boards, runs, lab = (given.get(f"harness.{name}") for name in ("boards", "runs", "lab"))
        space = workspace.find(boards, runs, lab)
        return command(space, *arguments, **options)

    return common(with_workspace)


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")


def changes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that change an .onnx file before it is read; the command gets them as `changes`."""

    @functools.wraps(command)
    def with_changes(*arguments: Any, **options: Any) -> Any:
        from harness.model.importer import Changes

        choices = {name: options.pop(name) for name in Changes.__dataclass_fields__}
        return command(*arguments, changes=Changes(**choices), **options)

    for name, text in (
        ("--to-float32", "Compute a float16 network in float32: its values change."),
        ("--drop-first", "Remove Scaler, Add, Sub, Mul and Div at the start: the inputs are normalised outside."),
        ("--drop-final", "Remove Softmax, ArgMax, ZipMap and other nodes behind the scores at the end."),
    ):
        with_changes = click.option(name, is_flag=True, help=text)(with_changes)
    return with_changes


class Words(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of words."""

    name = "words"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> tuple[str, ...]:
        """Convert text to words; an empty text gives no words."""
        return tuple(value.split(",") if value else ()) if isinstance(value, str) else value


class Duration(click.ParamType[float]):
    """A duration in seconds, given as a number with a unit."""

    name = "time"
    units_s: ClassVar = {"s": 1, "m": 60, "h": 3600}

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        """Convert text to seconds, more than zero."""
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh])", str(value))
        if not match or not float(match[1]):
            self.fail(f"{value!r} is not a duration: write 90s, 15m or 8h", param, context)
        return float(match[1]) * self.units_s[match[2]]


def planned(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a plan."""
    model = click.option(
        "--model",
        shell_complete=_completion.models,
        help="Model: a name under models/ or the path of an ONNX file.",
    )
    return of_board(model(of_plan(command)))


of_board = click.option("--board", shell_complete=_completion.boards, help="Board: a name in boards.yaml.")


def of_plan(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a plan of a board and a model."""
    options = (
        click.option(
            "--block", type=click.IntRange(1, 1_000_000), help="Vectors that an item computes before each hand-over."
        ),
        click.option(
            "--buffers",
            type=click.Choice(["keep", "reuse"]),
            help="Buffers: keep the activations of all layers for the comparison (default), or reuse bytes.",
        ),
        click.option("--sync", type=click.Choice(["barrier", "flag"]), help="Synchronisation of items."),
        click.option("--split", type=Words(), help="Distribution of layers over items, e.g. dense_2=network,pipeline."),
        click.option(
            "--items",
            type=Words(),
            shell_complete=_completion.targets,
            help="Target of each item of the board, e.g. c,c.",
        ),
    )
    for option in options:
        command = option(command)
    return command


seed = click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the generated vectors."
)
traced = click.option(
    "--trace",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Number of executions to trace and replay on the plan's Petri net, most of them with delays; 0: no tracing.",
)
accepting = click.option(
    "--accept",
    type=click.Choice(["bound"]),
    help="Exit with 0 for the verdict `within bound` too: of layers whose target does not promise every bit.",
)


def labelled(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of labels."""
    for add in (
        click.option("--float-model", shell_complete=_completion.models, help="Float model to judge, too."),
        click.option(
            "--metric",
            type=click.Choice(["accuracy", "regression", "detection"]),
            show_default="what fits output and labels",
            help="What the labels are: classes, targets or boxes.",
        ),
        click.option("--labels", metavar="FILE", help="Labels of the vectors of --vectors FILE: .npy, .npz or .csv."),
    ):
        command = add(command)
    return command


def streaming(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a stream."""
    for name, kind, text in (
        ("--steps", click.IntRange(1), "Steps after which a new stream begins; by default two windows, or one."),
        ("--pulse", click.IntRange(1), "New frames of a step; by default as few as the strides permit."),
        ("--stream", click.IntRange(0), "Axis of the input along which each step computes what is new; 0: vectors."),
    ):
        command = click.option(name, type=kind, metavar="AXIS" if name == "--stream" else "N", help=text)(command)
    return command


run_folder = click.option(
    "--run-folder", metavar="FOLDER", help="Folder of the evidence; default: runs/<time>_<board>_<model>."
)
precise = click.option(
    "--x64-quant-precision/--no-x64-quant-precision",
    default=True,
    show_default=True,
    help="Set the option session.x64quantprecision of ONNX Runtime in the reference.",
)
confirming = click.option(
    "--reference",
    type=Words(),
    default="ort,specification",
    show_default=True,
    help="Engines that must agree on the reference: further ones are iree and tract, e.g. ort,specification,tract.",
)


def recorded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that compare with the reference: stream, reference, folder of the evidence."""
    for option in (run_folder, confirming, precise, streaming):
        command = option(command)
    return command


samples = click.option(
    "--samples",
    type=click.IntRange(1, 50_000_000),
    help="Number of executions; default: 100000, on an emulated board 2000.",
)
warmup = click.option(
    "--warmup",
    type=click.IntRange(0),
    help="Number of executions before the measured ones; default: that of the profile of the board.",
)


def recomputed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose what a verification computes and builds again."""
    reference = click.option(
        "--reference",
        type=click.Choice(["all", "chunk", "none"]),
        default="all",
        show_default=True,
        help="Compute the reference of a run again for all vectors, or for one random chunk.",
    )
    text = "Build the bundle of a run again and compare it."
    return reference(click.option("--rebuild/--no-rebuild", default=True, show_default=True, help=text)(command))


new_model = click.option(
    "-o", "--output", required=True, help="New model: a name under models/ or a path ending in .onnx."
)
force = click.option("--force", is_flag=True, help="Replace an existing model.")


def usage_error(error: click.ClickException) -> RequestError:
    """Return an error of click as an error of this program."""
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else NAME
    near, message = "", error.format_message()
    if isinstance(error, click.NoSuchOption):
        of_group = error.ctx is not None and isinstance(error.ctx.command, click.Group)
        guess = f"did you mean {error.possibilities[0]}? " if error.possibilities else ""
        near = f"write options of a command after its name: {path} COMMAND {error.option_name}; " if of_group else guess
        message = f"no such option: {error.option_name}"
    return RequestError(f"{message[:1].lower()}{message[1:]}".rstrip("."), f"{near}see {path} --help")


def parameters(command: click.Command, words: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a command for these words of its command line; RequestError for wrong usage."""
    try:
        return command.make_context(f"{NAME} {command.name}", list(words)).params
    except click.UsageError as error:
        raise usage_error(error) from error


def require_alone(option: str, *others: object) -> None:
    """Raise UsageError if other options are given with the folder of a plan, because the plan already defines them."""
    if any(other is not None for other in others):
        raise click.UsageError(
            f"{option} names a plan, which defines board, model, items, split, sync, buffers, block and stream: "
            "omit these options"
        )
