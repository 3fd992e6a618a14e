from __future__ import annotations

from collections.abc import Callable

import pytest

from models.acas import workers
from models.acas.parameters import Parameters
from models.acas.recipe import Learner

STEPS = 120


def count(learner: Learner, on_step: Callable[[], object]) -> None:
    for _ in range(learner.parameters.float_steps):
        on_step()


def fail(learner: Learner, _on_step: Callable[[], object]) -> None:
    message = f"no {learner.previous}"
    raise RuntimeError(message)


def jobs() -> dict[str, tuple[Learner, int]]:
    learners = [Learner(Parameters(previous=previous, float_steps=STEPS)) for previous in range(3)]
    return {learner.previous: (learner, STEPS) for learner in learners}


def test_every_job_is_done_and_its_bar_full(capsys: pytest.CaptureFixture[str]) -> None:
    workers.run(count, "counting", jobs())
    shown = capsys.readouterr().err
    for name in ("COC", "WL", "WR"):
        assert f"counting {name}" in shown
    assert shown.count(f"{STEPS}/{STEPS}") >= 3


def test_the_first_failure_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no COC"):
        workers.run(fail, "failing", jobs())


def test_shown_values_are_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(workers.shown("table", "abc", total=5, done=2)) == ["a", "b", "c"]
    assert "5/5" in capsys.readouterr().err
