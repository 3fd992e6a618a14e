"""`harness firmware` for a Kria: build the kernels for the fabric, install, load and check them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from rich.text import Text

from harness.boards.profile import Profile
from harness.boards.session import Connect
from harness.boards.workspace import Workspace
from harness.cli._journal import Journal
from harness.core.console import Console
from harness.core.errors import EXIT_DONE
from harness.targets.vitis import install as steps
from harness.targets.vitis import vendor
from harness.targets.vitis.install import BoardApplications
from harness.targets.vitis.kernel import Fabric
from harness.targets.vitis.settings import VitisSettings
from harness.targets.vitis.vendor import Package, Tools

STEPS = ("check", "build", "copy", "load", "verify")

Verify = Callable[[], str]
"""Runs the program on the board and returns the identities that the kernels in the fabric report."""


def install(
    profile: Profile,
    fabric: Fabric,
    workspace: Workspace,
    console: Console,
    *,
    dry_run: bool,
    verify: Verify,
    connect: Connect | None = None,
    environment: Mapping[str, str] = os.environ,
) -> int:
    """Run all steps; return 0 when the fabric has these kernels.

    Each step checks its conditions before it changes anything.
    With `dry_run`, tools and board are checked, and nothing is changed.  `connect` opens a session with the board.
    ToolError and BoardError name the failure.
    """
    journal = Journal.open(console, profile, workspace, STEPS)
    open_board = connect or (lambda: journal.session(profile, workspace))
    with journal.step("check", "Vitis, the platform, and whether an application can be installed on the board"):
        tools = vendor.find(profile, environment)
        with journal.locked(profile, workspace), open_board() as board:
            place = steps.find_place(board)
        journal.result(
            "check",
            f"Vitis {tools.version}, {tools.platform.name}; {place.listed.loaded} loaded, {place.free_mib} MiB free",
        )
    document = _document(profile, fabric, tools, place, journal)
    if dry_run:
        _tell_plan(profile, fabric, tools, place, workspace, journal)
        console.show(Text(journal.results))
    else:
        document |= _carry_out(profile, fabric, tools, workspace, journal, open_board, verify)
        console.show(Text(f"the fabric has {fabric.app}, kernels {fabric.digest[:16]}; log {journal.log}"))
    console.document(document | {"dry_run": dry_run, "steps": journal.done})
    return EXIT_DONE


def _document(
    profile: Profile, fabric: Fabric, tools: Tools, place: BoardApplications, journal: Journal
) -> dict[str, Any]:
    return {
        "board": profile.name,
        "vitis": tools.version,
        "platform": str(tools.platform),
        "clock_mhz": profile.settings("vitis", VitisSettings).clock_mhz,
        "application": fabric.app,
        "kernels": fabric.digest,
        "before": list(place.listed.active),
        "log": str(journal.log),
    }


def _tell_plan(
    profile: Profile, fabric: Fabric, tools: Tools, place: BoardApplications, workspace: Workspace, journal: Journal
) -> None:
    """Show the effects of the other steps without running them."""
    clock_mhz = profile.settings("vitis", VitisSettings).clock_mhz
    package = vendor.find_package(fabric, tools, clock_mhz, workspace.cache)
    kernels = f"{', '.join(fabric.kernels)} for {tools.platform.name} at {clock_mhz} MHz"
    unload = "xmutil unloadapp, " if place.listed.active else ""
    plans = (
        f"{kernels}; the build takes an hour or more" if package is None else f"nothing: {package.folder} is built",
        steps.planned(
            (f"{fabric.app}.bit.bin", f"{fabric.app}.dtbo", f"{fabric.app}.xclbin", "shell.json"), fabric.app
        ),
        f"{unload}xmutil loadapp {fabric.app}",
        f"the kernels must report {fabric.digest[:16]}",
    )
    journal.planned(plans)


def _carry_out(
    profile: Profile,
    fabric: Fabric,
    tools: Tools,
    workspace: Workspace,
    journal: Journal,
    connect: Connect,
    verify: Verify,
) -> dict[str, Any]:
    package = _build(profile, fabric, tools, workspace, journal)
    with journal.locked(profile, workspace), connect() as board:
        with journal.step("copy", steps.planned(tuple(package.files), package.app)):
            place = steps.find_place(board)  # another user may have used the board during the build
            copied = steps.install(board, package)
            journal.result("copy", f"{len(package.files)} files, SHA-256 equal" if copied else "already on the board")
        with journal.step("load", f"{package.app}; {place.listed.loaded} is loaded now"):
            journal.result("load", steps.load(board, package.app, place) or f"{package.app} is active")
    with journal.step("verify", f"the kernels must report {fabric.digest[:16]}"):
        answer = verify()
        steps.confirm(answer, package.app, fabric.digest)
        journal.result("verify", answer)
    return {
        "before": list(place.listed.active),
        "package": str(package.folder),
        "reused": package.reused,
        "timing": package.timing,
        "synthesis": list(package.synthesis),
        "files": package.files,
        "verified": answer,
    }


def _build(profile: Profile, fabric: Fabric, tools: Tools, workspace: Workspace, journal: Journal) -> Package:
    clock_mhz = profile.settings("vitis", VitisSettings).clock_mhz
    with journal.step("build", f"{', '.join(fabric.kernels)} for {tools.platform.name} at {clock_mhz} MHz"):
        package = vendor.build(fabric, tools, clock_mhz, workspace.cache, journal.note)
        for line in package.synthesis if package.reused else ():
            journal.note(f"  {line}")
        journal.result("build", f"{package.folder}; {package.timing}")
    return package
