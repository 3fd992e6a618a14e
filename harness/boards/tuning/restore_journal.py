"""Original values, saved on the board, so that the next session can restore them after this one was killed.

The board is not trusted: only values of files that the harness sets are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from harness.boards.session import Board
from harness.boards.tuning.desired_settings import WRITABLE
from harness.boards.tuning.files import TIMEOUT_S, first_line, read
from harness.core.errors import BoardError

NAME = "state-before-measuring"
BOOT_ID = "proc/sys/kernel/random/boot_id"
HEAD = "harness: the values that stood here before a measurement"

# $1: the file, $2: its text.  It appears only when it is complete.
KEEP = 'printf %s "$2" >"$1.part" && mv -f "$1.part" "$1"'

_VALUE = r"[A-Za-z0-9_,-]{1,400}"
_OURS = "|".join(re.escape(pattern).replace(r"\*", "[0-9]+") for pattern in WRITABLE)
_LINE = re.compile(rf"({_OURS})\t({_VALUE})")


@dataclass(frozen=True)
class Ledger:
    """Original values by path, of one boot; `commands`: the profile's setup commands have run as well."""

    boot: str
    values: Mapping[str, str] = field(default_factory=dict)
    commands: bool = False

    @property
    def empty(self) -> bool:
        """Return whether nothing has to be restored."""
        return not self.values and not self.commands


def boot_id(session: Board, system: PurePosixPath) -> str:
    """Return the board's boot ID; empty if it is unknown."""
    return first_line(read(session, system, [BOOT_ID]), BOOT_ID) or ""


def load(session: Board, folder: PurePosixPath) -> Ledger | None:
    """Read the journal of the last session in `folder`; None without a journal."""
    return parse(read(session, folder, [NAME]).get(NAME, ()))


def parse(lines: tuple[str, ...]) -> Ledger | None:
    """Return the journal of such lines; lines that this program cannot have written are omitted."""
    if len(lines) < 3 or lines[0] != HEAD:
        return None
    found = (_LINE.fullmatch(line) for line in lines[3:])
    return Ledger(lines[1], {match[1]: match[2] for match in found if match}, lines[2] == "commands")


def text(ledger: Ledger) -> str:
    """Return the journal in the form that `parse` reads."""
    kind = "commands" if ledger.commands else "files"
    return "\n".join([HEAD, ledger.boot, kind, *(f"{path}\t{value}" for path, value in ledger.values.items()), ""])


def restorable(value: str) -> bool:
    """Return whether `parse` accepts the value."""
    return re.fullmatch(_VALUE, value) is not None


def keep(session: Board, folder: PurePosixPath, ledger: Ledger) -> None:
    """Write the journal to the board; BoardError if it cannot be written: then no setting may be changed."""
    path = folder / NAME
    done = session.run(["sh", "-c", KEEP, "sh", str(path), text(ledger)], TIMEOUT_S)
    if done.status != 0:
        raise BoardError(
            f"cannot keep the values before on the board: {done.stderr.decode(errors='replace').strip()[-300:]}",
            f"make {path.parent} writable there, or name another work_folder in the profile",
        )


def remove(session: Board, folder: PurePosixPath) -> None:
    """Remove the journal."""
    session.run(["rm", "-f", str(folder / NAME)], TIMEOUT_S)
