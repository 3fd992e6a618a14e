"""The way to a board: addresses, and SSH connections whose every failure says what to do.

paramiko is used without fabric: fabric's `Connection` trusts unknown host keys, its `run` gives text instead of
bytes and does not stop the program on a timeout, and its jump hosts are one call of paramiko (`_through`).
"""

from __future__ import annotations

import logging
import os
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.hostkeys import InvalidHostKey
from paramiko.pkey import UnknownKeyType

from harness.boards import known_hosts
from harness.boards.known_hosts import KnownHosts
from harness.core.errors import ConnectionFailed

KEEPALIVE_S = 15

# Without a handler of its own, Python prints the library's log on stderr; all its errors are raised here as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Address:
    """SSH host, port, user and known_hosts of a board.

    Without `key`, the user's SSH agent and default keys are tried; no password is ever asked for.  With
    `jump`, the way to `host` leads through that host, which resolves the name.
    """

    host: str
    user: str
    port: int = 22
    key: Path | None = None
    known_hosts: Path = Path("~/.ssh/known_hosts")
    jump: Address | None = None

    def __str__(self) -> str:
        return f"{self.user}@{self.host}" + (f":{self.port}" if self.port != 22 else "")

    @property
    def stated(self) -> str:
        """Return user@host:port and the hosts on the way, as the evidence of a run names the address."""
        via = f" via {self.jump.stated}" if self.jump else ""
        return f"{self.user}@{self.host}:{self.port}{via}"


@dataclass(frozen=True)
class Limits:
    """Timeouts of a connection attempt, and of an answer of the board."""

    connect_s: float = 10.0
    silence_s: float = 30.0


def dial(address: Address, limits: Limits) -> list[paramiko.SSHClient]:
    """Return connections to each jump host in turn and, last, to the board; raises ConnectionFailed."""
    clients: list[paramiko.SSHClient] = []
    try:
        for hop in _hops(address):
            clients.append(_connect(hop, clients[-1] if clients else None, limits))
    except BaseException:
        hang_up(clients)
        raise
    return clients


def hang_up(clients: list[paramiko.SSHClient]) -> None:
    """Close connections, the nearest first: a far one, closing, cannot then wait for a silent link."""
    for client in clients:
        client.close()


def transport_of(client: paramiko.SSHClient) -> paramiko.Transport:
    """Return the transport of a connected client."""
    transport = client.get_transport()
    if transport is None:
        raise ValueError("the connection is closed")
    return transport


def _hops(address: Address) -> list[Address]:
    return [*(_hops(address.jump) if address.jump else []), address]


def _connect(address: Address, jump: paramiko.SSHClient | None, limits: Limits) -> paramiko.SSHClient:
    key = _load_key(address)
    client = paramiko.SSHClient()
    known = _read_known_hosts(address)
    for kind, trusted in known.keys.items():
        client.get_host_keys().add(_known_name(address), kind, trusted)
    client.set_missing_host_key_policy(_Refuse(address, known))
    link = _through(jump, address, limits) if jump else _directly(address, limits)

    def connect() -> None:
        client.connect(
            address.host,
            address.port,
            address.user,
            sock=link,
            pkey=key,
            allow_agent=key is None,
            look_for_keys=key is None,
            timeout=2 * limits.connect_s,  # for banner and handshake: a missing banner is to be told first
            banner_timeout=limits.connect_s,
            auth_timeout=limits.connect_s,
            transport_factory=_transport,  # type: ignore[arg-type]  # the stubs have options that paramiko dropped
        )

    try:
        with _explained(address, known):
            _in_time(connect, client, limits, "" if key else os.environ.get("SSH_AUTH_SOCK", ""))
    except BaseException:
        client.close()
        link.close()
        raise
    return client


