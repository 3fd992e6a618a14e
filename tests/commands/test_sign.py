"""`harness sign`, its envelope read by another implementation, and `harness verify --key`."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.signer import Key, SSlibKey

from harness.board_state.identify import this_boot_id
from harness.errors import RequestError
from harness.evidence import write_json
from harness.signing import PAYLOAD_TYPE, Envelope, private_key, statement
from tests.commands.command import Ended, User
from tests.commands.test_verify import QUICK, change, identical, model, states, text, user

__all__ = ["identical", "model", "user"]  # fixtures


def made(path: Path, *options: str) -> Path:
    """A key pair of OpenSSH."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", *options, "-f", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def key(user: User) -> Path:
    return made(user.folder / "laboratory")


@pytest.fixture
def run(identical: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(identical, tmp_path / "run"))


def verified(user: User, run: Path, key: Path) -> Ended:
    return user.here("verify", str(run), "--key", f"{key}.pub", "--json", *QUICK)


def test_a_signed_run_stands_and_says_by_whom(user: User, run: Path, key: Path) -> None:
    assert user.harness("sign", str(run), "--key", str(key)).code == 0
    shown = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True, check=True).stdout
    ended = verified(user, run, key)
    assert (ended.code, text(ended, "signature")) == (0, f"signed by {shown.split()[1]}")
    unasked = user.here("verify", str(run), "--json", *QUICK)
    assert (unasked.code, states(unasked)["signature"]) == (0, "not checked")


