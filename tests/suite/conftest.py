from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _programs_share_object_files(kept_objects: None) -> None:
    """Let programs have the object files of one another, as compilation takes longer than execution."""
