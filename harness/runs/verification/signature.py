"""Signatures of evidence."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope

from harness.boards.keys import fingerprint
from harness.core.errors import RequestError
from harness.runs.folder import envelope_of
from harness.runs.signing import PAYLOAD_TYPE, is_signed_by, parse, signers, statement
from harness.runs.verification.claims import ContradictionError, UncheckedError

LARGEST_ENVELOPE = 1 << 20


def signed(document: Path, key: Ed25519PublicKey | None) -> str:
    """Check that the envelope beside a document states it, and is signed with the private key of `key`."""
    path = document.with_name(envelope_of(document.name))
    if not path.exists():
        if key is None:
            raise UncheckedError("it is not signed")
        raise ContradictionError(f"it is not signed: there is no {path.name}")
    envelope = _read(path)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ContradictionError(f"{path.name} is of type {envelope.payload_type!r}, a statement of {PAYLOAD_TYPE}")
    if envelope.payload != statement(document.read_bytes(), document.name):
        raise ContradictionError(f"{path.name} states another document than {document.name}")
    names = ", ".join(signers(envelope))
    if key is None:
        named = f"names {names}" if names else "has no signature"
        raise UncheckedError(f"the signer is unknown; it {named}: give --key to check it")
    if not is_signed_by(envelope, key):
        raise ContradictionError(f"not signed by {fingerprint(key)}, but by {names or 'no key'}")
    return f"signed by {fingerprint(key)}"


def _read(path: Path) -> Envelope:
    if path.stat().st_size > LARGEST_ENVELOPE:
        raise ContradictionError(f"{path.name} is too long for an envelope")
    try:
        return parse(path.read_text(encoding="utf-8"))
    except RequestError as error:
        raise ContradictionError(f"{path.name} is {error.message}") from error
