"""The home of a user with a ~/.ssh/config that leads to servers of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.boards import ssh_config
from tests.support.boards.sshd import LOOPBACK, Server


@dataclass(frozen=True)
class Home:
    folder: Path

    @classmethod
    def made(cls, folder: Path) -> Self:
        (folder / ".ssh").mkdir(parents=True)
        return cls(folder)

    @property
    def config(self) -> Path:
        return self.folder / ".ssh" / "config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / ".ssh" / "known_hosts"

    def configure(self, text: str) -> None:
        self.config.write_text(text)
        self.config.chmod(0o600)
        ssh_config.options.cache_clear()

    def know(self, *servers: Server, name: str = "known_hosts") -> None:
        """Write a known hosts file with the keys of these servers and no others."""
        lines = [f"[{LOOPBACK}]:{each.port} {each.host_key.read_text()}" for each in servers]
        (self.folder / ".ssh" / name).write_text("".join(lines))


def block(name: str, at: Server, *lines: str) -> str:
    """The block of a server in the configuration, with more lines."""
    values = [f"HostName {LOOPBACK}", f"Port {at.port}", f"IdentityFile {at.folder / 'user_key'}", *lines]
    return "\n    ".join([f"Host {name}", *values]) + "\n"
