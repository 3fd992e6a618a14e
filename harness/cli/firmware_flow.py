"""`harness firmware`: bring the kernels onto a board, and see that they run there.

Into the firmware of a TDA4VM's DSP, as is written here; for the fabric of a Kria see overlay_flow.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.text import Text

from harness.boards.locks import session
from harness.boards.profile import Profile, host_variable
from harness.boards.session import Connect
from harness.boards.workspace import Workspace
from harness.cli import overlay_flow
from harness.cli.journal import LOCK_WAIT_S, Journal
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, RequestError
from harness.execution import program
from harness.targets import bundle
from harness.targets.codegen import Program
from harness.targets.tiovx import install as steps
from harness.targets.tiovx.install import InstalledFirmware, Sdk
from harness.targets.tiovx.sources import kernels_digest
from harness.targets.vitis import build
from harness.targets.vitis.kernel import Fabric

ON_DSP, IN_FABRIC = "tiovx:c7x", "vitis"
STEPS = ("check", "copy sources", "build", "deploy", "restart", "verify")

Verify = Callable[[], str]
"""Runs the program on the board, and returns what the kernels say of themselves."""


def install(
    generated: Program, profile: Profile, sdk: Path | None, workspace: Workspace, console: Console, *, dry_run: bool
) -> int:
    """Bring the kernels of a plan onto its board, in the way that its items' targets have.

    RequestError if the board is emulated, or if no item's kernels are installed by themselves.
    """
    check_real(profile)
    if any(item.target == IN_FABRIC for item in generated.plan.items):
        if sdk is not None:
            raise RequestError(
                f"board {profile.name}: --sdk is for a DSP's firmware",
                "leave it out: Vitis is named by VITIS or vitis.vitis",
            )
        verify = asking(generated, profile, workspace, IN_FABRIC)
        return overlay_flow.install(profile, _fabric(generated), workspace, console, dry_run=dry_run, verify=verify)
    verify = asking(generated, profile, workspace, ON_DSP)
    return firmware(profile, sdk, workspace, console, dry_run=dry_run, verify=verify)


def _fabric(generated: Program) -> Fabric:
    """The kernels of all items that are in the fabric."""
    codes = zip(generated.plan.items, generated.items, strict=True)
    return build.fabric_of(code.kernels for item, code in codes if item.target == IN_FABRIC)


def asking(generated: Program, profile: Profile, workspace: Workspace, target: str) -> Verify:
    """What a verification is: a program of the plan, built here and now, that tells which kernels it finds.

    RequestError if no item of the plan has this target, ToolError if the program cannot be built.
    """
    asked = [item.name for item in generated.plan.items if item.target == target]
    if not asked:
        raise RequestError(
            f"board {profile.name}: no item has target {ON_DSP} or {IN_FABRIC}, so that its firmware would not be used",
            f"give an item of its profile target {ON_DSP} or {IN_FABRIC}, or choose one with --items",
        )
    built = bundle.build(generated, profile, workspace.cache)

    def ask() -> str:
        locks = workspace.locks(profile)
        with session(profile, locks, workspace.cache, "firmware", LOCK_WAIT_S, _silent) as connection:
            deployed = program.deploy(connection.board, built, connection.work, "firmware")
            found = program.devices(deployed, profile.timeout_s)
            program.clean(deployed)
        return ", ".join(found.get(item, "nothing") for item in asked)

    return ask


def _silent(_: str) -> None:
    """The step tells what goes on."""


def firmware(
    profile: Profile,
    sdk: Path | None,
    workspace: Workspace,
    console: Console,
    *,
    dry_run: bool,
    verify: Verify,
    connect: Connect | None = None,
) -> int:
    """All steps, each refusing before it changes anything; exit code 0 when the DSP runs these kernels.

    With `dry_run` SDK and board are looked at, and nothing is changed.  `connect` opens a session with the board.
    RequestError for a board without a firmware of its own; ToolError and BoardError name what failed.
    """
    check_real(profile)
    journal = Journal.open(console, profile, workspace, STEPS)
    open_board = connect or (lambda: journal.session(profile, workspace))
    with journal.step("check", "the SDK, and where the board keeps its firmware"):
        found = steps.find_sdk(sdk, profile)
        with journal.locked(profile, workspace), open_board() as board:
            place = steps.find_place(board)
        journal.result("check", f"SDK {found.root}; {place.image} {place.sha256[:16]} on the board")
    document = _document(profile, found, place, journal)
    if dry_run:
        _tell_plan(found, place, journal)
    else:
        document |= _carry_out(profile, found, place, workspace, journal, open_board, verify)
    console.show(Text(_summary(journal, place, dry_run=dry_run)))
    console.document(document | {"dry_run": dry_run, "steps": journal.done})
    return EXIT_DONE


def check_real(profile: Profile) -> None:
    """RequestError for a board without a firmware of its own."""
    if profile.emulated:
        raise RequestError(
            f"board {profile.name} is emulated: it has no firmware",
            f"give its address with {host_variable(profile.name)} or in boards.local.yaml",
        )
    if profile.local:
        raise RequestError(
            f"board {profile.name} is this machine, which cannot restart itself and go on",
            "give its address, and run this on the machine that has the SDK",
        )


def _document(profile: Profile, sdk: Sdk, place: InstalledFirmware, journal: Journal) -> dict[str, Any]:
    return {
        "board": profile.name,
        "sdk": str(sdk.root),
        "kernels": kernels_digest(),
        "firmware": str(place.image),
        "backup": str(place.backup),
        "log": str(journal.log),
    }


def _tell_plan(sdk: Sdk, place: InstalledFirmware, journal: Journal) -> None:
    """What the other steps would do."""
    kept = "" if place.has_kernels else f", the present one kept as {place.backup.name}"
    plans = (
        f"{len(steps.copied_files())} files to {sdk.kernels}",
        shlex.join(sdk.build_command),
        f"{steps.IMAGE} to {place.image}{kept}",
        "reboot, and wait for the board",
        f"the DSP's kernels must say {kernels_digest()}",
    )
    for name, planned in zip(STEPS[1:], plans, strict=True):
        journal.result(name, f"would be: {planned}")


def _carry_out(
    profile: Profile,
    sdk: Sdk,
    place: InstalledFirmware,
    workspace: Workspace,
    journal: Journal,
    connect: Connect,
    verify: Verify,
) -> dict[str, Any]:
    image = _build(sdk, journal)
    with journal.locked(profile, workspace):
        with journal.step("deploy", f"{image} to {place.image}"), connect() as board:
            place = steps.find_place(board)  # a build takes long enough for another to come here
            sha256 = steps.deploy(board, image, place)
            journal.result("deploy", f"SHA-256 {sha256} in place; TI's own again: {place.restore}")
        with journal.step("restart", "the board"):
            steps.reboot(connect, journal.note, steps.REBOOT_TIMEOUT_S)
            journal.result("restart", "the board answers")
    with journal.step("verify", f"the DSP's kernels must say {kernels_digest()}"):
        answer = verify()
        steps.confirm(answer, place)
        journal.result("verify", answer)
    return {"image": str(image), "sha256": sha256, "verified": answer}


def _build(sdk: Sdk, journal: Journal) -> Path:
    with journal.step("copy sources", f"to {sdk.kernels}"):
        changed = steps.copy_sources(sdk)
        journal.result("copy sources", f"{len(changed)} files changed, kernels {kernels_digest()}")
    with journal.step("build", f"{shlex.join(sdk.build_command)}, into {journal.log}"):
        image = steps.build(sdk, journal.log, journal.note, steps.BUILD_TIMEOUT_S)
        journal.result("build", str(image))
    return image


def _summary(journal: Journal, place: InstalledFirmware, *, dry_run: bool) -> str:
    if dry_run:
        return journal.results
    return f"the DSP runs kernels {kernels_digest()}; {place.image}, log {journal.log}"
