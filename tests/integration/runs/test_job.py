from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.boards import workspace
from harness.boards.connect import reach
from harness.core.errors import RequestError
from harness.runs.folder import REQUEST_SCHEMA, RunFolder
from harness.runs.job import Request, _stimuli, build, check, check_unfinished
from tests.support import builders
from tests.support.programs.board_program import parse

BEGUN: dict[str, Any] = {
    "schema": REQUEST_SCHEMA,
    "request": {"board": "host", "model": "m"},
    "name": "m",
    "bundle": "0",
    "profile": {},
    "token": "0",
}


@pytest.mark.parametrize(
    "changes",
    [
        *({key: None} for key in BEGUN),
        {"request": []},
        {"request": {"board": "host"}},
        {"request": {"board": "host", "model": "m", "newer": 1}},
        {"request": {"board": "host", "model": "m", "items": 3}},
    ],
)
def test_a_run_that_another_version_began_is_not_resumed(changes: dict[str, Any], tmp_path: Path) -> None:
    begun = {key: value for key, value in (BEGUN | changes).items() if value is not None}
    (tmp_path / "request.json").write_text(json.dumps(begun))
    with pytest.raises(RequestError, match=r"request\.json: damaged, or written by another version of harness"):
        check_unfinished(tmp_path, workspace.find(None, tmp_path))


def test_vectors_of_a_file_are_told_by_the_name_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the run goes on with its own copy of them: so `harness verify` finds them again."""
    network = parse(builders.random_network(np.random.default_rng(7), (4, 3)))
    folder = RunFolder.create_at(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    np.save("mine.npy", np.zeros((3, 4), np.float32))
    asked = Request("host", "m", vectors="./mine.npy")
    assert _stimuli(asked, network, None).origin == "./mine.npy"
    Path("mine.npy").rename(folder.stimuli)
    assert _stimuli(asked, network, folder).origin == "./mine.npy"


def test_other_users_may_not_write_to_a_new_cache(tmp_path: Path) -> None:
    """Whatever this user's umask is: programs are built there, and this machine as a board runs them below it."""
    cache = tmp_path / "cache"
    given = workspace.find(None, tmp_path / "runs", environment={"HARNESS_CACHE": str(cache)})
    former = os.umask(0o002)
    try:
        job = build(check(Request("host", "acas_coc", vectors="10"), given), given)
    finally:
        os.umask(former)
    assert cache.stat().st_mode & 0o777 == 0o700
    with reach(job.profile, cache, print) as reached:
        assert Path(reached.work) == cache / "host"
