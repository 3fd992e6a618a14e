"""Boards that are reached as ~/.ssh/config says, through real SSH servers."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path, PurePosixPath

import pytest

from harness.boards import ssh_config
from harness.boards.profile import Address as Given
from harness.boards.ssh import Limits, SshBoard
from harness.boards.ssh_address import resolve
from harness.core.errors import ConnectionFailed, HarnessError
from tests.support.boards import sshd
from tests.support.boards.processes import await_none, running
from tests.support.boards.ssh_home import Home, block
from tests.support.boards.sshd import LOOPBACK, Link, Server

ME = getpass.getuser()
LIMITS = Limits(connect_s=2, silence_s=2)
PATIENT = Limits(connect_s=20, silence_s=20)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_config, "SYSTEM_FILE", tmp_path / "etc" / "ssh_config")
    return Home.made(tmp_path)


def answer(limits: Limits = PATIENT, **given: object) -> str:
    """Return the output of a board that is reached by the alias `xavier`, unless another address is given."""
    with SshBoard.connect(resolve(Given(**({"host": "xavier"} | given))), limits) as board:  # type: ignore[arg-type]
        return board.run(["printf", "in"], 20).stdout.decode()


def refusal(limits: Limits = LIMITS, **given: object) -> HarnessError:
    with pytest.raises(ConnectionFailed) as caught:
        answer(limits, **given)
    assert caught.value.hint
    return caught.value


def logins(server: Server) -> int:
    return sum(path.read_text().count("Accepted publickey") for path in server.folder.glob("log*"))


# ---- an alias


def test_an_alias_leads_to_the_board(home: Home, server: Server) -> None:
    home.configure(block("xavier", server, f"UserKnownHostsFile {home.folder}/empty {home.folder}/.ssh/lab"))
    home.know(server, name="lab")
    assert answer() == "in"
    with SshBoard.connect(resolve(Given(host="xavier")), PATIENT) as board:
        assert board.address.stated == f"{ME}@{LOOPBACK}:{server.port}"
        assert board.host_key == sshd.fingerprint(server.host_key)


def test_the_alias_of_the_host_key_names_it_in_the_files(home: Home, server: Server) -> None:
    home.configure(block("xavier", server, "HostKeyAlias board-7"))
    home.known_hosts.write_text(f"board-7 {server.host_key.read_text()}")
    assert answer() == "in"
    home.know(server)
    error = refusal(PATIENT)
    assert f"is unknown: board-7 is not in {home.known_hosts}; it shows " in error.message
    assert error.hint.endswith(f"ssh -o UserKnownHostsFile={home.known_hosts} -p {server.port} {ME}@xavier")


def test_a_global_known_hosts_file_has_keys_and_revokes_them(home: Home, server: Server, tmp_path: Path) -> None:
    of_lab = tmp_path / "of_lab"
    home.configure(block("xavier", server, f"GlobalKnownHostsFile {of_lab}"))
    of_lab.write_text(f"[{LOOPBACK}]:{server.port} {server.host_key.read_text()}")
    assert answer() == "in"
    home.know(server)
    of_lab.write_text(f"@revoked * {server.host_key.read_text()}")
    assert f"which {of_lab}:1 marks as @revoked" in refusal(PATIENT).message


def test_a_file_of_revoked_host_keys_is_observed(home: Home, server: Server, tmp_path: Path) -> None:
    other, krl = sshd.make_key(tmp_path / "other").with_suffix(".pub"), tmp_path / "revoked"
    home.configure(block("xavier", server, f"RevokedHostKeys {krl}"))
    home.know(server)
    assert refusal().message == f"cannot read the revoked host keys in {krl}: No such file or directory"
    for key, is_refused in ((other, False), (server.host_key, True)):
        for command in ("cp {key} {krl}", "ssh-keygen -q -k -f {krl} {key}"):
            subprocess.run(command.format(key=key, krl=krl).split(), check=True, capture_output=True)
            if is_refused:
                assert f"which {krl} of RevokedHostKeys revokes" in refusal(PATIENT).message
            else:
                assert answer() == "in"


def test_the_agent_of_the_configuration_has_the_key(home: Home, server: Server, tmp_path: Path) -> None:
    """IdentitiesOnly limits its keys to those of IdentityFile, of which only the public file is here."""
    agent, keys = home.folder / "agent", {"lab": server.folder / "user_key", "other": sshd.make_key(tmp_path / "key")}
    home.know(server)
    lines = f"HostName {LOOPBACK}\nPort {server.port}\n"
    with subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL) as process:
        try:
            while not agent.exists():
                time.sleep(0.02)
            for name, key in keys.items():
                subprocess.run(["ssh-add", "-q", key], env=os.environ | {"SSH_AUTH_SOCK": str(agent)}, check=True)
                (tmp_path / f"{name}.pub").write_bytes(key.with_suffix(".pub").read_bytes())
            home.configure(f"{lines}IdentityAgent none\n")
            assert " rejects all keys in the agent and in ~/.ssh: " in refusal(PATIENT).message
            home.configure(f"{lines}IdentityAgent none\nIdentityFile none\n")
            assert " rejects all keys in the agent: " in refusal(PATIENT).message
            lines += f"IdentityAgent {agent}\n"
            home.configure(lines)
            assert answer() == "in"
            home.configure(f"{lines}IdentitiesOnly yes\nIdentityFile {tmp_path}/other\n")
            assert " rejects all keys in " in refusal(PATIENT).message
            home.configure(f"{lines}IdentitiesOnly yes\nIdentityFile {tmp_path}/lab\n")
            assert answer() == "in"
        finally:
            process.terminate()


def test_the_user_of_the_configuration_is_asked_for(home: Home, server: Server) -> None:
    home.configure(block("xavier", server, "User nobody-here"))
    home.know(server)
    error = refusal(PATIENT)
    assert error.message.startswith(f"nobody-here@{LOOPBACK}:{server.port} rejects all keys in ")
    assert answer(user=ME) == "in", "the user of the profile has precedence"


def test_the_values_of_the_profile_have_precedence(home: Home, server: Server, tmp_path: Path) -> None:
    stranger = sshd.make_key(tmp_path / "stranger")
    home.configure(f"Host xavier\n HostName {LOOPBACK}\n Port 9\n User nobody\n IdentityFile {stranger}\n")
    key, known = server.folder / "user_key", server.folder / "known_hosts"
    assert answer(port=server.port, user=ME, key=str(key), known_hosts=str(known)) == "in"
    error = refusal(PATIENT, port=server.port, user=ME, known_hosts=str(known))
    address = f"{ME}@{LOOPBACK}:{server.port}"
    assert error.message == f"{address} rejects all keys in {stranger} and in the agent: Authentication failed."
    assert error.hint.startswith("correct IdentityFile of xavier in the SSH configuration")


def test_identity_files_that_do_not_fit_are_passed_over(home: Home, server: Server, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("no key\n")
    (tmp_path / "damaged").chmod(0o600)
    stranger, good = sshd.make_key(tmp_path / "stranger"), server.folder / "user_key"
    home.know(server)
    files = [tmp_path / "missing", tmp_path / "damaged", stranger, good]
    lines = [f"IdentityFile {path}" for path in files]
    port = f"Port {server.port}"
    home.configure("\n".join(["Host xavier", f"HostName {LOOPBACK}", port, *lines]))
    assert answer() == "in"
    home.configure("\n".join(["Host xavier", f"HostName {LOOPBACK}", port, *lines[:2]]))
    error = refusal(PATIENT)
    named = f"rejects all keys in {files[0]} (no such file), {files[1]} and in the agent: "
    assert named in error.message
    stranger.chmod(0o644)
    home.configure("\n".join(["Host xavier", f"HostName {LOOPBACK}", port, *lines]))
    assert refusal().message == f"others may read the private key {stranger}"


def test_a_command_of_match_decides(home: Home, server: Server) -> None:
    """It does not read the terminal's input, which pytest would refuse."""
    home.configure('Match originalhost xavier exec "echo printed; test %n = xavier"\n' + block("*", server)[7:])
    home.know(server)
    assert answer() == "in"
    home.configure(f'Match !exec "true"\n Port 9\nHost xavier\n HostName {LOOPBACK}\n')
    assert resolve(Given(host="xavier")).port == 22


