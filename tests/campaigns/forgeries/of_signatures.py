"""Forgeries of the signature: it is not the laboratory's, or is of another run."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.boards.keys import fingerprint
from harness.runs.folder import envelope_of, write_json
from harness.runs.signing import PAYLOAD_TYPE, private_key, public_key, statement
from tests.campaigns.forgeries.bases import Bases
from tests.campaigns.forgeries.forger import Change, Document, all_of, document_in, in_document, in_run, in_text, redo
from tests.campaigns.forgeries.forgery import Using, forgeries

ENVELOPE = envelope_of("run.json")
FORGER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def signed(payload: bytes, key: Ed25519PrivateKey) -> Document:
    """Return an envelope by the definition of DSSE: PAE(type, payload) is signed."""
    kind = PAYLOAD_TYPE.encode()
    content = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    signature = {"keyid": fingerprint(key.public_key()), "sig": base64.b64encode(key.sign(content)).decode()}
    return {"payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}


def envelope(how: Callable[[Document], object] = lambda _: None, *then: Change, of: str = "") -> Using:
    """Return a change of the envelope that the laboratory has signed for this run, or for another."""

    def make(bases: Bases) -> Change:
        def change(folder: Path) -> None:
            source = document_in(bases.folder(of) if of else folder)
            document = signed(statement(source.read_bytes(), source.name), private_key(bases.key))
            how(document)
            write_json(folder / envelope_of(document_in(folder).name), document)

        return all_of(change, *then)

    return Using(make)


def by_forger(how: Callable[[Document, str], object] = lambda _d, _n: None) -> Using:
    """Return a change of an envelope of the forger; `how` hears of the name of the laboratory's key."""

    def make(bases: Bases) -> Change:
        def change(folder: Path) -> None:
            source = document_in(folder)
            document = signed(statement(source.read_bytes(), source.name), FORGER)
            how(document, fingerprint(public_key(Path(f"{bases.key}.pub"))))
            write_json(folder / envelope_of(source.name), document)

        return change

    return Using(make)


def name_laboratory(document: Document, name: str) -> None:
    """Give a signature the name of the laboratory's key."""
    document["signatures"][0]["keyid"] = name


def sign_twice(document: Document, name: str) -> None:
    """Add a second signature of the forger, under the name of the laboratory's key."""
    document["signatures"].append(document["signatures"][0] | {"keyid": name})


def call_hardware(document: Document) -> None:
    """Change the statement."""
    payload = base64.b64decode(document["payload"]).replace(b'"this machine"', b'"hardware"')
    document["payload"] = base64.b64encode(payload).decode()


changed = in_run(lambda run: run.update(command=["harness", "run", "--board", "xavier"]))

older = all_of(in_document(lambda document: document.update(wall_s=1.0)), redo)
OF_OTHERS = forgeries(
    "signature",
    {
        "a decision with the laboratory's signature of a run": ("decision", envelope(of="run")),
        "a decision that was changed after it was signed": ("decision", envelope(lambda _: None, older)),
        "a decision with a signature of the forger": ("decision", by_forger()),
        "a decision by bounds with a signature of the forger": ("bounded_decision", by_forger(name_laboratory)),
        "bounds with the laboratory's signature of a decision": ("bounds", envelope(of="decision")),
        "bounds that were changed after they were signed": ("bounds", envelope(lambda _: None, older)),
        "bounds with a signature of the forger": ("bounds", by_forger()),
        "a profile with a signature of the forger": ("profile", by_forger()),
        "a case with a signature of the forger": ("case", by_forger(name_laboratory)),
        "a case with the laboratory's signature of bounds": ("case", envelope(of="bounds")),
    },
    redone=False,
    needs_key=True,
)
OF_RUNS = forgeries(
    "signature",
    {
        "the laboratory's signature of another run": ("run", envelope(of="stand_in")),
        "a run that was changed after it was signed": ("run", envelope(lambda _: None, changed, redo)),
        "a statement that was changed after it was signed": ("run", envelope(call_hardware)),
        "another type of the statement": ("run", envelope(lambda d: d.update(payloadType="text/plain"))),
        "a signature of the forger": ("run", by_forger()),
        "a signature of the forger, by the name of the laboratory": ("run", by_forger(name_laboratory)),
        "a signature of the forger, without a name": ("run", by_forger(lambda d, _: d["signatures"][0].pop("keyid"))),
        "two signatures of the forger, one by the name of the laboratory": ("run", by_forger(sign_twice)),
        "no signature": ("run", envelope(lambda d: d.update(signatures=[]))),
        "an envelope that says a thing twice": (
            "run",
            envelope(lambda _: None, in_text(ENVELOPE, "{", '{"payloadType": "text/plain",')),
        ),
        "an envelope with an entry that nobody knows": ("run", envelope(lambda d: d.update(approved=True))),
    },
    redone=False,
    needs_key=True,
)
FORGERIES = [*OF_RUNS, *OF_OTHERS]
