"""JUnit XML for continuous integration: one suite of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from harness.core.safe_io import clean


@dataclass(frozen=True)
class Problem:
    """The reason why a case did not pass; `kind` is its type and `text` holds its details."""

    tag: Literal["failure", "error", "skipped"]
    message: str
    kind: str = ""
    text: str = ""


@dataclass(frozen=True)
class Case:
    """A test case; it passed if it has no `problem`."""

    class_name: str
    name: str
    problem: Problem | None = None
    time_s: float | None = None
    output: str = ""


def write(
    name: str,
    cases: Sequence[Case],
    *,
    timestamp: str,
    time_s: float | None = None,
    properties: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the XML of a suite; characters that are unsafe to display are removed from all texts."""
    root = ET.Element("testsuites")
    counter = Counter(case.problem.tag for case in cases if case.problem)
    suite = _add(
        root,
        "testsuite",
        name=name,
        tests=len(cases),
        failures=counter["failure"],
        errors=counter["error"],
        skipped=counter["skipped"],
        time=time_s,
        timestamp=timestamp,
    )
    topics = list(properties)
    if topics:
        listed = _add(suite, "properties")
        for topic, value in topics:
            _add(listed, "property", name=topic, value=value)
    for case in cases:
        time = None if case.time_s is None else f"{case.time_s:.3f}"
        element = _add(suite, "testcase", classname=case.class_name, name=case.name, time=time)
        if problem := case.problem:
            _add(element, problem.tag, problem.text, type=problem.kind or None, message=problem.message)
        if case.output:
            _add(element, "system-out", case.output)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(parent: ET.Element, tag: str, text: str = "", **attributes: object) -> ET.Element:
    """Add an element; an attribute that is None is omitted."""
    given = {key: clean(str(value)) for key, value in attributes.items() if value is not None}
    element = ET.SubElement(parent, tag, given)
    element.text = clean(text) or None
    return element
