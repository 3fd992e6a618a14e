"""`harness case`: the argument from evidence to objectives."""

from __future__ import annotations

import click

from harness.cli._group import LazyGroup

MODULES = {name: f".{name}" for name in ("build", "check", "diff")}


EPILOG = "Example: harness case build --board xavier --model acas_coc"


@click.group("case", cls=LazyGroup, package=__name__, modules=MODULES, epilog=EPILOG)
def command() -> None:
    """Build an assurance case from run folders, check every leaf again, and compare two cases."""