def _in_time(connect: Callable[[], None], client: paramiko.SSHClient, limits: Limits, agent: str) -> None:
    """Close a connection that is not there in time: paramiko's time-outs follow the time of day, which may be set.

    It has none for the SSH `agent` (empty: none is asked), which may hang, or wait for input elsewhere.
    """
    done: Future[None] = Future()

    def work() -> None:
        try:
            connect()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - the thread that waits for the result raises it
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    if wait([done], 4 * limits.connect_s).not_done:
        client.close()
        if agent and wait([done], limits.connect_s).not_done:
            raise ConnectionFailed(
                f"the SSH agent at {agent} does not answer",
                "compare with: ssh-add -l; name the private key by `key` in the board's profile, or end that agent",
            )
    done.result()


def _transport(link: socket.socket, **options: Any) -> paramiko.Transport:
    """Return a transport that prefers AES-GCM, paramiko's fastest cipher by far and yet the last of its list."""
    transport = paramiko.Transport(link, **options)
    security = transport.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda name: "gcm" not in name)
    transport.set_keepalive(KEEPALIVE_S)
    return transport


def _directly(address: Address, limits: Limits) -> socket.socket:
    try:
        link = socket.create_connection((address.host, address.port), limits.connect_s)
    except socket.gaierror as error:
        raise ConnectionFailed(
            f"the name {address.host} is unknown here: {error.strerror}", "correct `host` in the board's profile"
        ) from error
    except TimeoutError as error:
        raise _unreachable(address, f"no answer within {limits.connect_s:g} s") from error
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from error
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _unreachable(address: Address, reason: str) -> ConnectionFailed:
    return ConnectionFailed(
        f"cannot reach {address.host} port {address.port}: {reason}",
        "is the board on, on this network, and its SSH server running? are `host` and `port` of its profile right?",
    )


def _through(jump: paramiko.SSHClient, address: Address, limits: Limits) -> paramiko.Channel:
    try:
        return transport_of(jump).open_channel(
            "direct-tcpip", (address.host, address.port), ("127.0.0.1", 0), timeout=limits.connect_s
        )
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = error.text if isinstance(error, paramiko.ChannelException) else str(error) or "the connection was cut"
        raise ConnectionFailed(
            f"the jump host {address.jump} cannot reach {address.host} port {address.port}: {reason}",
            f"try there: ssh-keyscan -p {address.port} {shlex.quote(address.host)}",
        ) from error


def _load_key(address: Address) -> paramiko.PKey | None:
    if address.key is None:
        return None
    path = address.key.expanduser()
    try:
        status = path.stat()
        if status.st_uid == os.getuid() and status.st_mode & 0o077:
            raise ConnectionFailed(f"others may read the private key {path}", f"chmod 600 {shlex.quote(str(path))}")
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise ConnectionFailed(
            f"cannot read the private key {path}: {error.strerror}", "correct `key` in the board's profile"
        ) from error
    except (TypeError, paramiko.PasswordRequiredException) as error:
        raise ConnectionFailed(
            f"the private key {path} needs a passphrase",
            f"ssh-add {shlex.quote(str(path))}, and leave `key` out of the board's profile",
        ) from error
    except (ValueError, paramiko.SSHException, UnsupportedAlgorithm, UnknownKeyType) as error:
        raise ConnectionFailed(
            f"{path} is not a private key: {error}", "`key` names an OpenSSH or PEM private key, not the .pub beside it"
        ) from error


def _read_known_hosts(address: Address) -> KnownHosts:
    path = address.known_hosts.expanduser()
    try:
        return known_hosts.read(path, _known_name(address))
    except (OSError, ValueError, InvalidHostKey) as error:
        raise ConnectionFailed(
            f"cannot use the known hosts in {path}: {error}",
            "`known_hosts` in the board's profile may name another file, for the lab's boards only",
        ) from error


def _known_name(address: Address) -> str:
    """Return the name of the host in known hosts files."""
    return address.host if address.port == 22 else f"[{address.host}]:{address.port}"


