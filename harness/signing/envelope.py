"""A payload with its signatures: DSSE v1.0.2, https://github.com/secure-systems-lab/dsse.

    {"payload": BASE64, "payloadType": TYPE, "signatures": [{"keyid": FINGERPRINT, "sig": BASE64}]}

What is signed is PAE(TYPE, payload) = "DSSEv1" SP LEN(TYPE) SP TYPE SP LEN(payload) SP payload, LEN in bytes, decimal.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from harness.errors import RequestError
from harness.signing.keys import fingerprint
from harness.untrusted import parse_json


@dataclass(frozen=True)
class Envelope:
    """`signatures` by the fingerprints of their keys, which are hints: `is_signed_by` asks the key itself."""

    payload_type: str
    payload: bytes
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Envelope:
        """An envelope from its JSON; RequestError if it is none."""
        try:
            document = parse_json(text)
            signatures = {str(each["keyid"]): _decoded(each["sig"]) for each in document["signatures"]}
            return cls(str(document["payloadType"]), _decoded(document["payload"]), signatures)
        except (ValueError, LookupError, TypeError) as error:
            raise RequestError(f"no DSSE envelope: {error}", "remove it, and sign again") from error

    @property
    def signed(self) -> bytes:
        """The bytes that are signed, PAE(type, payload)."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)

    def with_signature(self, key: Ed25519PrivateKey) -> Envelope:
        """The same, signed by one more key."""
        name = fingerprint(key.public_key())
        return Envelope(self.payload_type, self.payload, {**self.signatures, name: key.sign(self.signed)})

    def is_signed_by(self, key: Ed25519PublicKey) -> bool:
        """Whether one of the signatures is that of this key."""
        return any(_verifies(key, signature, self.signed) for signature in self.signatures.values())

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        signatures = [{"keyid": name, "sig": _encoded(sig)} for name, sig in self.signatures.items()]
        return {"payload": _encoded(self.payload), "payloadType": self.payload_type, "signatures": signatures}


def _verifies(key: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decoded(text: str) -> bytes:
    """RFC 4648, its URL-safe letters too, as the protocol wants of a reader."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (AttributeError, binascii.Error) as error:
        raise ValueError(f"{str(text)[:40]!r} is no base64") from error
