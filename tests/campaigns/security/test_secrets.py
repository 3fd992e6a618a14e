"""What must not leave this machine, or stay where others look: planted, and searched for in every byte."""

from __future__ import annotations

import getpass
import shlex
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import paramiko
import pytest

from harness.boards.ssh import Address, Limits, SshBoard
from harness.core.errors import ConnectionFailed, HarnessError
from tests.integration.boards.conftest import server
from tests.support import builders
from tests.support.boards import sshd
from tests.support.cli.command import User

SECRET = "corr3ct-h0rse-battery-staple"  # noqa: S105 - planted
WEIRD = "wo'rk $(touch pwned) `touch pwned`; touch pwned | touch pwned & "


__all__ = ["server"]  # a fixture


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, server: sshd.Server) -> User:
    """Somebody with secrets, and a board behind SSH whose every text has what a shell would take for an order."""
    tmp_path = tmp_path_factory.mktemp("user")
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id_rsa").write_text(SECRET)
    (tmp_path / "home" / ".ssh" / "config").write_text(f"# {SECRET}\n")
    (tmp_path / "home" / ".netrc").write_text(f"password {SECRET}\n")
    address = f"{{host: {sshd.LOOPBACK}, port: {server.port}, user: {getpass.getuser()}, "
    address += f"key: {server.folder}/user_key, known_hosts: {server.folder}/known_hosts}}"
    entry = f"""
lab:
  soc: "{WEIRD}"
  cores: 2
  address: {address}
  toolchain: {{compiler: gcc, flags: [-O1]}}
  items: {{all: {{target: c, operators: [QuantizeLinear, QGemm, Add, DequantizeLinear, ArgMax, ArgMin]}}}}
  work_folder: "{tmp_path}/{WEIRD}"
  setup: [env, "true '$(touch pwned); touch pwned'", "echo '{WEIRD.replace("'", "")}'"]
  teardown: ["true '| touch pwned'"]
"""
    user = User(tmp_path, tmp_path / "cache")
    return user.with_local(entry)


@pytest.fixture(scope="module")
def model(user: User) -> Path:
    path = user.folder / f"{WEIRD.replace('/', '')}.onnx"
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), path)
    return path


