"""Ways to lose a board that is reached over SSH, each with the message that the user gets."""

from __future__ import annotations

import os
import pwd
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

import paramiko
import pytest

from harness.boards import session, ssh, ssh_connect
from harness.boards.local import LocalBoard
from harness.boards.session import Board, Fetch
from harness.boards.ssh import Address, Limits, SshBoard
from harness.core.errors import BoardError, ConnectionFailed, HarnessError, ToolError
from tests.support.boards import sshd
from tests.support.boards.processes import await_none, running
from tests.support.boards.sshd import LOOPBACK, Link, Server

MEBIBYTE = 1 << 20
LIMITS = Limits(connect_s=2, silence_s=2)  # where a limit ends an attempt
REACHED = Limits(connect_s=20, silence_s=2)  # a busy machine may take seconds to connect
LOGIN_SHELL = pwd.getpwuid(os.getuid()).pw_shell
OF_A_CUT = "the connection was cut"
OF_A_SILENCE = "no sign of life for 2 s"


def failure(action: Callable[[], object], kind: type[HarnessError] = ConnectionFailed) -> HarnessError:
    with pytest.raises(kind) as caught:
        action()
    return caught.value


def refusal(address: Address, limits: Limits = REACHED) -> HarnessError:
    """The failure to connect to an address."""
    return failure(lambda: SshBoard.connect(address, limits).close())


@contextmanager
def linked(server: Server, link: Link) -> Iterator[Board]:
    with link, SshBoard.connect(server.address_behind(link.port), REACHED) as board:
        yield board


# ---- no way in


def test_nothing_listens_on_the_port(server: Server) -> None:
    with sshd.closed_port() as port:
        error = refusal(replace(server.address, port=port))
    assert error.message == f"cannot reach {LOOPBACK} port {port}: Connection refused"
    assert "SSH server running" in error.hint


def test_a_name_that_does_not_resolve(server: Server) -> None:
    error = refusal(replace(server.address, host="no-such-board.invalid"))
    assert error.message.startswith("the name no-such-board.invalid is unknown here: ")


