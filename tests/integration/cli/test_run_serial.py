"""`harness run` on a microcontroller at a serial port: emulated by qemu, and as hardware that a fixture stands for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.boards.profile import BoardProfiles
from tests.support.boards.microcontroller import Microcontroller
from tests.support.cli.command import Ended, User

pytestmark = [pytest.mark.usefixtures("clean_checkout"), pytest.mark.slow]  # `harness verify` needs a revision
ACAS = ("--board", "stm32f405", "--model", "acas_coc", "--trace", "2")


@pytest.fixture
def board(laboratory: BoardProfiles, tmp_path: Path) -> Iterator[Microcontroller]:
    with Microcontroller(tmp_path, laboratory.board("stm32f405")) as microcontroller:
        yield microcontroller


@pytest.fixture
def user(board: Microcontroller, tmp_path: Path, cache: Path) -> User:
    """A user whose board is at the port."""
    assert board.profile.bare_metal
    assert board.profile.bare_metal.serial
    serial = board.profile.bare_metal.serial
    place = {"port": serial.port, "flash": [*serial.flash], "reset": [*serial.reset]}
    return User(tmp_path, cache).with_local(yaml.safe_dump({"stm32f405": {"bare_metal": {"serial": place}}}))


def read(done: Ended, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((Path(done.document["run"]) / name).read_text())
    return document


def test_an_emulated_port_is_labelled_and_verified(tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache)
    done = user.harness("run", *ACAS, "--vectors", "6", "--json")
    assert (done.code, done.document["verdict"]) == (0, "identical"), done.err
    place = "emulated-cpu (qemu cortex-m4, bare metal)"
    assert {layer["ran_on"] for layer in done.document["layers"]} == {place}
    assert (read(done, "run.json")["board"]["kind"]) == "emulated"
    assert read(done, "request.json")["profile"]["reached_by"] == "emulated serial port"
    assert user.harness("verify", done.document["run"]).code == 0


def test_a_reset_makes_a_run_inconclusive_and_it_is_resumed(board: Microcontroller, user: User) -> None:
    carried = bytearray()

    def reset_once(content: bytes) -> bytes:
        carried.extend(content)
        if len(carried) > 9_000 and board.reset_count < 1_000:
            board.reset_count = 1_000
            board.reset()
            return b""
        return content

    board.to_host = reset_once
    done = user.harness("run", *ACAS, "--vectors", "12", "--chunk", "4", "--json")
    assert (done.code, done.document["verdict"]) == (3, "inconclusive")
    assert "board stm32f405 was reset while" in done.document["reason"]
    resumed = user.harness("run", "--resume", done.document["run"], "--json")
    assert (resumed.code, resumed.document["verdict"]) == (0, "identical"), resumed.err
    assert {layer["ran_on"] for layer in resumed.document["layers"]} == {"hardware"}
    identity = read(done, "run.json")["board"]
    assert (identity["kind"], identity["machine_id"]) == ("hardware", f"serial-number:port {board.port}")
    profile = read(done, "request.json")["profile"]
    assert profile["reached_by"] == "serial port"
    assert "port" not in profile["bare_metal"]["serial"]
    assert board.flash_count == 1
    assert user.harness("verify", done.document["run"]).code == 0


@pytest.mark.parametrize(
    ("serial", "message"),
    [
        ({"port": "/dev/ttyACM0"}, "a board at a port needs a command that resets it"),
        ({"port": "/dev/pts/7", "reset": ["true"]}, "a pseudo-terminal is no port of a board"),
        ({"flash": ["openocd"]}, "the command does not name {program}"),
        ({"uart": "usart"}, "Input should be 'cmsdk', 'stm32f4', 'stm32f7' or 'lpuart'"),
    ],
)
def test_an_incomplete_port_is_refused(tmp_path: Path, cache: Path, serial: dict[str, object], message: str) -> None:
    user = User(tmp_path, cache).with_local(yaml.safe_dump({"stm32f405": {"bare_metal": {"serial": serial}}}))
    done = user.harness("run", *ACAS)
    assert done.code == 2
    assert message in done.err


def test_doctor_names_a_missing_port_and_a_missing_program(tmp_path: Path, cache: Path) -> None:
    serial = {"port": str(tmp_path / "ttyACM0"), "reset": ["true"]}
    user = User(tmp_path, cache)
    for changed, message in (
        (serial, "there is no serial port"),
        (serial | {"reset": ["no-such-tool"]}, "no-such-tool"),
    ):
        local = user.with_local(yaml.safe_dump({"stm32f405": {"bare_metal": {"serial": changed}}}))
        done = local.harness("doctor", "stm32f405", "--json")
        assert done.code == 3
        findings = {finding["topic"]: finding["found"] for finding in done.document["findings"]}
        assert message in findings["stm32f405: address"]
