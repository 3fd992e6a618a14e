"""The sources of the bundle that ran are those of the revision that the run names, and what that generates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import __version__
from harness.core.installation import IS_WHEEL, SOURCES, git, is_committed, revision
from harness.plan import folder
from harness.runs import provenance
from harness.runs.folder import RunFolder
from harness.runs.verification.claims import ContradictionError, UncheckedError, listed
from harness.runs.verification.folder import RUN, Evidence
from harness.runs.verification.revisions import by_its_revision, commit

# Run with the modules of another revision, by `python -c`: plan folder, the run's `bundle`, the request's `profile`.
_EXPECTED = """\
import json, sys
from pathlib import Path
try:
    from harness.plan import folder
    from harness.runs import provenance
except ImportError:  # a revision before the packages
    from harness import plan_folder as folder, provenance
plan, *documents = map(Path, sys.argv[1:])
found = provenance.expected(folder.read(plan), *(json.loads(path.read_text()) for path in documents))
print(json.dumps(found))
"""


def same(evidence: Evidence, scratch: Path) -> str:
    """Return whose sources those of the bundle are; `scratch` is a folder to work in.

    UncheckedError if the sources of the revision are not here, ContradictionError naming the first file that differs.
    """
    recorded, name = evidence.run["bundle"], evidence.run["harness"]["revision"]
    if "inputs" not in recorded:
        raise UncheckedError(f"{RUN} does not state the sources of the bundle: written by an older version")
    if _is_this_installation(evidence):
        found, source = _here(evidence), f"of harness {__version__} as it is installed here"
    elif _is_unchanged_since(commit(evidence)):
        found, source = _here(evidence), f"of revision {name}, which is here"
    else:
        documents = {scratch / "bundle.json": recorded, scratch / "profile.json": _kept_profile(evidence)}
        for path, document in documents.items():
            path.write_text(json.dumps(document))
        found = by_its_revision(evidence, _EXPECTED, [evidence.path.absolute() / "plan", *documents], scratch)
        source = f"of revision {name}, from the history of this checkout"
    _require_same(recorded, found, source)
    return f"{len(found['sources'])} files are those {source}; the bundle's name follows from them, compiler and flags"


def _is_this_installation(evidence: Evidence) -> bool:
    """Return whether the run was made by the version that is installed here, in both cases outside a checkout.

    A wheel has a revision, which must be the same and must not be marked as changed.
    """
    here = revision()
    unchanged = here is None or (IS_WHEEL and is_committed(here))
    return unchanged and bool(evidence.run["harness"] == {"version": __version__, "revision": here})


def _is_unchanged_since(wanted: str) -> bool:
    """Return whether the sources here are those of a commit, and no file is there that it does not know."""
    same = git("diff", "--quiet", wanted, "--", *SOURCES) is not None
    return same and git("ls-files", "--others", "--exclude-standard", "--", *SOURCES) == b""


def _here(evidence: Evidence) -> dict[str, Any]:
    plan = folder.read(evidence.path / "plan")
    return provenance.expected(plan, evidence.run["bundle"], _kept_profile(evidence))


def _kept_profile(evidence: Evidence) -> dict[str, Any]:
    return dict(RunFolder(evidence.path).read_request()["profile"])


def _require_same(recorded: Mapping[str, Any], found: Mapping[str, Any], source: str) -> None:
    files, sources = recorded["files"], found["sources"]
    others = [path for path, sha256 in sources.items() if files.get(path) != sha256]
    if others:
        raise ContradictionError(f"the bundle was built from other files than those {source}: {listed(others)}")
    unlike = files.keys() ^ {*sources, *found["compiled"]}
    if unlike:
        raise ContradictionError(f"the bundle has other files than those {source} give: {listed(unlike)}")
    if found["problems"]:
        raise ContradictionError(f"{RUN}, bundle, says {found['problems'][0]}; looked at with the sources {source}")
    if found["sha256"] != recorded["sha256"]:
        raise ContradictionError(
            f"{RUN} says bundle {recorded['sha256']}; its sources, compiler, flags and inputs give {found['sha256']}"
        )