def test_a_command_of_match_that_hangs_is_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config, "ANSWER_S", 0.5)
    home.configure('Match exec "exec sleep 61.25"\n Port 9\n')
    error = refusal()
    assert error.message == "ssh -G xavier did not end within 0.5 s"
    assert "Match exec" in error.hint
    await_none("sleep", "61.25")


def test_an_address_that_is_complete_follows_no_file(home: Home, server: Server) -> None:
    """Check that no configuration of SSH or fabric changes the complete address of an emulated board."""
    home.configure("ProxyCommand false\nHostName no-such-host.invalid\nUser nobody\nPort 9\n")
    (home.folder / ".fabric.yml").write_text("gateway: [is no YAML\n")
    with SshBoard.connect(server.address, PATIENT) as board:
        assert board.run(["printf", "in"], 20).stdout == b"in"


# ---- jump hosts


@pytest.fixture
def chained(home: Home, server: Server, gates: list[Server]) -> Home:
    """The board is reached through the outer and the inner jump host."""
    outer, inner = gates
    board = block("xavier", server, "ProxyJump outer,inner")
    home.configure(board + block("outer", outer) + block("inner", inner))
    home.know(server, outer, inner)
    return home


def test_two_jump_hosts(chained: Home, server: Server, gates: list[Server], tmp_path: Path) -> None:
    before = [logins(each) for each in gates]
    with SshBoard.connect(resolve(Given(host="xavier")), PATIENT) as board:
        assert [logins(each) for each in gates] == [count + 1 for count in before]
        (tmp_path / "source").write_bytes(bytes(range(256)) * 4096)
        board.put(tmp_path / "source", PurePosixPath(tmp_path / "there"))
        board.get(PurePosixPath(tmp_path / "there"), tmp_path / "back", 1 << 20)
        stated = [f"{ME}@{LOOPBACK}:{each.port}" for each in (server, *reversed(gates))]
        assert board.address.stated == " via ".join(stated)
        assert board.host_key == sshd.fingerprint(server.host_key)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "source").read_bytes()
    assert chained.known_hosts.read_text().count("\n") == 3, "no key was added"


