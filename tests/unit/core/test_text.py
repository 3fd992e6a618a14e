from __future__ import annotations

import pytest

from harness.core.text import duration, ordinal, retries, shortened


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (7.25, "7.2s"), (59.7, "1m"), (90, "1m 30s"), (1800, "30m"), (3900.4, "1h 05m"), (28800, "8h")],
)
def test_times_are_written_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_are_written_as_people_do() -> None:
    assert [retries(count) for count in (0, 1, 2)] == ["0 retries", "1 retry", "2 retries"]
    assert " ".join(map(ordinal, (1, 2, 3, 4, 11, 12, 13, 21, 112))) == "1st 2nd 3rd 4th 11th 12th 13th 21st 112th"


def test_a_long_text_loses_its_middle() -> None:
    assert shortened("whole", 5) == "whole"
    assert shortened("begin" + 90 * "-" + "end", 20) == "begin- [...] ---end"
