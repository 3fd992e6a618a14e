"""`harness sign`: a signature of the lab under valid evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import InfrastructureError, RequestError

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope

    from harness.runs.verification import VerificationScope


@click.command("sign", epilog="Example: harness sign last --key lab.pem")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=_completion.runs)
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The lab's private Ed25519 key.")
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, run: Path, key: Path) -> None:
    """Sign RUN: add a signature to the in-toto statement of its document, a DSSE envelope.

    RUN is a folder, a name under runs/, or `last`: of a run, a decision, bounds or a case.
    """
    sign(run, key, space, Console.open(as_json=as_json))


def sign(run: Path, key: Path, workspace: Workspace, console: Console) -> None:
    """Sign evidence; RequestError for an invalid key, an unfinished run or invalid evidence.

    InfrastructureError if a required claim cannot be checked here, for example because sources are missing.
    """
    from harness import report
    from harness.boards.keys import GUEST_KEYS, fingerprint, host_fingerprint
    from harness.core.document import write_json
    from harness.runs.folder import envelope_of
    from harness.runs.signing import private_key, with_signature
    from harness.runs.verification import VerificationScope

    path, signer = workspace.run(run), private_key(key)
    known = host_fingerprint(workspace.cache / GUEST_KEYS)
    scope = VerificationScope(workspace, report.reports, emulator_key=known)
    document = _require_sound(path, scope, console)
    place = document.with_name(envelope_of(document.name))
    envelope = with_signature(_stated(document, place), signer)
    write_json(place, envelope.to_dict())
    name = fingerprint(signer.public_key())
    console.note(f"{place}: signed by {name}")
    console.document({"run": str(path), "envelope": str(place), "signed_by": name})


def _require_sound(path: Path, scope: VerificationScope, console: Console) -> Path:
    """Check all claims, as `harness verify` does; return the document."""
    from harness.runs.verification import ClaimState, folders
    from harness.runs.verification.folder import how_to_finish

    evidence = folders.read(path)
    if evidence is None:
        raise RequestError(f"{path}: the run is not finished", how_to_finish(path))
    for claim in folders.claims(evidence, scope, console.progress):
        words = f"{path}: {claim.name} {claim.state}: {claim.text}", "this cannot be signed: see harness verify"
        if claim.state is ClaimState.WRONG:
            raise RequestError(*words)
        if claim.needed and claim.state is ClaimState.UNCHECKED:
            raise InfrastructureError(*words)
    return path / evidence.name


def _stated(document: Path, place: Path) -> Envelope:
    """Return the existing envelope of a document, to which a signature is added; or a new envelope."""
    from securesystemslib.dsse import Envelope

    from harness.runs.signing import PAYLOAD_TYPE, parse, statement
    from harness.runs.verification.claims import MALFORMED

    try:
        new = Envelope(statement(document.read_bytes(), document.name), PAYLOAD_TYPE, {})
    except MALFORMED as error:
        raise RequestError(f"{document}: not a valid document: {error!r}", "see harness verify") from error
    return parse(place.read_text(encoding="utf-8")) if place.exists() else new
