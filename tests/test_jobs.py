from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import jobs, workspace
from harness.errors import RequestError

BEGUN: dict[str, Any] = {"request": {"board": "host", "model": "m"}, "name": "m", "bundle": "0", "token": "0"}


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
        jobs.resume(tmp_path, workspace.find(None, tmp_path), lambda *_: None)
