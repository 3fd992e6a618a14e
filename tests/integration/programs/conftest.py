from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _programs_share_what_they_can(kept_objects: None) -> None:
    """To compile takes longer than to run."""
