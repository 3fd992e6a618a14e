"""Page of a decision: its numbers, the data of its map, and its policy."""

from __future__ import annotations

import base64
import hashlib
import html as markup
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.applications.decide.page import STUDY, STUDY_BOXES, html
from harness.core.errors import RequestError
from tests.support.decide.finished import COC, OUTPUT, ROBUST, SL, SR, TABLE, WL, WR, decided

BOX = (2, 1, 1, 0, 1)
HOSTILE = "# </template></script><script>alert(1)</script>{{ 7 * 7 }}\n"


def points() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The advisories of a table with 4 x 3 x 3 x 2 x 3 points: WL or WR at one of them."""
    advisories = np.full((4, 3, 3, 2, 3), COC, np.uint8)
    advisories[3, 2, 2, 1, 2] = WL | WR
    return advisories


def data(page: str) -> dict[str, Any]:
    [text] = re.findall(r'<template id="map-data">(.*?)</template>', page)
    found: dict[str, Any] = json.loads(markup.unescape(text))
    return found


def unpacked(text: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)


def rows(page: str) -> list[list[str]]:
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page))
    return [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in cells]


def test_the_map_has_the_sets_of_all_boxes_and_every_witness(tmp_path: Path) -> None:
    planted = {BOX: COC | SR, (0, 0, 0, 0, 0): SL, (2, 1, 1, 0, 0): COC | WL, (1, 0, 1, 0, 0): COC}
    job, document, sets = decided(tmp_path, TABLE, planted, points())
    found = data(html(job, document))
    assert found["decisions"] == ["COC", "WL", "WR", "SL", "SR"]
    assert [(axis["name"], axis["unit"], len(axis["cuts"])) for axis in found["axes"]] == [
        *(("rho", "ft", 4), ("theta", "rad", 3), ("psi", "rad", 3), ("v_own", "ft/s", 2), ("v_int", "ft/s", 3))
    ]
    assert found["axes"][0]["cuts"] == [0, 1000, 2000, 3000]
    assert np.array_equal(unpacked(found["sets"]).reshape(sets.shape), sets)
    allowed = unpacked(found["allowed"]).reshape(sets.shape)
    assert np.array_equal(allowed, np.asarray(job.stated.allowed))
    assert allowed[BOX] == COC | WL | WR
    assert allowed[2, 1, 1, 0, 0] == COC
    # The witnesses as the page computes them: first code of the interval + offset, value by interval and code.
    boxes = [(0, 0, 0, 0, 0), (2, 1, 1, 0, 0), BOX]
    assert [tuple(box) for box in np.argwhere(sets & ~allowed)] == boxes
    offsets = unpacked(found["codes"]).reshape(5, 3)
    with np.load(tmp_path / "witnesses.npz") as witnesses:
        codes, inputs = witnesses["codes"], witnesses["inputs"].astype(np.float64)
    mean, extent = [30000.0, 0, 0, 600, 600], [60000.0, 2 * np.pi, 2 * np.pi, 1200, 1200]
    for number, box in enumerate(boxes):
        for axis in range(5):
            code = (found["axes"][axis]["first"][box[axis]] + int(offsets[axis, number])) % 256
            value = found["values"][axis][str(box[axis] * 256 + code)]
            assert code == codes[number, axis]
            assert value == pytest.approx(inputs[number, axis] * extent[axis] + mean[axis], rel=1e-6, abs=1e-9)


def test_the_page_states_counts_and_lists_a_planted_violation(tmp_path: Path) -> None:
    job, document, _ = decided(tmp_path, TABLE, {BOX: COC | SR}, points())
    page = html(job, document)
    listed = rows(page)
    assert ["Safe", "23", "95.8 %"] in listed
    assert ["Violated", "1", "4.1 %"] in listed
    assert ["Undecided", "0", "0.0 %"] in listed
    assert ["COC", "24", "100.0 %", "0"] in listed
    assert ["SR", "1", "4.1 %", "1"] in listed
    [witness] = [row for row in listed if row[0] == "2, 1, 1, 0, 1"]
    codes = [int(each.last[index]) for each, index in zip(job.partition.codes, BOX, strict=True)]
    assert witness[1:3] == ["SR", ", ".join(map(str, codes))]
    values = [float(value) for value in re.findall(r"(?<= )-?[\d.]+(?= )", witness[3])]
    cuts = [
        [float(cut) for cut in axis.cuts[index : index + 2]] for axis, index in zip(job.stated.axes, BOX, strict=True)
    ]
    assert [low <= value <= high for value, (low, high) in zip(values, cuts, strict=True)] == [True] * 5
    assert data(page)["start"] == [*BOX]
    assert '<div class="verdict violated">' in page
    assert document.model.sha256 in page
    assert all(slab.decisions_sha256 in page for slab in document.slabs)
    assert "The last column is table II" not in page, "this is another partition than the study's"


def test_a_safe_decision_is_not_marked_as_identical(tmp_path: Path) -> None:
    page = html(*decided(tmp_path, TABLE, {}, points())[:2])
    assert '<div class="verdict safe">' in page
    assert 'class="verdict identical' not in page
    assert "<h2>Witnesses" not in page
    assert data(page)["start"] == [0, 0, 0, 0, 0]
    assert unpacked(data(page)["codes"]).size == 0


def test_a_robust_box_allows_any_single_decision(tmp_path: Path) -> None:
    page = html(*decided(tmp_path, ROBUST, {BOX: WL | WR, (0, 0, 0, 0, 0): SR})[:2])
    assert data(page)["allowed"] is None
    assert data(page)["start"] == [*BOX]
    assert ["Violated", "1", "1.0 %"] in rows(page)
    assert re.findall(r'data-panel="(\w+)"', page) == ["network", "violated"]


def test_half_spaces_allow_the_same_decision_in_all_boxes(tmp_path: Path) -> None:
    alternative, none = 1, 2
    job, document, _ = decided(tmp_path, OUTPUT, {BOX: alternative}, others=none)
    found = data(html(job, document))
    assert (found["allowed"], found["decisions"]) == (none, ["alternative 1", "none"])
    assert document.counts.violated == 1


@pytest.mark.parametrize("model", sorted(STUDY))
def test_the_table_of_the_study_is_next_to_ours(model: str, tmp_path: Path) -> None:
    job, document, _ = decided(tmp_path, TABLE, {BOX: SR}, points())
    whole = document.partition.model_copy(update={"boxes": STUDY_BOXES})
    named = document.model.model_copy(update={"name": model})
    page = html(job, document.model_copy(update={"partition": whole, "model": named}))
    by_name = {row[0]: row for row in rows(page) if len(row) == 4}
    shown = tuple(by_name[name][3] for name in ("Safe", "Violated", "Undecided"))
    # Rows of table II by previous advisory: CoC, SL, SR, WL, WR.
    expected = {
        "acas_coc": ("73 %", "0 %", "27 %"),
        "acas_sl": ("73 %", "3 %", "23 %"),
        "acas_sr": ("74 %", "4 %", "22 %"),
        "acas_wl": ("56 %", "0 %", "44 %"),
        "acas_wr": ("66 %", "4 %", "30 %"),
    }
    assert shown == expected[model]
    assert "The columns compare methods, not networks" in page


@pytest.mark.parametrize("name", ["decisions.npy", "witnesses.npz"])
def test_a_page_of_changed_files_is_refused(name: str, tmp_path: Path) -> None:
    job, document, sets = decided(tmp_path, TABLE, {BOX: SR}, points())
    if name == "decisions.npy":
        np.save(tmp_path / name, np.full_like(sets, COC))
    else:
        np.savez_compressed(tmp_path / name, **dict(np.load(tmp_path / name)) | {"extra": np.zeros(1)})
    with pytest.raises(RequestError, match=f"{name} is not the file of the decision"):
        html(job, document)


def test_the_policy_permits_the_script_of_the_page_only(tmp_path: Path) -> None:
    page = html(*decided(tmp_path, TABLE + HOSTILE, {BOX: SR}, points())[:2])
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    sha256 = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{sha256}'; base-uri 'none'; "
        "form-action 'none'"
    )
    assert page.count("<script") == page.count("<template") == page.count("</template>") == 1
    assert not re.search(r"""\s(?:src|href|action)=["']""", page)
    assert "</template></script>" in markup.unescape(page)
    assert "innerHTML" not in script


@pytest.mark.slow
def test_a_page_of_the_whole_partition_has_a_few_megabytes(tmp_path: Path) -> None:
    grid = np.indices((39, 41, 41, 12, 12), np.uint8)
    advisories = (1 << (grid[0] // 8 + grid[2] // 10 + grid[3] // 6) % 5).astype(np.uint8)
    advisories[:34] |= COC
    planted = {(30, *pair, 5, 6): SR | SL for pair in np.ndindex(40, 40)}
    job, document, sets = decided(tmp_path, TABLE, planted, advisories)
    page = html(job, document)
    assert document.partition.boxes == STUDY_BOXES == sets.size
    assert document.counts.violated > 100_000
    assert np.array_equal(unpacked(data(page)["sets"]).reshape(sets.shape), sets)
    assert len(page) < 2_500_000
    assert "The last column is table II" in page
