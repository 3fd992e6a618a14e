"""`harness models view`: the interactive page of a network, with the evidence of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import READABLE, Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.cli.open import launch
from harness.core.console import Console
from harness.core.errors import RequestError

if TYPE_CHECKING:
    from harness.applications.view.facts import Evidence, TensorFacts
    from harness.applications.view.page import Content
    from harness.model.analysis.findings import Finding
    from harness.model.network import Network
    from harness.model.structure import Structure

VECTORS, SEED = 256, 1
MOST_ANALYSED = 64 << 20  # bytes
MOST_OPERATIONS = 2_000_000_000  # of all vectors, unless --vectors asks for more: some seconds
STIMULI = "stimuli.npy"


@click.command("view", epilog="Example: harness models view resnet8_int8 --run last --open")
@click.argument("model", shell_complete=_completion.models)
@click.option(
    "--run",
    "evidence",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    multiple=True,
    metavar="RUN",
    help="Run whose verdict the page shows, or measurement (--scope layer) whose times: a folder, a name under runs/, "
    "or last. Repeat the option for both.",
)
@click.option(
    "--vectors",
    type=click.IntRange(0),
    help="Number of vectors of the distributions of values: those of the run, else uniform over the input box. "
    f"Default: {VECTORS}, fewer for a large network; 0: none.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File of the page; default: MODEL.html.")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str,
    evidence: tuple[Path, ...],
    vectors: int | None,
    output: Path | None,
    opens: bool,
) -> None:
    """Write a page that shows the graph of MODEL with its facts, and with --run the evidence.

    The page needs no network and no server. Any ONNX file can be shown, also one that harness cannot run.
    """
    from harness.applications.view import page as viewer
    from harness.model import structure

    begun_s, console = time.monotonic(), Console.open(as_json=as_json)
    file = space.model_file(model, READABLE)
    path = output or Path(f"{file.stem}.html")
    if path.suffix.lower() not in {".html", ".htm"}:
        raise RequestError(f"--output {path}: a page is written to a file that ends in .html", "give such a file")
    console.note(f"reading {file}")
    found = structure.read(file)
    documents = [_document(space.run(run), found) for run in evidence]
    content = _content(found, documents, vectors, console)
    console.note("laying out the network")
    page = viewer.html(content).encode()
    write_whole(path, page)
    nodes = sum(vertex.kind == "node" for graph in found.graphs for vertex in graph.vertices)
    wall_s = time.monotonic() - begun_s
    console.show(Text(f"{path}: {nodes:,} nodes, {len(page):,} bytes, in {wall_s:.1f} s"))
    console.document({
        "page": str(path), "model": found.name, "sha256": found.sha256, "nodes": nodes, "bytes": len(page),
        "wall_s": round(wall_s, 3), "runs": [str(folder) for folder, _ in documents], "refused": content.refused,
        "verdict": content.evidence.verdict,
    })  # fmt: skip
    if opens and not as_json:
        launch(path, console)


def _document(folder: Path, structure: Structure) -> tuple[Path, Mapping[str, Any]]:
    """Return the folder and the document of a finished run of this model; RequestError for any other."""
    from harness.core.safe_io import read_document

    try:
        document = read_document(folder / "run.json")
        theirs = document["model"]["sha256"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        hint = "name a finished run or measurement: harness history lists them"
        raise RequestError(f"--run {folder}: cannot read run.json: {error}", hint) from error
    if theirs != structure.sha256:
        raise RequestError(
            f"--run {folder}: its model has the SHA-256 {theirs}, {structure.name} has {structure.sha256}",
            f"view the model of the run: harness models view {folder}/model.onnx --run {folder}",
        )
    return folder, document


def _content(
    structure: Structure, documents: Sequence[tuple[Path, Mapping[str, Any]]], vectors: int | None, console: Console
) -> Content:
    """Return all that the page shows."""
    from harness.applications.view import facts
    from harness.applications.view.page import Content
    from harness.model.graph import parse

    edges, findings = _analysis(structure, console)
    try:
        network = parse(structure.onnx_bytes, structure.name)
    except RequestError as error:
        return Content(structure, error.message, tensors=edges, findings=findings, evidence=_evidence(documents))
    drawn, drawn_from = _distributions(network, [folder for folder, _ in documents], vectors, console)
    tensors = facts.of_tensors(network)
    return Content(
        structure,
        nodes=facts.of_network(network),
        tensors=edges | {name: own + edges.get(name, facts.TensorFacts()) for name, own in tensors.items()},
        distributions=drawn,
        drawn_from=drawn_from,
        findings=findings,
        evidence=_evidence(documents),
    )


def _analysis(structure: Structure, console: Console) -> tuple[dict[str, TensorFacts], tuple[Finding, ...]]:
    """Return the facts of all tensors and the findings of the analysis; none for a graph that it does not take."""
    from harness.applications.view import facts
    from harness.model.analysis import analyse, decode

    if len(structure.onnx_bytes) > MOST_ANALYSED:
        console.note(f"no analysis of a file above {MOST_ANALYSED >> 20} MiB: harness models analyse shows it")
        return {}, ()
    try:
        found = analyse(decode(structure.onnx_bytes, structure.name))
    except RequestError as error:
        console.note(f"no analysis: {error.message}")
        return {}, ()
    return {name: facts.of_edge(edge) for name, edge in found.edges.items()}, found.findings


def _evidence(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> Evidence:
    """Return the facts of all documents, the verdict of a run before that of a measurement."""
    from harness.applications.view import facts
    from harness.runs.facts import clean

    evidence = facts.Evidence()
    for folder, document in sorted(documents, key=lambda one: one[1].get("kind") == "measure"):
        read = facts.of_measurement if document.get("kind") == "measure" else facts.of_run
        try:
            evidence += read(clean(document))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            hint = f"check it: harness verify {folder}"
            raise RequestError(f"--run {folder}: run.json contradicts itself: {error}", hint) from error
    return evidence


def _distributions(
    network: Network, folders: Sequence[Path], vectors: int | None, console: Console
) -> tuple[Mapping[str, Any], str]:
    """Return the distributions of all tensors, and the vectors that they are of; none for 0 vectors."""
    from harness.applications.view import facts
    from harness.reference import stimuli, vector_files
    from harness.reference.specification import SpecificationReference

    count = min(VECTORS, MOST_OPERATIONS // max(network.operations, 1)) if vectors is None else vectors
    if not count:
        console.note("no distributions of values: --vectors N computes those of N vectors")
        return {}, ""
    file = next((folder / STIMULI for folder in folders if (folder / STIMULI).is_file()), None)
    if file:
        batch = vector_files.from_file(file, network).chunk(0, count)
        origin = f"the first {len(batch):,} vectors of the run {file.parent.name}"
    else:
        batch = stimuli.uniform(network, SEED, count)
        origin = f"{count:,} vectors uniform over the input box, seed {SEED}"
    console.note(f"computing the activations of {origin}")
    drawn = facts.distributions(network, batch, SpecificationReference(network).activations(batch))
    return drawn, f"{origin}, by the specification"
