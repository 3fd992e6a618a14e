"""The pages of an assurance case: origins and missing evidence are visible, texts are escaped."""

from __future__ import annotations

import csv
import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.applications.case import page as case
from harness.applications.case.entries import (
    CaseDocument,
    ElementEntry,
    LeafEntry,
    ModelEntry,
    ObjectiveEntry,
    Origin,
    RequestEntry,
    TemplateEntry,
    VersionEntry,
)
from harness.core.errors import ToolError

pytestmark = pytest.mark.skipif(shutil.which("dot") is None, reason="there is no Graphviz: apt-get install graphviz")
HOSTILE = '<script>alert("1")</script> & \\n'


def a_case(origin: Origin = "hardware", **solution: object) -> CaseDocument:
    """A goal with one solution, and one without."""
    leaf = LeafEntry(
        kind="run", path="../run", sha256="0" * 64, files={"report.html": "1"}, model_sha256="m", network_sha256=None,
        bundle="b", revision="r", board="x", date="2026", origin=origin, where=HOSTILE,
    )  # fmt: skip
    elements = {
        "G-1": ElementEntry(text="top", label="top", supported_by=["G-2", "G-3"], in_context_of=["A-1-1", "A-1-2"]),
        "G-2": ElementEntry(text=HOSTILE, label=HOSTILE, supported_by=["Sn-1"]),
        "Sn-1": ElementEntry(text="identical", label="identical", leaf="run", **solution),  # type: ignore[arg-type]
        "G-3": ElementEntry(text="open", label="open", undeveloped=True, command="harness prove", needs="board x"),
        "A-1-1": ElementEntry(text="one", label="one"),
        "A-1-2": ElementEntry(text="two", label="two"),
    }
    return CaseDocument(
        schema=1, harness=VersionEntry(version="1", revision="r"), built="2026", elements=elements,
        leaves={"run": leaf}, template=TemplateEntry(name="t", sha256="s", standard=HOSTILE),
        model=ModelEntry(name="m", sha256="m", layers=2),
        request=RequestEntry(board="x", model="m", items=None, split=None, sync=None, buffers=None),
        objectives=[ObjectiveEntry(id="A", section="VI", text="first", goal="G-2", limits="a, limit"),
                    ObjectiveEntry(id="B", section="VI", text="second", goal="G-3", limits="none")],
    )  # fmt: skip


class Tags(HTMLParser):
    """The scripts and links of a page, and the origins that it shows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.links, self.classes = 0, set[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.scripts += tag == "script"
        self.links |= {str(found.get("href") or found.get("xlink:href"))} if tag == "a" else set()
        self.classes += [str(found["class"])] if "class" in found else []


def test_the_page_links_evidence_and_escapes_texts() -> None:
    page = case.pages(a_case())["index.html"]
    tags = Tags(page)
    assert "<script>alert" not in page
    assert tags.scripts == 1
    assert {"../run/report.html", "#G-2", "objectives.csv", "argument.svg"} <= tags.links
    assert {link for link in tags.links if ":" in link} == set()
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("origin", "word", "state", "drawn"),
    [
        ("hardware", "HARDWARE", "supported", "solution real"),
        ("this machine", "this machine", "supported", "solution real"),
        ("emulation", "EMULATED", "emulated", "solution substitute"),
        ("simulation", "SIMULATED", "emulated", "solution substitute"),
        ("analysis", "analysis", "supported", "solution analysis"),
    ],
)
def test_the_origin_of_evidence_is_visible_in_words_and_colour(
    origin: Origin, word: str, state: str, drawn: str
) -> None:
    made = case.pages(a_case(origin))
    classes = Tags(made["index.html"]).classes
    assert f"node {drawn}" in classes
    assert f"state {state}" in classes
    assert f">{word}</text>" in made["argument.svg"]
    [row, missing] = csv.DictReader(io.StringIO(made["objectives.csv"]))
    assert (row["state"], row["evidence"], row["origins"], row["limits"]) == (state, "run", origin, "a, limit")
    assert (missing["state"], missing["evidence"], missing["undeveloped"]) == ("undeveloped", "", "G-3")
    warned = "do not come from the hardware" in made["index.html"]
    assert warned == (state == "emulated")


def test_refuted_evidence_is_never_shown_as_support() -> None:
    made = case.pages(a_case(refuted=True))
    assert "node solution refuted" in made["argument.svg"]
    assert "A goal is refuted" in made["index.html"]
    assert next(csv.DictReader(io.StringIO(made["objectives.csv"])))["state"] == "refuted"


def test_all_assumptions_of_a_goal_are_one_node_and_one_row_each() -> None:
    made = case.pages(a_case())
    assert "2 assumptions" in made["argument.svg"]
    assert len(re.findall(r'<dt id="A-1-\d">', made["index.html"])) == 2


def test_the_picture_of_a_document_has_no_links() -> None:
    document = a_case()
    assert "xlink:href" in case.picture(document)
    assert "xlink:href" not in case.picture(document, links=False)


def test_a_missing_browser_or_graphviz_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="none of chromium, ") as caught:
        case.pdf(tmp_path)
    assert "print it to a file" in caught.value.hint
    with pytest.raises(ToolError, match="dot of Graphviz is missing"):
        case.pages(a_case())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium")
def test_the_page_is_printed(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(case.pages(a_case())["index.html"])
    assert case.pdf(tmp_path).read_bytes().startswith(b"%PDF-")