def test_a_host_that_never_answers(server: Server) -> None:
    """A full backlog drops further connections: they time out as those to a host that is off."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind((LOOPBACK, 0))
        full.listen(0)
        for client in (first, second):
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        error = refusal(replace(server.address, port=full.getsockname()[1]), LIMITS)
    assert error.message.endswith(": no answer within 2 s")


def test_a_port_that_accepts_but_is_silent(server: Server) -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        error = refusal(replace(server.address, port=port), LIMITS)
    assert error.message == f"{LOOPBACK} port {port} accepts connections but does not answer as an SSH server"
    assert "booted" in error.hint


def test_a_silence_during_the_handshake(server: Server) -> None:
    with Link(server.port, silent_after=100) as link:
        error = refusal(server.address_behind(link.port), LIMITS)
    assert error.message.endswith(": the handshake did not finish in time")


def test_a_silence_during_the_authentication(server: Server) -> None:
    """That is no refusal: the key may be right."""
    with Link(server.port, silent_after=1450) as link:
        error = refusal(server.address_behind(link.port), Limits(connect_s=6))
    assert error.message.endswith(" neither accepts nor rejects the key in time")
    assert "overloaded" in error.hint


def test_an_unknown_host_key(server: Server, tmp_path: Path) -> None:
    address = replace(server.address, known_hosts=tmp_path / "none yet")
    error = refusal(address)
    assert f"[{LOOPBACK}]:{server.port} is not in {tmp_path}/none yet" in error.message
    assert fingerprint(server.host_key) in error.message
    learn_as_told(error.hint)
    SshBoard.connect(address, REACHED).close()


def test_a_wrong_host_key(server: Server, tmp_path: Path) -> None:
    other = sshd.make_key(tmp_path / "other").with_suffix(".pub")
    address = replace(server.address, known_hosts=sshd.know(tmp_path / "known hosts", server.port, other))
    error = refusal(address)
    assert f"is not the host that {tmp_path}/known hosts knows" in error.message
    assert f"it shows ssh-ed25519 {fingerprint(server.host_key)} instead of {fingerprint(other)}" in error.message
    learn_as_told(error.hint)
    SshBoard.connect(address, REACHED).close()


def public(key: Path) -> str:
    """The type and the key of a public key file."""
    return " ".join(key.read_text().split()[:2])


@pytest.mark.parametrize("also", ["nothing", "the same key", "another key"])
@pytest.mark.parametrize("names", ["*", "[127.0.0.1]:{port}"])
def test_a_revoked_host_key(server: Server, tmp_path: Path, also: str, names: str) -> None:
    """Even where another line trusts it."""
    other = public(sshd.make_key(tmp_path / "other").with_suffix(".pub"))
    shown = public(server.host_key)
    trusted = {"nothing": "# none", "the same key": shown, "another key": other}[also]
    host = f"[{LOOPBACK}]:{server.port} "
    known = tmp_path / "known hosts"
    known.write_text(f"{host}{trusted}\n\n@revoked {names.format(port=server.port)} {shown} stolen\n")
    error = refusal(replace(server.address, known_hosts=known))
    assert error.message == (
        f"the host key of {LOOPBACK} was revoked: it shows ssh-ed25519 {fingerprint(server.host_key)}, "
        f"which {known}:3 marks as @revoked"
    )
    assert "do not connect" in error.hint
    assert "ask the administrator" in error.hint
    assert error.exit_code == 3


def test_another_revoked_key_stops_nobody(server: Server, tmp_path: Path) -> None:
    other = public(sshd.make_key(tmp_path / "other").with_suffix(".pub"))
    known = tmp_path / "known_hosts"
    known.write_text(f"@revoked * {other}\n[{LOOPBACK}]:{server.port} {public(server.host_key)}\n")
    SshBoard.connect(replace(server.address, known_hosts=known), REACHED).close()


@pytest.mark.parametrize("revoked", ["nothing", "old", "new"])
@pytest.mark.parametrize("order", ["old new", "new old"])
def test_several_known_keys_of_one_type(server: Server, tmp_path: Path, order: str, revoked: str) -> None:
    """OpenSSH accepts either, so that a key can be rotated; a revoked key is refused wherever its lines are."""
    keys = {"old": sshd.make_key(tmp_path / "old").with_suffix(".pub"), "new": server.host_key}
    host = f"[{LOOPBACK}]:{server.port}"
    lines = [f"{host} {public(keys[name])}\n" for name in order.split()]
    lines.insert(1, f"@revoked * {public(keys[revoked])}\n" if revoked in keys else "\n")
    known = tmp_path / "known_hosts"
    known.write_text("".join(lines))
    address = replace(server.address, known_hosts=known)
    if revoked == "new":
        assert f"which {known}:2 marks as @revoked" in refusal(address).message
    else:
        SshBoard.connect(address, REACHED).close()


def test_a_wrong_key_is_compared_with_all_known_keys(server: Server, tmp_path: Path) -> None:
    keys = [sshd.make_key(tmp_path / name).with_suffix(".pub") for name in ("first", "second", "third")]
    host = f"[{LOOPBACK}]:{server.port}"
    known = tmp_path / "known_hosts"
    lines = [f"{host} {public(key)}\n" for key in keys]
    known.write_text("".join([*lines, f"@revoked * {public(keys[2])}\n"]))
    address = replace(server.address, known_hosts=known)
    assert f" instead of {fingerprint(keys[0])} or {fingerprint(keys[1])}" in refusal(address).message
    known.write_text(f"{lines[2]}@revoked * {public(keys[2])}\n")
    error = refusal(address)
    assert f" is unknown: all keys of {host} in {known} are revoked; it shows ssh-ed25519 " in error.message
    learn_as_told(error.hint)
    SshBoard.connect(address, REACHED).close()


@pytest.mark.parametrize(
    "line",
    [
        b"# b\xf6ard",
        b"b\xf6ard,{host} {key}",
        b"{host} {key} caf\xe9\x85\x0b{host} ssh-ed25519 AAAA",
        b"|1|x|y {key}",
        b"|1|x {key}",
        b"{host} ssh-ed25519 AAAA!!",
        b"{host} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA",
        b"{host} ssh-ed25519",
        b"{host} 1024 35 1234567890",
        b"{host} ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA",
        b"@cert-authority {host}",
        b"@other {host} {key}",
    ],
)
def test_a_damaged_line_is_skipped(server: Server, tmp_path: Path, line: bytes) -> None:
    host = f"[{LOOPBACK}]:{server.port}".encode()
    other = public(sshd.make_key(tmp_path / "other").with_suffix(".pub")).encode()
    known = tmp_path / "known_hosts"
    damaged = line.replace(b"{host}", host).replace(b"{key}", other)
    known.write_bytes(damaged + b"\n" + host + b" " + public(server.host_key).encode() + b"\r\n")
    SshBoard.connect(replace(server.address, known_hosts=known), REACHED).close()


def test_a_host_is_asked_for_a_key_of_a_known_type() -> None:
    first, second = socket.socketpair()
    with first, second:
        for known, name in (
            ("ssh-rsa", "rsa-sha2-"),
            ("ssh-ed25519", "ssh-ed25519"),
            ("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"),
        ):
            transport = ssh_connect._transport({known}, first)
            assert transport.get_security_options().key_types[0].startswith(name)
            transport.close()


def test_a_certificate_authority_is_no_known_host(server: Server, tmp_path: Path) -> None:
    authority = public(sshd.make_key(tmp_path / "authority").with_suffix(".pub"))
    address = replace(server.address, known_hosts=tmp_path / "known_hosts")
    address.known_hosts.write_text(f"@cert-authority [127.*]:* {authority}\n@cert-authority *.lab {authority}\n")
    error = refusal(address)
    assert f"is not in {tmp_path}/known_hosts; it shows ssh-ed25519 " in error.message
    assert error.message.endswith(
        "; line 1 trusts a certificate authority for it (@cert-authority), and harness does not check host certificates"
    )
    learn_as_told(error.hint)
    SshBoard.connect(address, REACHED).close()


@pytest.mark.parametrize("line", ["@revoked * ssh-ed25519", "@revoked * ssh-ed25519 ?"])
def test_a_damaged_line_that_revokes_is_refused(server: Server, tmp_path: Path, line: str) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"[{LOOPBACK}]:{server.port} {public(server.host_key)}\n{line}\n")
    error = refusal(replace(server.address, known_hosts=known))
    assert error.message.startswith(f"cannot use the known hosts in {known}: line 2: ")


@pytest.mark.parametrize("names", ["hashed", "[127.0.0.?]:{port},other", "!other,[*]:{port}"])
def test_names_of_a_known_host(server: Server, tmp_path: Path, names: str) -> None:
    known = tmp_path / "known_hosts"
    listed = f"[{LOOPBACK}]:{server.port}" if names == "hashed" else names.format(port=server.port)
    known.write_text(f"{listed} {public(server.host_key)}\n")
    if names == "hashed":
        subprocess.run(["ssh-keygen", "-H", "-f", known], capture_output=True, check=True)
        assert known.read_text().startswith("|1|")
    SshBoard.connect(replace(server.address, known_hosts=known), REACHED).close()


def test_a_pattern_that_excludes_the_host(server: Server, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"*,![{LOOPBACK}]:{server.port} {public(server.host_key)}\n")
    assert " is unknown: " in refusal(replace(server.address, known_hosts=known)).message


def fingerprint(public_key: Path) -> str:
    shown = subprocess.run(["ssh-keygen", "-l", "-f", public_key], capture_output=True, text=True, check=True)
    return shown.stdout.split()[1]


def learn_as_told(hint: str) -> None:
    """Run the commands that a hint ends with, as a user would."""
    command = hint[hint.index("ssh-key") :]
    subprocess.run(["sh", "-c", command], capture_output=True, check=True)


def test_known_hosts_that_cannot_be_read(server: Server, tmp_path: Path) -> None:
    error = refusal(replace(server.address, known_hosts=tmp_path))
    assert error.message == f"cannot use the known hosts in {tmp_path}: [Errno 21] Is a directory: '{tmp_path}'"


def test_a_key_that_the_board_refuses(server: Server, tmp_path: Path) -> None:
    key = sshd.make_key(tmp_path / "stranger")
    address = replace(server.address, key=key)
    error = refusal(address)
    assert error.message == f"{address} refuses the key {key}: Authentication failed."
    assert error.hint.endswith(f"ssh-copy-id -i {key}.pub -p {server.port} {address.user}@{LOOPBACK}")


def test_no_key_at_all(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    error = refusal(replace(server.address, key=None))
    assert "rejects all keys in the agent and in ~/.ssh" in error.message


def test_an_agent_that_hangs_is_given_up(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that waits for somebody at another screen, or behind a link that is gone."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    monkeypatch.setenv("SSH_AUTH_SOCK", "agent")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind("agent")
        agent.listen()
        error = failure(lambda: SshBoard.connect(replace(server.address, key=None), Limits(connect_s=2)).close())
    assert error.message == "the SSH agent at agent does not answer"


def test_a_default_key_is_found(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").write_bytes((server.folder / "user_key").read_bytes())
    (tmp_path / ".ssh" / "known_hosts").write_bytes((server.folder / "known_hosts").read_bytes())
    with SshBoard.connect(Address(LOOPBACK, server.address.user, server.port), REACHED) as board:
        assert board.run(["printf", "in"], 10).stdout == b"in"


def test_a_key_file_that_is_missing(server: Server, tmp_path: Path) -> None:
    error = refusal(replace(server.address, key=tmp_path / "key"))
    assert error.message == f"cannot read the private key {tmp_path}/key: No such file or directory"


def test_a_key_file_that_others_may_read(server: Server, tmp_path: Path) -> None:
    key = sshd.make_key(tmp_path / "key")
    key.chmod(0o644)
    error = refusal(replace(server.address, key=key))
    assert error.message == f"others may read the private key {key}"
    assert error.hint == f"chmod 600 {key}"


def test_a_public_key_in_place_of_the_private_one(server: Server, tmp_path: Path) -> None:
    public = sshd.make_key(tmp_path / "key").with_suffix(".pub")
    public.chmod(0o600)
    error = refusal(replace(server.address, key=public))
    assert error.message.startswith(f"{public} is not a private key: ")


def test_a_key_with_a_passphrase(server: Server, tmp_path: Path) -> None:
    key = sshd.make_key(tmp_path / "key")
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", key], capture_output=True, check=True)
    error = refusal(replace(server.address, key=key))
    assert error.message == f"the private key {key} needs a passphrase"
    assert error.hint.startswith(f"ssh-add {key}")


@pytest.mark.skipif(Path(LOGIN_SHELL).name != "bash", reason=f"the login shell here is {LOGIN_SHELL}, not bash")
def test_a_login_shell_that_prints(server: Server) -> None:
    """Bash reads ~/.bashrc when an SSH server starts it; the test's server gives its own folder as the home."""
    startup = server.folder / ".bashrc"
    startup.write_text("echo welcome to the lab\n")
    try:
        error = failure(lambda: SshBoard.connect(server.address, LIMITS), BoardError)
    finally:
        startup.unlink()
    assert "'welcome to the lab\\nready'" in error.message


