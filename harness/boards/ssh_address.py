"""SSH addresses, and how the SSH configuration completes the address of a profile.

paramiko's SSHConfig, the reader that fabric uses, parses and matches the configuration.  This module adds Include,
verified ProxyJump chains, and the refusal of lines that SSHConfig would misread.
"""

from __future__ import annotations

import getpass
import glob
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paramiko.config import SSHConfig, SSHConfigDict
from paramiko.ssh_exception import ConfigParseError, SSHException

from harness.boards import profile as profiles
from harness.core.errors import ConnectionFailed

USER_FILE, SYSTEM_FILE = Path("~/.ssh/config"), Path("/etc/ssh/ssh_config")
KNOWN_HOSTS = Path("~/.ssh/known_hosts")
GLOBAL_KNOWN_HOSTS = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
IN_PROFILE = "`host` in the board's profile"
IN_CONFIGURATION = "in the SSH configuration"
MOST_HOPS = 16  # also the depth of Include that OpenSSH allows
EXEC_S = 10.0
ALWAYS = (["host", "*"], ["match", "all"])
CRITERIA = ("all", "canonical", "exec", "final", "host", "localuser", "originalhost", "user")


@dataclass(frozen=True)
class Address:
    """SSH host, port, user and known_hosts of a board.

    Without `key`, the files `identities`, the keys of the user's SSH agent and, without `identities`, the default keys
    are tried; no password is ever asked for.  The connection to `host` leads through `jump`, which resolves the name,
    or through the standard input and output of `proxy_command`.
    `global_known_hosts` are files of the system with more host keys; `host_key_alias` replaces host and port in all
    files.
    `name` is the host as it was given, for which ~/.ssh/config may have a block; `source` states where `host` is from.
    """

    host: str
    user: str
    port: int = 22
    key: Path | None = None
    known_hosts: Path = KNOWN_HOSTS
    jump: Address | None = None
    more_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str = ""
    identities: tuple[Path, ...] = ()
    proxy_command: str = field(default="", repr=False)  # may contain a secret
    name: str = ""
    source: str = IN_PROFILE

    def __str__(self) -> str:
        return f"{self.user}@{in_brackets(self.host)}" + (f":{self.port}" if self.port != 22 else "")

    @property
    def known_hosts_files(self) -> tuple[Path, ...]:
        """Return all files that may have the host key, those of the user first."""
        return tuple(path.expanduser() for path in (self.known_hosts, *self.more_known_hosts, *self.global_known_hosts))

    @property
    def hops(self) -> tuple[Address, ...]:
        """Return the addresses of the jump hosts in turn and, last, this one."""
        return (*(self.jump.hops if self.jump else ()), self)

    @property
    def stated(self) -> str:
        """Return user@host:port and the hosts on the way, as the evidence of a run names the address."""
        via = f" via {self.jump.stated}" if self.jump else " via ProxyCommand" if self.proxy_command else ""
        return f"{self.user}@{in_brackets(self.host)}:{self.port}{via}"

    @property
    def place(self) -> str:
        """Return host:port and the hosts on the way, for lists of boards."""
        via = f" via {self.jump.place}" if self.jump else " via ProxyCommand" if self.proxy_command else ""
        return f"{in_brackets(self.host)}:{self.port}{via}"


