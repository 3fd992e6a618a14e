"""`harness models analyse`: facts of all edges of a graph, ranges, and findings with advice."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import READABLE, Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace, seed
from harness.cli.models.show import plain_table
from harness.core import registry
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, EXIT_REQUEST, RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.core.arrays import Array
    from harness.model.analysis import Analysis, Edge, Finding
    from harness.model.analysis.findings import LayerRange
    from harness.model.network import Network

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


@click.command("analyse", epilog="Example: harness models analyse net.onnx --fact input:shape=1,3,H,W")
@click.argument("model", shell_complete=_completion.models)
@click.option(
    "--fact", "facts", multiple=True, metavar="NAME:PART=VALUE",
    help="State the shape (1,3,H,W), type (float32) or value of a tensor; repeat it for several.",
)  # fmt: skip
@click.option("--all", "whole", is_flag=True, help="List the constants too, and the rule behind each fact.")
@click.option(
    "--vectors", type=click.IntRange(0), default=64, show_default=True,
    help="Number of vectors with which saturation and the used codes are observed; 0: none.",
)  # fmt: skip
@click.option(
    "--profile", type=click.Choice(["sonnx"]),
    help="List where the network leaves the safety-related profile of ONNX, by node.",
)  # fmt: skip
@seed
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str,
    facts: tuple[str, ...],
    whole: bool,
    vectors: int,
    profile: str | None,
    seed: int,
) -> int:
    """Analyse MODEL, a name, an ONNX or a TFLite file, before it runs: types, shapes, values, ranges, findings.

    It need not be a model that harness can run.  Exit code 2 for a contradiction: no tensor has such a type or shape.
    """
    from harness.model.analysis import analyse, decode, parse_hint
    from harness.model.analysis.document import of_analysis
    from harness.model.graph import read_file
    from harness.model.importer.external_data import load_data
    from harness.model.importer.tflite import as_onnx
    from harness.model.sonnx import departures
    from harness.reference.stimuli import uniform

    console, file = Console.open(as_json=as_json), space.model_file(model, READABLE)
    content = read_file(file)
    onnx_bytes = as_onnx(content, file)
    graph = decode(onnx_bytes, file.stem)
    try:
        load_data(graph, file)
    except RequestError as error:  # types and shapes are known without the data
        console.note(f"{error.message}; analysed without it")
    hints = [parse_hint(fact, graph) for fact in facts]

    def seeded(network: Network) -> Array | None:
        if not vectors:
            return None
        console.note(f"{vectors} vectors of seed {seed}: computing {len(network.layers)} layers")
        return uniform(network, seed, vectors)

    analysis = analyse(
        graph, hints, seeded, registry.function("accumulators"), departures=departures if profile else None
    )
    console.show(_edges(analysis, whole=whole))
    if analysis.layers:
        console.show(Text(), _ranges(analysis), Text())
    console.show(*map(_line, analysis.findings), Text(_summary(analysis)))
    request = {"model": file.stem, "file": str(file), "sha256": hashlib.sha256(content).hexdigest()}
    console.document(of_analysis(analysis, request | {"hints": facts, "vectors": vectors, "seed": seed}).to_json())
    if analysis.is_contradictory:
        return EXIT_REQUEST
    return EXIT_DONE


def _edges(analysis: Analysis, *, whole: bool) -> Table:
    rows = (
        (
            edge.name,
            edge.kind,
            edge.type or "?",
            edge.shape,
            edge.value or "?",
            edge.range or "?",
            *_origins(edge, whole),
        )
        for edge in analysis.edges.values()
        if whole or edge.kind != "constant"
    )
    headings = ("tensor", "kind", "type", "shape", "value", "range", *(["known from"] if whole else []))
    return plain_table(*headings, rows=rows)


def _origins(edge: Edge, whole: bool) -> list[str]:
    return ["\n".join(dict.fromkeys(edge.origins.values()))] if whole else []


def _ranges(analysis: Analysis) -> Table:
    headings = ("layer", "accumulator", "bits", "bounded by", "output", "of codes", "observed", "saturated", "constant")
    return plain_table(*headings, rows=map(_range, analysis.layers))


def _range(each: LayerRange) -> tuple[str, ...]:
    rounds, observed = each.used_share_of_codes is not None, each.observed_low is not None
    sums = (f"{each.accumulator_low} to {each.accumulator_high}", f"{each.accumulator_bits}", each.method)
    return (
        each.layer,
        *(sums if each.accumulator_bits else ("", "", "")),
        f"{each.low:.6g} to {each.high:.6g}",
        f"{each.used_share_of_codes:.0%}" if rounds else "",
        f"{each.observed_low:.6g} to {each.observed_high:.6g}" if observed else "",
        f"{each.saturated_share:.1%}" if rounds and observed else "",
        f"{each.constant_channels} of {each.channels}",
    )


def _line(finding: Finding) -> Text:
    where = f"{place}: " if (place := finding.node or finding.edge) else ""
    text = Text.assemble((f"{finding.severity}: ", STYLES[finding.severity]), f"{where}{finding.reason}")
    return text.append(f"\n  advice: {finding.advice}", style="dim")


def _summary(analysis: Analysis) -> str:
    edges = sum(edge.kind != "constant" for edge in analysis.edges.values())
    known = "all types and shapes are known" if analysis.is_complete else "some types or shapes are unknown"
    symbols = "".join(f"; {name} = {value}" for name, value in analysis.symbols.items())
    severities = [str(finding.severity) for finding in analysis.findings]
    counts = ", ".join(f"{count} {each}{'s' * (count > 1)}" for each in STYLES if (count := severities.count(each)))
    return f"{edges} edges, {analysis.passes} passes: {known}{symbols}; {counts or 'no findings'}"
