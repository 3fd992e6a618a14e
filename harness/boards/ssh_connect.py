"""Connections to boards through fabric; every failure carries a hint.

`StrictConnection` changes what fabric.Connection does: an unknown host key is refused instead of added, at every jump
host too; the address is resolved before (ssh_address.py); all waits are bounded.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import fabric
import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from harness.boards import known_hosts
from harness.boards.known_hosts import KnownHosts
from harness.boards.ssh_address import Address, in_brackets
from harness.core.errors import ConnectionFailed
from harness.core.safe_io import one_line

KEEPALIVE_S = 15
PROXY_END_S = 1.0
BROKEN_LINK = (paramiko.SSHException, EOFError, OSError)

# Without a handler of its own, Python prints the library's log on stderr; all its errors are raised here as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Limits:
    """Timeouts of a connection attempt, and of an answer of the board."""

    connect_s: float = 10.0
    silence_s: float = 30.0


def connect(address: Address, limits: Limits) -> StrictConnection:
    """Return an open connection to the board, through its jump hosts; raises ConnectionFailed."""
    connection = StrictConnection(address, limits)
    try:
        connection.open()
    except BaseException:
        connection.close()
        raise
    return connection


class StrictConnection(fabric.Connection):  # type: ignore[misc]  # fabric has no types
    """A connection to a host whose key is known, opened within limits and without reading any file of fabric."""

    address: Address
    _limits: Limits
    _link: socket.socket | paramiko.Channel | None
    _proxy: _ProxyCommand | None

    def __init__(self, address: Address, limits: Limits) -> None:
        limits = replace(limits, connect_s=max(limits.connect_s, address.connect_s))
        self._set(address=address, _limits=limits, _link=None, _proxy=None)
        gateway = StrictConnection(address.jump, limits) if address.jump else address.proxy_command or False
        config = fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig())  # neither fabric.yml nor ~/.ssh/config
        super().__init__(address.host, address.user, address.port, config, gateway, forward_agent=False)

    def derive_shorthand(self, host_string: str) -> dict[str, str | None]:
        """Return the host unchanged: user and port are known."""
        return {"host": host_string, "user": None, "port": None}

    def open(self) -> None:
        """Connect to the jump hosts in turn and to the host; raise ConnectionFailed."""
        if self.is_connected:
            return
        address, limits = self.address, self._limits
        key, known = _load_key(address), _read_known_hosts(address)
        self.client.set_missing_host_key_policy(_KnownKeys(address, known))
        agent = "" if key else address.agent
        self._set(_link=self._reach())
        self.connect_kwargs = {
            "sock": self._link,
            "pkey": key,
            "key_filename": _usable(address.identities),
            "allow_agent": bool(agent),
            "look_for_keys": key is None and address.has_default_identities,
            "timeout": 2 * limits.connect_s,  # for banner and handshake: a missing banner must be reported first
            "banner_timeout": limits.connect_s,
            "auth_timeout": limits.connect_s,
            "transport_factory": partial(_transport, {key.get_name() for key in known.keys.values()}),
        }
        with self._explained():
            _in_time(partial(self._open, agent), self.client, limits, agent)

    def _open(self, agent: str) -> None:
        if agent:
            self.client._agent = _Agent(self.address)  # noqa: SLF001 - paramiko's own asks SSH_AUTH_SOCK
        super().open()

    def open_gateway(self) -> socket.socket | paramiko.Channel | None:
        """Return the link that `open` has made; fabric asks for it if there is a gateway."""
        return self._link

    def close(self) -> None:
        """End the connections, the nearest first: a far one, closing, cannot then wait for a silent link."""
        if isinstance(self.gateway, StrictConnection):
            self.gateway.close()
        self.client.close()
        if self._link:
            self._link.close()
        if self._proxy:
            self._proxy.close()

    def _reach(self) -> socket.socket | paramiko.Channel:
        """Return a link to the SSH server of the host."""
        address, limits = self.address, self._limits
        if address.proxy_command:
            proxy = _ProxyCommand(address.proxy_command)
            self._set(_proxy=proxy)
            return proxy.link
        if address.jump is None:
            return _directly(address, limits)
        self.gateway.open()
        self.gateway.transport.channel_timeout = limits.connect_s
        try:
            channel: paramiko.Channel = super().open_gateway()
        except BROKEN_LINK as error:
            reason = getattr(error, "text", str(error)) or "the connection was cut"
            raise ConnectionFailed(
                f"the jump host {address.jump} cannot reach {address.host} port {address.port}: {reason}",
                f"try there: ssh-keyscan -p {address.port} {shlex.quote(address.host)}",
            ) from error
        return channel

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Convert paramiko's exceptions during the connection to ConnectionFailed."""
        address = self.address
        try:
            yield
        except BROKEN_LINK as error:
            transport = self.client.get_transport()
            after_handshake = transport is not None and transport.is_active() and transport.initial_kex_done
            is_refusal = isinstance(error, paramiko.AuthenticationException) or after_handshake
            if is_refusal and "Authentication timeout" not in str(error):
                raise _refused(address, error) from error
            raise self._proxy_failed(error) or _no_handshake(address, error) from error

    def _proxy_failed(self, error: Exception) -> ConnectionFailed | None:
        """Return the failure of the ProxyCommand, if there is one and it failed."""
        if self._proxy is None:
            return None
        name = f"the ProxyCommand of {self.address.name} in the SSH configuration"
        if ending := self._proxy.ending():
            return ConnectionFailed(f"{name} {ending}", "run that command by hand and correct it")
        if "banner" in str(error):
            limit_s = self._limits.connect_s
            return ConnectionFailed(
                f"{name} brought no answer of an SSH server within {limit_s:g} s",
                "run that command by hand: it must print a line that starts with SSH-2.0",
            )
        return None


