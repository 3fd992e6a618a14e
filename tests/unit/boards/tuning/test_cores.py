from __future__ import annotations

import pytest

from harness.boards.tuning import cores


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0,2-3,7", {0, 2, 3, 7}),
        ("3-1", set()),
        ("", None),
        ("0-", None),
        ("a", None),
    ],
)
def test_sets_of_cores_are_read_as_the_kernel_writes_them(text: str, expected: set[int] | None) -> None:
    assert cores.parse(text) == expected


def test_a_set_that_no_machine_has_is_cut() -> None:
    assert len(cores.parse("0-9999") or ()) == cores.MOST_CORES + 1


def test_a_set_is_written_core_by_core() -> None:
    assert cores.text({3, 0, 10}) == "0,3,10"
    assert cores.parse(cores.text({3, 0, 10})) == {0, 3, 10}