# ---- a way through another host


def test_through_a_jump_host(server: Server, tmp_path: Path) -> None:
    with SshBoard.connect(replace(server.address, jump=server.address), REACHED) as board:
        (tmp_path / "source").write_bytes(os.urandom(MEBIBYTE))
        board.put(tmp_path / "source", PurePosixPath(tmp_path / "there"))
        board.get(PurePosixPath(tmp_path / "there"), tmp_path / "back", MEBIBYTE)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_jump_host_that_cannot_reach_the_board(server: Server) -> None:
    with sshd.closed_port() as port:
        error = refusal(replace(server.address, port=port, jump=server.address))
    assert error.message == f"the jump host {server.address} cannot reach {LOOPBACK} port {port}: Connect failed"
    assert error.hint == f"try there: ssh-keyscan -p {port} {LOOPBACK}"


def test_a_jump_host_with_an_unknown_key(server: Server, tmp_path: Path) -> None:
    jump = replace(server.address, known_hosts=tmp_path / "none")
    assert f"is not in {tmp_path}/none" in refusal(replace(server.address, jump=jump)).message


def test_a_cut_to_the_jump_host(server: Server) -> None:
    with Link(server.port) as link:
        address = replace(server.address, jump=server.address_behind(link.port))
        with SshBoard.connect(address, REACHED) as board:
            threading.Timer(0.3, link.cut).start()
            assert OF_A_CUT in failure(lambda: board.run(["sleep", "63.25"], 60)).message
    await_none("sleep", "63.25")


