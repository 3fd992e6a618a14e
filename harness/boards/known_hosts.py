"""OpenSSH known hosts files: the keys of one host, revoked keys, certificate authorities.

paramiko's own reader treats `@revoked` as the name of a host.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry

REVOKED, AUTHORITY = "@revoked", "@cert-authority"


@dataclass(frozen=True)
class KnownHosts:
    """The lines of known hosts files that concern one host.

    `keys` are its keys by type.  `revoked` maps keys to file and line, for all hosts: a stolen key is never trusted.
    `authorities` are the lines that trust a certificate authority.
    """

    keys: Mapping[str, paramiko.PKey]
    revoked: Mapping[bytes, str]
    authorities: tuple[int, ...] = ()

    def merged(self, later: KnownHosts) -> KnownHosts:
        """Merge with the lines of `later` files; a key that either revokes is not trusted."""
        keys, revoked = {**later.keys, **self.keys}, {**later.revoked, **self.revoked}
        trusted = {kind: key for kind, key in keys.items() if key.asbytes() not in revoked}
        return KnownHosts(trusted, revoked, self.authorities + later.authorities)


def read(path: Path, name: str) -> KnownHosts:
    """Return the lines of `path` about the host `name` (`[host]:port` if the port is not 22); none without a file.

    OSError or ValueError if the file cannot be read, or if a line with a marker is damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return KnownHosts({}, {})
    keys: dict[str, paramiko.PKey] = {}
    revoked: dict[bytes, str] = {}
    authorities: list[int] = []
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0] in {REVOKED, AUTHORITY} and len(fields) < 4:
            raise ValueError(f"line {number}: {fields[0]} needs a host, a key type and a key")
        if fields[0] == REVOKED:
            revoked[_decoded(fields[3], number)] = f"{path}:{number}"
        elif fields[0] == AUTHORITY:
            authorities += [number] if _names(fields[1], name) else []
        elif _names(fields[0], name):
            key = _key(fields, number)
            if key:
                keys.setdefault(key.get_name(), key)
    return KnownHosts(keys, revoked, tuple(authorities)).merged(KnownHosts({}, {}))


def _decoded(key: str, number: int) -> bytes:
    try:
        return b64decode(key, validate=True)
    except ValueError as error:
        raise ValueError(f"line {number}: the revoked key is damaged: {error}") from error


def _key(fields: list[str], number: int) -> paramiko.PKey | None:
    """Return the key of a line; None if it is of a type that paramiko does not use."""
    with suppress(paramiko.SSHException):
        entry = HostKeyEntry.from_line(" ".join(fields[:3]), number)
        return entry.key if entry else None
    return None


def _names(patterns: str, name: str) -> bool:
    """Return whether the first field of a line means the host `name`."""
    if patterns.startswith("|1|"):
        salt, digest = (b64decode(part) for part in patterns.split("|")[2:4])
        return hmac.digest(salt, name.encode(), "sha1") == digest
    found = {not pattern.startswith("!") for pattern in patterns.split(",") if _matches(pattern.lstrip("!"), name)}
    return found == {True}


def _matches(pattern: str, name: str) -> bool:
    wanted = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(wanted, name, re.IGNORECASE) is not None
