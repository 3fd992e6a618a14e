"""A measurement for continuous integration: one suite, a case for every part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from harness.report.measurements.labels import clock_text, given, percentile, variation
from harness.runs.measurement.facts import Facts, varying


def junit(document: Mapping[str, Any], facts: Facts) -> str:
    """JUnit XML; a part that is slower or whose counts vary fails, and all parts where an output is wrong."""
    failures = {part["name"]: _failure(part, document) for part in document["parts"]}
    name = f"{document['board']['name']}.{document['model']['name']}"
    kind = "error" if document["verdict"] == "inconclusive" else "failure"
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", _attributes(name, document, sum(map(bool, failures.values())), kind))
    properties = ET.SubElement(suite, "properties")
    for topic, value in _properties(document, facts):
        ET.SubElement(properties, "property", name=topic, value=value)
    for part in document["parts"]:
        case = ET.SubElement(suite, "testcase", classname=name, name=part["name"])
        if sentence := failures[part["name"]]:
            ET.SubElement(case, kind, type=document["verdict"], message=sentence)
        ET.SubElement(case, "system-out").text = _numbers(part, document)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _attributes(name: str, document: Mapping[str, Any], bad: int, kind: str) -> dict[str, str]:
    return {
        "name": name,
        "tests": str(len(document["parts"])),
        "failures": str(bad if kind == "failure" else 0),
        "errors": str(bad if kind == "error" else 0),
        "skipped": "0",
        "time": str(document["wall_s"]),
        "timestamp": str(document["started"]),
    }


def _failure(part: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Why a part is not as it must be; empty if it is."""
    name, against = part["name"], document["against"]
    if document["verdict"] == "differs":
        return str(document["reason"])
    if part in varying(document):
        return f"{part['function']} takes {part['min']:,} to {part['max']:,} instructions: {variation(part)}"
    if against and name in against["slower"]:
        [found] = [found for found in against["parts"] if found["name"] == name]
        return f"slower than {against['base']['run']}: {'; '.join(found['reasons'])}"
    if against and document["verdict"] == "inconclusive" and name in against.get("too_noisy", ()):
        return str(document["reason"])
    return ""


def _properties(document: Mapping[str, Any], facts: Facts) -> Iterator[tuple[str, str]]:
    """What a number in a CI view would otherwise hide."""
    yield "verdict", document["verdict"]
    yield "reason", document["reason"]
    yield "ran", facts.where
    yield "times", "MET" if facts.is_met else f"not MET: {facts.why_not_met}"
    yield "executions", str(document["measured"]["samples"])
    yield "load", document["load"]["name"]
    yield "clock", clock_text(document)
    for number, caution in enumerate(facts.cautions, 1):
        yield f"caution.{number}", caution
    for item in document["plan"]["items"]:
        yield f"item.{item['name']}", f"target {item['target']}, ran on {item['ran_on']}"
    for part in ("model", "bundle", "stimuli", "readings"):
        yield f"{part}.sha256", str(document[part]["sha256"])


def _numbers(part: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The part's statistics in one line."""
    unit = document["measured"]["unit"]
    if unit != "ns":
        return f"min {part['min']} {unit}, max {part['max']} {unit}"
    summary = part["summary"]
    values = {name: summary[f"{name}_ns"] for name in ("min", "median", "mean", "max")}
    values |= {percentile(one): given(one["value_ns"]) for one in summary["quantiles"]}
    return ", ".join(f"{name} {value:.10g} ns" for name, value in values.items() if value is not None)
