"""`harness sign`: a run whose files are as they were, stated and signed with the laboratory's key."""

from __future__ import annotations

import shlex
from pathlib import Path

from harness.errors import RequestError
from harness.evidence import ENVELOPE, write_json
from harness.screen import Screen
from harness.signing import PAYLOAD_TYPE, Envelope, fingerprint, private_key, statement
from harness.verification import State
from harness.verification.claims import MALFORMED, claim
from harness.verification.folder import RUN, files, read
from harness.workspace import Workspace


def sign(run: Path, key: Path, workspace: Workspace, screen: Screen) -> None:
    """The whole command; RequestError for what is no key, for an unfinished run, and for files that were changed."""
    path, signer = workspace.run(run), private_key(key)
    _require_whole(path, screen)
    envelope = _stated(path).with_signature(signer)
    write_json(path / ENVELOPE, envelope.document())
    name = fingerprint(signer.public_key())
    screen.note(f"{path / ENVELOPE}: signed by {name}")
    screen.document({"run": str(path), "envelope": str(path / ENVELOPE), "signed_by": name})


def _require_whole(path: Path, screen: Screen) -> None:
    evidence = read(path)
    if evidence is None:
        raise RequestError(f"{path}: the run is not finished", f"harness run --resume {shlex.quote(str(path))}")
    found = claim("files", lambda: files(evidence, screen.progress))
    if found.state is not State.OK:
        raise RequestError(f"{path}: {found.text}", "nobody should vouch for this: see harness verify")


def _stated(path: Path) -> Envelope:
    """The envelope that is there, for one more signature, if it states this run; otherwise a new one."""
    try:
        new = Envelope(PAYLOAD_TYPE, statement((path / RUN).read_bytes()))
    except MALFORMED as error:
        raise RequestError(f"{path / RUN}: of no run that can be stated: {error!r}", "see harness verify") from error
    if not (path / ENVELOPE).exists():
        return new
    old = Envelope.parse((path / ENVELOPE).read_text(encoding="utf-8"))
    if (old.payload_type, old.payload) != (new.payload_type, new.payload):
        raise RequestError(f"{path / ENVELOPE} states another run", "remove it if it is of no use, and sign again")
    return old
