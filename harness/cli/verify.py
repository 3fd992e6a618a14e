"""`harness verify`: its options; the work is in verify_flow."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="The laboratory's public key: the signature must be its.")
@click.option(
    "--reference",
    type=click.Choice(["all", "chunk", "none"]),
    default="all",
    show_default=True,
    help="Compute the reference again, over all vectors, or over one chunk at random.",
)
@click.option("--rebuild/--no-rebuild", default=True, show_default=True, help="Build the bundle again and compare.")
@as_json
@click.pass_obj
def verify(
    space: Workspace,
    /,
    as_json: bool,
    run: Path,
    key: Path | None,
    reference: Literal["all", "chunk", "none"],
    rebuild: bool,
) -> int:
    """Check a run's evidence: every SHA-256, nothing missing, nothing added, the verdict that follows, the signature.

    RUN is a folder, or its name under runs/.

    Exit code: 0 it stands, 1 it does not, 2 the request is wrong, 3 it could not be checked.
    """
    from harness import report
    from harness.boards.keys import GUEST_KEYS, host_fingerprint
    from harness.cli import verify_flow as command
    from harness.runs.signing import public_key
    from harness.runs.verification import Wanted

    known = host_fingerprint(space.cache / GUEST_KEYS)
    wanted = Wanted(space.boards, report.reports, public_key(key) if key else None, reference, rebuild, known)
    return command.verify(run, wanted, space, Console.open(as_json=as_json))
