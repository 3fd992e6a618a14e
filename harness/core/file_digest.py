"""SHA-256 of large files, computed once: a compiler of 180 MB is hashed at its first use, not in every run.

A file counts as unchanged if its path, size, inode, modification time and status-change time are unchanged.  Only the
system sets the status-change time, so a file that was replaced with an old date is hashed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

SMALL = 1 << 20  # bytes: hashing these is faster than a look-up


def of_file(path: Path, cache: Path) -> str:
    """Return the SHA-256 of a file; the folder `cache` keeps those of large files."""
    status = path.stat()
    if status.st_size < SMALL:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    place = cache / "digests" / hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    state = [str(path.resolve()), status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
    with suppress(OSError, ValueError, TypeError):
        known_state, known = json.loads(place.read_text())
        if known_state == state:
            return str(known)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    with suppress(OSError):  # without a writable cache, the file is hashed again
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps([state, found]))
        temporary.replace(place)
    return found


def folder_sha256(folder: Path, *without: str) -> dict[str, str]:
    """Return the SHA-256 of all files below a folder by their names, but for those `without`."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: file_sha256(path) for name, path in paths.items() if name not in without}


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