def test_another_implementation_reads_the_envelope_and_accepts_the_signature(user: User, run: Path, key: Path) -> None:
    user.here("sign", str(run), "--key", str(key))
    document = json.loads((run / "run.dsse.json").read_text())
    envelope = OtherEnvelope.from_dict(copy.deepcopy(document))
    assert envelope.payload_type == "application/vnd.in-toto+json"
    assert envelope.verify([_other_key(key, document)], threshold=1)
    statement = json.loads(envelope.payload)
    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", "urn:harness:run:v2")
    sha256 = hashlib.sha256((run / "run.json").read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": "run.json", "digest": {"sha256": sha256}}]
    assert statement["predicate"]["verdict"] == "identical"
    recorded = json.loads((run / "run.json").read_text())["board"]
    keys = {"name", "soc", "kind", "address", "host_key", "machine_id", "boot_id"}
    assert statement["predicate"]["board"] == {key: recorded[key] for key in keys}
    assert statement["predicate"]["board"]["boot_id"] == this_boot_id()
    assert statement["predicate"]["ranOn"]["network"] == {"target": "c", "on": "hardware"}


def _other_key(key: Path, document: dict[str, Any]) -> Key:
    """The last 32 bytes of the OpenSSH public key are the key."""
    blob = base64.b64decode(Path(f"{key}.pub").read_text().split()[1])
    return SSlibKey(document["signatures"][0]["keyid"], "ed25519", "ed25519", {"public": blob[-32:].hex()})


def test_two_laboratories_may_sign_one_run(user: User, run: Path, key: Path, tmp_path: Path) -> None:
    other = made(tmp_path / "other")
    for each in (key, other, key):
        user.here("sign", str(run), "--key", str(each))
    assert len(json.loads((run / "run.dsse.json").read_text())["signatures"]) == 2
    assert [verified(user, run, each).code for each in (key, other)] == [0, 0]


def test_a_pem_key_signs_too(user: User, run: Path, tmp_path: Path) -> None:
    key = tmp_path / "pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
    key.chmod(0o600)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", f"{key}.pub"], check=True)
    user.here("sign", str(run), "--key", str(key))
    assert verified(user, run, key).code == 0


def test_signing_again_changes_nothing(user: User, run: Path, key: Path) -> None:
    user.here("sign", str(run), "--key", str(key))
    first = (run / "run.dsse.json").read_bytes()
    user.here("sign", str(run), "--key", str(key))
    assert (run / "run.dsse.json").read_bytes() == first


def edit_run(run: Path) -> None:
    """A number that nothing else follows from, such as the time that it took."""
    change(run / "run.json", lambda document: document.update(finished="2026-01-01T00:00:00Z"))


def edit_payload(run: Path) -> None:
    def better(envelope: dict[str, Any]) -> None:
        payload = base64.b64decode(envelope["payload"]).replace(b"bit for bit", b"very nearly")
        envelope["payload"] = base64.b64encode(payload).decode()

    change(run / "run.dsse.json", better)


def edit_signature(run: Path) -> None:
    def flip(envelope: dict[str, Any]) -> None:
        signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
        signature[5] ^= 1
        envelope["signatures"][0]["sig"] = base64.b64encode(signature).decode()

    change(run / "run.dsse.json", flip)


TAMPERED = {
    "run": (edit_run, "states another run than run.json"),
    "payload": (edit_payload, "states another run than run.json"),
    "signature": (edit_signature, "not signed by SHA256:"),
    "type": (lambda run: change(run / "run.dsse.json", lambda e: e.update(payloadType="text/plain")), "another run"),
    "no base64": (lambda run: change(run / "run.dsse.json", lambda e: e.update(payload="%")), "'%' is no base64"),
    "no envelope": (lambda run: write_json(run / "run.dsse.json", {}), "is no DSSE envelope"),
    "none": (lambda run: (run / "run.dsse.json").unlink(), "there is no run.dsse.json"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_signed_and_then_changed_does_not_stand(user: User, run: Path, key: Path, how: str) -> None:
    user.here("sign", str(run), "--key", str(key))
    tamper, words = TAMPERED[how]
    tamper(run)
    ended = verified(user, run, key)
    assert (ended.code, states(ended)["signature"]) == (1, "not ok")
    assert words in text(ended, "signature")


def test_the_key_of_another_laboratory_is_not_enough(user: User, run: Path, key: Path, tmp_path: Path) -> None:
    user.here("sign", str(run), "--key", str(key))
    assert verified(user, run, made(tmp_path / "other")).code == 1


def test_what_was_changed_before_is_not_signed(user: User, run: Path, key: Path) -> None:
    (run / "log.txt").write_text("all went well")
    with pytest.raises(RequestError, match=r"changed: log\.txt"):
        user.here("sign", str(run), "--key", str(key))
    assert not (run / "run.dsse.json").exists()


def test_a_verdict_that_does_not_follow_is_not_signed(user: User, run: Path, key: Path) -> None:
    change(run / "run.json", lambda document: document.update(verdict="differs"))
    with pytest.raises(RequestError, match=r"verdict not ok: .* found again as \"identical\""):
        user.here("sign", str(run), "--key", str(key))
    assert not (run / "run.dsse.json").exists()


def test_another_runs_envelope_is_not_replaced(user: User, run: Path, key: Path) -> None:
    other = json.loads((run / "run.json").read_text()) | {"wall_s": 9.5}
    envelope = Envelope(PAYLOAD_TYPE, statement(json.dumps(other).encode())).with_signature(private_key(key))
    write_json(run / "run.dsse.json", envelope.document())
    with pytest.raises(RequestError, match="states another run"):
        user.here("sign", str(run), "--key", str(key))
    assert json.loads((run / "run.dsse.json").read_text()) == envelope.document()


def test_a_key_that_others_may_read_is_refused(user: User, run: Path, tmp_path: Path) -> None:
    key = made(tmp_path / "open")
    key.chmod(0o644)
    with pytest.raises(RequestError, match="others may read the private key"):
        user.here("sign", str(run), "--key", str(key))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-N", "secret"), "needs a passphrase"),
        (("-t", "ecdsa"), "is no Ed25519 key"),
        (("-t", "rsa", "-m", "PEM"), "is no Ed25519 key"),
    ],
)
def test_a_key_that_cannot_sign_is_refused(
    user: User, run: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    with pytest.raises(RequestError, match=words) as error:
        user.here("sign", str(run), "--key", str(made(tmp_path / "key", *options)))
    assert "ssh-keygen -t ed25519" in error.value.hint


def test_an_encrypted_pem_key_is_said_to_need_a_passphrase(user: User, run: Path, tmp_path: Path) -> None:
    key = tmp_path / "pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x", "-out", key]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    with pytest.raises(RequestError, match="needs a passphrase"):
        user.here("sign", str(run), "--key", str(key))


def test_a_private_key_is_not_what_a_reader_needs(user: User, run: Path, key: Path) -> None:
    user.here("sign", str(run), "--key", str(key))
    with pytest.raises(RequestError, match="is a private key"):
        user.here("verify", str(run), "--key", str(key), "--json", *QUICK)


def test_a_public_key_signs_nothing(user: User, run: Path, key: Path) -> None:
    with pytest.raises(RequestError, match="is no private key"):
        user.here("sign", str(run), "--key", f"{key}.pub")
