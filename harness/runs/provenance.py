"""The sources of a bundle in this installation, and the bundle's name derived from them.

`harness verify` runs this module at the revision that made the run: see runs/verification/sources.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from harness.boards import profile
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.errors import RequestError
from harness.plan.plan import Plan
from harness.targets import compiler_flags, toolchain


def expected(plan: Plan, recorded: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the SHA-256 of all sources of the plan's bundle, its name, and what is wrong, as JSON types.

    `recorded` is `bundle` of run.json, `kept` is `profile` of request.json.  One of MALFORMED if they are not.
    """
    board, program = profile.restored(kept), codegen.generate(plan)
    sources = {path: hashlib.sha256(content).hexdigest() for path, content in bundle.sources_of(program, board).items()}
    return {
        "sources": sources,
        "compiled": sorted(bundle.compiled(program, board)),
        "sha256": bundle.name_of(sources, recorded["compiler"], recorded["flags"], recorded["inputs"]),
        "problems": _problems(recorded, board),
    }


def _problems(recorded: Mapping[str, Any], board: Profile) -> list[str]:
    """Return where compiler's command, flags and definitions are not those of the profile, or not allowed."""
    inputs, tools = recorded["inputs"], board.toolchain
    entries = {
        "command": (inputs["command"], compiler_flags.command(tools)),
        "flags": (recorded["flags"], toolchain.flags_of(board)),
        "definitions": (inputs["definitions"], bundle.definitions_of(board)),
    }
    problems = [f"{name} {said} where the profile gives {[*given]}" for name, (said, given) in entries.items()
                if said != [*given]]  # fmt: skip
    if inputs["method"] != bundle.method():
        problems.append(
            "that other versions of harness/build/bundle.py, harness/targets/toolchain.py or "
            "harness/targets/strip.py compiled it"
        )
    try:
        compiler_flags.check(board.name, tools)
    except RequestError as error:
        problems.append(error.message)
    return problems
