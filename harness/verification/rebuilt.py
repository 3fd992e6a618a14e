"""What the sources of a revision give: the bundle, built again, and the reports, written again."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import bundle, plan_folder, profile
from harness.errors import HarnessError
from harness.profile import Profile
from harness.verification.claims import ContradictionError, UncheckedError, listed, require_equal
from harness.verification.folder import RUN, Evidence
from harness.workspace import git

BUILD_TIMEOUT_S = 1800.0

# Run with the modules of another revision, by `python -c`: plan folder, laboratory, board, cache.
_BUILD = """\
import json, sys
from pathlib import Path
from harness import bundle, plan_folder, profile
plan, boards, board, cache = sys.argv[1:]
built = bundle.build(plan_folder.read(Path(plan)), profile.load(Path(boards)).board(board), Path(cache))
print(json.dumps([built.sha256, built.files, built.compiler, built.flags]))
"""


# Likewise, its reports by their names: run.json.
_REPORT = """\
import json, sys
from pathlib import Path
from harness import report
run = json.loads(Path(sys.argv[1]).read_text())
del run["files"]
run.pop("content_sha256", None)
measured = run.get("kind") == "measure"
print(json.dumps(report.measurement(run) if measured else {
    "report.html": report.html(run), "junit.xml": report.junit(run)}))
"""


@dataclass(frozen=True)
class Built:
    """What has come of building: the bundle's name, the SHA-256 of its files, and what compiled it."""

    sha256: str
    files: Mapping[str, str]
    compiler: str
    flags: tuple[str, ...]


def reproduced(evidence: Evidence, boards: Path, scratch: Path) -> str:
    """The bundle that ran is what its sources give, byte for byte; `scratch` is a folder to build in.

    UncheckedError where these sources, this compiler or this board's profile are not here.
    """
    recorded, revision = evidence.run["bundle"], evidence.run["harness"]["revision"]
    try:
        built, source = _here(evidence, boards, scratch / "here"), "the sources here"
        if built.sha256 != recorded["sha256"] and built.compiler == recorded["compiler"]:
            built, source = _there(evidence, boards, scratch / "there"), f"the sources of {revision}"
    except HarnessError as error:
        raise UncheckedError(f"it cannot be built here: {error.message}") from error
    if built.sha256 != recorded["sha256"]:
        raise _explain(evidence, built, source)
    return f"{_same_files(recorded, built)}, from {source}, by {built.compiler}"


def _here(evidence: Evidence, boards: Path, cache: Path) -> Built:
    made = bundle.build(plan_folder.read(evidence.path / "plan"), _profile(evidence, boards), cache)
    return Built(made.sha256, made.files, made.compiler, made.flags)


def _profile(evidence: Evidence, boards: Path) -> Profile:
    return profile.load(boards).board(evidence.run["board"]["name"])


def _there(evidence: Evidence, boards: Path, folder: Path) -> Built:
    arguments = [evidence.path.absolute() / "plan", boards.absolute(), evidence.run["board"]["name"], folder / "cache"]
    sha256, files, compiler, flags = _by_its_revision(evidence, _BUILD, arguments, folder)
    return Built(sha256, files, compiler, tuple(flags))


def reports(evidence: Evidence, folder: Path) -> dict[str, str]:
    """The reports by their names, as the revision that the run names writes them; `folder` is one to work in.

    UncheckedError where that is not in the history of this checkout.
    """
    made: dict[str, str] = _by_its_revision(evidence, _REPORT, [evidence.path.absolute() / RUN], folder)
    return made


def _by_its_revision(evidence: Evidence, program: str, arguments: Sequence[Path | str], folder: Path) -> Any:
    """What a program prints that runs with the checkout's own past: only what its present comes from is run."""
    revision = _revision(evidence)
    if git("merge-base", "--is-ancestor", revision, "HEAD") is None:
        raise UncheckedError(f"made by revision {revision}, which is not in the history of this checkout")
    archive = git("archive", "--format=tar", revision, "harness", "kernels")
    if archive is None:
        raise UncheckedError(f"git does not give the sources of revision {revision}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder / "sources", filter="data")
    environment = os.environ | {"PYTHONPATH": str(folder / "sources"), "PYTHONSAFEPATH": "1"}
    asked = [sys.executable, "-c", program, *map(str, arguments)]
    try:
        done = subprocess.run(asked, capture_output=True, check=False, env=environment, timeout=BUILD_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise UncheckedError(f"revision {revision} did not make it within {BUILD_TIMEOUT_S:g} s") from error
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UncheckedError(f"revision {revision} does not make it here: {last[:200]}")
    return json.loads(done.stdout)


def _revision(evidence: Evidence) -> str:
    """The commit that the run names; UncheckedError if that was not all that was there."""
    recorded = evidence.run["harness"]["revision"]
    if recorded is None:
        raise UncheckedError("made outside a checkout, by other sources than those here")
    if str(recorded).endswith("-dirty"):
        raise UncheckedError(f"made by {recorded}: sources that nobody kept, and not those here")
    match = re.search(r"(?:^|-g)([0-9a-f]{7,40})$", str(recorded))
    if not match:
        raise UncheckedError(f"{RUN} names no revision: {recorded!r}")
    return match[1]


def _explain(evidence: Evidence, built: Built, source: str) -> UncheckedError:
    """Why the bundle has another name; that alone contradicts nothing, as profiles and compilers change."""
    recorded = evidence.run["bundle"]
    if built.compiler != recorded["compiler"]:
        return UncheckedError(f"built by {recorded['compiler']}, here is {built.compiler}")
    if list(built.flags) != recorded["flags"]:
        return UncheckedError(f"built with {' '.join(recorded['flags'])}; this profile says {' '.join(built.flags)}")
    name = evidence.run["board"]["name"]
    return UncheckedError(f"{source} give bundle {built.sha256[:16]}: is the profile of {name} here what it was?")


def _same_files(recorded: Mapping[str, Any], built: Built) -> str:
    """What is the same; ContradictionError if the same recipe gave other files, or was another's."""
    recipe = [built.compiler, list(built.flags)]
    require_equal(f"{RUN}, bundle's compiler and flags,", [recorded["compiler"], recorded["flags"]], recipe)
    if "files" not in recorded:
        return f"bundle {built.sha256[:16]}: the same recipe ({RUN} does not list its files)"
    names = {*recorded["files"], *built.files}
    others = [name for name in names if recorded["files"].get(name) != built.files.get(name)]
    if others:
        raise ContradictionError(f"built again from the same sources, other bytes are in: {listed(others)}")
    return f"bundle {built.sha256[:16]}: built again, all {len(names)} files byte for byte those that ran"