# ---- a link that fails in the middle


def test_a_cut_during_run_is_told_and_ends_the_program(server: Server) -> None:
    with Link(server.port) as link, linked(server, link) as board:
        threading.Timer(0.3, link.cut).start()
        error = failure(lambda: board.run(["sh", "-c", "sleep 64.25 & sleep 64.25"], 60))
        assert error.message == f"lost the board {server.address_behind(link.port)}: {OF_A_CUT}"
        await_none("sleep", "64.25")
        assert failure(lambda: board.run(["true"], 10)) is error, "the first cause is remembered"


def test_a_cut_during_get_leaves_no_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(os.urandom(8 * MEBIBYTE))
    with linked(server, Link(server.port, cut_after=3 * MEBIBYTE)) as board:
        error = failure(lambda: board.get(PurePosixPath(tmp_path / "there"), tmp_path / "back", 8 * MEBIBYTE))
    assert OF_A_CUT in error.message
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_cut_during_put_leaves_no_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(os.urandom(64 * MEBIBYTE))
    (tmp_path / "there").write_bytes(b"old")
    with Link(server.port, pause_s=0.001) as link, linked(server, link) as board:
        threading.Thread(target=when_there_is, args=(tmp_path / "there.part", link.cut), daemon=True).start()
        error = failure(lambda: board.put(tmp_path / "source", PurePosixPath(tmp_path / "there")))
    assert OF_A_CUT in error.message
    while (tmp_path / "there.part").exists():  # until the board has noticed, or the test's time is over
        time.sleep(0.02)
    assert {path.name for path in tmp_path.iterdir()} == {"source", "there"}
    assert (tmp_path / "there").read_bytes() == b"old"


