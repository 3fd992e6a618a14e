"""Read the identity of the board of an open session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.boards.identity import (
    EMULATED,
    GUEST_MARK,
    HARDWARE,
    PORT_MARK,
    SUBSTITUTES,
    THIS_MACHINE,
    VIRTUAL,
    BoardIdentity,
)
from harness.boards.session import Board
from harness.boards.tuning.facts import VIRTUAL_SIGNS, virtual_machine
from harness.boards.tuning.files import first_line, read
from harness.boards.tuning.snapshot import SYSTEM
from harness.core.errors import BoardError
from harness.core.safe_io import one_line

BOOT_ID = "proc/sys/kernel/random/boot_id"
COMMAND_LINE = "proc/cmdline"
MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
LONGEST = 200


def identify(
    session: Board, name: str, address: str | None, host_key: str | None, emulator_key: str | None
) -> BoardIdentity:
    """Return the identity of the board `name`, whose session was opened at `address` and showed `host_key`.

    The kind follows from what the board states, not from its profile: an address alone does not make a board hardware.
    `emulator_key` is the fingerprint of the host key of this machine's emulated boards, None if there is none.
    BoardError if the board does not state what is needed, or contradicts itself.
    """
    paths = (BOOT_ID, COMMAND_LINE, *MACHINE_IDS, *SUBSTITUTES.values())
    files = read(session, SYSTEM, (*paths, *VIRTUAL_SIGNS))
    lines = {path: one_line(first_line(files, path) or "", 4 * LONGEST) for path in paths}
    guest = next((word for word in lines[COMMAND_LINE].split() if word.startswith(GUEST_MARK)), None)
    if guest is None and host_key is not None and host_key == emulator_key:
        raise BoardError(
            f"the board at {address} has the host key of the emulated boards of this machine ({host_key}), "
            "but does not state that it is one",
            "if it is another board, give it a host key of its own: ssh-keygen -A there",
        )
    if guest is not None:
        kind = EMULATED
    elif lines[COMMAND_LINE].startswith(PORT_MARK):
        kind = HARDWARE
    elif address is None or lines[BOOT_ID] == this_boot_id():
        kind = THIS_MACHINE
    else:
        kind = VIRTUAL if virtual_machine(files) else HARDWARE
    board_identity = BoardIdentity(name, kind, address, host_key, guest or _machine_id(lines), lines[BOOT_ID])
    try:
        return BoardIdentity.parse(board_identity.document(), name)
    except ValueError as error:
        hint = f"a board needs Linux with /{BOOT_ID}, and /{MACHINE_IDS[0]} or a hostname"
        raise BoardError(f"the board does not state its identity: {error}", hint) from error


def this_boot_id() -> str | None:
    """Return the boot-id of the machine that runs this process; None if its kernel has none."""
    try:
        return Path(SYSTEM, BOOT_ID).read_text(encoding="ascii").strip()
    except OSError:
        return None


def require_same_boot(session: Board, identity: BoardIdentity) -> None:
    """Raise BoardError if the board was restarted, or replaced, since its identity was read."""
    boot_id = first_line(read(session, SYSTEM, (BOOT_ID,)), BOOT_ID) or "unknown"
    if boot_id != identity.boot_id:
        raise BoardError(
            f"board {identity.name} was restarted meanwhile: its boot-id was {identity.boot_id} and is {boot_id}",
            "look for the reason there (power supply, watchdog, dmesg), then start again",
        )


def _machine_id(lines: Mapping[str, str]) -> str:
    """Return the machine-id, or the first substitute that is there, with the name of what it is."""
    for path in MACHINE_IDS:
        if re.fullmatch("[0-9a-f]{32}", lines[path]):
            return lines[path]
    return next((f"{what}:{lines[path]}"[:LONGEST] for what, path in SUBSTITUTES.items() if lines[path]), "")
