"""Wrong operators on images of codes on target c, which proofs refute."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from tests.support.examples import first_of_each
from tests.support.images import every_operator
from tests.support.programs.board_program import Patch, with_flags
from tests.support.proof.trials import Workshop

ROW, FROM_LAST = "(p * 2 + i - 1) * 6 + q", "(p * 2 + inside_i.first + inside_i.end - 2 - i) * 6 + q"
PAIR = f"in[c * 42 + {ROW}] == 19 && in[c * 42 + {ROW} + 2] == 203"
LAST_VALUE = "in[c * 42 + (p * 2 + i) * 6 + q]"
WRONG = {
    "mean without the zero point": ("v_0 - mean_input_zero_point[0]", "v_0", "mean"),
    "mean without the last value": ("p < 42u", "p < 41u", "mean"),
    "mean of another channel": ("in[c * 42 + p]", "in[c * 41 + p]", "mean"),
    "mean rounded up": ("v_0 * mean_multiplier[0]", "v_0 * mean_multiplier[0] + 0.05f", "mean"),
    "padding counts": ("means_count[p * 5 + q]", "6.0f", "means"),
    "padding does not count": ("padded_count[p * 4 + q]", "(p < 5 ? 6.0f : 4.0f)", "padded"),
    "columns before rows": (ROW, "q * 7 + (p * 2 + i - 1)", "means"),
    "sum of integers": ("v_2 * means_input_step[0]", "v_2", "means"),
    "zero point after the rounding": ("v_1 + v_2;", "v_1 + v_2 * 1.001f;", "means"),
    "half the last window": ("j < inside_j.end", "j + 1 < inside_j.end", "means"),
    "smallest value": ("] > y_so_far)", "] < y_so_far)", "largest"),
    "largest of one row less": ("i < 3u", "i < 2u", "largest"),
    "padding of the largest": ("q] = 0;", "q] = 7;", "largest"),
    "mean from the last row on": (ROW, FROM_LAST, "means"),
    "a pair of means": ("s_so_far + v_3", f"s_so_far + ({PAIR} ? 1 : v_3)", "means"),
    "largest of one pair": (
        f"? {LAST_VALUE} :", f"? {LAST_VALUE} - ({LAST_VALUE} == 211 && y_so_far == 37) :", "largest"
    ),
    "one row further": ("(p * 2 + i - 1) * 6", "(p * 2 + i) * 6", "conv"),
    "first group alone": ("in[g * 84", "in[0", "conv"),
}  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    old, new, layer = WRONG[wrong]
    workshop = Workshop(with_flags(host, "-O2"), objects, tmp_path)
    trial = workshop.trial(every_operator("uint8", layer), [Patch("network.c", old, new)])
    assert trial.refuted(layer)
