"""The registry names every application, and parts that can be imported."""

from __future__ import annotations

import click

from harness.core import registry
from harness.core.document import Document
from harness.core.installation import PACKAGE
from harness.runs.verification.folders import Kind


def test_every_application_has_a_command() -> None:
    folders = {path.parent.name for path in (PACKAGE / "applications").glob("*/__init__.py")}
    assert {place.split(".")[2] for place in registry.COMMANDS.values()} == folders


def test_every_part_is_of_its_kind() -> None:
    assert all(isinstance(registry.command(words), click.Command) for words in registry.COMMANDS)
    assert all(issubclass(registry.document(name), Document) for name in registry.DOCUMENTS)
    assert all(isinstance(registry.evidence(name), Kind) for name in registry.EVIDENCE)
    assert all(callable(registry.part(name)) for name in registry.PARTS)
    assert all(callable(registry.function(name)) for name in registry.FUNCTIONS)
    assert {*registry.REQUESTS.values()} <= registry.EVIDENCE.keys()
