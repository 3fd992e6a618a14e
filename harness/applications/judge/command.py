"""`harness judge`: dumps of another engine, compared with the specification layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import accepting, as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, RequestError
from harness.core.outcome import Outcome
from harness.core.table import Table
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.applications.judge.document import JudgementDocument

FORMATS = ("raw", "tidl", "vitis", "st-edge-ai", "polygraphy", "numpy")
STYLES = {Outcome.IDENTICAL: "bold green", Outcome.WITHIN_BOUND: "bold yellow", Outcome.DIFFERS: "bold red"}


@click.command("judge", epilog="Example: harness judge --model lenet5_int8 --dumps dumps.npz --vectors vectors.npy")
@click.option(
    "--model",
    required=True,
    shell_complete=_completion.models,
    help="Model: a name under models/ or the path of an ONNX file.",
)
@click.option(
    "--dumps",
    required=True,
    type=click.Path(path_type=Path),
    help="Outputs and layers of the engine: .npy, .npz, JSON of Polygraphy, or a folder.",
)
@click.option(
    "--vectors",
    type=click.Path(path_type=Path),
    help="File of the vectors that the engine computed; default: the inputs in the dumps.",
)
@click.option("--engine", metavar="NAME", help="Name of the engine and its settings, for the report.")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Format of the dumps; default: what it looks like.")
@click.option(
    "--layout",
    type=click.Choice(["nchw", "nhwc"]),
    help="Order of the axes of images in the dumps; default: that of the format, or of the shapes.",
)
@click.option(
    "--explain/--no-explain",
    "explains",
    default=True,
    show_default=True,
    help="Search for the arithmetic that explains the differences.",
)
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="Folder that keeps the reference for the next engine with these vectors; it is written if it is new.",
)
@click.option("--out", type=click.Path(path_type=Path), help="New folder for judgement.json and report.html.")
@accepting
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str,
    dumps: Path,
    vectors: Path | None,
    engine: str | None,
    kind: str | None,
    layout: str | None,
    explains: bool,
    reference: Path | None,
    out: Path | None,
    accept: str | None,
) -> int:
    """Compare outputs and layers that another engine computed with the specification of MODEL.

    Each layer is judged for the inputs that the engine had, so that one wrong layer does not blame those behind it.
    The result names the arithmetic that explains every differing value, and counts the decisions that change.

    Exit code: 0 identical, 1 differs or within a bound, 2 the request or a file is invalid, 3 inconclusive: data are
    missing.
    """
    from harness.applications.judge import conclusion, readers
    from harness.applications.judge.judgement import Judge
    from harness.applications.judge.matching import DumpedInputs, match
    from harness.core.file_digest import file_sha256
    from harness.reference.vector_files import from_file, require_indices

    console = Console.open(as_json=as_json)
    _require_free(out)
    network = space.model(model)
    read = readers.read(dumps, network, kind)
    matched = match(network, read, layout)  # type: ignore[arg-type] # click gives one of the layouts
    if not matched.activations and not matched.problems:
        theirs = ", ".join(matched.unmatched[:5])
        raise RequestError(
            f"{dumps}: none of its {plural(len(matched.unmatched), 'tensor')} ({theirs}) is of model {network.name}",
            f"these are dumps of another model; names of this one: {', '.join(_names(network)[:5])}",
        )
    stimuli = from_file(vectors, network) if vectors else DumpedInputs.from_matched(network, matched)
    if stimuli:
        require_indices(vectors or dumps, network, stimuli)
    elif reference:
        raise RequestError("--reference needs the vectors of the engine", "give --vectors FILE, or dump the inputs too")
    judge = Judge(network, matched, stimuli, explains=explains, reference=reference)
    with console.progress(f"judging {engine or dumps.name}", judge.vectors) as bar:
        judgement = judge.run(bar.advance)
    about: dict[str, Any] = {"engine": engine, "dumps": str(dumps)}
    about["vectors_from"] = stimuli.origin if stimuli else None
    about["files"] = {str(file): file_sha256(file) for file in conclusion.files_of(dumps)} if out else {}
    document = conclusion.document(network, judge, judgement, read, matched, about)
    console.show(*summary(document))
    console.document(document.to_json())
    if out:
        _write(out, document, console)
    outcome = Outcome(document.verdict)
    accepted = outcome is Outcome.WITHIN_BOUND and accept is not None
    return EXIT_DONE if accepted else outcome.exit_code


def _names(network: Any) -> list[str]:
    return [layer.output.name for layer in network.layers]


def _require_free(out: Path | None) -> None:
    if out is not None and out.exists():
        raise RequestError(f"{out} exists", "give a new folder: --out FOLDER")
    if out is not None and not out.absolute().parent.is_dir():
        raise RequestError(f"there is no folder {out.absolute().parent}", "make it, or give another path")


def _write(out: Path, document: JudgementDocument, console: Console) -> None:
    from harness.applications.judge import page
    from harness.applications.judge.document import DOCUMENT, PAGE
    from harness.core.document import write_json

    try:
        out.mkdir()
        write_json(out / DOCUMENT, document)
    except OSError as error:
        raise RequestError(f"cannot write {out}: {error.strerror}", "give another folder") from error
    write_whole(out / PAGE, page.html(document).encode())
    console.note(f"written: {out / DOCUMENT}, {out / PAGE}")


def summary(document: JudgementDocument) -> Iterator[Text | Table]:
    """Yield the result for people."""
    from harness.applications.judge.texts import arithmetic_text, first_text, remarks, unexplained

    yield _table(document)
    if first := first_text(document):
        yield Text(first)
    for entry in document.arithmetic:
        yield Text(arithmetic_text(entry))
    yield from map(Text, unexplained(document))
    for decisions in document.decisions:
        first = "" if decisions.first is None else f", vector {decisions.first} first"
        yield Text(f"decisions of {decisions.output}: {decisions.changed:,} of {decisions.vectors:,} change{first}")
    yield from (Text(text, style="yellow") for text in remarks(document))
    style = STYLES.get(Outcome(document.verdict), "bold yellow")
    yield Text(f"{document.verdict}: {document.reason}", style=style)


def _table(document: JudgementDocument) -> Table:
    from harness.applications.judge.texts import largest_text

    numbers = ("compared", "differ", "own", "of bound", "at most")
    title = f"{document.engine or document.dumps} against the specification of {document.model}"
    table = Table("layer", "operator", "in the dumps", *numbers, right=numbers, title=title, optional=("in the dumps",))
    for layer in document.layers:
        before = f" (with {plural(len(layer.with_layers), 'layer')} before it)" if layer.with_layers else ""
        name = f"{layer.name}{before}"
        differ = "-" if layer.differing is None else f"{layer.differing:,}"
        own = f"{layer.own:,}" if layer.own_compared else "-"
        ratio = f"{layer.ratio:.2g}" if layer.claim == "bounded" and layer.unequal else "-"
        largest = largest_text(layer) or "-"
        cells = (name, layer.operator, layer.name_in_dumps, f"{layer.compared:,}", differ, own, ratio, largest)
        table.add_row(*map(Text, cells))
    return table
