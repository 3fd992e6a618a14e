"""`harness doctor`: what this machine has, what is missing for which board, and the command that brings it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.table import Table
from rich.text import Text

from harness import targets
from harness.boards import profile
from harness.boards.profile import Laboratory, Profile
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.debian_packages import install_command
from harness.core.errors import EXIT_DONE, EXIT_INFRASTRUCTURE, HarnessError
from harness.model.onnx_runtime.hostcheck import Defect, check_host
from harness.targets import toolchain
from harness.targets.cuda import driver


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for; `remedy` says what to do where `ok` is false."""

    topic: str
    ok: bool
    found: str
    remedy: str = ""


def examine(workspace: Workspace, console: Console) -> int:
    """Print all findings; exit code 3 if anything is missing."""
    laboratory = targets.load_boards(workspace.boards)
    findings = [*_reference(), *_boards(laboratory)]
    console.show(_table(findings), *_remedies(findings))
    console.document({"ok": all(f.ok for f in findings), "findings": [asdict(f) for f in findings]})
    return EXIT_DONE if all(finding.ok for finding in findings) else EXIT_INFRASTRUCTURE


def _reference() -> Iterator[Finding]:
    """What ONNX Runtime computes wrongly on this machine, for each pair of activation and weight types."""
    check = check_host(x64_quant_precision=True)
    yield Finding("reference", True, check.place)
    for types, defect in check.defects:
        sound = defect is Defect.NONE
        yield Finding(f"reference, {types}", sound, "exact" if sound else defect.value, "" if sound else defect.remedy)


def _boards(laboratory: Laboratory) -> Iterator[Finding]:
    for name, board in laboratory.profiles.items():
        yield from _board(name, board)


def _board(name: str, board: Profile) -> Iterator[Finding]:
    yield Finding(f"{name}: address", True, _where(name, board))
    if board.emulated:
        yield _tool(f"{name}: emulator", "qemu-system-aarch64")
    try:
        yield Finding(f"{name}: compiler", True, toolchain.find(board).identity)
    except HarnessError as error:
        yield Finding(f"{name}: compiler", False, error.message, error.hint)
    if driver.is_needed(board):
        fault = driver.fault()
        yield Finding(f"{name}: GPU", not fault, fault or driver.FOUND, driver.REMEDY)
    for item_name, item in board.items.items():
        yield _item(f"{name}: item {item_name}", item.target, board)


def _item(topic: str, name: str, board: Profile) -> Finding:
    """Its target, and what that builds with if it is not the C compiler."""
    try:
        compiler = targets.find(name).compiler()
        identity = f", {compiler.identity(board)}" if compiler else ""
    except HarnessError as error:
        return Finding(topic, False, f"target {name}: {error.message}", error.hint)
    return Finding(topic, True, f"target {name}{identity}")


def _where(name: str, board: Profile) -> str:
    if board.local:
        return "this machine"
    if board.address:
        return f"{board.address.host}:{board.address.port}"
    return f"none, so it is emulated; give one with {profile.host_variable(name)} or in boards.local.yaml"


def _tool(topic: str, tool: str) -> Finding:
    path = shutil.which(tool)
    if path is None:
        return Finding(topic, False, f"{tool} is not on this machine", f"run: {install_command(tool)}")
    return Finding(topic, True, path)


def _table(findings: list[Finding]) -> Table:
    table = Table("", "what", "found", box=None, pad_edge=False)
    for finding in findings:
        mark = Text("ok", style="green") if finding.ok else Text("missing", style="bold red")
        table.add_row(mark, Text(finding.topic), Text(finding.found))
    return table


def _remedies(findings: list[Finding]) -> list[Text]:
    """What to do, once each and unbroken, so that it can be copied."""
    lines = dict.fromkeys(finding.remedy for finding in findings if not finding.ok)
    return [Text("\nwhat to do:"), *map(Text, lines)] if lines else []