class _Refuse(paramiko.MissingHostKeyPolicy):
    def __init__(self, address: Address, known: KnownHosts) -> None:
        self._address, self._known = address, known

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002 - paramiko's signature
        _refuse_revoked(self._address, self._known, key)
        path = self._address.known_hosts.expanduser()
        unknown = (
            f"the host key of {self._address.host} is unknown: {hostname} is not in {path}; "
            f"it shows {key.get_name()} {key.fingerprint}"
        )
        if self._known.authorities:
            unknown += (
                f"; line {self._known.authorities[0]} trusts a certificate authority for it (@cert-authority), "
                "and harness does not check host certificates"
            )
        raise ConnectionFailed(unknown, f"if that is the board's fingerprint: {_learn(self._address)}")


def _refuse_revoked(address: Address, known: KnownHosts, key: paramiko.PKey) -> None:
    line = known.revoked.get(key.asbytes())
    if line is not None:
        raise ConnectionFailed(
            f"the host key of {address.host} was revoked: it shows {key.get_name()} {key.fingerprint}, which "
            f"{address.known_hosts.expanduser()}:{line} marks as {known_hosts.REVOKED}",
            "this key was revoked: do not connect, as another machine may have it; ask the administrator of the board "
            "for its new host key",
        )


def _learn(address: Address) -> str:
    """Return the command that adds the host's keys to the known hosts, from where the host can be seen."""
    scan = f"ssh-keyscan -p {address.port} {shlex.quote(address.host)}"
    if address.jump:
        scan = f"ssh -p {address.jump.port} {address.jump.user}@{address.jump.host} {scan}"
    return f"{scan} >> {shlex.quote(str(address.known_hosts.expanduser()))}"


def _forget(address: Address) -> str:
    return f"ssh-keygen -R {shlex.quote(_known_name(address))} -f {shlex.quote(str(address.known_hosts.expanduser()))}"


@contextmanager
def _explained(address: Address, known: KnownHosts) -> Iterator[None]:
    """Turn what paramiko raises while it connects into ConnectionFailed."""
    try:
        yield
    except paramiko.BadHostKeyException as error:
        _refuse_revoked(address, known, error.key)
        raise _wrong_host_key(address, error) from error
    except paramiko.AuthenticationException as error:
        silent = "Authentication timeout" in str(error)
        raise (_no_handshake if silent else _refused)(address, error) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise _no_handshake(address, error) from error


def _wrong_host_key(address: Address, error: paramiko.BadHostKeyException) -> ConnectionFailed:
    return ConnectionFailed(
        f"{address.host} is not the host that {address.known_hosts.expanduser()} knows: it shows "
        f"{error.key.get_name()} {error.key.fingerprint} instead of {error.expected_key.fingerprint}",
        f"another machine may stand in for the board; if the board was installed anew: "
        f"{_forget(address)} && {_learn(address)}",
    )


def _refused(address: Address, error: Exception) -> ConnectionFailed:
    if address.key is None:
        return ConnectionFailed(
            f"{address} accepts none of the keys in the agent and in ~/.ssh: {error}",
            "name the private key by `key` in the board's profile, or load it with ssh-add",
        )
    public = shlex.quote(f"{address.key}.pub")
    return ConnectionFailed(
        f"{address} refuses the key {address.key}: {error}",
        f"is `user` right? let the key in: ssh-copy-id -i {public} -p {address.port} {address.user}@{address.host}",
    )


def _no_handshake(address: Address, error: Exception) -> ConnectionFailed:
    if "No authentication methods available" in str(error):
        return _refused(address, error)
    if "Authentication timeout" in str(error):
        return ConnectionFailed(
            f"{address} says neither yes nor no to the key within the time that it has",
            f"is the board overloaded? compare with: ssh -v -p {address.port} {address.user}@{address.host} true",
        )
    if "banner" in str(error):
        return ConnectionFailed(
            f"{address.host} port {address.port} accepts connections but does not answer as an SSH server",
            "is the board still booting or hung? is it the SSH server's port?",
        )
    reasons = {"": "the connection was cut", "No existing session": "the handshake did not come to its end in time"}
    return ConnectionFailed(
        f"no SSH session with {address}: {reasons.get(str(error), str(error))}",
        f"compare with: ssh -v -p {address.port} {address.user}@{address.host} true",
    )
