"""`harness verify` on real measurements, and on what somebody has made of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.file_digest import file_sha256
from harness.execution import dumps
from tests.integration.cli.test_verify import change, model, rehash, states, text, user
from tests.support.cli.command import User
from tests.support.cli.history import History

__all__ = ["model", "user"]  # fixtures

pytestmark = pytest.mark.usefixtures("revisions_asked_once")

SAMPLES = 500


def measured(user: User, model: Path, *options: str, **environment: str) -> Path:
    asked = ("--board", "host", "--items", "c,c", "--model", str(model), "--samples", str(SAMPLES))
    return Path(user.harness("measure", *asked, "--json", *options, **environment).document["run"])


@pytest.fixture(scope="module")
def base(user: User, model: Path) -> Path:
    return measured(user, model)


@pytest.fixture(scope="module")
def compared(user: User, model: Path, base: Path) -> Path:
    return measured(user, model, "--against", str(base))


@pytest.fixture(scope="module")
def wrong(user: User, model: Path, history: History) -> Path:
    return measured(user, model, **history.wrong)


def test_a_measurement_stands_with_its_outputs_and_what_it_was_compared_with(user: User, compared: Path) -> None:
    ended = user.here("verify", str(compared), "--json", "--no-rebuild")
    assert ended.code == 0, ended.out
    assert states(ended) == dict.fromkeys(states(ended), "ok") | {"bundle": "not checked", "signature": "not checked"}
    [sha256] = json.loads((compared / "run.json").read_text())["outputs"]["sha256"]
    assert text(ended, "outputs") == f"1,500, computed again for 500 vectors: those of every segment, {sha256[:16]}"


def test_a_measurement_of_a_wrong_program_stands_too(user: User, wrong: Path) -> None:
    ended = user.here("verify", str(wrong), "--json", "--no-rebuild")
    assert (ended.code, ended.document["verdict"]) == (0, "differs"), ended.out
    assert text(ended, "outputs") == "wrong in 1 of 1 segments, as run.json says"


def hide_difference(folder: Path) -> None:
    """All that is in the folder agrees on outputs that are right; only their hash is not that of right ones."""
    (folder / "wrong-outputs.json").unlink()
    (folder / "wrong-outputs.npy").unlink()
    change(folder / "run.json", lambda run: run["outputs"].update(differing=0, first=None))


def other_difference(folder: Path) -> None:
    values = np.load(folder / "wrong-outputs.npy")
    values[3, 0] ^= 1
    dumps.write(folder / "wrong-outputs.npy", values)


def edit(how: Callable[[Any], object]) -> Callable[[Path], None]:
    return lambda folder: change(folder / "run.json", how)


WRONG = {
    "hidden": (hide_difference, "there is no wrong-outputs.npy"),
    "another": (other_difference, "no segment's wrong outputs"),
    "fewer": (edit(lambda run: run["outputs"].update(differing=1)), "outputs.differing"),
    "more": (edit(lambda run: run["outputs"].update(differing=1499)), "says  is 1499"),
    "first": (edit(lambda run: run["outputs"]["first"].update(unit=7)), "first.unit is 7"),
    "note": (
        lambda folder: change(folder / "wrong-outputs.json", lambda found: found.update(differing=1)),
        "differing",
    ),
}


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.campaign if how == "more" else ()) for how in WRONG]
)
def test_what_was_made_of_wrong_outputs_is_found(user: User, wrong: Path, tmp_path: Path, how: str) -> None:
    forge, words = WRONG[how]
    copy = Path(shutil.copytree(wrong, tmp_path / "copy"))
    forge(copy)
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", "--no-rebuild")
    assert (ended.code, ended.document["stands"], states(ended)["outputs"] == "not ok") == (1, False, True), ended.out
    assert words in text(ended, "outputs")


def judge_otherwise(run: dict[str, Any]) -> None:
    """Whatever it was: on a machine at work anything may have become slower."""
    part = run["against"]["parts"][0]
    part["verdict"] = "unchanged" if part.get("verdict") == "slower" else "slower"


def regress_otherwise(run: dict[str, Any]) -> None:
    before = run["against"]["regressed"]
    run["against"].update(regressed=not before, slower=[] if before else ["small"])


def call_it_met(run: dict[str, Any]) -> None:
    run["measured"]["not_met_because"] = ""
    for item in run["plan"]["items"]:
        item["ran_on"] = "host-simulation"


def outputs_of_less(run: dict[str, Any]) -> None:
    run["outputs"]["sha256"] = dict.fromkeys(run["outputs"]["sha256"], 0)


RIGHT = {
    "slower": ("verdict", "against.slower", judge_otherwise),
    "compared": ("against", "regressed is", regress_otherwise),
    "met": ("verdict", "the document claims MET", call_it_met),
    "unit": ("measured", "unit is", lambda run: run["measured"].update(unit="cycles")),
    "alone": ("measured", "alone is false", lambda run: run["parts"][0].update(alone=False)),
    "outputs": ("outputs", "differing", lambda run: run["outputs"].update(differing=3)),
    "segments": ("outputs", "outputs of 0 segments", outputs_of_less),
    "unhashed": ("outputs", "written by an older version", lambda run: run["outputs"].pop("sha256")),
}


@pytest.mark.parametrize("how", RIGHT)
def test_what_was_made_of_a_measurement_is_found(user: User, compared: Path, how: str) -> None:
    claim, words, forge = RIGHT[how]
    copy = Path(shutil.copytree(compared, compared.with_name(f"forged_{how}")))
    change(copy / "run.json", forge)
    ended = user.here("verify", str(copy), "--json", "--no-rebuild")
    assert (ended.code, words in text(ended, claim)) == (3 if how == "unhashed" else 1, True), ended.out


def test_wrong_outputs_that_nobody_tells_of_are_found(user: User, base: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(base, tmp_path / "copy"))
    (copy / "wrong-outputs.json").write_text("{}")
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", "--no-rebuild")
    assert (ended.code, "has wrong outputs" in text(ended, "outputs")) == (1, True)


@pytest.mark.parametrize(
    ("processor", "words"),
    [({}, "it was written by harness 0.0.9"), ({"isa": "none"}, "it was computed by another processor than this")],
)
def test_the_statistics_of_another_version_or_processor_are_not_checked(
    user: User, base: Path, tmp_path: Path, processor: dict[str, str], words: str
) -> None:
    copy = Path(shutil.copytree(base, tmp_path / "copy"))
    change(copy / "run.json", lambda run: run["harness"].update(version="0.0.9", revision=None))
    change(copy / "run.json", lambda run: run["reference"].update(processor))
    change(copy / "run.json", lambda run: run["parts"][0]["summary"].update(mean_ns=1.0))
    ended = user.here("verify", str(copy), "--json", "--no-rebuild", "--reference", "none")
    assert (ended.code, states(ended)["numbers"]) == (3, "not checked")
    assert words in text(ended, "numbers")


def test_its_statistics_follow_from_its_readings(user: User, base: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(base, tmp_path / "copy"))
    readings = np.load(copy / "readings.npy")
    readings[17] += 1_000_000
    np.save(copy / "readings.npy", readings)
    change(copy / "run.json", lambda doc: doc["readings"].update(sha256=file_sha256(copy / "readings.npy")))
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", "--no-rebuild")
    assert (ended.code, states(ended)["numbers"]) == (1, "not ok")
    assert "recomputed as" in text(ended, "numbers")


def test_what_it_was_compared_with_need_not_be_here(user: User, compared: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(compared, tmp_path / "copy"))
    ended = user.here("verify", str(copy), "--json", "--no-rebuild", "--reference", "none")
    assert (ended.code, states(ended)["against"]) == (0, "not checked")
    assert "is not in the same runs folder" in text(ended, "against")
