"""Vouching for a run: a statement of what it has shown, signed with the laboratory's key.

keys       Ed25519 keys, from the files that OpenSSH and OpenSSL write
statement  the run as an in-toto Statement v1
envelope   a payload with its signatures (DSSE)
"""

from harness.runs.signing.envelope import is_signed_by, parse, signers, with_signature
from harness.runs.signing.keys import private_key, public_key
from harness.runs.signing.statement import PAYLOAD_TYPE, statement

__all__ = [
    "PAYLOAD_TYPE",
    "is_signed_by",
    "parse",
    "private_key",
    "public_key",
    "signers",
    "statement",
    "with_signature",
]
