"""`harness models show`: a model as a summary with one line per operator, in full as text in two files, or as MLIR."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console as RichConsole
from rich.console import RenderableType
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.model.network import Network
    from harness.operators.base import Layer
    from harness.operators.tensor import Tensor


PAGE_COLUMNS = 100
LISTED_INPUTS = 16
FORMATS = ("tables", "mlir", "sonnx")
ENDLESS = RichConsole(width=100_000)


@click.command("show", epilog="Example: harness models show acas_coc")
@click.argument("name", shell_complete=_completion.models)
@click.option("--text", type=click.Path(path_type=Path), help="Write the whole model as text to this file.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default=FORMATS[0],
    help="Print tables, the network as MLIR, or a description in the structure of the safety-related ONNX profile.",
)  # fmt: skip
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, name: str, text: Path | None, form: str) -> None:
    """Show a model as text, one line per operator; NAME is a name under models/ or a path."""
    show(name, text, space, Console.open(as_json=as_json), form)


def show(name: str, text: Path | None, workspace: Workspace, console: Console, form: str = FORMATS[0]) -> None:
    """Print the facts of a model, or its form `mlir` or `sonnx`.

    With `text` write the whole model to that file and to the weights file next to it.
    """
    from harness.model.text import weights_path
    from harness.model.text.document import document

    network = workspace.model(name)
    if form != FORMATS[0]:
        if text is not None:
            raise RequestError(f"--text writes another form than --format {form} prints", "give one of them")
        _print(network, form, console)
        return
    if text is None:
        console.show(*_page(network))
        console.document(document(network))
        return
    _write(network, text)
    files = {"text": str(text), "weights": str(weights_path(text))}
    console.show(Text(f"wrote {files['text']} and {files['weights']}; read back, they give the bytes of the ONNX file"))
    console.document(document(network) | files)


def _print(network: Network, form: str, console: Console) -> None:
    """Print the network as MLIR, or its description for the profile."""
    from harness.model import sonnx
    from harness.model.text.document import document
    from harness.targets.iree.module import network_pieces

    pieces = network_pieces(network) if form == "mlir" else sonnx.describe(network)
    if console.as_json:
        console.document(document(network) | {form: "".join(pieces)})
        return
    for piece in pieces:
        click.echo(piece, nl=False)


def _write(network: Network, path: Path) -> None:
    from harness.model import text
    from harness.model.text import DESCRIPTION_FORMAT, WEIGHTS_FORMAT, weights_path

    described = text.describe(network)
    _require_replaceable(path, DESCRIPTION_FORMAT)
    _require_replaceable(weights_path(path), WEIGHTS_FORMAT)
    write_whole(weights_path(path), described.weights.encode())
    write_whole(path, described.text.encode())


def _require_replaceable(path: Path, first_line: str) -> None:
    """Raise RequestError if `path` exists and is not a description of a model."""
    from harness.core.safe_io import open_input

    try:
        with open_input(path) as file:
            start = file.read(len(first_line))
    except FileNotFoundError:
        return
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}", "give the path of a text file") from error
    if start != first_line.encode():
        raise RequestError(f"{path} exists and is not a description of a model", "give another file or remove this one")


def _page(network: Network) -> Iterator[RenderableType]:
    """Yield the page of a model, at most PAGE_COLUMNS wide unless names are long."""
    from harness.model.text.facts import parameter_count, short_widths, widths

    size = f"{short_widths(widths(network))}, {parameter_count(network):,} parameters"
    yield Text.assemble((network.name, "bold"), f"  {size}\n")
    yield _operators(network)
    yield Text()
    yield _arithmetic(network)
    yield Text()
    yield from map(Text, _exactness(network))
    yield Text()
    yield _inputs(network)
    yield Text()
    yield _properties(network)


def plain_table(*headings: str, rows: Iterator[tuple[str, ...]]) -> Table:
    """Return a table with columns as wide as their cells; a narrow terminal breaks lines, not cells."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    table.width = ENDLESS.measure(table).maximum
    return table


