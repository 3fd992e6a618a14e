"""The sources of the kernels, and the digest by which a firmware and a bundle know whether theirs are the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.targets.base import KERNELS

DIGITS = 16


def kernel_sources() -> dict[str, Path]:
    """Return the sources that are compiled for a core, by their paths below kernels/."""
    folders = (KERNELS / "tiovx" / "target", KERNELS / "c" / "integer")
    paths = [KERNELS / "tiovx" / "protocol.h", *(path for folder in folders for path in folder.glob("*.[ch]"))]
    return {str(path.relative_to(KERNELS)): path for path in sorted(paths)}


def kernels_digest() -> str:
    """Return hexadecimal digits of the SHA-256 over all names and bytes."""
    digest = hashlib.sha256()
    for name, path in kernel_sources().items():
        digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]


def identity_header() -> str:
    """Return the text of identity.h, by which the kernels know what they were made of."""
    return f'/* Generated: what these kernels were made of. */\n#define KERNELS_SOURCES "{kernels_digest()}"\n'
