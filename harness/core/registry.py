"""The applications beside the core: their commands and documents, imported by name when they are used.

The core imports no application; it looks for their parts here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

COMMANDS = {"trace": "harness.applications.trace.command"}
"""The module of each command of an application, by the words of the command."""
DOCUMENTS = {"traceability": "harness.applications.trace.document:TraceabilityDocument"}
"""The class of each document of an application, by the name of its schema."""


def documents() -> dict[str, Any]:
    """Import the classes of all documents of applications, by the names of their schemas."""
    found = {}
    for name, place in DOCUMENTS.items():
        module, _, kind = place.partition(":")
        found[name] = getattr(import_module(module), kind)
    return found
