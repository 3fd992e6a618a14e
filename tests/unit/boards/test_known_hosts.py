"""Damaged lines of a known hosts file do not hide the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from harness.boards import known_hosts
from tests.support.examples import examples

PUBLIC = (
    ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key(),
    ec.derive_private_key(7, ec.SECP256R1()).public_key(),
    rsa.RSAPublicNumbers(65537, (1 << 2047) + 1).public_key(),
)
KEYS = [key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for key in PUBLIC]
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=3)), min_size=1, max_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", KEYS, ids=["ed25519", "ecdsa", "rsa"])
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES)
def test_a_damaged_key_hides_no_other(tmp_path: Path, damaged: bytes, changes: list[tuple[float, int, bytes]]) -> None:
    line = b"board " + damaged
    for place, count, text in changes:
        at = 6 + round(place * (len(line) - 6))
        line = line[:at] + text.replace(b"\n", b" ") + line[at + count :]
    path, good = tmp_path / "known_hosts", KEYS[0]
    path.write_bytes(line + b"\nboard " + good + b"\n")
    keys = known_hosts.read(path, "board").keys.values()
    assert good.split()[1].decode() in {key.get_base64() for key in keys}
