"""`harness sign`, its envelope checked by the definition of DSSE, and `harness verify --key`."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope

from harness.boards.tuning.identify import this_boot_id
from harness.core.errors import InfrastructureError, RequestError
from harness.runs.folder import write_json
from harness.runs.signing import PAYLOAD_TYPE, private_key, statement, with_signature
from tests.campaigns.forgeries.campaign import once
from tests.integration.cli.test_verify import (
    QUICK,
    change,
    claims_now,
    differing,
    edit_both_dumps_and_their_hashes,
    identical,
    model,
    rehash,
    rewrite,
    states,
    text,
    user,
)
from tests.support.cli.command import Ended, User
from tests.support.cli.history import History

__all__ = ["differing", "identical", "model", "user"]  # fixtures

pytestmark = pytest.mark.usefixtures("revisions_asked_once")


def made(path: Path, *options: str) -> Path:
    """A key pair of OpenSSH."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", *options, "-f", str(path)], check=True)
    return path


@pytest.fixture(scope="module", autouse=True)
def _bundles_are_built_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every signature has the bundle built again."""
    with once(tmp_path_factory.mktemp("built")):
        yield


@pytest.fixture(scope="module")
def key(user: User) -> Path:
    return made(user.folder / "laboratory")


@pytest.fixture
def run(identical: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(identical, tmp_path / "run"))


@pytest.fixture(scope="module")
def signed_once(user: User, identical: Path, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(identical, tmp_path_factory.mktemp("signed") / "run"))
    user.here("sign", str(run), "--key", str(key))
    return run


@pytest.fixture
def signed(signed_once: Path, tmp_path: Path) -> Path:
    """A run with the signature of `key`."""
    return Path(shutil.copytree(signed_once, tmp_path / "run"))


def verified(user: User, run: Path, key: Path) -> Ended:
    return user.here("verify", str(run), "--key", f"{key}.pub", "--json", *QUICK)


def test_a_signed_run_stands_and_says_by_whom(user: User, run: Path, key: Path) -> None:
    assert user.harness("sign", str(run), "--key", str(key)).code == 0
    shown = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True, check=True).stdout
    ended = verified(user, run, key)
    assert (ended.code, text(ended, "signature")) == (0, f"signed by {shown.split()[1]}")
    unasked = user.here("verify", str(run), "--json", *QUICK)
    assert (unasked.code, states(unasked)["signature"]) == (0, "not checked")


def test_the_signature_is_that_of_dsse_v1(user: User, run: Path, key: Path) -> None:
    """By its definition, with nothing of the harness or its library."""
    user.here("sign", str(run), "--key", str(key))
    document = json.loads((run / "run.dsse.json").read_text())
    assert document.keys() == {"payload", "payloadType", "signatures"}
    [signature] = document["signatures"]
    payload, kind = base64.b64decode(document["payload"], validate=True), document["payloadType"].encode()
    assert kind == b"application/vnd.in-toto+json"
    pae = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    public(key).verify(base64.b64decode(signature["sig"], validate=True), pae)
    with pytest.raises(InvalidSignature):
        public(key).verify(base64.b64decode(signature["sig"]), pae + b" ")
    statement = json.loads(payload)
    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", "urn:harness:run:v2")
    sha256 = hashlib.sha256((run / "run.json").read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": "run.json", "digest": {"sha256": sha256}}]
    assert statement["predicate"]["verdict"] == "identical"
    recorded = json.loads((run / "run.json").read_text())["board"]
    keys = {"name", "soc", "kind", "address", "host_key", "machine_id", "boot_id"}
    assert statement["predicate"]["board"] == {key: recorded[key] for key in keys}
    assert statement["predicate"]["board"]["boot_id"] == this_boot_id()
    assert statement["predicate"]["ranOn"]["network"] == {"target": "c", "on": "hardware"}


def public(key: Path) -> Ed25519PublicKey:
    """The last 32 bytes of an OpenSSH public key are the key."""
    blob = base64.b64decode(Path(f"{key}.pub").read_text().split()[1])
    return Ed25519PublicKey.from_public_bytes(blob[-32:])


def signature_of_nobody() -> dict[str, str]:
    return {"keyid": "SHA256:nobody", "sig": base64.b64encode(bytes(64)).decode()}


def twice(envelope: dict[str, Any]) -> None:
    """Signatures that are none have the same keyid, and stand before it and behind it."""
    [signature] = envelope["signatures"]
    wrong = signature | {"sig": signature_of_nobody()["sig"]}
    envelope["signatures"] = [wrong, signature, wrong]


ACCEPTED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no keyid": lambda e: e["signatures"][0].pop("keyid"),
    "empty keyid": lambda e: e["signatures"][0].update(keyid=""),
    "another keyid": lambda e: e["signatures"][0].update(keyid="SHA256:other"),
    "first of three": lambda e: e["signatures"].extend([signature_of_nobody(), {"sig": signature_of_nobody()["sig"]}]),
    "last of three": lambda e: e["signatures"].__setitem__(slice(0, 0), [signature_of_nobody(), signature_of_nobody()]),
    "same keyid": twice,
    "url-safe": lambda e: e["signatures"][0].update(sig=e["signatures"][0]["sig"].replace("+", "-").replace("/", "_")),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("how", ACCEPTED)
def test_the_wanted_keys_signature_counts_wherever_it_stands_and_whatever_it_is_called(
    user: User, signed: Path, key: Path, how: str
) -> None:
    change(signed / "run.dsse.json", ACCEPTED[how])
    ended = verified(user, signed, key)
    assert (ended.code, states(ended)["signature"]) == (0, "ok"), ended.out
    before = json.loads((signed / "run.dsse.json").read_text())
    user.here("sign", str(signed), "--key", str(key))
    after = json.loads((signed / "run.dsse.json").read_text())
    assert after["signatures"][0].keys() == {"keyid", "sig"}
    assert len(after["signatures"]) == len(before["signatures"])


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


def edit_envelope(how: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda run: change(run / "run.dsse.json", how)


def twice_in_the_text(run: Path) -> None:
    """A reader that takes the first would see another type than one that takes the last."""
    written = (run / "run.dsse.json").read_text()
    (run / "run.dsse.json").write_text(written.replace("{", '{"payloadType": "text/plain",', 1))


TAMPERED = {
    "run": (edit_run, "states another document than run.json"),
    "payload": (edit_payload, "states another document than run.json"),
    "signature": (edit_signature, "not signed by SHA256:"),
    "type": (edit_envelope(lambda e: e.update(payloadType="text/plain")), "is of type 'text/plain', a statement of"),
    "no type": (edit_envelope(lambda e: e.update(payloadType=1)), "payloadType is not a text"),
    "unknown key": (edit_envelope(lambda e: e.update(approved=True)), "not a DSSE envelope: unknown key 'approved'"),
    "unknown key of a signature": (edit_envelope(lambda e: e["signatures"][0].update(cert="x")), "unknown key 'cert'"),
    "keyid": (edit_envelope(lambda e: e["signatures"][0].update(keyid=1)), "the keyid 1 is not a text"),
    "no signature": (edit_envelope(lambda e: e["signatures"][0].pop("sig")), "'sig' is missing"),
    "signatures": (edit_envelope(lambda e: e.update(signatures={})), "signatures is not a list"),
    "short signature": (edit_envelope(lambda e: e["signatures"][0].update(sig="AAAA")), "not signed by SHA256:"),
    "nobody": (edit_envelope(lambda e: e.update(signatures=[])), ", but by no key"),
    "key twice": (twice_in_the_text, "'payloadType' is repeated"),
    "list": (lambda run: (run / "run.dsse.json").write_text("[]"), "'[]' is not a JSON object"),
    "no base64": (lambda run: change(run / "run.dsse.json", lambda e: e.update(payload="%")), "'%' is not base64"),
    "no envelope": (lambda run: write_json(run / "run.dsse.json", {}), "not a DSSE envelope"),
    "none": (lambda run: (run / "run.dsse.json").unlink(), "there is no run.dsse.json"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_signed_and_then_changed_does_not_stand(user: User, signed: Path, key: Path, how: str) -> None:
    tamper, words = TAMPERED[how]
    tamper(signed)
    ended = verified(user, signed, key)
    assert (ended.code, states(ended)["signature"]) == (1, "not ok")
    assert words in text(ended, "signature")


def test_the_key_of_another_laboratory_is_not_enough(user: User, signed: Path, tmp_path: Path) -> None:
    assert verified(user, signed, made(tmp_path / "other")).code == 1


def test_what_was_changed_before_is_not_signed(user: User, run: Path, key: Path) -> None:
    (run / "log.txt").write_text("all went well")
    with pytest.raises(RequestError, match=r"changed: log\.txt"):
        user.here("sign", str(run), "--key", str(key))
    assert not (run / "run.dsse.json").exists()


def test_what_only_the_reference_shows_is_not_signed(user: User, run: Path, key: Path) -> None:
    """Reference and board agree in the folder, on an activation that the network does not give."""
    edit_both_dumps_and_their_hashes(run)
    rehash(run)
    with pytest.raises(RequestError, match=r"reference not ok: chunk 0, reference_sha256 says \[2\] is"):
        user.here("sign", str(run), "--key", str(key))


def test_a_program_that_the_sources_do_not_give_is_not_signed(user: User, run: Path, key: Path) -> None:
    change(run / "run.json", lambda document: document["bundle"]["files"].update(inference="0" * 64))
    rewrite(run)
    with pytest.raises(RequestError, match=r"bundle not ok: .* other bytes are in: inference"):
        user.here("sign", str(run), "--key", str(key))


def test_a_verdict_that_does_not_follow_is_not_signed(user: User, run: Path, key: Path) -> None:
    change(run / "run.json", lambda document: document.update(verdict="differs"))
    with pytest.raises(RequestError, match=r"verdict not ok: .* recomputed as \"identical\""):
        user.here("sign", str(run), "--key", str(key))
    assert not (run / "run.dsse.json").exists()


@pytest.mark.parametrize("revision", [None, "0123456789ab-dirty", "0123456789ab"])
def test_a_run_of_unknown_sources_is_not_signed(user: User, run: Path, key: Path, revision: str | None) -> None:
    change(run / "run.json", lambda document: document["harness"].update(revision=revision))
    rewrite(run)
    with pytest.raises(InfrastructureError, match="sources not checked: made ") as caught:
        user.here("sign", str(run), "--key", str(key))
    assert caught.value.exit_code == 3
    assert not (run / "run.dsse.json").exists()


def test_a_run_of_other_sources_than_its_revisions_is_not_signed(
    user: User, differing: Path, history: History, key: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(differing, tmp_path / "copy"))
    change(copy / "run.json", claims_now(history))
    rewrite(copy)
    with pytest.raises(RequestError, match=r"sources not ok: .*: kernels/c/saturate\.h"):
        user.here("sign", str(copy), "--key", str(key))
    assert not (copy / "run.dsse.json").exists()


def test_another_runs_envelope_is_not_replaced(user: User, run: Path, key: Path) -> None:
    other = json.loads((run / "run.json").read_text()) | {"wall_s": 9.5}
    envelope = with_signature(Envelope(statement(json.dumps(other).encode()), PAYLOAD_TYPE, {}), private_key(key))
    write_json(run / "run.dsse.json", envelope.to_dict())
    with pytest.raises(RequestError, match="states another document"):
        user.here("sign", str(run), "--key", str(key))
    assert json.loads((run / "run.dsse.json").read_text()) == envelope.to_dict()


def test_a_key_that_others_may_read_is_refused(user: User, run: Path, tmp_path: Path) -> None:
    key = made(tmp_path / "open")
    key.chmod(0o644)
    with pytest.raises(RequestError, match="others may read the private key"):
        user.here("sign", str(run), "--key", str(key))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-N", "secret"), "needs a passphrase"),
        (("-t", "ecdsa"), "is not an Ed25519 key"),
        (("-t", "rsa", "-m", "PEM"), "is not an Ed25519 key"),
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


def test_a_private_key_is_not_what_a_reader_needs(user: User, signed: Path, key: Path) -> None:
    with pytest.raises(RequestError, match="is a private key"):
        user.here("verify", str(signed), "--key", str(key), "--json", *QUICK)


def test_a_public_key_signs_nothing(user: User, run: Path, key: Path) -> None:
    with pytest.raises(RequestError, match="is not a private key"):
        user.here("sign", str(run), "--key", f"{key}.pub")
