"""What the sources of this installation say of a bundle that a run names: its sources, and the name that follows.

`harness verify` asks it of the revision that made the run: see verification/sources.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from harness import bundle, compiler_flags, toolchain
from harness.plan import Plan


def expected(plan: Plan, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the SHA-256 of all sources of the plan's bundle, its name, and what is wrong, as JSON types.

    `recorded` is `bundle` of run.json.  One of MALFORMED if it is no document of a bundle.
    """
    profile = bundle.profile_of(plan.board, recorded["inputs"]["settings"])
    sources = {path: hashlib.sha256(content).hexdigest() for path, content in bundle.sources_of(plan, profile).items()}
    return {
        "sources": sources,
        "compiled": sorted(bundle.compiled(plan, profile)),
        "sha256": bundle.name_of(sources, recorded["compiler"], recorded["flags"], recorded["inputs"]),
        "problems": [*_definitions(recorded, bundle.definitions_of(profile)), *_flags(recorded)],
    }


def _definitions(recorded: Mapping[str, Any], definitions: tuple[str, ...]) -> list[str]:
    given, method = recorded["inputs"]["definitions"], recorded["inputs"]["method"]
    problems = [] if given == list(definitions) else [f"definitions {given} where the settings give {definitions}"]
    if method != bundle.method():
        problems.append("harness/bundle.py and harness/toolchain.py, which compiled it, were others")
    return problems


def _flags(recorded: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the flags and the words of the compiler: they are those that a profile may give."""
    fixed = toolchain.fixed_flags(static=recorded["inputs"]["settings"]["static"])
    own = recorded["flags"][: -len(fixed)]
    problems = [] if recorded["flags"] == [*own, *fixed] else [f"flags do not end with {' '.join(fixed)}"]
    refused = (compiler_flags.first_refused_word(recorded["inputs"]["command"]), compiler_flags.first_refused(own))
    return problems + [f"{flag!r} is a flag that no profile may give" for flag in refused if flag is not None]
