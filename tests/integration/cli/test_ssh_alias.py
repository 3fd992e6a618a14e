"""Commands with a board whose address is a name of ~/.ssh/config."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from harness.boards.workspace import ROOT
from tests.integration.boards.conftest import gates, server
from tests.support import builders
from tests.support.boards import sshd
from tests.support.boards.ssh_home import Home, block
from tests.support.boards.sshd import LOOPBACK, Server
from tests.support.cli.command import Ended, User

__all__ = ["gates", "server"]  # fixtures

ME = getpass.getuser()


class BoardProfiles:
    """The boards `host`, and `xavier`, which is this machine by the alias `lab` of a home."""

    def __init__(self, folder: Path, cache: Path, home: Home) -> None:
        self.home = home
        self.user = User(folder, cache, folder / "boards.yaml")
        self.host = yaml.safe_load((ROOT / "boards.yaml").read_text())["host"]
        self.give()

    def give(self, **more: dict[str, object]) -> None:
        """Write the laboratory, with more boards by their addresses."""
        board = {key: value for key, value in self.host.items() if key != "local"}
        emulated = board | {"emulator": {"cpu": "cortex-a72", "cores": 2}}
        others = {name: board | {"address": address} for name, address in more.items()}
        assert self.user.boards
        self.user.boards.write_text(yaml.safe_dump({"host": self.host, "xavier": emulated, **others}))

    def harness(self, *words: str) -> Ended:
        home = {"HOME": str(self.home.folder), "SSH_AUTH_SOCK": ""}
        return self.user.harness(*words, HARNESS_XAVIER_HOST="lab", **home)


@pytest.fixture
def laboratory(tmp_path: Path, cache: Path, server: Server, gates: list[Server]) -> BoardProfiles:
    home = Home.made(tmp_path / "home")
    outer, inner = gates
    board = block("lab", server, "ProxyJump outer,inner")
    home.configure(board + block("outer", outer) + block("inner", inner))
    home.know(server, outer, inner)
    return BoardProfiles(tmp_path, cache, home)


def test_a_run_by_an_alias_behind_two_jump_hosts(
    laboratory: BoardProfiles, server: Server, gates: list[Server], tmp_path: Path
) -> None:
    """The evidence names the host that the alias leads to, and the hosts on the way."""
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), tmp_path / "small.onnx")
    ended = laboratory.harness(
        "run", "--board", "xavier", "--model", str(tmp_path / "small.onnx"), "--vectors", "50", "--json"
    )
    assert ended.code == 0, ended.err
    assert (ended.document["verdict"], ended.document["board_kind"]) == ("identical", "this machine")
    board = json.loads((Path(ended.document["run"]) / "run.json").read_text())["board"]
    hops = [f"{ME}@{LOOPBACK}:{each.port}" for each in (server, *reversed(gates))]
    assert board["address"] == " via ".join(hops)
    assert board["host_key"] == sshd.fingerprint(server.host_key)
    claims = laboratory.harness("verify", ended.document["run"], "--no-rebuild", "--json").document["claims"]
    assert {claim["state"] for claim in claims if claim["claim"] in {"files", "request", "board"}} == {"ok"}


def test_a_check_and_a_list_resolve_the_alias(laboratory: BoardProfiles, server: Server, gates: list[Server]) -> None:
    ended = laboratory.harness("boards", "check", "xavier", "--json")
    assert (ended.code, ended.document["boards"][0]["ok"]) == (0, True), ended.out
    place = " via ".join(f"{LOOPBACK}:{each.port}" for each in (server, *reversed(gates)))
    listed = laboratory.harness("boards", "list", "--json").document["boards"]
    assert {board["board"]: board["where"] for board in listed} == {"host": "this machine", "xavier": place}
    findings = laboratory.harness("doctor", "--json").document["findings"]
    assert [each["found"] for each in findings if each["topic"] == "xavier: address"] == [place]


def test_an_alias_and_its_host_are_one_board(laboratory: BoardProfiles, server: Server) -> None:
    laboratory.home.configure(block("lab", server))
    laboratory.give(direct={"host": LOOPBACK, "port": server.port}, other={"host": LOOPBACK, "port": 9})
    assert laboratory.harness("boards", "lock", "xavier", "--purpose", "soldering").code == 0
    listed = laboratory.harness("boards", "list", "--json").document["boards"]
    held = {board["board"]: [each["purpose"] for each in board["holders"]] for board in listed}
    assert held == {"host": [], "xavier": ["soldering"], "direct": ["soldering"], "other": []}
    assert laboratory.harness("boards", "unlock", "direct").code == 0


def test_a_malformed_configuration_fails_the_boards_that_need_it(laboratory: BoardProfiles, tmp_path: Path) -> None:
    laboratory.home.configure("Host lab\n  Port\n")
    error = f'{laboratory.home.config} line 2: no argument after keyword "port"; {laboratory.home.config}: '
    message = f"ssh refuses lab: {error}terminating, 1 bad configuration options"
    remedy = "correct the address or the SSH configuration; compare with: ssh -G lab"
    checked = laboratory.harness("boards", "check", "host", "xavier", "--json")
    health = {board["board"]: board for board in checked.document["boards"]}
    assert f"board xavier: {remedy}" in checked.err
    assert (checked.code, health["host"]["ok"], health["xavier"]["reason"]) == (3, True, message)
    found = laboratory.harness("doctor", "--json").document["findings"]
    [address] = [each for each in found if each["topic"] == "xavier: address"]
    assert (address["ok"], address["found"], address["remedy"]) == (False, message, remedy)
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), tmp_path / "small.onnx")
    ended = laboratory.harness(
        "run", "--board", "xavier", "--model", str(tmp_path / "small.onnx"), "--vectors", "50", "--json"
    )
    assert (ended.code, ended.document["verdict"], ended.document["part"]) == (3, "inconclusive", "network")
    assert (ended.document["reason"], ended.document["hint"]) == (f"network: {message}", remedy)


def test_a_run_on_this_machine_imports_no_ssh(laboratory: BoardProfiles, tmp_path: Path) -> None:
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), tmp_path / "small.onnx")
    words = ["--runs", str(tmp_path / "runs"), "--boards", str(laboratory.user.boards), "run", "--board", "host"]
    program = (
        "import sys; from harness.cli.main import cli; "
        f"code = cli.main([*{words}, '--model', 'small.onnx', '--vectors', '50'], standalone_mode=False); "
        "sys.exit(code or ', '.join({'fabric', 'invoke', 'paramiko'} & sys.modules.keys()) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
