"""`harness doctor`: the tools of this machine, the missing tools of each board, and the commands to install them."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.debian_packages import install_command
from harness.core.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, HarnessError, unknown_name
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.boards.profile import BareMetal, Profile


@click.command("doctor", epilog="Example: harness doctor xavier")
@click.argument("names", metavar="[BOARD]...", nargs=-1, shell_complete=_completion.boards)
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, names: tuple[str, ...]) -> int:
    """Show the tools of this machine, the missing tools of each board, and the commands to install them.

    Without BOARD, all boards are checked.  Exit code: 0 nothing is missing, 3 something is missing.
    """
    return examine(names, space, Console.open(as_json=as_json))


@dataclass(frozen=True)
class EnvironmentCheck:
    """One check; `remedy` is the advice if `ok` is false."""

    topic: str
    ok: bool
    found: str
    remedy: str = ""


def examine(names: Sequence[str], workspace: Workspace, console: Console) -> int:
    """Print the requirements of these boards, of all boards if none is named; exit code 3 if anything is missing.

    RequestError for an unknown board.
    """
    from harness import targets

    known = targets.load_boards(workspace.boards)
    boards = {name: known.named(name) for name in names or known.profiles}
    common = [_lab(workspace), *_reference()]
    own = {name: list(_board(name, board)) for name, board in boards.items()}
    findings = [*common, *_addresses_of_no_board(known.profiles), *itertools.chain(*own.values())]
    ready = {name: all(finding.ok for finding in (*common, *found)) for name, found in own.items()}
    advice = "" if names or all(ready.values()) else "\ncheck one board alone: harness doctor BOARD"
    console.show(_table(findings), *_remedies(findings), Text(f"{_readiness(ready)}{advice}"))
    ok = all(finding.ok for finding in findings)
    console.document({"ok": ok, "ready": ready, "findings": [asdict(finding) for finding in findings]})
    return EXIT_DONE if ok else EXIT_INFRASTRUCTURE


def _readiness(ready: Mapping[str, bool]) -> str:
    """Return the boards that are ready for use from this machine, and the others."""
    lines = [
        f"{title}: {', '.join(names)}"
        for title, state in (("ready", True), ("not ready", False))
        if (names := [name for name, found in ready.items() if found is state])
    ]
    return "\n" + "\n".join(lines)


def _lab(workspace: Workspace) -> EnvironmentCheck:
    """Return the lab folder of this command and the search order."""
    places = f"boards: {workspace.boards}, models: {workspace.models}, runs: {workspace.runs}"
    found = workspace.lab or "none; the installed boards and models are used; `harness init LAB` creates a lab"
    order = "searched: --lab, HARNESS_LAB, the nearest boards.yaml in this folder and its parents"
    return EnvironmentCheck("lab folder", True, f"{found} ({order}); {places}")


def _addresses_of_no_board(known: Iterable[str]) -> Iterator[EnvironmentCheck]:
    """Find variables such as HARNESS_XAVIRE_HOST: the board with the misspelt name would stay emulated."""
    from harness.boards import profile

    variables = {profile.host_variable(name) for name in known}
    for name in sorted({name for name in os.environ if re.fullmatch(r"HARNESS_\w+_HOST", name)} - variables):
        hint = unknown_name("variable", name, variables).hint
        yield EnvironmentCheck(name, False, "no board in boards.yaml has this name", hint)


def _reference() -> Iterator[EnvironmentCheck]:
    """Check ONNX Runtime on this machine for each pair of activation and weight types."""
    from harness.model.onnx_runtime.hostcheck import Defect, check_host

    check = check_host(x64_quant_precision=True)
    yield EnvironmentCheck("reference", True, check.place)
    for types, defect in check.defects:
        sound = defect is Defect.NONE
        yield EnvironmentCheck(
            f"reference, {types}", sound, "exact" if sound else defect.value, "" if sound else defect.remedy
        )


def _board(name: str, board: Profile) -> Iterator[EnvironmentCheck]:
    from harness.targets import toolchain
    from harness.targets.cuda import driver

    yield _address(name, board)
    if board.emulated:
        yield _tool(f"{name}: emulator", "qemu-system-arm" if board.bare_metal else "qemu-system-aarch64")
    try:
        yield EnvironmentCheck(f"{name}: compiler", True, toolchain.find(board).identity)
    except HarnessError as error:
        yield EnvironmentCheck(f"{name}: compiler", False, error.message, error.hint)
    if driver.is_needed(board):
        fault = driver.fault()
        yield EnvironmentCheck(f"{name}: GPU", not fault, fault or driver.FOUND, driver.REMEDY)
    for item_name, item in board.items.items():
        yield _item(f"{name}: item {item_name}", item.target, board)


def _item(topic: str, name: str, board: Profile) -> EnvironmentCheck:
    """Check the target of an item and its build tools other than the C compiler."""
    from harness import targets

    try:
        compiler = targets.find(name).compiler()
        identity = f", {compiler.identity(board)}" if compiler else ""
    except HarnessError as error:
        return EnvironmentCheck(topic, False, f"target {name}: {error.message}", error.hint)
    return EnvironmentCheck(topic, True, f"target {name}{identity}")


def _processor(topic: str, processor: BareMetal) -> EnvironmentCheck:
    """Check the way to a processor without an operating system: its serial port, and the programs of its commands."""
    if processor.serial is None or processor.port is None:
        link = "semihosting" if processor.serial is None else "a serial port"
        return EnvironmentCheck(topic, True, f"none, {processor.cpu} is emulated, with {link}")
    for words in (processor.serial.flash, processor.serial.reset):
        if words and shutil.which(words[0]) is None:
            return EnvironmentCheck(topic, False, f"{words[0]} is not on this machine", "install it, or change serial")
    if "://" not in processor.port and not Path(processor.port).exists():
        remedy = "connect the board, or change `port` of serial in boards.local.yaml"
        return EnvironmentCheck(topic, False, f"there is no serial port {processor.port}", remedy)
    return EnvironmentCheck(topic, True, f"serial port {processor.port}, {processor.serial.baud} baud")


def _address(name: str, board: Profile) -> EnvironmentCheck:
    from harness.boards import profile

    topic = f"{name}: address"
    if board.local:
        return EnvironmentCheck(topic, True, "this machine")
    if board.lacks_address:
        return EnvironmentCheck(topic, False, "no address", board.lacks_address)
    if board.bare_metal:
        return _processor(topic, board.bare_metal)
    if board.address is None:
        how = f"set it with {profile.host_variable(name)} or in {profile.LOCAL_FILE}"
        return EnvironmentCheck(topic, True, f"not set, the board is emulated; {how}")
    from harness.boards import ssh_config
    from harness.boards.ssh_address import resolve

    note = "" if ssh_config.is_installed() else f"; {ssh_config.NOT_INSTALLED}"
    try:
        return EnvironmentCheck(topic, True, resolve(board.address).place + note)
    except HarnessError as error:
        return EnvironmentCheck(topic, False, error.message, error.hint)


def _tool(topic: str, tool: str) -> EnvironmentCheck:
    path = shutil.which(tool)
    if path is None:
        return EnvironmentCheck(topic, False, f"{tool} is not on this machine", f"run: {install_command(tool)}")
    return EnvironmentCheck(topic, True, path)


def _table(findings: list[EnvironmentCheck]) -> Table:
    table = Table("", "what", "found", box=None)
    for finding in findings:
        mark = Text("ok", style="green") if finding.ok else Text("missing", style="bold red")
        table.add_row(mark, Text(finding.topic), Text(finding.found))
    return table


def _remedies(findings: list[EnvironmentCheck]) -> list[Text]:
    """Return each remedy once with its checks, on a line of its own without line breaks, so that it can be copied."""
    topics: dict[str, list[str]] = {}
    for finding in findings:
        if not finding.ok:
            topics.setdefault(finding.remedy, []).append(finding.topic)
    lines = [f"{', '.join(names)}:\n  {remedy}" for remedy, names in topics.items()]
    return [Text("\nto install or fix:"), *map(Text, lines)] if lines else []
