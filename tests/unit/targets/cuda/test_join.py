from __future__ import annotations

import numpy as np
import pytest

from harness.targets.cuda import join


@pytest.mark.parametrize(
    ("places", "groups"),
    [
        (np.arange(12), 1),  # a whole buffer
        (np.add.outer(np.arange(6) * 8, np.arange(3)).reshape(-1), 1),  # the first rows of six channels
        (np.array([0, 1, 2, 5, 6, 7, 20, 21, 22]), 2),  # runs that are not evenly apart
        (np.array([0, 1, 2, 7, 9, 11]), 2),  # runs of several lengths
        (np.array([4]), 1),
    ],
)
def test_runs_are_the_values_in_their_places(places: np.ndarray, groups: int) -> None:
    targets = 5 + np.arange(len(places))  # behind the values of another buffer
    found = {}
    runs = list(join._runs(targets, places))
    for each in runs:
        for run in range(each.count):
            for at in range(each.length):
                found[each.target + run * each.target_step + at] = each.source + run * each.source_step + at
    assert found == dict(zip(targets.tolist(), places.tolist(), strict=True))
    assert len(runs) == groups
