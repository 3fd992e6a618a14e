"""The bundle, built again, and the reports, written again, from the sources of a revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import targets
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.errors import HarnessError
from harness.core.file_digest import file_sha256
from harness.plan import folder
from harness.runs.verification.claims import ContradictionError, UncheckedError, listed, require_equal
from harness.runs.verification.folder import RUN, Evidence
from harness.runs.verification.revisions import by_its_revision

# Run with the modules of another revision, by `python -c`: plan folder, laboratory, board, cache.  When a module moves,
# its new name comes first here and its old name stays: evidence of earlier revisions needs it.
_BUILD = """\
import json, sys
from pathlib import Path
try:
    from harness.boards import profile
    from harness.plan import folder
    try:
        from harness.build import bundle, codegen
    except ImportError:  # a revision with the code generation in targets
        from harness.targets import bundle, codegen
    generate = getattr(codegen, "generate", lambda plan: plan)
except ImportError:  # a revision before the packages
    from harness import bundle, plan_folder as folder, profile
    generate = lambda plan: plan
plan, boards, board, cache = sys.argv[1:]
built = bundle.build(generate(folder.read(Path(plan))), profile.load(Path(boards)).profiles[board], Path(cache))
print(json.dumps([built.sha256, built.files, built.compiler, built.flags, built.inputs]))
"""


# Likewise, the description of the plan: plan folder, where to write it.
_DESCRIBE = """\
import sys
from pathlib import Path
try:
    from harness.plan import folder, plan_check
except ImportError:  # a revision before the packages
    from harness import assessment as plan_check, plan_folder as folder
plan, there = map(Path, sys.argv[1:])
made = folder.read(plan)
folder.write(made, plan_check.assess(made), there)
print("null")
"""

# Likewise, its reports by their names: folder, name of the document.
_REPORT = """\
import json, sys
from pathlib import Path
from harness import report
folder, name = Path(sys.argv[1]), sys.argv[2]
run = json.loads((folder / name).read_text())
del run["files"]
run.pop("content_sha256", None)
if name != "run.json":
    try:
        from harness.core.registry import evidence
    except ImportError:  # a revision before the applications
        evidence = None
if name != "run.json" and evidence:
    made = {"report.html": evidence(name).page(folder)}
elif name == "wcet.json":
    from harness.report import wcet
    from harness.runs.wcet import WcetDocument
    made = {"report.html": wcet.html(WcetDocument.read(folder / name))}
elif name == "decide.json":
    from harness.report import decision
    from harness.runs.decision import bounded, entries, job
    if job.is_by_bounds(folder):
        text = decision.html_of_bounds(bounded.opened(folder), entries.BoundsDocument.read(folder / name))
    else:
        text = decision.html(job.opened(folder), entries.DecisionDocument.read(folder / name))
    made = {"report.html": text}
elif run.get("kind") == "measure":
    made = report.measurement(run)
else:
    made = {"report.html": report.html(run), "junit.xml": report.junit(run)}
print(json.dumps(made))
"""


@dataclass(frozen=True)
class Built:
    """Result of a build: the bundle's name, the SHA-256 of its files, and the compiler."""

    sha256: str
    files: Mapping[str, str]
    compiler: str
    flags: tuple[str, ...]
    inputs: Mapping[str, Any]


def reproduced(evidence: Evidence, boards: Path, scratch: Path) -> str:
    """Check that the sources give the bundle that ran, byte for byte; `scratch` is a folder to build in.

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


def program(evidence: Evidence, scratch: Path) -> Path:
    """Return the program that `reproduced` has built in `scratch`; UncheckedError if it is not the one that ran."""
    recorded = evidence.run["bundle"]
    for found in scratch.glob(f"**/bundles/{recorded['sha256'][:16]}/{bundle.PROGRAM}"):
        if file_sha256(found) == recorded.get("files", {}).get(bundle.PROGRAM):
            return found
    raise UncheckedError("the program that ran could not be built again: claims about its file are taken on trust")


def _here(evidence: Evidence, boards: Path, cache: Path) -> Built:
    program = codegen.generate(folder.read(evidence.path / "plan"))
    made = bundle.build(program, _profile(evidence, boards), cache)
    return Built(made.sha256, made.files, made.compiler, made.flags, made.inputs)


def _profile(evidence: Evidence, boards: Path) -> Profile:
    return targets.load_boards(boards).named(evidence.run["board"]["name"])


def _there(evidence: Evidence, boards: Path, folder: Path) -> Built:
    arguments = [evidence.path.absolute() / "plan", boards.absolute(), evidence.run["board"]["name"], folder / "cache"]
    sha256, files, compiler, flags, inputs = by_its_revision(evidence, _BUILD, arguments, folder)
    return Built(sha256, files, compiler, tuple(flags), inputs)


def description(evidence: Evidence, folder: Path) -> Path:
    """Return the plan's folder as the revision that the run names writes it; `folder` is one to work in.

    UncheckedError where that is not in the history of this checkout.
    """
    by_its_revision(evidence, _DESCRIBE, [evidence.path.absolute() / "plan", folder / "plan"], folder)
    return folder / "plan"


def reports(evidence: Evidence, folder: Path) -> dict[str, str]:
    """Return the reports by their names, as the revision that the run names writes them; `folder` is one to work in.

    UncheckedError where that is not in the history of this checkout.
    """
    made: dict[str, str] = by_its_revision(evidence, _REPORT, [evidence.path.absolute(), evidence.name], folder)
    return made


def _explain(evidence: Evidence, built: Built, source: str) -> UncheckedError:
    """Explain why the bundle has another name; profiles and compilers change, so that it is no contradiction."""
    recorded = evidence.run["bundle"]
    if list(built.flags) != recorded["flags"]:
        return UncheckedError(f"built with {' '.join(recorded['flags'])}; this profile says {' '.join(built.flags)}")
    others = [name for name in ("tools", "headers") for name in _others(recorded["inputs"][name], built.inputs[name])]
    if others:
        return UncheckedError(f"built by {recorded['compiler']}, here is {built.compiler}; others are {listed(others)}")
    different = _others(recorded["inputs"], built.inputs)
    name = evidence.run["board"]["name"]
    return UncheckedError(
        f"{source} give bundle {built.sha256[:16]}; of its inputs others are {listed(different) or 'none'}; the "
        f"profile of {name} here may have changed"
    )


def _others(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return the names of the entries that are not the same."""
    return [name for name in {**recorded, **found} if recorded.get(name) != found.get(name)]


def _same_files(recorded: Mapping[str, Any], built: Built) -> str:
    """Compare the files; ContradictionError if the same recipe gave other files, or belongs to another bundle."""
    recipe = [built.compiler, list(built.flags)]
    require_equal(f"{RUN}, bundle's compiler and flags,", [recorded["compiler"], recorded["flags"]], recipe)
    names = {*recorded["files"], *built.files}
    others = [name for name in names if recorded["files"].get(name) != built.files.get(name)]
    if others:
        raise ContradictionError(f"built again from the same sources, other bytes are in: {listed(others)}")
    return f"bundle {built.sha256[:16]}: built again, all {len(names)} files byte for byte those that ran"