@pytest.mark.skipif(not sshd.HAS_IPV6, reason="this machine has no IPv6 loopback")
def test_a_jump_host_with_an_ipv6_address(home: Home, server: Server, gates: list[Server]) -> None:
    gate = gates[0]
    home.configure(
        f"Host ::1\n IdentityFile {gate.folder / 'user_key'}\n{block('xavier', server, f'ProxyJump [::1]:{gate.port}')}"
    )
    home.know(server)
    unknown = refusal(PATIENT).message
    assert f"the host key of ::1 is unknown: [::1]:{gate.port} is not in {home.known_hosts}" in unknown
    with home.known_hosts.open("a") as file:
        file.write(f"[::1]:{gate.port} {gate.host_key.read_text()}")
    before = logins(gate)
    assert answer() == "in"
    assert logins(gate) == before + 1


@pytest.mark.parametrize("unknown", [0, 1, 2])
@pytest.mark.parametrize("known", ["nothing", "another key", "a revoked key"])
def test_an_unknown_host_key_is_refused_at_each_hop(
    chained: Home, server: Server, gates: list[Server], tmp_path: Path, unknown: int, known: str
) -> None:
    """No later host is logged in to, and no key is added."""
    hops = [*gates, server]
    stranger = hops[unknown]
    chained.know(*(each for each in hops if each is not stranger))
    if known != "nothing":
        other = sshd.make_key(tmp_path / "other").with_suffix(".pub")
        line = f"[{LOOPBACK}]:{stranger.port} {other.read_text()}"
        if known == "a revoked key":
            line = f"@revoked * {stranger.host_key.read_text()}"
        with chained.known_hosts.open("a") as file:
            file.write(line)
    before, text = [logins(each) for each in hops], chained.known_hosts.read_text()
    message = refusal(PATIENT).message
    if known == "nothing":
        assert f" is unknown: [{LOOPBACK}]:{stranger.port} is not in {chained.known_hosts}; it shows " in message
    elif known == "another key":
        assert f"{LOOPBACK} is not the host that {chained.known_hosts} knows: it shows " in message
    else:
        assert f" was revoked: it shows ssh-ed25519 {sshd.fingerprint(stranger.host_key)}, which " in message
    assert sshd.fingerprint(stranger.host_key) in message
    assert [logins(each) for each in hops] == [count + (hop < unknown) for hop, count in enumerate(before)]
    assert chained.known_hosts.read_text() == text


