from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.local import LocalBoard
from harness.boards.tuning import files
from tests.support.tuning.system import WithoutRights, on_board, write


def test_files_are_read_by_patterns_in_one_round_trip(root: Path) -> None:
    found = files.read(LocalBoard(), on_board(root), ["proc/irq/*/smp_affinity_list", "proc/interrupts", "nowhere/*"])
    assert {path: lines for path, lines in found.items() if "irq" in path} == {
        "proc/irq/24/smp_affinity_list": ("0-3",),
        "proc/irq/25/smp_affinity_list": ("2-3",),
        "proc/irq/26/smp_affinity_list": ("0-3",),
    }
    assert len(found["proc/interrupts"]) == 5


def test_a_colon_belongs_to_the_name_or_to_the_text_as_the_pattern_says(tmp_path: Path) -> None:
    write(tmp_path, {"devfreq/0000:01:00.0/cur_freq": "5\n", "vulnerabilities/spectre": "Mitigation: a: b\n"})
    found = files.read(LocalBoard(), on_board(tmp_path), ["devfreq/*/cur_freq", "vulnerabilities/*"])
    assert found == {"devfreq/0000:01:00.0/cur_freq": ("5",), "vulnerabilities/spectre": ("Mitigation: a: b",)}


def test_odd_bytes_survive_and_a_closing_zero_does_not(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"na\xffme\0")
    assert files.read(LocalBoard(), on_board(tmp_path), ["model"]) == {"model": ("na\ufffdme",)}


def test_what_was_not_asked_for_is_not_taken() -> None:
    assert files.parse(b"wanted:1\netc/shadow:x\nnonsense\nwanted:2\n", ["wanted"]) == {"wanted": ("1", "2")}


def test_no_more_is_read_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that the limit cuts is none: restored, it would be another."""
    (tmp_path / "long").write_text("950000\n950000\n")
    monkeypatch.setattr(files, "LIMIT_BYTES", 20)
    assert files.read(LocalBoard(), on_board(tmp_path), ["long"]) == {"long": ("950000",)}


def test_each_write_tells_what_went_wrong(tmp_path: Path) -> None:
    write(tmp_path, {"good": "old", "protected": "old"})
    (tmp_path / "protected").chmod(0o444)
    (tmp_path / "refusing").symlink_to("/proc/self/oom_score_adj")
    values = [(name, "performance") for name in ("good", "missing", "protected", "refusing")]
    assert files.write(WithoutRights(), on_board(tmp_path), values) == (
        "", "no such file", "Permission denied", "Invalid argument",
    )  # fmt: skip
    assert (tmp_path / "good").read_text() == "performance"
    assert (tmp_path / "protected").read_text() == "old"
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("value", ["$(id)", "`id`", "a'b", 'a"b', "a;b", "-n", "%s", "a b", "\\n"])
def test_no_shell_reads_a_value(tmp_path: Path, value: str) -> None:
    write(tmp_path, {"a b'$x": "old"})
    assert files.write(LocalBoard(), on_board(tmp_path), [("a b'$x", value)]) == ("",)
    assert (tmp_path / "a b'$x").read_text() == value


def test_a_command_for_root_that_fails_is_the_reason_of_every_write(tmp_path: Path) -> None:
    write(tmp_path, {"one": "old", "two": "old"})
    as_root = ["sh", "-c", "echo a password is required >&2; exit 1"]
    said = files.write(LocalBoard(), on_board(tmp_path), [("one", "1"), ("two", "2")], as_root)
    assert said == (f"`{' '.join(as_root)}` failed: a password is required",) * 2
    missing = files.write(LocalBoard(), on_board(tmp_path), [("one", "1")], ["/nonexistent/sudo", "-n"])
    assert missing == ("`/nonexistent/sudo -n` failed: /nonexistent/sudo: No such file or directory",)


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), (" -1\n", -1), ("", None), ("1.5", None), ("0x1", None), ("٣", None), ("9" * 21, None)],
)
def test_a_number_is_ascii_digits_and_not_too_many(text: str, value: int | None) -> None:
    assert files.number(text) == value
