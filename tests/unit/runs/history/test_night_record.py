from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import RequestError
from harness.core.outcome import Ending, Outcome
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Attempt, Begun, Entry, Health, Result

FIRST = Entry(0, "xavier", "acas_coc", "", "run", Outcome.IDENTICAL, 60.0, ("--vectors", "1000"))
SECOND = Entry(1, "kv260", "acas_coc", "c,c", "measure", Outcome.MEASURED, 60.0)
LOST = Ending(Outcome.INCONCLUSIVE, "lost the board", "network")
GOOD = Ending(Outcome.IDENTICAL, "all are")


def test_a_night_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    night = record.create(tmp_path / "night", 5.0, "nightly.yaml", "ab", (FIRST, SECOND))
    assert night.name == "night"
    assert night.entries == (FIRST, SECOND)
    assert night.ended_s is None
    assert night.ending(SECOND) == Ending(Outcome.NOT_RUN, "not yet")
    result = Result(0, GOOD, (Attempt(5.0, 6.0, LOST), Attempt(6.5, 9.0, GOOD)), "night-000_xavier_acas_coc")
    record.keep_result(night.folder, result)
    record.keep_health(night.folder, Health("kv260", 5.5, "no answer"))
    record.end(night.folder, 10.0)
    ended = record.read(night.folder)
    assert (ended.ended_s, ended.results, ended.boards) == (
        10.0,
        {0: result},
        {"kv260": Health("kv260", 5.5, "no answer")},
    )
    assert result.retries == 1
    assert ended.surprises() == [SECOND]
    assert ended.ending(SECOND) == Ending(Outcome.NOT_RUN, "the night ended before its turn")


def test_what_was_begun_is_kept_until_it_has_ended(tmp_path: Path) -> None:
    folder = record.create(tmp_path / "night", 5.0, "nightly.yaml", "ab", (FIRST, SECOND)).folder
    begun = Begun(0, (Attempt(5.0, 6.0, LOST),), 6.5, "night-000_xavier_acas_coc")
    record.keep_begun(folder, begun)
    assert record.read(folder).begun == {0: begun}
    record.keep_result(folder, Result(0, GOOD))
    assert record.read(folder).begun == {}


def test_an_entry_has_the_same_name_in_every_night() -> None:
    assert FIRST.key == "run xavier acas_coc --vectors 1000"
    assert SECOND.key == "measure kv260 acas_coc c,c"


def test_nights_are_found_in_their_order(tmp_path: Path) -> None:
    assert record.folders(tmp_path) == []
    for name in ("20261122", "20261121"):
        record.create(tmp_path / "nights" / name, 1.0, "f", "ab", ())
    (tmp_path / "nights" / "20261123").mkdir()  # killed before it was written
    assert [folder.name for folder in record.folders(tmp_path)] == ["20261121", "20261122"]


@pytest.mark.parametrize("damage", ["{", json.dumps({"began_s": 1}), "[]", "7"])
def test_what_is_no_night_is_refused(tmp_path: Path, damage: str) -> None:
    folder = record.create(tmp_path / "night", 1.0, "f", "ab", ()).folder
    (folder / "night.json").write_text(damage)
    with pytest.raises(RequestError, match="not a night, or a night of another version"):
        record.read(folder)


def test_outcomes_tell_what_is_found_from_what_failed() -> None:
    assert [outcome for outcome in Outcome if outcome.good] == [Outcome.IDENTICAL, Outcome.MEASURED, Outcome.VALID]
    assert [outcome for outcome in Outcome if outcome.sound and not outcome.good] == [Outcome.WITHIN_BOUND]
    assert [outcome.exit_code for outcome in Outcome] == [0, 1, 0, 0, 1, 1, 1, 1, 3, 3]
    assert [outcome for outcome in Outcome if not outcome.final] == [Outcome.INCONCLUSIVE, Outcome.NOT_RUN]
    assert str(LOST) == "inconclusive (network)"
    assert str(GOOD) == "identical"


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["soon", None, [], float("nan"), 1e300, -1.0, {}])
@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("night.json", ["began_s"]),
        ("night.json", ["entries", 0, "limit_s"]),
        ("boards/a.json", ["checked_s"]),
        ("begun/00000.json", ["attempts", 0, "began_s"]),
        ("entries/00000.json", ["attempts", 0, "ended_s"]),
        ("ended.json", ["ended_s"]),
    ],
)
def test_times_that_cannot_be_calculated_with_make_no_night(
    tmp_path: Path, file: str, keys: list[str | int], wrong: object
) -> None:
    refuses(tmp_path, file, keys, wrong)


@pytest.mark.parametrize("wrong", [7, None, {"a": 1}])
@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("night.json", ["file"]),
        ("night.json", ["entries", 0, "board"]),
        ("boards/a.json", ["quarantined"]),
        ("entries/00000.json", ["ending", "reason"]),
        ("entries/00000.json", ["run"]),
        ("begun/00000.json", ["run"]),
    ],
)
def test_texts_that_are_none_make_no_night(tmp_path: Path, file: str, keys: list[str | int], wrong: object) -> None:
    refuses(tmp_path, file, keys, wrong)


def refuses(tmp_path: Path, file: str, keys: list[str | int], wrong: object) -> None:
    """A night of which one value is wrong."""
    lost = Attempt(1.0, 2.0, Ending(Outcome.INCONCLUSIVE, "lost", "network"))
    entry = Entry(0, "a", "x", "", "run", Outcome.IDENTICAL, 60.0)
    night = record.create(tmp_path, 1.0, "nightly.yaml", "ab", (entry,))
    record.keep_begun(tmp_path, Begun(0, (lost,), 1.0))
    record.keep_result(tmp_path, Result(0, lost.ending, (lost,)))
    record.keep_health(tmp_path, Health("a", 1.0))
    record.end(tmp_path, 2.0)
    assert record.read(night.folder).ended_s == 2.0
    document = json.loads((tmp_path / file).read_text())
    part = document
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = wrong
    (tmp_path / file).write_text(json.dumps(document))
    with pytest.raises(RequestError, match="not a night, or a night of another version"):
        record.read(tmp_path)
