"""A payload with its signatures: DSSE v1.0, https://github.com/secure-systems-lab/dsse, by securesystemslib.

    {"payload": BASE64, "payloadType": TYPE, "signatures": [{"keyid": FINGERPRINT, "sig": BASE64}]}

A keyid is a hint and may be missing: whether a key has signed is decided by its signature alone.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey

from harness.boards.keys import fingerprint
from harness.core.errors import RequestError
from harness.core.safe_io import parse_json

KEYS = {"payload", "payloadType", "signatures"}
SIGNATURE_KEYS = {"keyid", "sig"}


def parse(text: str) -> Envelope:
    """Return the envelope of a JSON text; RequestError for another form, unknown keys, or keys that stand twice."""
    try:
        document = parse_json(text)
        _require_keys(document, KEYS, KEYS)
        if not isinstance(document["payloadType"], str) or not isinstance(document["signatures"], list):
            raise TypeError("payloadType is no text, or signatures is no list")  # noqa: TRY301 - one way out
        signatures = {str(index): _signature(each) for index, each in enumerate(document["signatures"])}
        return Envelope(_decoded(document["payload"]), document["payloadType"], signatures)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"no DSSE envelope: {error}", "remove it, and sign again") from error


def with_signature(envelope: Envelope, key: Ed25519PrivateKey) -> Envelope:
    """Return the envelope with the signature of one more key; as it is if the key has signed already."""
    if is_signed_by(envelope, key.public_key()):
        return envelope
    signed = Envelope(envelope.payload, envelope.payload_type, dict(envelope.signatures))
    signed.sign(CryptoSigner(key, _library_key(key.public_key())))
    return signed


def is_signed_by(envelope: Envelope, key: Ed25519PublicKey) -> bool:
    """Return whether one of the signatures is that of this key, whatever its keyid says."""
    wanted = _library_key(key)
    candidates = {place: Signature(wanted.keyid, each.signature) for place, each in envelope.signatures.items()}
    try:
        Envelope(envelope.payload, envelope.payload_type, candidates).verify([wanted], threshold=1)
    except VerificationError:
        return False
    return True


def signers(envelope: Envelope) -> list[str]:
    """Return the keyids that the envelope names, which nobody has checked."""
    return [each.keyid or "a key without name" for each in envelope.signatures.values()]


def _library_key(key: Ed25519PublicKey) -> SSlibKey:
    return SSlibKey.from_crypto(key, keyid=fingerprint(key))


def _signature(document: Any) -> Signature:
    _require_keys(document, SIGNATURE_KEYS, {"sig"})
    keyid = document.get("keyid", "")
    if not isinstance(keyid, str):
        raise TypeError(f"the keyid {keyid!r} is no text")
    return Signature(keyid, _decoded(document["sig"]).hex())


def _require_keys(document: Any, known: set[str], needed: set[str]) -> None:
    if not isinstance(document, dict):
        raise TypeError(f"{str(document)[:40]!r} is no object")
    if unknown := document.keys() - known:
        raise ValueError(f"unknown key {min(unknown)!r}")
    if missing := needed - document.keys():
        raise ValueError(f"{min(missing)!r} is missing")


def _decoded(text: Any) -> bytes:
    """Return the bytes of standard or URL-safe base64, both of which the protocol wants a reader to take."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (AttributeError, binascii.Error) as error:
        raise ValueError(f"{str(text)[:40]!r} is no base64") from error
