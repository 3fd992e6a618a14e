"""A night for continuous integration: one suite a night, one case an entry."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from harness.core.outcome import Outcome
from harness.core.safe_io import clean
from harness.nightly.record import Entry, Night


def junit(night: Night) -> str:
    """JUnit XML: a wrong verdict is a failure, an inconclusive one an error whose type is the part, the rest skipped.

    A known-bad entry that differs as expected has passed.
    """
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=f"harness nightly {night.name}")
    for entry in night.entries:
        _add_case(suite, night, entry)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(night.entries)))
    suite.set("timestamp", f"{datetime.fromtimestamp(night.began_s, UTC):%Y-%m-%dT%H:%M:%SZ}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ET.Element, night: Night, entry: Entry) -> None:
    result, ending = night.results.get(entry.number), night.ending(entry)
    seconds = sum(attempt.ended_s - attempt.began_s for attempt in result.attempts) if result else 0.0
    case = ET.SubElement(suite, "testcase", classname=clean(f"{entry.board}.{entry.model}"), name=clean(entry.key))
    case.set("time", f"{seconds:.3f}")
    if ending.outcome is Outcome.NOT_RUN:
        ET.SubElement(case, "skipped", message=clean(ending.reason))
    elif ending.outcome is Outcome.INCONCLUSIVE:
        ET.SubElement(case, "error", type=ending.part, message=clean(f"{ending}: {ending.reason}"))
    elif ending.outcome is not entry.expect:
        message = f"{ending.outcome}, expected {entry.expect}: {ending.reason}"
        ET.SubElement(case, "failure", type=str(ending.outcome), message=clean(message))
    if result:
        ET.SubElement(case, "system-out").text = clean("\n".join(_told(night, entry)))


def _told(night: Night, entry: Entry) -> list[str]:
    """All that is known of an ended entry: its verdict, its evidence, every attempt."""
    result = night.results[entry.number]
    lines = [f"{result.ending}, expected {entry.expect}: {result.ending.reason}"]
    lines += [f"evidence: runs/{result.run}"] if result.run else []
    if result.retries:
        lines.append(f"retries: {result.retries}")
        lines += [f"attempt {n}: {a.ending}: {a.ending.reason}" for n, a in enumerate(result.attempts, start=1)]
    return lines
