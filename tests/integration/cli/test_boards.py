"""`harness boards`, as users call it."""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness.applications.nightly import result_parser
from harness.applications.nightly.result_parser import Said
from harness.boards import profile
from harness.boards.locks import hold
from harness.boards.locks.ticket import user_name
from tests.support.cli.command import User

UNREACHABLE = """\
xavier:
  address: {{host: 127.0.0.1, port: {port}, user: nobody}}
"""
NO_ADDRESS = "set HARNESS_XAVIER_HOST=[user@]host[:port], or write its address: {host: ...} into boards.local.yaml"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    monkeypatch.setenv("HARNESS_LOCKS", str(tmp_path / "locks"))
    return User(tmp_path, tmp_path / "cache")


def row(user: User, board: str) -> dict[str, object]:
    boards = user.here("boards", "list", "--json").document["boards"]
    return next(entry for entry in boards if entry["board"] == board)


def test_a_board_is_locked_listed_and_given_back(user: User) -> None:
    began_s = time.time()
    locked = user.here("boards", "lock", "host", "--for", "2h", "--purpose", "sol\x1b[31mdering", "--json").document
    assert locked["until_s"] - began_s == pytest.approx(7200, abs=30)
    [holder] = row(user, "host")["holders"]  # type: ignore[misc]
    assert row(user, "local-gpu")["holders"] == [holder], "the same machine by another name"
    me = {"user": user_name(os.getuid()), "host": socket.gethostname(), "pid": 0, "purpose": "sol[31mdering"}
    assert (me.items() <= holder.items(), holder["by_hand"]) == (True, True)
    assert row(user, "xavier")["holders"] == []
    assert "sol[31mdering" in user.here("boards", "list").out
    shorter = user.here("boards", "lock", "host").out
    assert re.search(r"^host is locked until [0-9: -]+ \(was [0-9: -]+, sol\[31mdering\); your commands", shorter)
    user.here("boards", "lock", "host", "--purpose", "sol\x1b[31mdering")
    assert user.here("boards", "unlock", "host", "--json").document["taken_from"][0]["purpose"] == "sol[31mdering"
    assert user.here("boards", "unlock", "host").out == "host is not locked\n"
    user.here("boards", "lock", "host")
    assert user.here("boards", "unlock", "host").out == "host is released\n"
    assert user.here("boards", "list").out.splitlines()[0].split() == ["board", "where"]  # the rest tells nothing


def test_a_board_without_an_address_prevents_no_other(user: User) -> None:
    user = user.with_local("xavier: {emulator: null}")
    assert row(user, "xavier")["where"] == f"no address: {NO_ADDRESS}"
    assert not user.here("plan", "--board", "host", "--model", "acas_coc").code
    used = user.harness("plan", "--board", "xavier", "--model", "acas_coc")
    assert (used.code, used.err) == (2, f"error: board xavier has no address\nhint: {NO_ADDRESS}\n")
    doctor = user.here("doctor", "xavier", "--json").document
    assert doctor["ready"] == {"xavier": False}
    [finding] = [finding for finding in doctor["findings"] if finding["topic"] == "xavier: address"]
    assert (finding["ok"], finding["found"], finding["remedy"]) == (False, "no address", NO_ADDRESS)
    assert row(user, "host")["where"] == "this machine"


