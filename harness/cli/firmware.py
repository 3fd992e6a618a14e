"""`harness firmware`: install the kernels on a board and check that they run there.

This module builds the firmware of a TDA4VM's DSP.  _overlay.py builds the application for the fabric of a Kria.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli._options import as_json, pass_workspace, planned
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, RequestError

if TYPE_CHECKING:
    from harness.boards.profile import Profile
    from harness.boards.session import Connect
    from harness.build.codegen import Program
    from harness.cli._journal import Journal
    from harness.targets.tiovx.install import InstalledFirmware, Sdk
    from harness.targets.vitis.kernel import Fabric


ON_DSP, IN_FABRIC = "tiovx:c7x", "vitis"
STEPS = ("check", "copy sources", "build", "deploy", "restart", "verify")
Verify = Callable[[], str]
"""Runs the program on the board and returns the identities that the kernels report."""


@click.command("firmware", epilog="Example: harness firmware --board kv260 --model acas_coc")
@planned
@click.option(
    "--sdk",
    type=click.Path(path_type=Path),
    help="Folder of TI's Processor SDK RTOS, for a TDA4VM; default: tiovx.sdk of the profile, or TIOVX_SDK.",
)
@click.option("--dry-run", is_flag=True, help="Check tools and board, show the steps, and change nothing.")
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    board: str,
    model: str,
    sdk: Path | None,
    dry_run: bool,
    items: tuple[str, ...] | None,
    **asked: Any,
) -> int:
    """Build the kernels of a model with the vendor's tools, install them on the board, start and check them.

    On a TDA4VM, they become part of the firmware of its DSP, and the board is restarted.  On a KV260, they are an
    application for its fabric, which is loaded.  The default of --model is acas_coc.

    Exit code: 0 the board runs these kernels, 2 the request is invalid, 3 a step failed.
    """
    from harness import targets
    from harness.build import codegen
    from harness.runs import job

    if not board:
        raise click.UsageError("give --board")
    console, found = Console.open(as_json=as_json), targets.load_boards(space.boards).board(board)
    check_real(found)
    plan = job.planned(space.model(model or "acas_coc"), found, asked | {"items": items})
    return install(codegen.generate(plan), found, sdk, space, console, dry_run=dry_run)


def install(
    generated: Program, profile: Profile, sdk: Path | None, workspace: Workspace, console: Console, *, dry_run: bool
) -> int:
    """Install the kernels of a plan on its board with the installer of its items' targets.

    RequestError if the board is emulated, or if no item's kernels are installed separately.
    """
    from harness.cli import _overlay

    check_real(profile)
    if any(_computes(item.target, IN_FABRIC) for item in generated.plan.items):
        if sdk is not None:
            raise RequestError(
                f"board {profile.name}: --sdk is for a DSP's firmware",
                "omit it; set the folder of Vitis with VITIS or vitis.vitis",
            )
        verify = asking(generated, profile, workspace, IN_FABRIC)
        return _overlay.install(profile, _fabric(generated), workspace, console, dry_run=dry_run, verify=verify)
    verify = asking(generated, profile, workspace, ON_DSP)
    return firmware(profile, sdk, workspace, console, dry_run=dry_run, verify=verify)


def _computes(name: str, target: str) -> bool:
    """Return whether an item with this target has the firmware of `target`, of which it may be a variant."""
    return target in (name, name.partition(":")[0])


def _fabric(generated: Program) -> Fabric:
    """Return the kernels of all items that are in the fabric."""
    from harness.targets.vitis import build

    codes = zip(generated.plan.items, generated.items, strict=True)
    return build.fabric_of(code.kernels for item, code in codes if _computes(item.target, IN_FABRIC))


def asking(generated: Program, profile: Profile, workspace: Workspace, target: str) -> Verify:
    """Return a function that runs a program of the plan on the board and returns the kernels found there.

    RequestError if no item of the plan has this target, ToolError if the program cannot be built.
    """
    from harness.boards.locks import LOCK_WAIT_S, session
    from harness.build import bundle
    from harness.execution import program

    asked = [item.name for item in generated.plan.items if _computes(item.target, target)]
    if not asked:
        raise RequestError(
            f"board {profile.name}: no item has target {ON_DSP} or {IN_FABRIC}, so the firmware would not be used",
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
    """Discard notes; the step itself reports the progress."""


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
    """Run all steps; return exit code 0 when the DSP runs these kernels.

    Each step checks its conditions before it changes anything.

    With `dry_run`, SDK and board are checked, and nothing is changed.  `connect` opens a session with the board.
    RequestError for a board without a firmware of its own; ToolError and BoardError name the failure.
    """
    from harness.cli._journal import Journal
    from harness.targets.tiovx import install as steps

    check_real(profile)
    journal = Journal.open(console, profile, workspace, STEPS)
    open_board = connect or (lambda: journal.session(profile, workspace))
    with journal.step("check", "the SDK and the location of the firmware on the board"):
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
    """Raise RequestError for a board without a firmware of its own."""
    from harness.boards.profile import host_variable

    if profile.emulated:
        raise RequestError(
            f"board {profile.name} is emulated: it has no firmware",
            f"give its address with {host_variable(profile.name)} or in boards.local.yaml",
        )
    if profile.local:
        raise RequestError(
            f"board {profile.name} is this machine, which cannot continue after its own restart",
            "give its address and run this command on the machine that has the SDK",
        )


def _document(profile: Profile, sdk: Sdk, place: InstalledFirmware, journal: Journal) -> dict[str, Any]:
    from harness.targets.tiovx.sources import kernels_digest

    return {
        "board": profile.name,
        "sdk": str(sdk.root),
        "kernels": kernels_digest(),
        "firmware": str(place.image),
        "backup": str(place.backup),
        "log": str(journal.log),
    }


def _tell_plan(sdk: Sdk, place: InstalledFirmware, journal: Journal) -> None:
    """Show the effects of the other steps without running them."""
    from harness.targets.tiovx import install as steps
    from harness.targets.tiovx.sources import kernels_digest

    kept = "" if place.has_kernels else f", the current one kept as {place.backup.name}"
    plans = (
        f"{len(steps.copied_files())} files to {sdk.kernels}",
        shlex.join(sdk.build_command),
        f"{steps.IMAGE} to {place.image}{kept}",
        "reboot the board and wait for it",
        f"the DSP's kernels must report {kernels_digest()}",
    )
    journal.planned(plans)


def _carry_out(
    profile: Profile,
    sdk: Sdk,
    place: InstalledFirmware,
    workspace: Workspace,
    journal: Journal,
    connect: Connect,
    verify: Verify,
) -> dict[str, Any]:
    from harness.targets.tiovx import install as steps
    from harness.targets.tiovx.sources import kernels_digest

    image = _build(sdk, journal)
    with journal.locked(profile, workspace):
        with journal.step("deploy", f"{image} to {place.image}"), connect() as board:
            place = steps.find_place(board)  # another user may have used the board during the build
            sha256 = steps.deploy(board, image, place)
            journal.result("deploy", f"SHA-256 {sha256} installed; restore TI's own with: {place.restore}")
        with journal.step("restart", "the board"):
            steps.reboot(connect, journal.note, steps.REBOOT_TIMEOUT_S)
            journal.result("restart", "the board answers")
    with journal.step("verify", f"the DSP's kernels must report {kernels_digest()}"):
        answer = verify()
        steps.confirm(answer, place)
        journal.result("verify", answer)
    return {"image": str(image), "sha256": sha256, "verified": answer}


def _build(sdk: Sdk, journal: Journal) -> Path:
    from harness.targets.tiovx import install as steps
    from harness.targets.tiovx.sources import kernels_digest

    with journal.step("copy sources", f"to {sdk.kernels}"):
        changed = steps.copy_sources(sdk)
        journal.result("copy sources", f"{len(changed)} files changed, kernels {kernels_digest()}")
    with journal.step("build", f"{shlex.join(sdk.build_command)}, into {journal.log}"):
        image = steps.build(sdk, journal.log, journal.note, steps.BUILD_TIMEOUT_S)
        journal.result("build", str(image))
    return image


def _summary(journal: Journal, place: InstalledFirmware, *, dry_run: bool) -> str:
    from harness.targets.tiovx.sources import kernels_digest

    if dry_run:
        return journal.results
    return f"the DSP runs kernels {kernels_digest()}; {place.image}, log {journal.log}"
