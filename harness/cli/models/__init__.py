"""`harness models`: commands for networks."""

from __future__ import annotations

import click

from harness.cli._group import LazyGroup

MODULES = {
    "import": ".import_model",
    "quantize": ".quantize",
    "transform": ".transform",
    "convert": ".convert",
    "hybrid": ".hybrid",
    "analyse": ".analyse",
    "optimise": ".optimise",
    "show": ".show",
    "view": ".view",
    "load": ".load",
    "list": ".list",
    "operators": ".operators",
    "conformance": ".conformance",
}


@click.group("models", cls=LazyGroup, package=__name__, modules=MODULES)
def command() -> None:
    """Import, quantise, transform, convert, combine, analyse, optimise, show, view, test networks; list operators."""
