"""The command that makes a refused file a network: each candidate is tried on the file before it is named."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.core.errors import HarnessError
from harness.model.importer.changes import Changes

LARGEST = 64 << 20  # bytes of a file that is tried
OPTIONS = (("drop_final",), ("drop_first",), ("drop_first", "drop_final"))
VECTORS = 4
NONE = "no option of harness models import or quantize makes a network of it"


def command(path: Path, asked: Changes, attempt: Callable[[Changes], object], *, dense: bool) -> str:
    """Return the command that imports the file, or quantises it; `attempt` imports it with other changes."""
    if path.stat().st_size > LARGEST:
        return "no command was tried on so large a file"
    for options in OPTIONS:
        changed = replace(asked, **dict.fromkeys(options, True))
        if changed != asked and _succeeds(lambda changed=changed: attempt(changed)):  # type: ignore[misc] # as above
            return f"this helps: {_text('quantize' if dense else 'import', path, changed)}"
    if _succeeds(lambda: _quantise(path, asked)):
        return f"this helps: {_text('quantize', path, asked, '--data', 'VECTORS.npy')}"
    return NONE


def _text(subcommand: str, path: Path, changes: Changes, *more: str) -> str:
    options = [f"--{name.replace('_', '-')}" for name, value in vars(changes).items() if value]
    return shlex.join(["harness", "models", subcommand, str(path), *options, *more, "-o", "NAME"])


def _succeeds(action: Callable[[], object]) -> bool:
    try:
        action()
    except HarnessError:
        return False
    return True


def _quantise(path: Path, changes: Changes) -> None:
    """Quantise the network with random vectors."""
    from harness.model.quantizer import with_data  # here, because it imports the importer

    floats = with_data.read(path, changes)
    vectors = np.random.default_rng(1).random((VECTORS, *floats.shape), np.float32)
    with_data.quantize_with_data(floats, vectors, with_data.DataChoices(), "tried")