def run(user: User, model: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    (user.folder / "here").mkdir(exist_ok=True)
    monkeypatch.chdir(user.folder / "here")
    environment = {"HOME": str(user.folder / "home"), "AWS_SECRET_ACCESS_KEY": SECRET}
    ended = user.harness("run", "--board", "lab", "--model", str(model), "--vectors", "20", "--json", **environment)
    return ended.code, ended.out + ended.err


def everything(folder: Path, *but: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(other) for other in but):
            yield path, path.read_bytes()


def private_words(server: sshd.Server) -> list[bytes]:
    """The lines of the private key, but for those that say that it is one."""
    return [line for line in (server.folder / "user_key").read_bytes().splitlines() if not line.startswith(b"-")]


def test_no_secret_stays_behind_and_no_word_of_a_profile_or_name_reaches_a_shell(
    user: User, model: Path, server: sshd.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = run(user, model, monkeypatch)
    assert code == 0, said
    written = list(everything(user.folder, user.folder / "home"))
    assert len(written) > 60, "run folder and bundle"
    assert [path for path, _ in written if path.suffix == ".tar"], "the bundle in the board's work folder"
    for words in (SECRET.encode(), *private_words(server)):
        assert words.decode() not in said
        assert [str(path) for path, content in written if words in content] == []
    assert [path for path in user.folder.rglob("*") if path.name == "pwned"] == []
    assert not (Path.home() / "pwned").exists()
    assert any(b"USER=" in content or b"SHELL=" in content for path, content in written if path.name == "run.json"), (
        "the board's own environment, which `setup` asked for"
    )


def test_no_secret_is_told_by_a_failure(
    user: User, model: Path, server: sshd.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a board that does not know the user's key."""
    key = sshd.make_key(user.folder / "home" / "other")
    local = user.folder / "boards.local.yaml"
    local.write_text(local.read_text().replace(f"{server.folder}/user_key", str(key)))
    code, said = run(user, model, monkeypatch)
    assert code == 3
    assert "refuses the key" in said
    secrets = (SECRET.encode(), *(line for line in key.read_bytes().splitlines() if not line.startswith(b"-")))
    for words in secrets:
        assert words.decode() not in said
        assert not [path for path, content in everything(user.folder, user.folder / "home") if words in content]


@dataclass
class Recorder(paramiko.ServerInterface):
    """An SSH server that offers every way in, and notes what is asked of it."""

    lets_in: bool
    asked: list[str] = field(default_factory=list)

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - paramiko's signature
        return "publickey,password,keyboard-interactive"

    def _note(self, what: str, answer: int) -> int:
        self.asked.append(what)
        return answer

    def check_auth_none(self, username: str) -> int:  # noqa: ARG002
        return self._note("none", paramiko.AUTH_FAILED)

    def check_auth_password(self, username: str, password: str) -> int:  # noqa: ARG002
        return self._note("password", paramiko.AUTH_FAILED)

    def check_auth_interactive(self, username: str, submethods: str) -> int:  # noqa: ARG002
        return self._note("keyboard-interactive", paramiko.AUTH_FAILED)

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        return self._note("publickey", paramiko.AUTH_SUCCESSFUL if self.lets_in else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return self._note(f"channel {kind}", paramiko.OPEN_SUCCEEDED)

    def check_channel_forward_agent_request(self, channel: paramiko.Channel) -> bool:  # noqa: ARG002
        return bool(self._note("agent", 0))

    def check_channel_env_request(self, channel: paramiko.Channel, name: bytes, value: bytes) -> bool:  # noqa: ARG002
        return bool(self._note(f"env {name!r}", 0))

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:  # noqa: ARG002
        threading.Thread(target=channel.close).start()
        return bool(self._note("exec", 1))


@contextmanager
def recording(folder: Path, *, lets_in: bool) -> Iterator[tuple[Address, Recorder]]:
    """Such a server, and the address of it as a user has it, with the agent's and the default keys."""
    sshd.make_key(folder / "host_key")
    recorder = Recorder(lets_in)
    with socket.create_server((sshd.LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        known = sshd.know(folder / "known_hosts", port, folder / "host_key.pub")

        def serve() -> None:
            with suppress(OSError, paramiko.SSHException, EOFError):
                transport = paramiko.Transport(listener.accept()[0])
                transport.add_server_key(paramiko.PKey.from_path(folder / "host_key"))
                transport.start_server(server=recorder)

        threading.Thread(target=serve, daemon=True).start()
        yield Address(sshd.LOOPBACK, "user", port, sshd.make_key(folder / "key"), known), recorder


@pytest.mark.parametrize("lets_in", [False, True])
def test_no_password_no_agent_and_no_variable_is_offered_to_a_server_that_would_take_them(
    tmp_path: Path, *, lets_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_ASKPASS", shlex.join(["touch", str(tmp_path / "asked")]))
    with recording(tmp_path, lets_in=lets_in) as (address, recorder):
        with pytest.raises(HarnessError):
            SshBoard.connect(address, Limits(connect_s=5, silence_s=5)).close()
        expected = {"publickey", "channel session", "exec"} if lets_in else {"publickey"}
        assert set(recorder.asked) - {"none"} == expected
    assert not (tmp_path / "asked").exists()


def test_a_changed_host_key_is_refused_before_any_key_is_offered(tmp_path: Path) -> None:
    with recording(tmp_path, lets_in=True) as (address, recorder):
        other = sshd.make_key(tmp_path / "other")
        sshd.know(address.known_hosts, address.port, Path(f"{other}.pub"))
        with pytest.raises(ConnectionFailed, match="is not the host that"):
            SshBoard.connect(address, Limits(connect_s=5, silence_s=5)).close()
        assert recorder.asked == []
