"""Programs that run with the sources of the revision that made a run, taken from the history of this checkout."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.core.installation import CHANGED, SOURCES, git, is_committed
from harness.runs.verification.claims import ContradictionError, UncheckedError
from harness.runs.verification.folder import RUN, Evidence

TIMEOUT_S = 1800.0
COMMIT = re.compile(r"(?:^|-g)([0-9a-f]{7,40})$")
SLACK = timedelta(days=1)  # of clocks that were never set
ACCURACY = timedelta(minutes=1)  # of clocks that are set
LATER = "simulators"  # earlier revisions have them in kernels


def by_its_revision(evidence: Evidence, program: str, arguments: Sequence[Path | str], folder: Path) -> Any:
    """Return what a program prints as JSON that runs with the sources of the run's revision, unpacked in `folder`.

    UncheckedError if they are not in the history of this checkout: only what its present comes from is run.
    """
    revision = commit(evidence)
    known = [name for name in SOURCES if name != LATER or git("ls-tree", revision, name)]
    archive = git("archive", "--format=tar", revision, *known)
    if archive is None:
        raise UncheckedError(f"git does not give the sources of revision {revision}")
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 or newer
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder / "sources", **safely)  # noqa: S202 - of a commit of this checkout's own history
    environment = os.environ | {"PYTHONPATH": str(folder / "sources"), "PYTHONSAFEPATH": "1"}
    asked = [sys.executable, "-c", program, *map(str, arguments)]
    try:
        done = subprocess.run(asked, capture_output=True, check=False, env=environment, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise UncheckedError(f"revision {revision} did not make it within {TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UncheckedError(f"revision {revision} does not make it here: {last[:200]}")
    return json.loads(done.stdout)


def require_possible_time(evidence: Evidence, began: str) -> str:
    """Require that evidence was begun after the commit of its revision and is not from the future.

    `began` is a time of ISO 8601.  UncheckedError if it is earlier by less than SLACK, ContradictionError if by more.
    """
    moment, revision = datetime.fromisoformat(began), str(evidence.run["harness"]["revision"]).removesuffix(CHANGED)
    if moment > datetime.now(UTC) + SLACK:
        raise ContradictionError(f"{evidence.name} has the time {began}, which is in the future")
    named = COMMIT.search(revision)
    seconds = git("show", "--no-patch", "--format=%ct", f"{named[1]}^{{commit}}") if named else None
    if seconds is None:
        return f"begun {began}; the commit of its revision is not here"
    committed = datetime.fromtimestamp(int(seconds), UTC)
    if moment < committed - ACCURACY:
        said = f"{evidence.name} was begun {began}, before the commit of its revision, {committed:%Y-%m-%dT%H:%M:%SZ}"
        if moment < committed - SLACK:
            raise ContradictionError(said)
        raise UncheckedError(f"{said}: a clock was wrong, or the file was edited")
    return f"begun {began}, after the commit of its revision"


def commit(evidence: Evidence) -> str:
    """Return the commit that the run names; UncheckedError if it names none, had changes, or is not here."""
    recorded = evidence.run["harness"]["revision"]
    if recorded is None:
        raise UncheckedError(
            "made outside a checkout: no revision has its sources, so it cannot be verified; run it again with a "
            "harness from a git checkout"
        )
    if not is_committed(str(recorded)):
        raise UncheckedError(
            f"made by {recorded}, with changed files: no revision has its sources, so it cannot be verified; "
            "commit the changes, or install harness again, and run it again"
        )
    match = COMMIT.search(str(recorded))
    if not match:
        raise UncheckedError(f"{RUN} names no revision: {recorded!r}")
    if git("merge-base", "--is-ancestor", match[1], "HEAD") is None:
        raise UncheckedError(
            f"made by revision {match[1]}, which is not in the history of this checkout: get it with git fetch, check "
            f"it out with git checkout {match[1]}, and verify there"
        )
    return match[1]
