"""Forged decisions: whole slabs and stratified boxes are decided again, and every entry follows from the files."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.applications.decide import again, check, page
from harness.applications.decide import job as decision
from harness.model import load
from tests.support.cli.command import User
from tests.support.decide.domains import random_domain
from tests.support.decide.forged import mask, mask_box, rebuild, silent

CORNER = (0, 4, 0)
"""A box with several decisions, of which a forger can hide all but the first without a change of another box."""
SEEDS = range(1, 4)


def decided(folder: Path, cache: Path, patch: pytest.MonkeyPatch, codes: int) -> Path:
    """Decide a random domain of about so many codes of each axis."""
    (cache / "engines").mkdir(exist_ok=True)
    patch.setenv("HARNESS_CACHE", str(cache))
    domain = random_domain(1, codes=codes, argmax=True, float_output=True)
    model, stated = domain.write(folder, property="robust", axes=domain.axes())
    network = load(model)
    job = decision.new(decision.planned(folder / "runs", network, stated), network, stated)
    with ThreadPoolExecutor(1) as pool:
        document = decision.run(job, pool, 1, silent)
    decision.write(job, document, page.html(job, document))
    return job.path


def wrong(folder: Path, seed: int = 1) -> set[str]:
    """The claims of `harness verify` that do not hold."""
    return {each.claim for each in check.check(folder, check.BOXES, seed, silent) if not each.holds}


def test_one_forged_box_of_a_domain_with_millions_of_code_vectors_is_found(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = decided(tmp_path, cache, monkeypatch, 150)
    before = np.load(folder / "decisions.npy")
    assert wrong(folder) == set()
    rebuild(folder, mask_box(CORNER))
    assert np.argwhere(np.load(folder / "decisions.npy") != before).tolist() == [[*CORNER]]
    for seed in SEEDS:
        assert {"slabs again", "boxes again"} <= wrong(folder, seed) <= {"slabs again", "boxes again", "ONNX Runtime"}


def test_entries_that_do_not_follow_from_the_files_are_found(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = decided(tmp_path, cache, monkeypatch, 12)
    document = json.loads((folder / "decide.json").read_text())
    slabs = document["slabs"]
    for change in (
        {"cpu_s": document["cpu_s"] + 1},
        {"code_vectors_per_s": 1},
        {"slabs": [slabs[0] | {"kernel": "CUDA on NVIDIA H200, sm_90"}, *slabs[1:]]},
        {"slabs": [*slabs, slabs[0]]},
    ):
        (folder / "decide.json").write_text(json.dumps(document | change))
        assert wrong(folder) == {"entries"}, change


def test_finished_slabs_are_decided_again_when_a_decision_continues(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, user = decided(tmp_path, cache, monkeypatch, 12), User(tmp_path, cache)
    slabs = sorted((folder / "slabs").iterdir())

    def resumed() -> tuple[int, str]:
        (folder / "decide.json").unlink()
        slabs[0].unlink()
        ended = user.harness("decide", "--resume", str(folder))
        return ended.code, ended.err

    code, said = resumed()
    assert code == 1, said
    assert f"decided again: {len(slabs) - 1} of {len(slabs) - 1} whole slabs" in said
    rebuild(folder, mask)
    code, said = resumed()
    assert (code, "are not those of the network" in said) == (2, True), said
    assert not (folder / "decide.json").exists()


def test_damaged_slabs_and_requests_are_no_bugs(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, user = decided(tmp_path, cache, monkeypatch, 12), User(tmp_path, cache)
    slab, request = min((folder / "slabs").iterdir()), json.loads((folder / "request.decide.json").read_text())
    for content in (b"PK\x03\x04", b""):
        slab.write_bytes(content)
        assert "slabs" in wrong(folder)
    np.savez(slab, regions=np.zeros(3, np.uint8), facts=np.array(["x"]))
    assert "slabs" in wrong(folder)
    changes: list[dict[str, Any]] = [
        *({"slab_codes": 0}, {"slab_codes": 1 << 40}, {"slab_axis": 7}),
        *({"property": request["property"] | {"sha256": sha256}} for sha256 in ({}, {"../../x": "0" * 64})),
    ]
    for change in changes:
        (folder / "request.decide.json").write_text(json.dumps(request | change))
        ended = user.harness("verify", str(folder))
        assert (ended.code, "request.decide.json" in ended.out) == (1, True), ended.out
    shutil.rmtree(folder)


@pytest.mark.parametrize(("total", "count"), [(7, 7), (100, 9), (7_356_800, 4000), (1 << 32, 10_000)])
def test_strata_cover_all_boxes(total: int, count: int) -> None:
    random = np.random.default_rng(total)
    numbers = np.sort(again.strata(total, count, random))
    assert numbers.min() >= 0
    assert numbers.max() < total
    assert len({*numbers.tolist()} | {*range(total)} if total == count else {*numbers.tolist()}) == count
    assert (np.abs(numbers - (np.arange(count) + 0.5) * total / count) <= total / count / 2 + 1).all()


def test_the_stated_probability_is_that_of_random_boxes() -> None:
    assert again.detection(7, 7) == "these are all boxes"
    assert again.detection(4115, 7_356_800).startswith("wrong sets of 0.11% of all boxes, or more, are found with")
    random, boxes, count = np.random.default_rng(5), 500, 40
    forged = np.zeros(boxes, np.bool_)
    forged[:54] = True  # 10.9 % in one place: 1 - 0.01^(1/40)
    found = np.mean([forged[again.strata(boxes, count, random)].any() for _ in range(400)])
    assert found >= 0.99
    assert "wrong sets of 10.87%" in again.detection(count, boxes)
