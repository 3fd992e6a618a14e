"""`harness firmware` for a KV260: what it refuses, which kernels it builds for a plan, and how it verifies.

Its steps are in tests/integration/targets/vitis/test_install.py, the build in
tests/integration/targets/vitis/test_vendor.py.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from harness.boards import workspace
from harness.boards.profile import Address, BoardProfiles, Profile
from harness.boards.workspace import Workspace
from harness.build import codegen
from harness.build.codegen import Program
from harness.cli import _overlay
from harness.cli import firmware as command
from harness.core.console import Console
from harness.core.errors import BoardError, RequestError
from harness.model.network import Network
from harness.plan import planner
from harness.plan.plan import Plan
from harness.targets.vitis import install as steps
from tests.support.cli.command import User

AT_HOME = "kv260: {address: {host: 127.0.0.1, port: 9}}"


@pytest.mark.parametrize(
    ("arguments", "local", "code", "message"),
    [
        (["--board", "kv260"], "", 2, "board kv260 is emulated: it has no firmware"),
        (["--board", "kv260", "--items", "c,c"], AT_HOME, 2, "no item has target tiovx:c7x or vitis"),
        (["--board", "kv260", "--items", "c"], AT_HOME, 2, "--items names 1 target, but board kv260 has 2 items"),
        (["--board", "kv260", "--sdk", "/opt/ti"], AT_HOME, 2, "--sdk is for a DSP's firmware"),
        (["--board", "kv260", "--model", "acas_cox"], AT_HOME, 2, "did you mean acas_coc"),
        (["--board", "kv260", "--split", "dense_77=network"], AT_HOME, 2, "dense_77"),
        (["--model", "acas_coc"], "", 2, "give --board"),
    ],
)
def test_a_wrong_request_is_refused(
    tmp_path: Path, cache: Path, arguments: list[str], local: str, code: int, message: str
) -> None:
    ended = User(tmp_path, cache).with_local(local).harness("firmware", *arguments)
    assert ended.code == code
    assert message in ended.err


@pytest.fixture(scope="module")
def network() -> Network:
    return workspace.find().model("acas_coc")


@pytest.fixture
def board(laboratory: BoardProfiles) -> Profile:
    return laboratory.board("kv260").model_copy(update={"address": Address(host="board.example")})


def called(monkeypatch: pytest.MonkeyPatch, made: Plan, board: Profile, tmp_path: Path) -> tuple[str, Any]:
    """Which procedure is taken for a plan, and with what; nothing is built."""
    calls: list[tuple[str, Any]] = []

    def note(name: str, given: Any) -> int:
        calls.append((name, given))
        return 0

    def build(program: Program, *_: object) -> Any:
        return calls.append(("program", [item.name for item in program.plan.items]))

    monkeypatch.setattr("harness.build.bundle.build", build)
    monkeypatch.setattr(_overlay, "install", lambda _board, fabric, *_args, **_more: note("fabric", fabric))
    monkeypatch.setattr(command, "firmware", lambda board, *_args, **_more: note("dsp", board.name))
    space = Workspace(tmp_path / "boards.yaml", tmp_path, tmp_path / "runs", tmp_path / "cache")
    console = Console(RichConsole(file=io.StringIO()), RichConsole(file=io.StringIO()), as_json=False)
    assert command.install(codegen.generate(made), board, None, space, console, dry_run=True) == 0
    [program, procedure] = calls
    assert program == ("program", [item.name for item in made.items])
    return procedure


def test_the_targets_of_the_items_say_which_procedure_applies(
    network: Network, board: Profile, laboratory: BoardProfiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fabric = called(monkeypatch, planner.make(network, board), board, tmp_path)
    assert (name, fabric.kernels) == ("fabric", ("dense_1_kernel",))
    dsp = laboratory.board("tda4vm").model_copy(update={"address": Address(host="board.example")})
    assert called(monkeypatch, planner.make(network, dsp), dsp, tmp_path) == ("dsp", "tda4vm")
    with pytest.raises(RequestError, match="no item has target"):
        command.asking(
            codegen.generate(planner.make(network, board, ["c", "c"])),
            board,
            Workspace(tmp_path, tmp_path, tmp_path, tmp_path),
            command.IN_FABRIC,
        )


def test_a_split_makes_other_kernels_and_another_application(network: Network, board: Profile) -> None:
    whole = command._fabric(codegen.generate(planner.make(network, board)))
    split = command._fabric(codegen.generate(planner.make(network, board, split=["dense_5=prepost"])))
    assert split.kernels == ("dense_1_kernel", "dense_6_kernel")
    assert split.app != whole.app
    assert "network.cpp" in whole.sources


def test_verifying_asks_the_kernels_through_the_program(
    network: Network, host: Profile, tmp_path: Path, cache: Path
) -> None:
    """Here the double plays XRT: the words are the program's, the digest the kernels' own."""
    program = codegen.generate(planner.make(network, host, ["c", "vitis"], split=["dense_1..dense_8=prepost"]))
    fabric = command._fabric(program)
    assert fabric.kernels == ("dense_9_kernel",)
    space = Workspace(tmp_path / "boards.yaml", tmp_path, tmp_path / "runs", cache)
    answer = command.asking(program, host, space, command.IN_FABRIC)()
    steps.confirm(answer, fabric.app, fabric.digest)
    other = command._fabric(codegen.generate(planner.make(network, host, ["c", "vitis"], split=["dense_5=prepost"])))
    with pytest.raises(BoardError, match="the kernels in the fabric are others"):
        steps.confirm(answer, other.app, other.digest)