class _ProxyCommand:
    """A running ProxyCommand; `link` is connected to its standard input and output.

    paramiko's own class runs without a shell, takes all time of a processor when its program has ended, and blocks
    when it writes much to standard error.
    """

    def __init__(self, command: str) -> None:
        self.link, program = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        with program:
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                stdin=program.fileno(),
                stdout=program.fileno(),
                stderr=self._errors,
                start_new_session=True,
            )

    def ending(self) -> str:
        """Return how the program has ended, with the last line that it has written; empty if it still runs."""
        try:
            status = self._process.wait(PROXY_END_S)
        except subprocess.TimeoutExpired:
            return ""
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return f"ended with exit status {status}: {one_line(last, 200) or 'it wrote no error message'}"

    def close(self) -> None:
        """Wait for the program, whose input has ended; kill it, and all that it has started, if it works on."""
        try:
            self._process.wait(PROXY_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()


class _Agent(AgentSSH):
    """The SSH agent of an address; it has no keys if no agent answers at its socket."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._public = _public_keys(address) if address.identities_only else None
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(address.agent)
            self._connect(link)  # type: ignore[attr-defined]  # paramiko's types lack it
        except (OSError, paramiko.SSHException):
            link.close()

    def get_keys(self) -> tuple[paramiko.AgentKey, ...]:
        """Return the keys that the address allows."""
        keys = super().get_keys()
        return keys if self._public is None else tuple(k for k in keys if b64encode(k.asbytes()) in self._public)

    def close(self) -> None:
        """End the connection."""
        self._close()  # type: ignore[attr-defined]


def _public_keys(address: Address) -> set[bytes]:
    """Return the words of the public key files beside the identities, among them their keys in base64."""
    identities = [*address.identities]
    if address.has_default_identities:
        identities += Path("~/.ssh").expanduser().glob("id_*")
    public: set[bytes] = set()
    for path in identities:
        with suppress(OSError):
            public.update(path.with_name(f"{path.name.removesuffix('.pub')}.pub").read_bytes().split())
    return public


def _usable(identities: Sequence[Path]) -> list[str]:
    """Return the files that exist, as OpenSSH does; ConnectionFailed if others may read a private key."""
    found = [path for path in identities if path.exists()]
    for path in found:
        if path.suffix != ".pub":
            _require_private(path)
    return [str(path) for path in found]


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


def _transport(known_types: set[str], link: socket.socket, **options: Any) -> paramiko.Transport:
    """Return a transport that asks for a host key of the known types first.

    It prefers AES-GCM, paramiko's fastest cipher by far and yet the last of its list.
    """
    transport = paramiko.Transport(link, **options)
    security = transport.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda name: "gcm" not in name)
    security.key_types = sorted(
        security.key_types, key=lambda name: re.sub("^rsa-sha2-.*", "ssh-rsa", name) not in known_types
    )
    transport.set_keepalive(KEEPALIVE_S)
    return transport


def _directly(address: Address, limits: Limits) -> socket.socket:
    try:
        link = socket.create_connection((address.host, address.port), limits.connect_s)
    except socket.gaierror as error:
        raise ConnectionFailed(
            f"the name {address.host} is unknown here: {error.strerror}",
            f"correct {address.source}, or add a block `Host {address.host}` to ~/.ssh/config",
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
        f"is the board on, on this network, and its SSH server running? are {address.source} and the port right?",
    )


def _require_private(path: Path) -> None:
    status = path.stat()
    if status.st_uid == os.getuid() and status.st_mode & 0o077:
        raise ConnectionFailed(f"others may read the private key {path}", f"chmod 600 {shlex.quote(str(path))}")


def _load_key(address: Address) -> paramiko.PKey | None:
    if address.key is None:
        return None
    path = address.key.expanduser()
    try:
        _require_private(path)
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
            f"{path} is not a private key: {error}",
            "`key` names an OpenSSH or PEM private key, not the .pub next to it",
        ) from error


def _read_known_hosts(address: Address) -> KnownHosts:
    found = KnownHosts({}, {})
    for path in address.known_hosts_files:
        try:
            found = found.merged(known_hosts.read(path, _known_name(address)))
        except (OSError, ValueError) as error:
            raise ConnectionFailed(
                f"cannot use the known hosts in {path}: {error}",
                "`known_hosts` in the board's profile may name another file, for the lab's boards only",
            ) from error
    return found


def _known_name(address: Address) -> str:
    """Return the name of the host in known hosts files."""
    host = address.host if address.port == 22 else f"[{address.host}]:{address.port}"
    return address.host_key_alias or host


class _KnownKeys(paramiko.MissingHostKeyPolicy):
    """Accept the known keys of a host.  paramiko, which is told none, asks about every key that a host shows."""

    def __init__(self, address: Address, known: KnownHosts) -> None:
        self._address, self._known = address, known

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002 - paramiko's signature
        address, known = self._address, self._known
        _refuse_revoked(address, known, key)
        if key.asbytes() in known.keys:
            return
        if known.keys:
            raise _wrong_host_key(address, known, key)
        name, files = _known_name(address), _files(address)
        reason = f"all keys of {name} in {files} are revoked" if known.has_revoked_keys else f"{name} is not in {files}"
        unknown = f"the host key of {address.host} is unknown: {reason}; it shows {key.get_name()} {key.fingerprint}"
        if known.authorities:
            unknown += (
                f"; line {known.authorities[0]} trusts a certificate authority for it (@cert-authority), "
                "and harness does not check host certificates"
            )
        if address.known_hosts == Path(os.devnull):
            raise ConnectionFailed(unknown, "name a file by `known_hosts` in the board's profile: no file is used now")
        raise ConnectionFailed(unknown, f"if that is the board's fingerprint: {_learn(address)}")


def _refuse_revoked(address: Address, known: KnownHosts, key: paramiko.PKey) -> None:
    place = known.revoked.get(key.asbytes())
    reason = f"{place} marks as {known_hosts.REVOKED}" if place else ""
    for path in address.revoked_keys:
        try:
            if known_hosts.is_revoked(key, path):
                reason = f"{path} of RevokedHostKeys revokes"
        except OSError as error:
            raise ConnectionFailed(
                f"cannot read the revoked host keys in {path}: {error.strerror}",
                f"correct RevokedHostKeys of {address.name} in the SSH configuration",
            ) from error
    if reason:
        raise ConnectionFailed(
            f"the host key of {address.host} was revoked: it shows {key.get_name()} {key.fingerprint}, which {reason}",
            "this key was revoked: do not connect, as another machine may have it; ask the administrator of the board "
            "for its new host key",
        )


def _files(address: Address) -> str:
    """Return the files that should have the host key: the first, to which it is added, and others that exist."""
    first, *others = address.known_hosts_files
    return ", ".join([str(first), *(str(path) for path in others if path.exists())])


def _login(address: Address) -> str:
    """Return the words after `ssh` that lead to the host."""
    jumps = ",".join(f"{hop.user}@{in_brackets(hop.name or hop.host)}:{hop.port}" for hop in address.hops[:-1])
    words = [*(["-o", f"ProxyJump={jumps}"] if jumps else ()), "-p", str(address.port)]
    return shlex.join([*words, f"{address.user}@{address.name or address.host}"])


def _learn(address: Address) -> str:
    """Return the command that adds the host's keys to the known hosts, from where the host can be seen."""
    file = shlex.quote(str(address.known_hosts_files[0]))
    if address.proxy_command or address.host_key_alias:
        return f"ssh -o UserKnownHostsFile={file} {_login(address)}"
    scan = f"ssh-keyscan -p {address.port} {shlex.quote(address.host)}"
    return f"{f'ssh {_login(address.jump)} ' if address.jump else ''}{scan} >> {file}"


def _forget(address: Address) -> str:
    name = shlex.quote(_known_name(address))
    files = [shlex.quote(str(path)) for path in address.known_hosts_files if path.exists()]
    return " && ".join(f"ssh-keygen -R {name} -f {file}" for file in files)


def _wrong_host_key(address: Address, known: KnownHosts, key: paramiko.PKey) -> ConnectionFailed:
    fingerprints = " or ".join(trusted.fingerprint for trusted in known.keys.values())
    return ConnectionFailed(
        f"{address.host} is not the host that {_files(address)} knows: it shows "
        f"{key.get_name()} {key.fingerprint} instead of {fingerprints}",
        f"another machine may pose as the board; if the board was reinstalled: {_forget(address)} && {_learn(address)}",
    )


def _refused(address: Address, error: Exception) -> ConnectionFailed:
    if address.identities:
        files = ", ".join(f"{path}{'' if path.exists() else ' (no such file)'}" for path in address.identities)
        return ConnectionFailed(
            f"{address} rejects all keys in {files} and in the agent: {error}",
            f"correct IdentityFile of {address.name} in the SSH configuration, or load the key with ssh-add",
        )
    if address.key is None:
        return ConnectionFailed(
            f"{address} rejects all keys in the agent{' and in ~/.ssh' * address.has_default_identities}: {error}",
            "name the private key by `key` in the board's profile, or load it with ssh-add",
        )
    public = shlex.quote(f"{address.key}.pub")
    return ConnectionFailed(
        f"{address} refuses the key {address.key}: {error}",
        f"check `user`, or authorise the key: ssh-copy-id -i {public} {_login(address)}",
    )


def _no_handshake(address: Address, error: Exception) -> ConnectionFailed:
    if "Authentication timeout" in str(error):
        return ConnectionFailed(
            f"{address} neither accepts nor rejects the key in time",
            f"is the board overloaded? compare with: ssh -v {_login(address)} true",
        )
    if "banner" in str(error):
        return ConnectionFailed(
            f"{address.host} port {address.port} accepts connections but does not answer as an SSH server",
            "check that the board has booted and that this is the SSH server's port",
        )
    reasons = {"": "the connection was cut", "No existing session": "the handshake did not finish in time"}
    return ConnectionFailed(
        f"no SSH session with {address}: {reasons.get(str(error), str(error))}",
        f"compare with: ssh -v {_login(address)} true",
    )
