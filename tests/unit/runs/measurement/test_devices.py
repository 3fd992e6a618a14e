"""What accelerators say of their own times comes from a board, and is not believed unseen."""

from __future__ import annotations

import pytest

from harness.core.errors import BoardError
from harness.runs.measurement.devices import DeviceTime, parse, together

LINE = '{"node": "dense_1", "executions": 4, "average_ns": 50, "least_ns": 40, "greatest_ns": 90}'


def test_a_line_is_one_time() -> None:
    assert parse("network", LINE) == (DeviceTime("network", "node", "dense_1", 4, 50, 40, 90),)
    assert parse("network", "") == ()


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "7",
        LINE.replace("4,", '"4",'),
        LINE.replace("50", "-1"),
        LINE.replace("50", "1e3"),
        LINE.replace("50", "true"),
        LINE.replace("50", str(1 << 63)),
        LINE.replace('"executions": 4, ', ""),
        LINE.replace("{", '{"more": "than one", '),
        LINE.replace("dense_1", "a\\u0007b"),
        LINE.replace("dense_1", "x" * 201),
        LINE.replace('"dense_1"', "{}"),
    ],
)
def test_anything_else_is_the_boards_failure(line: str) -> None:
    with pytest.raises(BoardError, match="reports for the device of item network"):
        parse("network", line)


def test_processes_are_put_together_by_what_was_timed() -> None:
    first, second = parse("network", LINE), parse("network", LINE.replace("4,", "6,").replace("40", "30"))
    other = parse("network", LINE.replace("dense_1", "dense_2"))
    assert together([*first, *other, *second]) == (DeviceTime("network", "node", "dense_1", 10, 50, 30, 90), *other)


def test_what_never_ran_has_no_least() -> None:
    [idle] = parse("network", LINE.replace("4,", "0,").replace("40", "0"))
    [busy] = parse("network", LINE)
    assert together([idle, busy]) == (busy,)
    assert together([idle]) == (DeviceTime("network", "node", "dense_1", 0, 0, 0, 90),)