def _operators(network: Network) -> Table:
    rows = (
        (
            layer.name,
            layer.operator,
            f"{', '.join(layer.sources)} -> {layer.output.name}",
            f"{layer.input.dtype} {layer.input.shape_text} -> {layer.dtype} {layer.output.shape_text}",
        )
        for layer in network.layers
    )
    return plain_table("layer", "operator", "reads -> writes", "type and shape", rows=rows)


def _arithmetic(network: Network) -> Table:
    rows = ((layer.name, *_numbers(layer)) for layer in network.layers)
    headings = ("scale or m (distinct)", "zero points", "accumulator", "spare", "as float32")
    return plain_table("layer", *headings, rows=rows)


def _numbers(layer: Layer) -> Iterator[str]:
    """Yield the constants of a layer; for an accumulator its bounds, its spare bits of int32, and its conversion."""
    yield from layer.text.summary()
    if bounds := layer.sums and layer.sums.accumulator():
        yield f"{bounds.low} to {bounds.high}"
        yield f"{bounds.headroom_bits} bits"
        yield "exact" if bounds.float32_exact else "rounded"


def _exactness(network: Network) -> Iterator[str]:
    """Summarise the bounds of all accumulators."""
    bounds = {layer.name: layer.sums.accumulator() for layer in network.layers if layer.sums}
    if bounds:
        tightest = min(bounds, key=lambda name: bounds[name].headroom_bits)
        spare = bounds[tightest].headroom_bits
        yield f"int32 overflow is excluded: every partial sum, in any order, leaves {spare} bits or more ({tightest})."
        rounded = [name for name, bound in bounds.items() if not bound.float32_exact]
        yield (
            f"float32(acc) can round, beyond 2^24, in {', '.join(rounded)}."
            if rounded
            else "float32(acc) is exact: no accumulator is beyond 2^24."
        )


def _inputs(network: Network) -> Table:
    """Return the input box in the network's units, and in physical units if the model states the conversion."""
    import numpy as np

    from harness.model.metadata import states_box

    box = "box" if states_box(network.metadata) else "box (the model gives none)"
    bounds = network.values(network.box)
    if network.normalisation is None and all(len(np.unique(each, axis=1).T) == 1 for each in bounds.values()):
        rows = [_input_row(tensor, *bounds[tensor.name][:, 0], types=len(bounds) > 1) for tensor in network.inputs]
        return plain_table("input", box, rows=iter(rows))
    lines = list(_input_rows(network))
    more = len(lines) - LISTED_INPUTS
    listed = [*lines[:LISTED_INPUTS], (f"... and {more} more: --json",)] if more > 0 else lines
    headings = ("input", box, "physical", "normalised as")
    return plain_table(*headings[: max(map(len, lines))], rows=iter(listed))


def _input_row(tensor: Tensor, low: float, high: float, *, types: bool) -> tuple[str, str]:
    """Return the row of an input whose values all have the same bounds."""
    kind = f" ({tensor.dtype})" if types or tensor.dtype != "float32" else ""
    return f"{tensor.name}{kind}, each of {tensor.size}", f"{low:.6g} to {high:.6g}"


def _input_rows(network: Network) -> Iterator[tuple[str, ...]]:
    from harness.model.text.document import readable

    affine = network.normalisation
    numbers = network.numbers(network.box).T
    for index, ((low, high), (name, place)) in enumerate(zip(numbers, network.places, strict=True)):
        box = f"{low:.6g} to {high:.6g}"
        if affine is None:
            yield f"{name}[{place}]", box
        else:
            mean, span = affine.mean[index], affine.range[index]
            bounds = " to ".join(f"{float(bound) * span + mean:.6g}" for bound in (low, high))
            physical = f"{bounds} {readable(affine.units[index])}"
            yield readable(affine.names[index]), box, physical, f"(x - {mean:.9g}) / {span:.9g}"


def _properties(network: Network) -> Table:
    """Return the origin of the model: its hash, and the metadata that does not describe inputs."""
    from harness.model.text.document import decoded, readable

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, width=PAGE_COLUMNS)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("SHA-256", network.sha256)
    for key, value in network.metadata.items():
        if not key.startswith("input_"):
            table.add_row(Text(readable(key)), Text(readable(decoded(value))))
    return table