def when_there_is(part: Path, act: Callable[[], None]) -> None:
    while not part.exists() or part.stat().st_size < MEBIBYTE:
        time.sleep(0.001)
    act()


def test_a_silence_during_run_is_noticed_before_the_deadline(server: Server) -> None:
    with Link(server.port) as link, linked(server, link) as board:
        threading.Timer(0.3, link.silence).start()
        error = failure(lambda: board.run(["sleep", "65.25"], 60))
    assert OF_A_SILENCE in error.message
    await_none("sleep", "65.25")


def test_a_silent_program_is_no_silent_board(server: Server) -> None:
    with SshBoard.connect(server.address, REACHED) as board:
        assert board.run(["sleep", str(1.5 * LIMITS.silence_s)], 60).status == 0


def test_a_silence_during_get(server: Server, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(os.urandom(8 * MEBIBYTE))
    with linked(server, Link(server.port, silent_after=3 * MEBIBYTE)) as board:
        error = failure(lambda: board.get(PurePosixPath(tmp_path / "there"), tmp_path / "back", 8 * MEBIBYTE))
    assert OF_A_SILENCE in error.message
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_silence_during_put(server: Server, tmp_path: Path) -> None:
    """The link takes nothing more, so that the sender hangs in a full socket buffer."""
    (tmp_path / "source").write_bytes(os.urandom(64 * MEBIBYTE))
    with Link(server.port, pause_s=0.001) as link, linked(server, link) as board:
        threading.Thread(target=when_there_is, args=(tmp_path / "there.part", link.silence), daemon=True).start()
        error = failure(lambda: board.put(tmp_path / "source", PurePosixPath(tmp_path / "there")))
    assert OF_A_SILENCE in error.message


@pytest.mark.parametrize("call", ["run", "put", "get"])
def test_a_silence_before_a_call(server: Server, tmp_path: Path, call: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    there = PurePosixPath(tmp_path / "there")
    with Link(server.port) as link, linked(server, link) as board:
        link.silence()
        calls: dict[str, Callable[[], object]] = {
            "run": lambda: board.run(["true"], 60),
            "put": lambda: board.put(tmp_path / "file", there),
            "get": lambda: board.get(there, tmp_path / "back", 1),
        }
        assert OF_A_SILENCE in failure(calls[call]).message


def test_close_during_a_silence_does_not_wait(server: Server) -> None:
    """The silence would outlast the time limit of a test."""
    with Link(server.port) as link:
        address = replace(server.address, jump=server.address_behind(link.port))
        board = SshBoard.connect(address, Limits(connect_s=20, silence_s=1000))
        link.silence()
        board.close()


# ---- a board that misbehaves


@pytest.mark.parametrize("name", ["local", "ssh"])
def test_a_program_that_writes_without_end(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "OUTPUT_LIMIT_BYTES", MEBIBYTE)
    with LocalBoard() if name == "local" else SshBoard.connect(server.address, REACHED) as board:
        error = failure(lambda: board.run(["yes", "66.25"], 60), BoardError)
        assert error.message.endswith("wrote more than 1 MiB to its standard output or error")
        await_none("yes", "66.25")
        assert board.run(["printf", "usable"], 10).stdout == b"usable"


def test_a_program_whose_shell_is_killed(ssh_board: Board) -> None:
    error = failure(lambda: ssh_board.run(["sh", "-c", "kill -9 $PPID"], 60), BoardError)
    assert error.message.endswith(" ended without an exit status")
    assert ssh_board.run(["printf", "usable"], 10).stdout == b"usable"


def test_a_deadline_ends_descendants_in_their_own_sessions(ssh_board: Board) -> None:
    with pytest.raises(BoardError, match="was killed"):
        ssh_board.run(["sh", "-c", "setsid sh -c 'setsid sleep 67.25 & sleep 67.25' & sleep 67.25"], 0.5)
    await_none("sleep", "67.25")


def test_closing_a_session_ends_its_program(server: Server) -> None:
    board = SshBoard.connect(server.address, REACHED)
    runner = threading.Thread(target=lambda: failure(lambda: board.run(["sleep", "68.25"], 60)))
    runner.start()
    while not running("sleep", "68.25"):
        time.sleep(0.01)
    board.close()
    runner.join()
    await_none("sleep", "68.25")


def test_a_full_disk_on_the_board(ssh_board: Board, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small disk needs root: {mounted.stderr.splitlines()[0]}")
    try:
        (tmp_path / "source").write_bytes(bytes(4 * MEBIBYTE))
        error = failure(lambda: ssh_board.put(tmp_path / "source", PurePosixPath(disk / "there")), BoardError)
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)
    assert "No space left on device" in error.message
    assert error.hint == f"the board's disk is full: df -h {disk} there shows it"


def test_a_destination_here_that_cannot_be_written(ssh_board: Board, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    fetch = Fetch(PurePosixPath(tmp_path / "there"), tmp_path / "missing" / "back", 1)
    error = failure(lambda: ssh_board.get_many([fetch]), ToolError)
    assert error.message == f"this machine: cannot write {fetch.destination}: No such file or directory"


def test_a_cut_behind_the_end_of_a_call_is_left_to_the_next(
    ssh_board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(_: paramiko.Channel) -> None:
        raise EOFError

    monkeypatch.setattr(paramiko.Channel, "close", cut)
    (tmp_path / "here").write_bytes(b"x")
    assert ssh_board.run(["printf", "done"], 10).stdout == b"done"
    ssh_board.put(tmp_path / "here", PurePosixPath(tmp_path / "there"))
    ssh_board.get_many([Fetch(PurePosixPath(tmp_path / "there"), tmp_path / "back", 1)])
    assert (tmp_path / "back").read_bytes() == b"x"
    longer = Fetch(PurePosixPath(tmp_path / "there"), tmp_path / "back", 3)
    assert "1 of 3 bytes arrived" in failure(lambda: ssh_board.get_many([longer]), BoardError).message


# ---- clocks and programs that stand still


def test_a_clock_that_stands_still_stops_no_time_out(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """paramiko's own never expire then; nor do they when the time of day is set back."""
    (tmp_path / "there").write_bytes(os.urandom(8 * MEBIBYTE))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with linked(server, Link(server.port, silent_after=3 * MEBIBYTE)) as board:
        error = failure(lambda: board.get(PurePosixPath(tmp_path / "there"), tmp_path / "back", 8 * MEBIBYTE))
    assert OF_A_SILENCE in error.message
    with Link(server.port, silent_after=100) as link:
        failure(lambda: SshBoard.connect(server.address_behind(link.port), Limits(connect_s=0.5)).close())


@pytest.mark.parametrize(
    ("size", "pause_s", "words"),
    [
        (MEBIBYTE, 0.1, "did not end within"),
        (64 * MEBIBYTE, 0.01, "has come no further for 2 s, though the board answers"),
    ],
    ids=["all is sent", "no more is taken"],
)
def test_a_receiver_that_stands_still_is_the_boards_fault(
    server: Server, tmp_path: Path, size: int, pause_s: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would neither read on nor end with its session."""
    monkeypatch.setattr(ssh, "SLOWEST_BYTES_PER_S", 100 * MEBIBYTE)
    source, there = tmp_path / "source", tmp_path / "there"
    source.write_bytes(bytes(size))
    with Link(server.port, pause_s=pause_s) as link, linked(server, link) as board:
        stop_the_writer(tmp_path / "there.part")
        error = failure(lambda: board.put(source, PurePosixPath(there)), BoardError)
    assert f"writing {there} on " in error.message
    assert words in error.message
    assert error.hint == ssh.STOPPED
    while writers(tmp_path / "there.part"):  # it was killed, and takes its time, or the test's is over
        time.sleep(0.02)


def stop_the_writer(path: Path) -> None:
    """Stop the process that writes the file as soon as there is one."""

    def stop() -> None:
        while not (found := writers(path)):
            time.sleep(0.001)
        os.kill(found[0], signal.SIGSTOP)

    threading.Thread(target=stop, daemon=True).start()


def writers(path: Path) -> list[int]:
    """The pids of the `cat` whose standard output is the file."""
    found = []
    for pid in running("cat"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/fd/1").readlink() == path:
                found.append(pid)
    return found


def test_a_sender_that_stands_still_is_the_boards_fault(server: Server, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_bytes(bytes(64 * MEBIBYTE))

    def stop() -> None:
        while not (found := running("cat", "--", str(there))):
            time.sleep(0.001)
        os.kill(found[0], signal.SIGSTOP)

    with SshBoard.connect(server.address, REACHED) as board:
        threading.Thread(target=stop, daemon=True).start()
        error = failure(lambda: board.get(PurePosixPath(there), tmp_path / "back", 64 * MEBIBYTE), BoardError)
    assert f"reading {there} on " in error.message
    assert "has come no further for 2 s, though the board answers" in error.message
    await_none("cat", "--", str(there))


def test_a_slow_link_brings_what_is_still_on_its_way(server: Server, tmp_path: Path) -> None:
    """Its buffers take all at once: that nothing more is to be sent does not say that all is there."""
    (tmp_path / "source").write_bytes(os.urandom(MEBIBYTE))
    with Link(server.port, pause_s=0.15) as link, linked(server, link) as board:
        board.put(tmp_path / "source", PurePosixPath(tmp_path / "there"))
    assert (tmp_path / "there").read_bytes() == (tmp_path / "source").read_bytes()


# ---- transfers that go on without end


PATIENT = Limits(connect_s=20, silence_s=15)


@pytest.fixture
def deadline_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """The seconds that a transfer of 8 MiB may take here, with `PATIENT`."""
    monkeypatch.setattr(ssh, "BASE_SILENCES", 1 / PATIENT.silence_s)
    monkeypatch.setattr(ssh, "SLOWEST_BYTES_PER_S", 8 * MEBIBYTE)
    return 2


# To start a transfer over a link of one byte each millisecond takes seconds.
@pytest.mark.parametrize(("piece_bytes", "silence_s"), [(64, 4), pytest.param(1, 15, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("way", ["get", "put"])
def test_a_link_that_trickles_is_given_up(
    server: Server,
    tmp_path: Path,
    way: str,
    piece_bytes: int,
    silence_s: int,
    deadline_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many bytes each millisecond: a whole transfer would take hours, or minutes."""
    here, there = tmp_path / "here", PurePosixPath(tmp_path / "there")
    Path(tmp_path / ("there" if way == "get" else "here")).write_bytes(os.urandom(8 * MEBIBYTE))
    limits = Limits(connect_s=20, silence_s=silence_s)
    monkeypatch.setattr(ssh, "BASE_SILENCES", 1 / silence_s)
    with Link(server.port) as link, SshBoard.connect(server.address_behind(link.port), limits) as board:
        link.trickle(piece_bytes, 0.001)
        error = failure(
            lambda: board.get(there, here, 8 * MEBIBYTE) if way == "get" else board.put(here, there), BoardError
        )
    verb = "reading" if way == "get" else "writing"
    told = re.fullmatch(
        rf"{verb} {there} on \S+: ([0-9,]+) of 8,388,608 bytes came through within {deadline_s:g} s", error.message
    )
    assert told, error.message
    assert 0 <= int(told[1].replace(",", "")) < 8 * MEBIBYTE
    assert "8,388,608 bytes/s" in error.hint
    assert not Path(here if way == "get" else there).exists()


@contextmanager
def drip(path: Path, pause_s: float) -> Iterator[None]:
    """Make `path` a file of which the board sends one byte after each pause, without end."""
    os.mkfifo(path)
    over = threading.Event()

    def write() -> None:
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as file:
            while not over.wait(pause_s):
                file.write(b"x")

    threading.Thread(target=write, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def test_a_board_that_sends_a_byte_at_a_time_is_given_up(server: Server, tmp_path: Path, deadline_s: float) -> None:
    """It is never silent, and its link is fast."""
    there = tmp_path / "there"
    with drip(there, 0.05), SshBoard.connect(server.address, PATIENT) as board:
        error = failure(lambda: board.get(PurePosixPath(there), tmp_path / "back", 8 * MEBIBYTE), BoardError)
        await_none("cat", "--", str(there))
        assert board.run(["printf", "usable"], 10).stdout == b"usable"
    told = re.search(r": ([0-9]+) of 8,388,608 bytes came through within", error.message)
    assert told, error.message
    assert 0 < int(told[1]) <= deadline_s / 0.05
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("name", ["local", "ssh"])
def test_an_answer_that_comes_a_byte_at_a_time_is_given_up(server: Server, tmp_path: Path, name: str) -> None:
    there = tmp_path / "there"
    with drip(there, 0.05), LocalBoard() if name == "local" else SshBoard.connect(server.address, PATIENT) as board:
        error = failure(lambda: board.run(["cat", str(there)], 1.5), BoardError)
        await_none("cat", str(there))
    told = re.fullmatch(
        r"cat on \S+ did not end within 1\.5 s and was killed; ([0-9]+) bytes of its output came", error.message
    )
    assert told, error.message
    assert 0 < int(told[1]) <= 30
