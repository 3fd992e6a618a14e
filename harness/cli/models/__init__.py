"""`harness models`: commands for networks."""

from __future__ import annotations

import click

from harness.cli._group import LazyGroup
from harness.core import registry

COMMANDS = (
    "import",
    "quantize",
    "transform",
    "convert",
    "hybrid",
    "analyse",
    "cost",
    "optimise",
    "show",
    "view",
    "load",
    "list",
    "operators",
    "conformance",
)
MODULES = {name: registry.COMMANDS.get(f"models {name}", f".{name}") for name in COMMANDS} | {"import": ".import_model"}


@click.group("models", cls=LazyGroup, package=__name__, modules=MODULES)
def command() -> None:
    """Import, quantise, transform, convert, analyse, show and test networks; list costs and operators."""
