"""HTML page of a measurement: one file without external resources, readable without its script and on paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Template

from harness.core.time_units import duration
from harness.report.chart import Chart
from harness.report.measurements import distribution, labels, time_series
from harness.report.measurements.labels import Finding
from harness.report.network import LayerFacts, NetworkPicture, draw_both, launch_notes
from harness.report.page import Check, changed_topics, environment, inputs, label_cells, origin_checks, python, script
from harness.runs.entries import ComparedPartEntry, InputEntry, MeasurementDocument, PartEntry
from harness.runs.measurement.facts import WORDS, Facts, varying

SPREAD = 2  # ratio of the maximum to the end of the body, above which all executions get a separate histogram

# With `python3 -c`, in the folder of a measurement.
_RECOUNT = """\
import json, numpy
run, readings = json.load(open("run.json")), numpy.load("readings.npy")
for part, column in zip(run["parts"], readings.T):
    median = numpy.sort(column)[(column.size - 1) // 2]
    print(part["name"], column.size, column.min(), median, column.max())
"""


@dataclass(frozen=True)
class MethodResult:
    """Result of one method of extreme value theory: a `curve`, or reasons why it does not apply."""

    method: str
    found: Mapping[str, Any]

    @property
    def curve(self) -> Sequence[Mapping[str, Any]]:
        """The points of the curve; empty if the method does not apply."""
        curve: Sequence[Mapping[str, Any]] = self.found.get("curve", ())
        return curve


@dataclass(frozen=True)
class PartSection:
    """View of one part."""

    part: PartEntry
    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...]
    laws: tuple[MethodResult, ...]

    @property
    def notable(self) -> str:
        """The topics of notable findings."""
        return ", ".join(finding.topic.lower() for finding in self.findings if finding.notable)

    @property
    def refusals(self) -> tuple[MethodResult, ...]:
        """The methods that do not apply."""
        return tuple(law for law in self.laws if not law.curve)

    @property
    def refused_because(self) -> tuple[str, ...]:
        """The reasons of all methods, common ones once."""
        return tuple(dict.fromkeys(reason for law in self.refusals for reason in law.found["not_applicable"]))


def html(document: MeasurementDocument, facts: Facts) -> str:
    """Return the page of a measurement's document."""
    timed = {} if facts.counted else _timed(document)
    page = template().render(
        run=document,
        schema=getattr(document, "schema_number", None),
        facts=facts,
        word=WORDS[document.verdict],
        varying=[part.name for part in varying(document)],
        clock=labels.clock_text(document),
        quieter_base=labels.QUIETER_BASE,
        states=time_series.states(document),
        inputs=inputs(getattr(document.model, "input", InputEntry())),
        checks=_checks(document),
        networks=_networks(document),
        network_note=f"the boxes show {'the least ' + document.measured.unit if facts.counted else 'the median'}",
        script=script("zoom.js", "tables.js"),
        changed_topics=changed_topics(document.previous),
        **timed,
    )
    return label_cells(page)


@cache
def template() -> Template:
    """Return the compiled template."""
    templates = environment().overlay()
    templates.filters = templates.filters | {
        "interval": labels.interval_text,
        "percentile": labels.percentile,
        "given": labels.given,
        "probability": labels.probability,
        "effect": labels.effect,
        "variation": labels.variation,
    }
    return templates.get_template("measured.html.jinja")


def layer_facts(document: MeasurementDocument) -> dict[str, LayerFacts]:
    """Return the times or counts of the layers by name; empty if other parts were measured."""
    if document.measured.scope != "layer":
        return {}
    notes, facts = launch_notes(document), {}
    for index, part in enumerate(document.parts):
        amount = part.summary.median_ns if document.measured.unit == "ns" else part.min
        text = duration(amount) if document.measured.unit == "ns" else f"{amount:,}"
        note = notes.get(part.name, "")
        facts[part.name] = LayerFacts(amount=amount, text=text, note=note, anchor=f"part-{index}")
    return facts


def _networks(document: MeasurementDocument) -> tuple[NetworkPicture, ...]:
    """Return the pictures of the network if its layers were measured; none if the document has no graph."""
    facts = layer_facts(document)
    return draw_both(document.graph, facts) if facts else ()


def _timed(document: MeasurementDocument) -> dict[str, Any]:
    """Return the values that only a page of times needs."""
    parts = document.parts
    return {
        "unit": labels.table_unit(parts),
        "lacking": tuple(dict.fromkeys(_lacking(parts))),
        "ranges": distribution.ranges(parts, document.clock),
        "sections": tuple(_sections(document)),
    }


def _lacking(parts: Sequence[PartEntry]) -> Iterator[tuple[str, str]]:
    """Yield the quantiles that a sample does not give, each with its reason."""
    for part in parts:
        for quantile in part.summary.quantiles:
            if quantile.value_ns is None:
                yield labels.percentile(quantile), quantile.interval["not_given"]


def _sections(document: MeasurementDocument) -> Iterator[PartSection]:
    """Yield the views of all parts, the largest median first."""
    parts = document.parts
    compared = {part.name: part for part in document.against.parts} if document.against else {}
    for part in sorted(parts, key=lambda part: -part.summary.median_ns):
        yield PartSection(
            part,
            labels.findings(part, document.measured),
            tuple(_charts(part, document, compared.get(part.name))),
            tuple(MethodResult(distribution.METHODS[name], found) for name, found in part.pwcet.items()),
        )


def _charts(part: PartEntry, document: MeasurementDocument, compared: ComparedPartEntry | None) -> Iterator[Chart]:
    body, whole = part.body, part.histogram
    if body and whole.edges_ns[-1] > SPREAD * body.edges_ns[-1]:
        yield distribution.histogram(body, "The fastest 99 %")
    yield distribution.histogram(whole, "All executions")
    yield distribution.tail(part, compared.base_tail if compared else ())
    yield time_series.series_chart(part, document, small=len(document.parts) > 1)
    if compared and compared.shifts:
        yield distribution.shifts(compared)


def _checks(document: MeasurementDocument) -> list[Check]:
    return [
        *origin_checks(document),
        Check("Recount every part: executions, minimum, median, maximum of the readings.", python(_RECOUNT)),
    ]