def test_a_hint_for_a_host_key_behind_jump_hosts_leads_through_them(chained: Home, server: Server) -> None:
    outer, inner = resolve(Given(host="xavier")).hops[:2]
    chained.known_hosts.write_text(
        "".join(line for line in chained.known_hosts.open() if f":{server.port} " not in line)
    )
    assert refusal(PATIENT).hint == (
        f"if that is the board's fingerprint: ssh -o ProxyJump={ME}@outer:{outer.port} -p {inner.port} {ME}@inner "
        f"ssh-keyscan -p {server.port} {LOOPBACK} >> {chained.known_hosts}"
    )


def test_a_jump_host_that_does_not_exist(home: Home, server: Server) -> None:
    home.configure(block("xavier", server, "ProxyJump no-such-gate.invalid"))
    error = refusal()
    assert error.message.startswith("the name no-such-gate.invalid is unknown here: ")
    assert error.hint == (
        "correct ProxyJump of xavier in the SSH configuration, or add a block `Host no-such-gate.invalid` "
        "to ~/.ssh/config"
    )


@pytest.mark.usefixtures("chained")
def test_a_jump_host_that_cannot_reach_the_next(gates: list[Server]) -> None:
    with sshd.closed_port() as port:
        error = refusal(PATIENT, port=port)
    jump = f"{ME}@{LOOPBACK}:{gates[1].port}"
    assert error.message == f"the jump host {jump} cannot reach {LOOPBACK} port {port}: Connect failed"


def test_a_jump_host_that_falls_silent(chained: Home, server: Server, gates: list[Server]) -> None:
    with Link(gates[0].port, silent_after=100) as link:
        chained.configure(
            block("xavier", server, "ProxyJump outer") + block("outer", Server(gates[0].folder, link.port))
        )
        chained.know(server, Server(gates[0].folder, link.port))
        error = refusal()
    assert error.message == (f"no SSH session with {ME}@{LOOPBACK}:{link.port}: the handshake did not finish in time")


# ---- a ProxyCommand

RELAY = """
import socket, sys, threading
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def forward(read, write):
    while piece := read(65536):
        write(piece)
threading.Thread(target=forward, args=(link.recv, lambda piece: (sys.stdout.buffer.write(piece), sys.stdout.flush())), daemon=True).start()
forward(sys.stdin.buffer.raw.read, link.sendall)
"""  # noqa: E501


@pytest.fixture
def relay(tmp_path: Path) -> str:
    """A command that connects its standard input and output to the host and the port that it is given."""
    (tmp_path / "relay.py").write_text(RELAY)
    return f"{sys.executable} {tmp_path / 'relay.py'}"


