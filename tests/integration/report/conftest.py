"""Run documents, as the tests of their reports have them, and a browser that shows them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.site.browser import Browser, browser
from tests.unit.report.conftest import differing, identical, one_cause

__all__ = ["differing", "identical", "one_cause"]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
