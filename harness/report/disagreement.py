"""HTML page of a run without a verdict, because the engines of its reference disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness import __version__
from harness.report.page import environment, script


def html(model: str, board: str, reason: str, disagreement: Mapping[str, Any], go_on: str) -> str:
    """Return the page; `disagreement` is that of `EnginesDisagree`, `go_on` is how to resume the run."""
    page = environment().get_template("disagreement.html.jinja")
    return page.render(
        model=model,
        board=board,
        reason=reason,
        found=disagreement,
        go_on=go_on,
        version=__version__,
        script=script("tables.js"),
    )
