"""OpenSSH known hosts files: the keys of one host, revoked keys, certificate authorities.

paramiko's own reader treats `@revoked` as the name of a host, and has one key of each type for a host.
"""

from __future__ import annotations

import hmac
import re
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko

REVOKED, AUTHORITY = "@revoked", "@cert-authority"
KRL_MAGIC = b"SSHKRL\n\0"  # begins a key revocation list of ssh-keygen -k; other files are lists of public keys


@dataclass(frozen=True)
class KnownHosts:
    """The lines of known hosts files that concern one host.

    `keys` are its trusted keys; several of one type may be trusted.  `revoked` maps keys to file and line, for all
    hosts: a stolen key is never trusted.  `has_revoked_keys` is whether a key of the host's own lines is revoked.
    `authorities` are the lines that trust a certificate authority.
    """

    keys: Mapping[bytes, paramiko.PKey]
    revoked: Mapping[bytes, str]
    authorities: tuple[int, ...] = ()
    has_revoked_keys: bool = False

    def merged(self, later: KnownHosts) -> KnownHosts:
        """Merge with the lines of `later` files; a key that either revokes is not trusted."""
        keys, revoked = {**later.keys, **self.keys}, {**later.revoked, **self.revoked}
        trusted = {blob: key for blob, key in keys.items() if blob not in revoked}
        has_revoked_keys = self.has_revoked_keys or later.has_revoked_keys or len(trusted) < len(keys)
        return KnownHosts(trusted, revoked, self.authorities + later.authorities, has_revoked_keys)


def read(path: Path, name: str) -> KnownHosts:
    """Return the lines of `path` about the host `name` (`[host]:port` if the port is not 22); none without a file.

    A damaged line is skipped, as OpenSSH skips it.  OSError if the file cannot be read, ValueError if a line that
    revokes a key is damaged: that key could be trusted otherwise.
    """
    try:
        lines = path.read_bytes().decode(errors="surrogateescape").split("\n")
    except FileNotFoundError:
        return KnownHosts({}, {})
    keys: dict[bytes, paramiko.PKey] = {}
    revoked: dict[bytes, str] = {}
    authorities: list[int] = []
    for number, line in enumerate(lines, start=1):
        fields = re.findall(r"[^ \t\r]+", line)
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0] == REVOKED:
            revoked[_revoked(fields, number)] = f"{path}:{number}"
        elif fields[0] == AUTHORITY:
            authorities += [number] if len(fields) > 3 and _names(fields[1], name) else []
        elif len(fields) > 2 and _names(fields[0], name):
            key = _key(*fields[1:3])
            keys |= {key.asbytes(): key} if key else {}
    return KnownHosts(keys, revoked, tuple(authorities)).merged(KnownHosts({}, {}))


def is_revoked(key: paramiko.PKey, path: Path) -> bool:
    """Return whether a file of RevokedHostKeys has a key; OSError if it cannot be read."""
    content = path.read_bytes()
    if not content.startswith(KRL_MAGIC):
        return key.get_base64().encode() in content.split()
    with tempfile.NamedTemporaryFile("w") as public:
        public.write(f"{key.get_name()} {key.get_base64()}\n")
        public.flush()
        words = ["ssh-keygen", "-Q", "-f", str(path), public.name]
        return subprocess.run(words, check=False, capture_output=True).returncode != 0


def _revoked(fields: list[str], number: int) -> bytes:
    if len(fields) < 4:
        raise ValueError(f"line {number}: {REVOKED} needs a host, a key type and a key")
    try:
        return b64decode(fields[3], validate=True)
    except ValueError as error:
        raise ValueError(f"line {number}: the revoked key is damaged: {error}") from error


def _key(kind: str, text: str) -> paramiko.PKey | None:
    """Return the key of a line; None if it is damaged or of a type that paramiko does not use."""
    try:
        return paramiko.PKey.from_type_string(kind, b64decode(text, validate=True))
    except Exception:  # noqa: BLE001 - paramiko and cryptography raise many types, among them OverflowError
        return None


def _names(patterns: str, name: str) -> bool:
    """Return whether the first field of a line means the host `name`; a damaged hash means no host."""
    if patterns.startswith("|1|"):
        try:
            salt, digest = (b64decode(part) for part in patterns.split("|")[2:])
        except ValueError:
            return False
        return hmac.digest(salt, name.encode(), "sha1") == digest
    found = {not pattern.startswith("!") for pattern in patterns.split(",") if _matches(pattern.lstrip("!"), name)}
    return found == {True}


def _matches(pattern: str, name: str) -> bool:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name, re.IGNORECASE | re.ASCII) is not None