def in_brackets(host: str) -> str:
    """Return a host as it is written before a colon and a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def resolve(given: profiles.Address) -> Address:
    """Return the address that `given` and the SSH configuration state; the values of `given` have precedence.

    ConnectionFailed if the configuration is malformed, its ProxyJump loops, or a command of `Match exec` hangs.
    """
    return _resolve(given, [*_file(USER_FILE.expanduser()), *_file(SYSTEM_FILE)], ())


def _resolve(
    given: profiles.Address,
    lines: Sequence[_Line],
    path: tuple[str, ...],
    through: Address | None = None,
    source: str = IN_PROFILE,
) -> Address:
    """Return the address of one host; `path` leads to it, and `through` replaces the ProxyJump of the configuration."""
    found = _lookup(given, lines)
    user, port = found.get("user") or getpass.getuser(), _port(given.host, found.get("port", "22"))
    path = (*path, f"{user}@{given.host}:{port}")
    if path[-1] in path[:-1] or len(path) > MOST_HOPS:
        raise ConnectionFailed(
            f"ProxyJump {IN_CONFIGURATION} loops: {' -> '.join(path[:MOST_HOPS])}",
            f"add `ProxyJump none` for {given.host} before the line that applies to it: ssh -G {given.host} shows it",
        )
    jump, command = through, ""
    way = next((key for key in found if key in {"proxyjump", "proxycommand"}), "")  # the first has precedence
    if given.jump:
        jump = _resolve(given.jump, lines, path)
    elif not through and way == "proxycommand":
        command = found[way] or ""  # None means `none`
    elif not through and way and found[way].lower() != "none":
        jump = _jump(given.host, found[way], lines, path)
    known_hosts = [given.known_hosts] if given.known_hosts else _words(given.host, "UserKnownHostsFile", found)
    first, *others = [_path(each) for each in known_hosts] or [KNOWN_HOSTS]
    of_system = [_path(each) for each in _words(given.host, "GlobalKnownHostsFile", found)] or GLOBAL_KNOWN_HOSTS
    identities = [] if given.key else [*found.get("identityfile", ())]
    return Address(
        host=found["hostname"],
        user=user,
        port=port,
        key=_path(given.key) if given.key else None,
        known_hosts=first,
        jump=jump,
        more_known_hosts=tuple(others),
        global_known_hosts=() if given.known_hosts else tuple(of_system),
        host_key_alias=found.get("hostkeyalias", ""),
        identities=tuple(_path(each) for each in identities if each.lower() != "none"),
        proxy_command=command,
        name=given.host,
        source=source if found["hostname"] == given.host else f"HostName of {given.host} {IN_CONFIGURATION}",
    )


def _path(text: str) -> Path:
    return Path(os.devnull if text.lower() == "none" else text).expanduser()


def _jump(name: str, hops: str, lines: Sequence[_Line], path: tuple[str, ...]) -> Address | None:
    """Return the last of the hosts of a ProxyJump, each reached through the one before it."""
    source = f"ProxyJump of {name} {IN_CONFIGURATION}"
    jump: Address | None = None
    for hop in hops.split(","):
        found = profiles.split_address(hop.strip().removeprefix("ssh://"))
        if found is None:
            raise ConnectionFailed(
                f"{source} is invalid: {hop!r}",
                "the form is [user@]host[:port], with commas between several hosts and IPv6 addresses in brackets",
            )
        jump = _resolve(profiles.Address(**found), lines, path, jump, source)
    return jump


def _lookup(given: profiles.Address, lines: Sequence[_Line]) -> SSHConfigDict:
    """Return the configuration of a host.  The values of `given` take precedence, like options of `ssh`."""
    config, place = _Config(), ""

    def texts() -> Iterator[str]:
        nonlocal place
        for line in lines:
            place = line.place
            yield line.text

    config.parse([f"User {given.user}"] * bool(given.user) + [f"Port {given.port}"] * bool(given.port))
    try:
        config.parse(texts())
    except (ConfigParseError, ValueError) as error:
        raise _malformed(place, error) from error
    try:
        return config.lookup(given.host)
    except (SSHException, KeyError, ValueError, OSError) as error:
        raise ConnectionFailed(
            f"cannot look {given.host} up {IN_CONFIGURATION}: {type(error).__name__}: {error}",
            f"compare with: ssh -G {shlex.quote(given.host)}",
        ) from error


def _malformed(place: str, error: Exception | str) -> ConnectionFailed:
    return ConnectionFailed(f"{place}: cannot use this line of the SSH configuration: {error}", "correct that line")


def _port(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ConnectionFailed(
            f"Port of {name} {IN_CONFIGURATION} is invalid: {text!r}", "a port is a number from 1 to 65535"
        )
    return int(text)


def _words(name: str, keyword: str, found: SSHConfigDict) -> list[str]:
    try:
        return shlex.split(found.get(keyword.lower(), ""))
    except ValueError as error:
        raise ConnectionFailed(
            f"{keyword} of {name} {IN_CONFIGURATION} is invalid: {error}", "close the quotation"
        ) from error


@dataclass(frozen=True)
class _Line:
    text: str
    place: str

    @property
    def keyword(self) -> str:
        return self._parts[0].lower()

    @property
    def value(self) -> str:
        return self._parts[1]

    @property
    def starts_block(self) -> bool:
        return self.keyword in {"host", "match"}

    @property
    def _parts(self) -> tuple[str, str]:
        match = SSHConfig.SETTINGS_REGEX.match(self.text.strip())
        return (match[1], match[2]) if match else ("", "")


def _file(path: Path) -> Iterator[_Line]:
    """Yield the lines of a file, whose first lines apply to every host."""
    yield _Line("Host *", str(path))
    yield from _lines(path, path.parent, "Host *", 0)


def _lines(path: Path, folder: Path, block: str, depth: int) -> Iterator[_Line]:
    """Yield the lines of a file, those of other files in place of each Include; `block` is the line above them.

    An Include names files relative to `folder`.  SSHConfig would ignore it.
    """
    for number, text in enumerate(_text(path, folder), start=1):
        line = _Line(text, f"{path}:{number}")
        block = text if line.starts_block else block
        if line.keyword != "include":
            yield line
            continue
        included = list(_included(line, folder, block, depth + 1))
        yield from included
        if any(each.starts_block for each in included):
            if block.lower().split() not in ALWAYS:
                raise ConnectionFailed(
                    f"{line.place}: cannot include a file with Host or Match lines inside `{block.strip()}`",
                    "move the Include to the start of the file",
                )
            yield _Line("Host *", line.place)  # ends the last block of the included file


def _included(line: _Line, folder: Path, block: str, depth: int) -> Iterator[_Line]:
    if depth > MOST_HOPS:
        raise _malformed(line.place, "Include is nested too deeply; does a file include itself?")
    try:
        patterns = shlex.split(line.value)
    except ValueError as error:
        raise _malformed(line.place, error) from error
    for pattern in patterns:
        for path in sorted(glob.glob(str(folder / Path(pattern).expanduser()))):  # noqa: PTH207 - it may be absolute
            yield from _lines(Path(path), folder, block, depth)


def _text(path: Path, folder: Path) -> list[str]:
    """Return the lines of a file, none if it is missing.

    ConnectionFailed if another user may write to a user's file, because its commands are run.
    """
    try:
        status = path.stat()
        if folder != SYSTEM_FILE.parent and (status.st_uid not in {0, os.getuid()} or status.st_mode & 0o022):
            raise ConnectionFailed(
                f"others may write to the SSH configuration {path}", f"chmod go-w {shlex.quote(str(path))}, and own it"
            )
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectionFailed(f"cannot read the SSH configuration {path}: {error}", "make it readable") from error


class _Config(SSHConfig):
    """Paramiko's reader, with the time limit of a command, and without criteria that it would ignore."""

    TOKENS = ("%C", "%d", "%h", "%L", "%n", "%p", "%r", "%u")  # without %l, for which SSHConfig asks the DNS
    TOKENS_BY_CONFIG_KEY = SSHConfig.TOKENS_BY_CONFIG_KEY | {
        "controlpath": [],
        "identityfile": [*TOKENS],
        "userknownhostsfile": [*TOKENS],
    }

    def _get_matches(self, match: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = super()._get_matches(  # type: ignore[misc]
            re.sub(r"(?i)\bfinal\s+all\b", "final", match)  # of Fedora; means the same
        )
        for each in found:
            each["type"] = each["type"].lower()
            if each["type"] not in CRITERIA:
                raise ConfigParseError(f"Match {each['type']} is not supported; supported are {', '.join(CRITERIA)}")
        return found

    def _does_match(
        self, matches: list[dict[str, Any]], name: str, canonical: bool, final: bool, options: SSHConfigDict
    ) -> bool:
        """Return whether all criteria are fulfilled.  SSHConfig's own exec has no time limit and reads the terminal."""
        others = [each for each in matches if each["type"] != "exec"]
        if others and not super()._does_match(others, name, canonical, final, options):  # type: ignore[misc]
            return False
        commands = [each for each in matches if each["type"] == "exec"]
        return bool(matches) and all(self._succeeds(each, name, options) for each in commands)

    def _succeeds(self, match: dict[str, Any], name: str, options: SSHConfigDict) -> bool:
        command: str = self._tokenize(options, name, "match-exec", match["param"])  # type: ignore[attr-defined]
        argv = ["sh", "-c", command]
        nothing = subprocess.DEVNULL
        try:
            status = subprocess.run(argv, check=False, stdin=nothing, stdout=nothing, timeout=EXEC_S).returncode
        except subprocess.TimeoutExpired as error:
            raise ConnectionFailed(
                f"a command of Match exec {IN_CONFIGURATION} did not end within {EXEC_S:g} s: {command}",
                "does it wait for a network or for input? correct it",
            ) from error
        return (status != 0) is bool(match["negate"])
