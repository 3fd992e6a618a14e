"""The previous run of a board and a model, found by the names of folders."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from harness.runs.entries import ChangeEntry, MeasurementDocument, PreviousEntry, RunDocument
from harness.runs.history.previous import MOST_READ, previous
from tests.support.history.laboratory import make_wrong, run_document
from tests.support.measurement import documents

NOW = "20261124-163000_xavier_acas_coc"


@pytest.fixture
def document() -> dict[str, Any]:
    return run_document("xavier", "acas_coc") | {"started": "2026-11-24T16:30:00Z"}


def keep(runs: Path, name: str, document: dict[str, Any], **changes: Any) -> Path:
    """Write a finished run."""
    (runs / name).mkdir()
    (runs / name / "run.json").write_text(json.dumps(document | changes))
    return runs / name


def found(runs: Path, document: dict[str, Any]) -> PreviousEntry | None:
    return previous(runs / NOW, RunDocument.view(document))


def test_the_latest_run_of_the_same_board_and_model_is_found(tmp_path: Path, document: dict[str, Any]) -> None:
    assert found(tmp_path, document) is None
    for day, hour in ((20, "0"), (22, "0"), (21, "0")):
        keep(tmp_path, f"202611{day}-{hour}20000_xavier_acas_coc", document, started=f"2026-11-{day}T02:00:00Z")
    keep(tmp_path, "20261123-020000-007_xavier_acas_coc_2", document, started="2026-11-23T02:00:00Z")
    keep(tmp_path, "20261124-010000_xavier_acas_wl", document, started="2026-11-24T01:00:00Z")
    keep(tmp_path, "20261124-020000_kv260_acas_coc", document, started="2026-11-24T02:00:00Z")
    keep(tmp_path, "by-hand_xavier_acas_coc", document, started="2026-11-24T03:00:00Z")
    (tmp_path / "20261124-040000_xavier_acas_coc").mkdir()
    before = found(tmp_path, document)
    assert before
    assert (before.run, before.started) == ("20261123-020000-007_xavier_acas_coc_2", "2026-11-23T02:00:00Z")


@pytest.mark.parametrize(
    "changes",
    [
        {"started": "2026-11-24T17:00:00Z"},
        {"kind": "measure"},
        {"board": {"name": "kv260"}},
        {"model": {"name": "acas_coc_2"}},
        {"board": None},
        {"layers": 3},
    ],
)
def test_a_run_of_another_kind_a_later_one_and_a_damaged_one_are_left_out(
    tmp_path: Path, document: dict[str, Any], changes: dict[str, Any]
) -> None:
    keep(tmp_path, "20261122-020000_xavier_acas_coc", document, started="2026-11-22T02:00:00Z")
    keep(tmp_path, "20261123-020000_xavier_acas_coc", document | {"started": "2026-11-23T02:00:00Z"} | changes)
    before = found(tmp_path, document)
    assert before
    assert before.run == "20261122-020000_xavier_acas_coc"


def test_few_documents_are_read(tmp_path: Path, document: dict[str, Any]) -> None:
    keep(tmp_path, "20261101-020000_xavier_acas_coc", document, started="2026-11-01T02:00:00Z")
    for day in range(2, 2 + MOST_READ):
        (tmp_path / f"202611{day:02}-020000_xavier_acas_coc").mkdir()
        (tmp_path / f"202611{day:02}-020000_xavier_acas_coc" / "run.json").write_text("{")
    assert found(tmp_path, document) is None


def test_what_changed_is_told(tmp_path: Path, document: dict[str, Any]) -> None:
    before = copy.deepcopy(document) | {"started": "2026-11-23T02:00:00Z"}
    make_wrong(before)
    before["bundle"] |= {"compiler": "gcc 11"}
    document["bundle"] |= {"compiler": "gcc 12"}
    for run, duration_ns in ((before, 200_000), (document, 250_000)):
        run["conformance"] = {"conforms": True, "picture": {"duration_ns": duration_ns}}
    keep(tmp_path, "20261123-020000_xavier_acas_coc", before)
    since = found(tmp_path, document)
    assert since
    assert (since.verdict, document["verdict"]) == ("differs", "identical")
    assert since.results == [ChangeEntry(topic="verdict", base="differs", new="identical")]
    assert since.layers == [ChangeEntry(topic="dense_3", base="7", new="0")]
    assert since.causes == [ChangeEntry(topic="compiler", base="gcc 11", new="gcc 12")]
    assert since.times == [ChangeEntry(topic="median traced execution", base="200 µs", new="250 µs")]


def test_a_measurement_is_compared_with_one_of_the_same_scope(tmp_path: Path) -> None:
    base = documents.gumbel(400)
    now = documents.timed(base * 2) | {"started": "2026-11-24T16:30:00Z", "kind": "measure"}
    name = f"_{now['board']['name']}_{now['model']['name']}"
    earlier = documents.timed(base) | {"started": "2026-11-22T16:30:00Z", "kind": "measure"}
    other = documents.timed(base) | {"started": "2026-11-23T16:30:00Z", "kind": "measure"}
    other["measured"] = other["measured"] | {"scope": "layer"}
    keep(tmp_path, f"20261122-163000{name}", earlier)
    keep(tmp_path, f"20261123-163000{name}", other)
    since = previous(tmp_path / f"20261124-163000{name}", MeasurementDocument.view(now))
    assert since
    assert since.run == f"20261122-163000{name}"
    [median] = since.times
    assert median.topic == f"median, {now['parts'][0]['name']}"
    assert median.base != median.new
