"""What a program says of its devices is evidence only if it speaks of every item, and of no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.errors import BoardError
from harness.execution import program
from harness.pipeline import attempt
from harness.plan import planner
from harness.targets.cuda import SIMULATION
from tests.support import builders
from tests.support.programs.board_program import parse


@pytest.mark.parametrize("told", [{}, {"prepost": SIMULATION}, {"network": SIMULATION, "other": SIMULATION}])
def test_devices_of_other_items_are_no_evidence(
    told: dict[str, str], host: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planner.make(parse(builders.random_network(np.random.default_rng(7), (5, 3))), host, ["c", "cuda:fused"])
    monkeypatch.setattr(program, "devices", lambda *_: told)
    job: Any = SimpleNamespace(plan=planned, profile=host)
    deployed: Any = None
    with pytest.raises(BoardError, match="the program on the board reports the devices of"):
        attempt.devices(job, deployed, lambda _: None)


def test_the_device_of_every_item_is_kept(host: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = planner.make(parse(builders.random_network(np.random.default_rng(7), (5, 3))), host, ["c", "cuda:fused"])
    monkeypatch.setattr(program, "devices", lambda *_: {"network": f"{SIMULATION}, sm_72"})
    job: Any = SimpleNamespace(plan=planned, profile=host)
    deployed: Any = None
    assert attempt.devices(job, deployed, lambda _: None) == {"device of item network": f"{SIMULATION}, sm_72"}