def test_a_check_tells_what_a_board_lacks_and_quarantines_it(user: User, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    user = user.with_local(UNREACHABLE.format(port=port))
    ended = user.here("boards", "check", "host", "xavier", "local-gpu", "--quarantine", "--json")
    assert ended.code == 3
    host, xavier, again = ended.document["boards"]
    assert again["in_use"] == "", "the same machine, not in use by its own check"
    assert [check["name"] for check in again["checks"] if not check["ok"]] == ([] if has_gpu() else ["GPU"])
    assert (host["board"], host["ok"], host["part"], host["reason"]) == ("host", True, "", "")
    assert (xavier["ok"], xavier["part"]) == (False, "network")
    assert xavier["checks"] == [{"name": "reachable", "ok": False, "text": xavier["reason"]}]
    quarantine = row(user, "xavier")["quarantine"]
    assert quarantine["reason"] == xavier["reason"]  # type: ignore[index]
    last = user.here("boards", "list").out.splitlines()[-1]
    assert re.match(r"board xavier is quarantined since .* by .*: cannot reach .*Connection refused", last)
    assert row(user, "host")["quarantine"] is None
    assert "3 pages written" in user.here("report", "--site", str(tmp_path / "site")).out
    text = (tmp_path / "site" / "index.html").read_text()
    assert f"</span> {xavier['reason']} <span" in text
    assert f"now quarantined by {user_name(os.getuid())}, not by a night on this page" in text
    (tmp_path / "boards.yaml").unlink()
    assert "1 pages written" in user.here("report", "--site", str(tmp_path / "site")).out
    assert "not by a night on this page" not in (tmp_path / "site" / "index.html").read_text()


def has_gpu() -> bool:
    """Return whether this machine has an NVIDIA driver that finds a GPU."""
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_no_local_gpu_and_still_a_host(user: User) -> None:
    """Only the board with the GPU is unfit: this machine is not quarantined."""
    checked = user.here("boards", "check", "local-gpu", "--quarantine", "--json")
    [found] = checked.document["boards"]
    assert (checked.code, found["ok"], found["part"]) == (3, False, "board")
    assert found["reason"] == "GPU: this machine has no NVIDIA driver (libcuda.so.1)"
    assert [check["name"] for check in found["checks"] if not check["ok"]] == ["GPU"]
    assert row(user, "local-gpu")["quarantine"] is None
    assert user.here("boards", "check", "host").code == 0


def test_a_board_that_passes_comes_out_of_quarantine_and_a_run_before_is_warned(user: User) -> None:
    work = user.cache / "host"
    work.parent.mkdir(parents=True)
    work.write_bytes(b"")  # where a folder should be
    checked = user.here("boards", "check", "host", "--quarantine")
    assert (checked.code, checked.err.startswith("board host is quarantined since ")) == (3, True)
    warned = user.here("run", "--board", "host", "--model", "acas_coc", "--vectors", "10", "--trace", "0")
    assert "warning: board host is quarantined since " in warned.err
    assert warned.code == 3  # as its folder is still none
    work.unlink()
    checked = user.here("boards", "check", "host")
    assert checked.code == 0
    assert re.match(
        r"board host is quarantined since .*; it passes now: --quarantine removes the quarantine\n", checked.err
    )
    assert "quarantined" not in user.here("boards", "check", "host", "--quarantine").err
    assert row(user, "host")["quarantine"] is None


def test_a_board_in_use_is_not_looked_at_closely(user: User, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        user = user.with_local(UNREACHABLE.format(port=port))
        board = profile.load(tmp_path / "boards.yaml", {}).board("xavier")
        threading.Thread(target=lambda: server.accept()[0].sendall(b"SSH-2.0-busy\r\n"), daemon=True).start()
        with hold(board, tmp_path / "locks", "measure acas_coc", 0, print):
            answered = user.here("boards", "check", "xavier", "--quarantine", "--json")
            server.close()
            silent = user.here("boards", "check", "xavier", "--quarantine", "--json")
    in_use, reachable = answered.document["boards"][0]["checks"]
    assert f"(pid {os.getpid()}, measure acas_coc)" in in_use["text"]
    assert reachable == {"name": "reachable", "ok": True, "text": "an SSH server answers"}
    assert (answered.code, silent.code, silent.document["boards"][0]["part"]) == (0, 3, "board")
    for ended in (answered, silent):  # as a night tells it
        who = result_parser.busy(Said(ended.code, ended.out), "xavier")
        assert re.fullmatch(r"board xavier is in use by .+, measure acas_coc\) since [0-9: -]+", who)
    assert row(user, "xavier")["quarantine"] is None  # whoever has it may be restarting it


def test_a_board_that_another_has_locked_is_let_be(user: User, tmp_path: Path) -> None:
    user.here("boards", "lock", "host", "--purpose", "soldering")
    [ticket] = (tmp_path / "locks").iterdir()
    give_away(ticket)
    answered = user.here("boards", "check", "host", "--quarantine", "--json")
    [checked] = answered.document["boards"]
    assert (checked["ok"], checked["in_use"].startswith("board host is locked by nobody@")) == (True, True)
    assert result_parser.busy(Said(answered.code, answered.out), "host") == checked["in_use"]
    assert "board host is locked by nobody@" in checked["checks"][0]["text"]
    ended = user.harness("boards", "unlock", "host")
    assert (ended.code, "is locked by nobody@" in ended.err, "--force" in ended.err) == (3, True, True)
    assert user.here("boards", "unlock", "host", "--force").out.startswith("host is taken from nobody@")


def give_away(file: Path) -> None:
    """To another user."""
    if os.getuid():
        pytest.skip("only root can give a file away")
    os.chown(file, 65534, 65534)


@pytest.mark.campaign
def test_a_run_whose_board_is_taken_away_is_inconclusive_and_says_who_did_it(user: User, tmp_path: Path) -> None:
    words = ("--board", "host", "--model", "acas_coc", "--vectors=400000", "--chunk=4000", "--trace=0", "--json")
    process = user.start("run", *words, HARNESS_LEASE_S="1")
    try:
        await_chunk(tmp_path / "runs", process)
        user.here("boards", "unlock", "host", "--force")
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    document = json.loads(out)
    assert (process.returncode, document["verdict"], document["part"]) == (3, "inconclusive", "board")
    assert f"(pid {os.getpid()}, harness boards unlock --force) took it away" in document["reason"]
    assert "may be left on the board: board host was taken away" in err, "nobody cleans up on another's board"
    assert "resume with: harness run --resume" in err
    assert list((tmp_path / "locks").glob("*.ticket")) == []


def await_chunk(runs: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a run has kept its first chunk."""
    while not list(runs.glob("*/chunks/*.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_mistakes_are_told(user: User) -> None:
    ended = user.harness("boards", "lock", "xaver")
    assert (ended.code, "did you mean xavier?" in ended.err) == (2, True)
    ended = user.harness("boards", "cycle", "host", "--json")
    assert (ended.code, ended.document["error"]) == (2, "board host has no power switch")
    ended = user.harness("boards", "check", "host", "--remove-older", "-1")
    assert ended.code == 2
