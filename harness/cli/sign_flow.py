"""`harness sign`: a run that does not contradict itself, stated and signed with the laboratory's key."""

from __future__ import annotations

from pathlib import Path

from securesystemslib.dsse import Envelope

from harness import report
from harness.boards.keys import GUEST_KEYS, fingerprint, host_fingerprint
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.document import write_json
from harness.core.errors import InfrastructureError, RequestError
from harness.runs.folder import ENVELOPE
from harness.runs.signing import PAYLOAD_TYPE, parse, private_key, statement, with_signature
from harness.runs.verification import ClaimState, Wanted, verify
from harness.runs.verification.claims import MALFORMED
from harness.runs.verification.folder import RUN, how_to_finish, read


def sign(run: Path, key: Path, workspace: Workspace, console: Console) -> None:
    """Sign a run; RequestError for what is no key, for an unfinished run, and for what does not stand.

    InfrastructureError where a claim that is needed cannot be checked here, such as sources that are not here.
    """
    path, signer = workspace.run(run), private_key(key)
    known = host_fingerprint(workspace.cache / GUEST_KEYS)
    _require_sound(path, Wanted(workspace.boards, report.reports, emulator_key=known), console)
    envelope = with_signature(_stated(path), signer)
    write_json(path / ENVELOPE, envelope.to_dict())
    name = fingerprint(signer.public_key())
    console.note(f"{path / ENVELOPE}: signed by {name}")
    console.document({"run": str(path), "envelope": str(path / ENVELOPE), "signed_by": name})


def _require_sound(path: Path, wanted: Wanted, console: Console) -> None:
    """Check all claims, as `harness verify` does."""
    evidence = read(path)
    if evidence is None:
        raise RequestError(f"{path}: the run is not finished", how_to_finish(path))
    for found in verify(evidence, wanted, console.progress):
        words = f"{path}: {found.name} {found.state}: {found.text}", "nobody should vouch for this: see harness verify"
        if found.state is ClaimState.WRONG:
            raise RequestError(*words)
        if found.needed and found.state is ClaimState.UNCHECKED:
            raise InfrastructureError(*words)


def _stated(path: Path) -> Envelope:
    """The envelope that is there, which states this run, for one more signature; or a new one."""
    try:
        new = Envelope(statement((path / RUN).read_bytes()), PAYLOAD_TYPE, {})
    except MALFORMED as error:
        raise RequestError(f"{path / RUN}: of no run that can be stated: {error!r}", "see harness verify") from error
    if not (path / ENVELOPE).exists():
        return new
    return parse((path / ENVELOPE).read_text(encoding="utf-8"))