def test_a_proxy_command(home: Home, server: Server, relay: str, tmp_path: Path) -> None:
    """Quotes and redirections are the shell's, much output on standard error does not block it."""
    noise = "head -c 300000 /dev/zero >&2"
    home.configure(block("xavier", server, f"ProxyCommand sh -c '{noise}; exec {relay} %h %p' 2>>/dev/stderr"))
    home.know(server)
    with SshBoard.connect(resolve(Given(host="xavier")), PATIENT) as board:
        (tmp_path / "source").write_bytes(bytes(range(256)) * 16384)
        board.put(tmp_path / "source", PurePosixPath(tmp_path / "there"))
        board.get(PurePosixPath(tmp_path / "there"), tmp_path / "back", 4 << 20)
        assert board.address.stated == f"{ME}@{LOOPBACK}:{server.port} via ProxyCommand"
        words = [*relay.split(), LOOPBACK, str(server.port)]
        assert len(running(*words)) == 1
    assert (tmp_path / "back").read_bytes() == (tmp_path / "source").read_bytes()
    await_none(*words)


def test_the_host_key_behind_a_proxy_command_is_verified(home: Home, server: Server, relay: str) -> None:
    home.configure(block("xavier", server, f"ProxyCommand {relay} %h %p"))
    error = refusal(PATIENT)
    assert f" is unknown: [{LOOPBACK}]:{server.port} is not in {home.known_hosts}; " in error.message
    assert error.hint == (
        f"if that is the board's fingerprint: ssh -o UserKnownHostsFile={home.known_hosts} -p {server.port} {ME}@xavier"
    )
    home.configure(block("xavier", server, "UserKnownHostsFile none"))
    assert refusal(PATIENT).hint.startswith("name a file by `known_hosts` in the board's profile")


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("echo first >&2; echo no route >&2; exit 7", "ended with exit status 7: no route"),
        ("exit 0", "ended with exit status 0: it wrote no error message"),
        ("exec no-such-program-here", "ended with exit status 127: "),
    ],
)
def test_a_proxy_command_that_fails(home: Home, server: Server, command: str, ending: str) -> None:
    """The limit of the connection is longer than that of a test."""
    home.configure(block("xavier", server, f"ProxyCommand sh -c '{command}'"))
    error = refusal(Limits(connect_s=1000))
    assert error.message.startswith(f"the ProxyCommand of xavier in the SSH configuration {ending}")


def test_a_proxy_command_that_hangs_is_ended(home: Home, server: Server) -> None:
    home.configure(block("xavier", server, "ProxyCommand sh -c 'sleep 62.25; sleep 62.25'"))
    error = refusal()
    assert error.message == (
        "the ProxyCommand of xavier in the SSH configuration brought no answer of an SSH server within 2 s"
    )
    await_none("sleep", "62.25")


def test_a_proxy_command_that_is_killed_cuts_the_session(home: Home, server: Server, relay: str) -> None:
    home.configure(block("xavier", server, f"ProxyCommand {relay} %h %p"))
    home.know(server)
    with SshBoard.connect(resolve(Given(host="xavier")), PATIENT) as board:
        [pid] = running(*relay.split(), LOOPBACK, str(server.port))
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ConnectionFailed, match="the connection was cut"):
            board.run(["true"], 20)


def test_a_jump_host_behind_a_proxy_command(chained: Home, server: Server, gates: list[Server], relay: str) -> None:
    outer = block("outer", gates[0], f"ProxyCommand {relay} %h %p")
    chained.configure(block("xavier", server, "ProxyJump outer") + outer)
    before = logins(gates[0])
    assert answer() == "in"
    assert logins(gates[0]) == before + 1


def test_a_silent_port(home: Home, server: Server) -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        home.configure(block("xavier", server))
        error = refusal(port=port)
    assert error.message == f"{LOOPBACK} port {port} accepts connections but does not answer as an SSH server"
