"""The key pairs of the emulated boards, made once per cache: one of the user, one of all boards."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from harness.core.errors import ToolError
from harness.core.locking import exclusive

GUEST_KEYS = Path("guest", "keys")
"""Folder of the emulated boards' keys in the cache."""


@dataclass(frozen=True)
class Keys:
    """The user's private key file, and in OpenSSH's formats the user's public key and the boards' key pair."""

    user: Path
    user_public: bytes
    host_private: bytes
    host_public: bytes


def keys_in(folder: Path) -> Keys:
    """Return the Ed25519 keys of `folder`, created at the first call; ToolError if a file there is no such key."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(folder / "lock"):
        user, host = _private(folder / "user"), _private(folder / "host")
        return Keys(folder / "user", _public(user), (folder / "host").read_bytes(), _public(host))


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the fingerprint of `key` in the form that `ssh-keygen -l` prints."""
    blob = base64.b64decode(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def host_fingerprint(folder: Path) -> str | None:
    """Return the fingerprint of the emulated boards' host key, as SSH shows it; None if `folder` has no such key."""
    path = folder / "host"
    return fingerprint(_private(path).public_key()) if path.exists() else None


def _private(path: Path) -> Ed25519PrivateKey:
    if not path.exists():
        _make(path)
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ToolError(f"{path} is not an Ed25519 key", f"remove {path.parent}: new keys are made")
    return key


def _make(path: Path) -> None:
    content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    part.replace(path)


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
