"""Signatures of evidence with the key of a lab.

Keys are Ed25519, from files of OpenSSH (ssh-keygen -t ed25519) or PEM (openssl genpkey -algorithm ed25519).

A statement is an in-toto Statement v1, https://github.com/in-toto/attestation.  Its subject is the document of the
evidence, such as run.json, whose `files` have the SHA-256 of all others.  It does not depend on the time of signing.

An envelope is a payload with its signatures: DSSE v1.0, https://github.com/secure-systems-lab/dsse.

    {"payload": BASE64, "payloadType": TYPE, "signatures": [{"keyid": FINGERPRINT, "sig": BASE64}]}

A keyid is a hint and may be missing; only the signature decides whether a key has signed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, Signature, SSlibKey

from harness.boards.keys import fingerprint
from harness.core import registry
from harness.core.errors import RequestError
from harness.core.safe_io import parse_json

HOW_TO_MAKE = "make one: ssh-keygen -t ed25519 -N '' -f lab-key"
LARGEST_FILE = 1 << 16


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read the private key in a file; RequestError if it is invalid, of another kind, or readable by others."""
    content = _read(path, private=True)
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, None)
    except TypeError as error:
        raise RequestError(
            f"the private key {path} needs a passphrase, and harness never asks for one",
            f"sign with a separate key in a folder that only you can read; {HOW_TO_MAKE}",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if "encrypted" in str(error):
            raise RequestError(f"the private key {path} needs a passphrase", HOW_TO_MAKE) from error
        raise RequestError(
            f"{path} is not a private key", f"give the file next to the .pub, or {HOW_TO_MAKE}"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise RequestError(f"{path} is not an Ed25519 key", HOW_TO_MAKE)
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """Read the public key in a file; RequestError if it is invalid, or of another kind."""
    content = _read(path, private=False)
    if b"PRIVATE KEY" in content:
        raise RequestError(f"{path} is a private key", "give the public one, the .pub next to it")
    load = load_pem_public_key if b"BEGIN PUBLIC KEY" in content else load_ssh_public_key
    try:
        key = load(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RequestError(
            f"{path} is not a public key", "give the .pub that ssh-keygen wrote, or a PEM file"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise RequestError(f"{path} is not an Ed25519 key", HOW_TO_MAKE)
    return key


def _read(path: Path, *, private: bool) -> bytes:
    path = path.expanduser()
    try:
        with path.open("rb") as file:
            status, content = os.fstat(file.fileno()), file.read(LARGEST_FILE)
    except OSError as error:
        hint = HOW_TO_MAKE if private else "give the .pub that the lab has published"
        raise RequestError(f"cannot read the key {path}: {error.strerror}", hint) from error
    if private and b"PRIVATE KEY" in content and status.st_uid == os.getuid() and status.st_mode & 0o077:
        raise RequestError(f"others may read the private key {path}", f"chmod 600 {shlex.quote(str(path))}")
    return content


PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
RUN_PREDICATE = "urn:harness:run:v2"
BOARD = ("name", "soc", "kind", "address", "host_key", "machine_id", "boot_id")


def statement(content: bytes, name: str = "run.json") -> bytes:
    """Return the statement of the document `name`, as canonical JSON; KeyError if it lacks an entry."""
    found, predicate_type = parse_json(content), RUN_PREDICATE
    if name == "run.json":
        predicate = _of_run(found)
    else:
        predicate_type, entries = registry.evidence(name).predicate
        predicate = {key: found[key] for key in entries}
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _of_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts for a reader who has only the envelope."""
    return {
        "kind": run.get("kind", "run"),
        "verdict": run["verdict"],
        "reason": run["reason"],
        "finished": run["finished"],
        "contentSha256": run.get("content_sha256"),
        "board": {key: run["board"][key] for key in BOARD},
        "ranOn": {item["name"]: {"target": item["target"], "on": item["ran_on"]} for item in run["plan"]["items"]},
        "model": {key: run["model"][key] for key in ("name", "sha256")},
        "bundle": {key: run["bundle"][key] for key in ("sha256", "compiler")},
        "stimuli": {key: run["stimuli"][key] for key in ("count", "source", "sha256")},
        "harness": run["harness"],
    }


KEYS = {"payload", "payloadType", "signatures"}
SIGNATURE_KEYS = {"keyid", "sig"}


def parse(text: str) -> Envelope:
    """Return the envelope of a JSON text; RequestError for another form, unknown keys, or duplicate keys."""
    try:
        document = parse_json(text)
        _require_keys(document, KEYS, KEYS)
        if not isinstance(document["payloadType"], str) or not isinstance(document["signatures"], list):
            raise TypeError("payloadType is not a text, or signatures is not a list")  # noqa: TRY301 - one way out
        signatures = {str(index): _signature(each) for index, each in enumerate(document["signatures"])}
        return Envelope(_decoded(document["payload"]), document["payloadType"], signatures)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"not a DSSE envelope: {error}", "remove it and sign again") from error


def with_signature(envelope: Envelope, key: Ed25519PrivateKey) -> Envelope:
    """Return the envelope with the signature of one more key; unchanged if the key has signed already."""
    if is_signed_by(envelope, key.public_key()):
        return envelope
    signed = Envelope(envelope.payload, envelope.payload_type, dict(envelope.signatures))
    signed.sign(CryptoSigner(key, _library_key(key.public_key())))
    return signed


def is_signed_by(envelope: Envelope, key: Ed25519PublicKey) -> bool:
    """Return whether one of the signatures is that of this key, for any keyid."""
    wanted = _library_key(key)
    candidates = {place: Signature(wanted.keyid, each.signature) for place, each in envelope.signatures.items()}
    try:
        Envelope(envelope.payload, envelope.payload_type, candidates).verify([wanted], threshold=1)
    except VerificationError:
        return False
    return True


def signers(envelope: Envelope) -> list[str]:
    """Return the keyids that the envelope names; they are not checked."""
    return [signature.keyid or "a key without name" for signature in envelope.signatures.values()]


def _library_key(key: Ed25519PublicKey) -> SSlibKey:
    return SSlibKey.from_crypto(key, keyid=fingerprint(key))


def _signature(document: Any) -> Signature:
    _require_keys(document, SIGNATURE_KEYS, {"sig"})
    keyid = document.get("keyid", "")
    if not isinstance(keyid, str):
        raise TypeError(f"the keyid {keyid!r} is not a text")
    return Signature(keyid, _decoded(document["sig"]).hex())


def _require_keys(document: Any, known: set[str], needed: set[str]) -> None:
    if not isinstance(document, dict):
        raise TypeError(f"{str(document)[:40]!r} is not a JSON object")
    if unknown := document.keys() - known:
        raise ValueError(f"unknown key {min(unknown)!r}")
    if missing := needed - document.keys():
        raise ValueError(f"{min(missing)!r} is missing")


def _decoded(text: Any) -> bytes:
    """Return the bytes of standard or URL-safe base64, both of which the protocol wants a reader to take."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (AttributeError, binascii.Error) as error:
        raise ValueError(f"{str(text)[:40]!r} is not base64") from error
