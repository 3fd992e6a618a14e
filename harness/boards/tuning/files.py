"""Small files of a board's kernel, read and written in batches, because a round trip per file is slow.

Values are arguments of a script with a fixed text, so no shell interprets them.  The board's output is bounded, only
requested files are accepted, and bytes that are not text become replacement characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from harness.boards.session import Board, Completed

TIMEOUT_S = 60.0
LIMIT_BYTES = 4 << 20

# $1: the folder that paths are relative to, $2: bytes at most, $3...: patterns.  -a: a device tree's texts end with 0.
READ = r"""
cd "$1" && limit=$2 && shift 2 && { LC_ALL=C grep -asH '' $* | head -c "$limit"; }
"""

# $1 $2, $3 $4, ...: path and value.  `tee` says why the kernel refuses, which a shell's printf does not.
WRITE = r"""
while [ $# -gt 1 ]; do
    if ! [ -e "$1" ]; then
        echo "no such file"
    else
        said=$({ printf %s "$2" | LC_ALL=C tee "$1" >/dev/null; } 2>&1)
        printf '%s\n' "$said" | tr '\n' ' '
        echo
    fi
    shift 2
done
"""

Files = Mapping[str, tuple[str, ...]]
"""Files by their path, relative to the system's root: their lines."""


def read(session: Board, system: PurePosixPath, patterns: Sequence[str], as_root: Sequence[str] = ()) -> Files:
    """Return the lines of the files under `system` whose paths match `patterns`, in one round trip.

    `*` in a pattern matches any part of a name.  Empty and unreadable files are omitted.
    """
    done = session.run([*as_root, "sh", "-c", READ, "sh", str(system), str(LIMIT_BYTES), *patterns], TIMEOUT_S)
    return parse(done.stdout, patterns)


def parse(output: bytes, patterns: Iterable[str]) -> Files:
    """Return the files that `grep -H` shows, one `path:text` a line; other lines are left out.

    An unterminated last line is also omitted: the limit has cut it, and a part of a value is a wrong value.
    """
    asked = "|".join(re.escape(pattern).replace(r"\*", "[^/]*?") for pattern in patterns)
    line = re.compile(rf"({asked}):(.*)")
    files: dict[str, list[str]] = {}
    for found in map(line.fullmatch, output.decode(errors="replace").split("\n")[:-1]):
        if found:
            files.setdefault(found[1], []).append(found[2].rstrip("\0\r"))
    return {path: tuple(lines) for path, lines in files.items()}


def write(
    session: Board, system: PurePosixPath, values: Sequence[tuple[str, str]], as_root: Sequence[str] = ()
) -> tuple[str, ...]:
    """Write values to files under `system`, pairs of path and value in this order, in one round trip.

    Return for each the reason of its failure, "" if it succeeded.
    """
    if not values:
        return ()
    arguments = [word for path, value in values for word in (str(system / path), value)]
    done = session.run([*as_root, "sh", "-c", WRITE, "sh", *arguments], TIMEOUT_S)
    said = done.stdout.decode(errors="replace").split("\n")[:-1]
    if len(said) != len(values):  # sudo, or the shell, has refused
        return (_refusal(done, as_root),) * len(values)
    return tuple(_reason(words) for words in said)


def _refusal(done: Completed, as_root: Sequence[str]) -> str:
    said = done.stderr.decode(errors="replace").strip()[-200:] or f"exit status {done.status}"
    return f"`{' '.join(as_root)}` failed: {said}" if as_root else said


def _reason(words: str) -> str:
    """Return the kernel's words out of `tee: /path: the kernel's words`."""
    return words.strip()[-300:].rpartition(": ")[2].removeprefix("tee:").strip()


def first_line(files: Files, path: str) -> str | None:
    """Return the first line of a file, None where it is not there."""
    return files[path][0].strip() if path in files else None


def number(text: str) -> int | None:
    """Parse a whole number; None for any other text."""
    return int(text) if re.fullmatch(r"\s*-?[0-9]{1,20}\s*", text, re.ASCII) else None
