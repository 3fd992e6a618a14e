"""A board as commands hold it: by its profile, within the limits that the environment sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.boards.locks import hold, in_use, key_of, lock, quarantine, queue_of
from harness.boards.locks import ticket as tickets
from harness.boards.locks.lease_guard import BoardBusy
from harness.boards.profile import Address, BoardProfiles, Labgrid, Profile
from harness.core.errors import RequestError


def test_how_long_a_command_waits_is_bounded_by_the_environment(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LOCK_WAIT_S", "0.1")
    with hold(host, tmp_path, "run", 0, print):
        for wait_s, bound in ((60.0, "0.1"), (0.0, "0")):
            with pytest.raises(BoardBusy, match=rf"; not free after {bound} s$"):
                hold(host, tmp_path, "measure", wait_s, print).__enter__()
    monkeypatch.setenv("HARNESS_LOCK_WAIT_S", "soon")
    with pytest.raises(RequestError, match="HARNESS_LOCK_WAIT_S='soon' is not a valid time to wait"):
        hold(host, tmp_path, "measure", 60.0, print).__enter__()


def test_who_has_a_board_is_seen_by_all_its_names(host: Profile, tmp_path: Path) -> None:
    same = host.model_copy(update={"name": "local-gpu"})
    assert in_use(host, tmp_path) == ""
    with hold(host, tmp_path, "run acas_coc", 0, print):
        assert in_use(same, tmp_path).startswith(f"board local-gpu is in use by {tickets.Owner.me('run acas_coc')}")
    assert in_use(same, tmp_path) == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_board_locked_by_hand_is_its_users_only(host: Profile, tmp_path: Path) -> None:
    with queue_of(host, tmp_path) as queue:
        kept = lock.reserve(queue, "soldering", 60, 0, print)
    assert in_use(host, tmp_path) == ""
    with hold(host, tmp_path, "run", 0, print):
        assert "in use by" in in_use(host, tmp_path), "one at a time"
    os.chown(tmp_path / tickets.file_name(key_of(host), kept.number), 65534, 65534)
    assert "is locked by nobody@" in in_use(host, tmp_path)


def test_boards_at_long_names_have_locks_of_their_own(host: Profile, tmp_path: Path) -> None:
    def at(name: str) -> Profile:
        return host.model_copy(update={"local": False, "address": Address(host=name)})

    long = ".".join(["b" * 60] * 4)
    one, other = at(f"{long}.1"), at(f"{long}.2")
    with hold(one, tmp_path, "run", 0, print), hold(other, tmp_path, "run", 0, print):
        assert in_use(one, tmp_path)
    assert key_of(at("Xavier.lab")) == "xavier.lab-22"


@pytest.mark.parametrize(("sequence", "since_s"), [("9" * 4300, "0"), ("1", "NaN"), ("1", "1e999")])
def test_a_quarantine_that_cannot_be_is_lifted_all_the_same(
    host: Profile, tmp_path: Path, sequence: str, since_s: str
) -> None:
    with queue_of(host, tmp_path) as queue:
        document = f'{{"sequence": {sequence}, "reason": "smoke", "since_s": {since_s}}}'
        (tmp_path / f"this-machine.health.{os.getuid()}").write_text(document)
        found = quarantine.find(queue)
        assert (found is None) == (since_s != "0"), "a time that is none is in no document"
        for reason in ("disk full", ""):
            quarantine.put(queue, reason)
            found = quarantine.find(queue)
            assert (found.reason if found else "") == reason


def test_one_machine_has_one_lock_whatever_it_is_called(host: Profile) -> None:
    def board(name: str, **changes: object) -> Profile:
        return host.model_copy(update={"name": name, "local": False, **changes})

    here, jump = Address(host="10.0.7.21"), Address(host="gate")
    same = [board("xavier", address=here), board("agx", address=Address(host="10.0.7.21", user="ana"))]
    assert {key_of(one) for one in same} == {"10.0.7.21-22"}
    others = [Address(host="10.0.7.21", port=2222), Address(host="10.0.7.22"), Address(host="10.0.7.21", jump=jump)]
    assert len({key_of(board("xavier", address=address)) for address in [here, *others]}) == 4
    places = [
        board(name, address=address, labgrid=Labgrid(place="rack")) for name, address in zip("ab", others, strict=False)
    ]
    assert {key_of(one) for one in places} == {"place-rack"}
    assert key_of(host) == key_of(host.model_copy(update={"name": "local-gpu"}))


def test_all_names_of_a_serial_port_are_one_board(laboratory: BoardProfiles, tmp_path: Path) -> None:
    (tmp_path / "ttyACM0").touch()
    (tmp_path / "by-id").symlink_to(tmp_path / "ttyACM0")

    def at(name: str, port: str) -> Profile:
        board = laboratory.board("stm32f405")
        assert board.bare_metal
        assert board.bare_metal.serial
        serial = board.bare_metal.serial.model_copy(update={"port": port, "reset": ("true",)})
        processor = board.bare_metal.model_copy(update={"serial": serial})
        return board.model_copy(update={"name": name, "bare_metal": processor})

    same = {key_of(at("stm32f405", str(tmp_path / "ttyACM0"))), key_of(at("other", str(tmp_path / "by-id")))}
    assert len(same) == 1
    assert key_of(at("stm32f405", "rfc2217://lab:4001")) == "port-rfc2217-lab-4001"
    assert key_of(laboratory.board("stm32f405")) == "stm32f405", "an emulated processor has no port"
