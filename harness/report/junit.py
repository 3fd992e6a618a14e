"""The same run for continuous integration: one suite a run, a case for every layer, step of a proof and trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from harness.core.text import shortened
from harness.report.proof_section import StepSection, parts
from harness.runs.facts import Facts, clean, explains_all, gather, place, value_text


def junit(run: Mapping[str, Any]) -> str:
    """JUnit XML of a run document; ValueError if its verdict contradicts its layers."""
    run = clean(run)
    facts = gather(run)
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", _attributes(run, facts))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(run, facts):
        ET.SubElement(properties, "property", name=name, value=value)
    for layer in run["layers"]:
        _add_case(suite, run, layer, facts)
    for part in parts(run.get("proof")):
        _add_step(suite, run, part)
    if run.get("deployed"):
        _add_deployed(suite, run)
    for condition in _conditions(run):
        _add_trace(suite, run, condition)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _attributes(run: Mapping[str, Any], facts: Facts) -> dict[str, str]:
    steps = parts(run.get("proof"))
    deployed = [run["deployed"]] if run.get("deployed") else []
    failed = [
        *(bool(part.refuted) for part in steps),
        *(bool(result["differing"]) for result in deployed),
        *(bool(c["violations"]) for c in _conditions(run)),
    ]
    return {
        "name": _class_name(run),
        "tests": str(len(run["layers"]) + len(steps) + len(deployed) + len(_conditions(run))),
        "failures": str(len(facts.differing_layers) + sum(failed)),
        "errors": "0",
        "skipped": "0",
        "time": str(run.get("wall_s", 0)),
        "timestamp": str(run.get("started", "")),
    }


def _class_name(run: Mapping[str, Any]) -> str:
    return f"{run['board']['name']}.{run['model']['name']}"


def _properties(run: Mapping[str, Any], facts: Facts) -> Iterator[tuple[str, str]]:
    """What a number in a CI view would otherwise hide: hashes, and what really ran where."""
    yield "verdict", run["verdict"]
    yield "reason", str(run.get("reason", ""))
    yield "vectors", str(run["stimuli"]["count"])
    yield "activations", str(facts.compared)
    yield "ran", facts.where
    yield "times", "compared only, not measured" if facts.on_hardware else "not MET: not all of it ran on hardware"
    for item in run["plan"]["items"]:
        yield f"item.{item['name']}", f"target {item['target']}, ran on {item['ran_on']}"
    for part in ("model", "bundle", "stimuli"):
        yield f"{part}.sha256", str(run.get(part, {}).get("sha256") or "not recorded")


def _add_case(suite: ET.Element, run: Mapping[str, Any], layer: Mapping[str, Any], facts: Facts) -> None:
    case = ET.SubElement(suite, "testcase", classname=_class_name(run), name=layer["name"])
    if layer["differing"]:
        failure = ET.SubElement(case, "failure", type="differs", message=_message(layer))
        failure.text = "\n".join(_explanation(run, layer, facts.differing_layers[0]["name"]))


def _add_step(suite: ET.Element, run: Mapping[str, Any], part: StepSection) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"{_class_name(run)}.proof", name=part.shows)
    if part.refuted:
        lines = [f"{claim['layer'] or 'network'}: {claim['counterexample']}" for claim in part.refuted]
        failure = ET.SubElement(case, "failure", type="differs", message=shortened(lines[0]))
        failure.text = "\n".join(lines)


def _add_deployed(suite: ET.Element, run: Mapping[str, Any]) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"{_class_name(run)}.deployed", name="deployment mode")
    result = run["deployed"]
    if result["differing"]:
        message = f"{result['differing']:,} of {result['compared']:,} outputs differ with --dump last --time network"
        ET.SubElement(case, "failure", type="differs", message=message)


def _conditions(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Under which the program was traced."""
    return list((run.get("conformance") or {"conditions": []})["conditions"])


def _add_trace(suite: ET.Element, run: Mapping[str, Any], condition: Mapping[str, Any]) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"{_class_name(run)}.trace", name=condition["name"])
    if condition["violations"]:
        message = f"{condition['violations']:,} steps in {condition['executions']:,} executions were not in order"
        failure = ET.SubElement(case, "failure", type="differs", message=message)
        lines = run["conformance"]["violations"]
        failure.text = "\n".join(line for line in lines if line.startswith(f"{condition['name']}: "))


def _message(layer: Mapping[str, Any]) -> str:
    counts = f"{layer['differing']:,} of {layer['compared']:,} activations differ, {layer['own']:,} by its own fault"
    first = layer["first_difference"]
    if not first:
        return counts
    expected, actual = value_text(first["expected"]), value_text(first["actual"])
    return f"{counts}; first: {place(first)}: expected {expected}, got {actual}"


def _explanation(run: Mapping[str, Any], layer: Mapping[str, Any], first: str) -> Iterator[str]:
    yield f"{layer['operator']} of item {layer['item']}, target {layer['target']}, ran on {layer['ran_on']}"
    if layer["name"] != first:
        yield f"{first} differs before it: look there first"
    headline = run["diagnosis"] if explains_all(run) else None
    for diagnosis in run["diagnoses"]:
        if diagnosis["layer"] == layer["name"] and headline and layer["name"] != headline["layer"]:
            yield f"diagnosis: see layer {headline['layer']}: one cause explains both"
        elif diagnosis["layer"] == layer["name"]:
            yield f"diagnosis: {(headline or diagnosis)['text']}"
            yield from map(_hypothesis, diagnosis["hypotheses"])
    failing = run["failing"]
    if failing and failing["layer"] == layer["name"]:
        yield f"smallest failing case: {failing['replay'] or failing['note']}"


def _hypothesis(hypothesis: Mapping[str, Any]) -> str:
    explained = f"{hypothesis['explained']:,} of {hypothesis['of']:,} explained"
    return f"  {hypothesis['cause']}: {explained}, {hypothesis['contradicted']:,} contradicted"
