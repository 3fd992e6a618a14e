"""The identity of a board, which distinguishes the board of a session from every other board.

All observations are stored together with the identity of their board, so that a run cannot be resumed on another board
and `harness verify` can compare all parts of the evidence.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Self

from harness.core.safe_io import require_keys

HARDWARE, EMULATED, THIS_MACHINE, VIRTUAL = "hardware", "emulated", "this machine", "virtual machine"
KINDS = (HARDWARE, EMULATED, THIS_MACHINE, VIRTUAL)

GUEST_MARK = "harness.name="
"""The word of the kernel command line by which board/emulator.py marks every emulated board."""

PORT_MARK = "harness.port="
"""The word that stands in its place for a microcontroller at a serial port."""

SUBSTITUTES = {  # in the order of preference, for a board without a machine-id
    "serial-number": "proc/device-tree/serial-number",
    "soc-serial-number": "sys/devices/soc0/serial_number",
    "hostname": "proc/sys/kernel/hostname",
}

_FORMS = {
    "host_key": re.compile(r"SHA256:[A-Za-z0-9+/]{43}"),
    "boot_id": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "machine_id": re.compile(rf"[0-9a-f]{{32}}|({re.escape(GUEST_MARK)}|({'|'.join(SUBSTITUTES)}):)\S.*"),
    "address": re.compile(r"[^@\s]+@\S+:[0-9]{1,5}( via \S+)*"),
}


@dataclass(frozen=True)
class BoardIdentity:
    """The identity of one board during one boot.

    `name` is the board's name in boards.yaml, `address` is user@host:port and `host_key` the SHA-256 fingerprint of
    its SSH host key (both None for a session without SSH).  `machine_id` is /etc/machine-id; `harness.name=NAME` for
    an emulated board, which has none; else `serial-number:...` or `hostname:...`.  `boot_id` changes with every boot.
    """

    name: str
    kind: str
    address: str | None
    host_key: str | None
    machine_id: str
    boot_id: str

    @classmethod
    def parse(cls, document: Any, where: str) -> Self:
        """Return the identity that `document` states; ValueError, which names `where`, if it states none."""
        names = [field.name for field in dataclasses.fields(cls)]
        entries = require_keys(document, names, where, needed=names)
        found = cls(**entries)
        for name, value in entries.items():
            if value is None and name in {"address", "host_key"}:
                continue
            if not isinstance(value, str) or (name in _FORMS and not _FORMS[name].fullmatch(value)):
                raise ValueError(f"{where}: {name} {value!r} is invalid")
        if why := found.contradiction():
            raise ValueError(f"{where}: {why}")
        return found

    def document(self) -> dict[str, Any]:
        """Return the identity as JSON types."""
        return dataclasses.asdict(self)

    def differences(self, other: BoardIdentity) -> tuple[str, ...]:
        """Return the differences that show another board, each as `key: this -> other`; empty for the same board.

        A board keeps its identity when it restarts (boot_id) and when it is reached by another address.  The host key
        and the address of an emulated board are created on each machine: its mark in `machine_id` identifies it.
        """
        keys = ["name", "kind", "machine_id"] + ["host_key"] * (EMULATED not in {self.kind, other.kind})
        pairs = {key: (getattr(self, key), getattr(other, key)) for key in keys}
        return tuple(f"{key}: {old or 'none'} -> {new or 'none'}" for key, (old, new) in pairs.items() if old != new)

    def contradiction(self) -> str:
        """Return the reason why the kind contradicts the other fields; empty if it does not."""
        if self.kind not in KINDS:
            return f"kind {self.kind!r} is unknown; valid kinds: {', '.join(KINDS)}"
        if (self.kind == EMULATED) != self.machine_id.startswith(GUEST_MARK):
            return f"kind is {self.kind}, and machine_id is {self.machine_id}"
        if (self.address is None) != (self.host_key is None):
            return "address and host_key must both be present or both be absent"
        # A processor without an operating system, emulated or at a serial port, has no address.
        at_port = self.kind == HARDWARE and self.machine_id.startswith("serial-number:")
        if self.address is None and self.kind not in {THIS_MACHINE, EMULATED} and not at_port:
            return f"kind is {self.kind}, and no SSH address or host key is stated"
        return ""
