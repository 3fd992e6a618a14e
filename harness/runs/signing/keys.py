"""Ed25519 keys from files: OpenSSH's (ssh-keygen -t ed25519) or PEM (openssl genpkey -algorithm ed25519)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from harness.core.errors import RequestError

HOW_TO_MAKE = "make one: ssh-keygen -t ed25519 -N '' -f laboratory-key"
LARGEST_FILE = 1 << 16


def private_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a file; RequestError if it is none, is of another kind, or if others may read it."""
    content = _read(path, private=True)
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, None)
    except TypeError as error:
        raise RequestError(
            f"the private key {path} needs a passphrase, and none is ever asked for",
            f"sign with a key of its own, in a folder that only you can read; {HOW_TO_MAKE}",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if "encrypted" in str(error):
            raise RequestError(f"the private key {path} needs a passphrase", HOW_TO_MAKE) from error
        raise RequestError(f"{path} is no private key", f"give the file beside the .pub, or {HOW_TO_MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise RequestError(f"{path} is no Ed25519 key", HOW_TO_MAKE)
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a file; RequestError if it is none, or is of another kind."""
    content = _read(path, private=False)
    if b"PRIVATE KEY" in content:
        raise RequestError(f"{path} is a private key", "give the public one, the .pub beside it")
    load = load_pem_public_key if b"BEGIN PUBLIC KEY" in content else load_ssh_public_key
    try:
        key = load(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RequestError(f"{path} is no public key", "give the .pub that ssh-keygen wrote, or a PEM file") from error
    if not isinstance(key, Ed25519PublicKey):
        raise RequestError(f"{path} is no Ed25519 key", HOW_TO_MAKE)
    return key


def _read(path: Path, *, private: bool) -> bytes:
    path = path.expanduser()
    try:
        with path.open("rb") as file:
            status, content = os.fstat(file.fileno()), file.read(LARGEST_FILE)
    except OSError as error:
        hint = HOW_TO_MAKE if private else "give the .pub that the laboratory has published"
        raise RequestError(f"cannot read the key {path}: {error.strerror}", hint) from error
    if private and b"PRIVATE KEY" in content and status.st_uid == os.getuid() and status.st_mode & 0o077:
        raise RequestError(f"others may read the private key {path}", f"chmod 600 {shlex.quote(str(path))}")
    return content
