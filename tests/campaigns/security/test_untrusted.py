"""What boards and files say: read without harm, shown without effect."""

from __future__ import annotations

import io
from pathlib import Path, PurePosixPath

import pytest
from rich.table import Table

from harness.boards.local import LocalBoard
from harness.core.console import Console, _console
from harness.core.errors import BoardError
from harness.core.safe_io import (
    clean,
    has_controls,
    load_array,
    one_line,
    parse_json,
    read_document,
    require_keys,
    visible,
)
from harness.execution.program import Completed, Deployed, run_program, size_of
from harness.pipeline.attempt import journal
from harness.plan.conformance import read
from harness.runs.folder import RunFolder
from harness.runs.measurement import devices

ORDERS = "a\x1b[2Jb\x07c\x9b31md\u202ee\x00f\x7f"
DEEP = "[" * 200_000


def test_orders_to_a_terminal_are_written_out_and_text_is_left_alone() -> None:
    assert visible(ORDERS) == r"a\x1b[2Jb\x07c\x9b31md\u202ee\x00f\x7f"
    assert visible("µs, 漢字\n\tcolumn") == "µs, 漢字\n\tcolumn"
    assert visible("\ud800") == r"\ud800"
    assert visible("a\rb") == r"a\rb", "a terminal would write b over a"


@pytest.mark.parametrize(
    "character", ["\x00", "\x85", "\r", "\ud800", "\uffff", "\u061c", "\u200f", "\u202e", "\u2069"]
)
def test_what_is_no_text_is_the_same_for_terminals_reports_and_names(character: str) -> None:
    assert visible(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    assert clean(f"a{character}b\n\tc") == "ab\n\tc"
    assert character not in one_line(f"a{character}b", 9)
    assert has_controls(f"a{character}b") is (character != "\r"), "files have lines"


def test_words_of_others_are_one_line_of_bounded_length() -> None:
    assert one_line(" a\n\tb \x1b[2J\u202ewipe\r\n\x07", 200) == "a b [2Jwipe"
    assert one_line("漢" * 500, 200) == "漢" * 200


@pytest.mark.parametrize(
    "text", [DEEP, '{"a":' * 100_000, "NaN", "[Infinity]", "-Infinity", "9" * 5000, "", "{", b"\xff"]
)
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '[{"a": {"b": 1, "c": 2, "b": 1}}]'])
def test_a_key_that_stands_twice_is_a_value_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is repeated"):
        parse_json(text)
    (tmp_path / "document.json").write_text(text)
    with pytest.raises(ValueError, match="is repeated"):
        read_document(tmp_path / "document.json")


def test_a_document_has_the_keys_that_it_should_have() -> None:
    assert require_keys({"a": 1}, ("a", "b"), "it", needed=("a",)) == {"a": 1}
    with pytest.raises(ValueError, match="it has unknown keys: 'c'; valid keys: a, b"):
        require_keys({"a": 1, "c": 2}, ("a", "b"), "it")
    with pytest.raises(ValueError, match="it lacks the keys b"):
        require_keys({"a": 1}, ("a", "b"), "it", needed=("a", "b"))
    with pytest.raises(ValueError, match="it is not a JSON object"):
        require_keys([], ("a",), "it")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x05\x00(((((", b"\x80\x04."])
def test_what_is_no_array_is_a_value_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        load_array(tmp_path / "x.npy")


def test_no_order_reaches_the_screen_by_any_way() -> None:
    stream = io.StringIO()
    console = Console(_console(stream), _console(stream), as_json=False)
    table = Table(ORDERS)
    table.add_row(ORDERS)
    console.note(ORDERS)
    console.show(table, ORDERS)
    console.failure(BoardError(ORDERS, ORDERS))
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\x00"} & set(stream.getvalue())
    assert stream.getvalue().count(r"a\x1b[2Jb") == 6


def test_no_order_reaches_the_log(tmp_path: Path) -> None:
    folder = RunFolder.create_at(tmp_path / "run")
    with journal(folder, Console.open(as_json=True), "") as notify:
        notify(ORDERS)
    assert r"a\x1b[2Jb" in (folder.path / "log.txt").read_text()


def program(folder: Path, line: str) -> Deployed:
    """A board whose program says this, and ends well."""
    (folder / "line").write_text(line)
    here = PurePosixPath(folder)
    return Deployed(LocalBoard(), here, here, "0" * 64, ("cat", str(folder / "line")))


LINES = {
    "deep": DEEP,
    "many digits": '{"done": true, "vectors": ' + "9" * 100_000 + "}",
    "no number": '{"done": true, "bundle": "' + "0" * 64 + '", "vectors": NaN}',
    "a list": "[1]",
    "nothing": "",
    "a text": '"done"',
    "another bundle": '{"done": true, "bundle": "../../x"}',
    "true in words": '{"done": "true", "bundle": "' + "0" * 64 + '"}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_last_line_that_does_not_say_that_the_work_is_done_is_the_boards_failure(line: str, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="did not finish its work"):
        run_program(program(tmp_path, line), [], 10)


class Lying(LocalBoard):
    """Tells what it likes of its files."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self.said = said

    def run(self, argv: object, timeout_s: float) -> Completed:  # noqa: ARG002 - whatever is asked
        return Completed(0, self.said.encode(), b"")


@pytest.mark.parametrize("said", ["²", "-1", "9" * 5000, "1e3", "", "12 x\n", "0x10", "１２"])  # noqa: RUF001 - digits elsewhere
def test_a_size_that_is_none_is_the_boards_failure(said: str) -> None:
    if said.startswith("12 "):
        assert size_of(Lying(said), PurePosixPath("x")) == 12
        return
    with pytest.raises(BoardError, match="does not report the size"):
        size_of(Lying(said), PurePosixPath("x"))


@pytest.mark.parametrize("line", [DEEP, '{"execution": ' + "9" * 5000 + "}", "NaN", '{"layer": "x"}'])
def test_a_line_that_is_none_of_a_trace_is_the_boards_failure(line: str, tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(line)
    with pytest.raises(BoardError, match=r"trace\.jsonl, line 1"):
        list(read(tmp_path / "trace.jsonl"))


@pytest.mark.parametrize("line", [DEEP, '{"node": "x", "executions": NaN}', '{"\x1b": "x"}', "[]"])
def test_times_of_a_device_that_are_none_are_the_boards_failure(line: str) -> None:
    with pytest.raises(BoardError, match="for the device of item"):
        devices.parse("network", line)
