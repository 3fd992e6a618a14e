"""SSH addresses, and how the SSH configuration completes the address of a profile.

OpenSSH's own client reads the configuration (ssh_config.py).  This module expands what `ssh -G` prints unexpanded, and
follows ProxyJump, so that the host key of each jump host is verified.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.boards import profile as profiles
from harness.boards import ssh_config
from harness.boards.ssh_config import Options
from harness.core.debian_packages import install_command
from harness.core.errors import ConnectionFailed

KNOWN_HOSTS = Path("~/.ssh/known_hosts")
IN_PROFILE = "`host` in the board's profile"
IN_CONFIGURATION = "in the SSH configuration"
MOST_HOPS = 16
WITHOUT_SSH = {"globalknownhostsfile": ("/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",)}
DEFAULT_IDENTITIES = {
    f"~/.ssh/id_{kind}" for kind in ("rsa", "dsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss")
}
HOP = re.compile(r"(?:ssh://)?(?:(?P<user>.+)@)?(?P<host>\[[^]]+\]|[^][:@/]+)(?::(?P<port>[0-9]{1,5}))?/?")
PROXY_TOKEN = re.compile("%.?")
FILE_TOKEN = re.compile(r"%.?|\$\{[^}]*\}")


@dataclass(frozen=True)
class Address:
    """SSH host, port, user and known_hosts of a board.

    Without `key`, the files `identities`, the keys of the SSH agent at the socket `agent` (empty: none) and, with
    `has_default_identities`, the default keys are tried; `identities_only` excludes other keys of the agent.  No
    password is ever asked for.
    The connection to `host` leads through `jump`, which resolves the name, or through the standard input and output of
    `proxy_command`.  An attempt to connect may last `connect_s`.
    `more_known_hosts` are more files with host keys, of the user and of the system; `host_key_alias` replaces host and
    port in all files.  `revoked_keys` are files of RevokedHostKeys.
    `name` is the host as it was given, for which ~/.ssh/config may have a block; `source` states where `host` is from.
    """

    host: str
    user: str
    port: int = 22
    key: Path | None = None
    known_hosts: Path = KNOWN_HOSTS
    jump: Address | None = None
    more_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str = ""
    revoked_keys: tuple[Path, ...] = ()
    identities: tuple[Path, ...] = ()
    has_default_identities: bool = True
    identities_only: bool = False
    agent: str = field(default_factory=lambda: os.environ.get("SSH_AUTH_SOCK", ""))
    proxy_command: str = field(default="", repr=False)  # may contain a secret
    connect_s: float = 0.0
    name: str = ""
    source: str = IN_PROFILE

    def __str__(self) -> str:
        return f"{self.user}@{in_brackets(self.host)}" + (f":{self.port}" if self.port != 22 else "")

    @property
    def known_hosts_files(self) -> tuple[Path, ...]:
        """Return all files that may have the host key, those of the user first."""
        return tuple(path.expanduser() for path in (self.known_hosts, *self.more_known_hosts))

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

    ConnectionFailed if OpenSSH refuses the configuration, its ProxyJump loops, or a command of `Match exec` hangs; and
    if OpenSSH is not installed, unless `given` states the user.
    """
    return _resolve(given, ())


def _resolve(
    given: profiles.Address, path: tuple[str, ...], through: Address | None = None, source: str = IN_PROFILE
) -> Address:
    """Return the address of one host; `path` leads to it, and `through` replaces the ProxyJump of the configuration."""
    options = _options(given)
    host, user, port = (options[keyword][0] for keyword in ("hostname", "user", "port"))
    path = (*path, f"{user}@{given.host}:{port}")
    if path[-1] in path[:-1] or len(path) > MOST_HOPS:
        raise ConnectionFailed(
            f"ProxyJump {IN_CONFIGURATION} loops: {' -> '.join(path[:MOST_HOPS])}",
            f"add `ProxyJump none` for {given.host} before the line that applies to it: ssh -G {given.host} shows it",
        )
    alias = options.get("hostkeyalias", ("",))[0]
    identities = options.get("identityfile", tuple(DEFAULT_IDENTITIES))
    has_default_identities = len(identities) > 3 and DEFAULT_IDENTITIES.issuperset(identities)
    if given.key or has_default_identities:
        identities = ()
    tokens = {"%%": "%", "%h": host, "%n": given.host, "%p": port, "%r": user}
    jump, command = _proxy(given, options, tokens, path, through)
    known_hosts = _known_hosts(given, options)
    connect_s = options.get("connecttimeout", ("none",))[0]
    return Address(
        host=host,
        user=user,
        port=int(port),
        key=_path(given.key) if given.key else None,
        known_hosts=known_hosts[0],
        jump=jump,
        more_known_hosts=tuple(known_hosts[1:]),
        host_key_alias=alias,
        revoked_keys=tuple(_files(options, "revokedhostkeys")),
        identities=_identities(identities, tokens | {"%k": alias or given.host}, given.host),
        has_default_identities=has_default_identities,
        identities_only=options.get("identitiesonly") == ("yes",),
        agent=_agent(options.get("identityagent", ("SSH_AUTH_SOCK",))[0]),
        proxy_command=command,
        connect_s=float(connect_s) if connect_s.isdecimal() else 0.0,
        name=given.host,
        source=source if host == given.host.lower() else f"HostName of {given.host} {IN_CONFIGURATION}",
    )


def _proxy(
    given: profiles.Address,
    options: Options,
    tokens: Mapping[str, str],
    path: tuple[str, ...],
    through: Address | None,
) -> tuple[Address | None, str]:
    """Return the host to jump through, or the command that connects; None and an empty text for a direct connection."""
    if given.jump:
        return _resolve(given.jump, path), ""
    if through:
        return through, ""
    if "proxyjump" in options:
        return _jump(given.host, _expand(PROXY_TOKEN, options["proxyjump"][0], tokens, given.host), path), ""
    if "proxycommand" in options:
        return None, _expand(PROXY_TOKEN, options["proxycommand"][0], tokens, given.host)
    return None, ""


def _known_hosts(given: profiles.Address, options: Options) -> list[Path]:
    """Return the files of host keys: that of the profile alone, else those of the configuration."""
    if given.known_hosts:
        return [_path(given.known_hosts)]
    own = list(_files(options, "userknownhostsfile")) or [Path(os.devnull)]
    return [*own, *_files(options, "globalknownhostsfile")]


def _options(given: profiles.Address) -> Options:
    if ssh_config.is_installed():
        return ssh_config.options(given.host, given.user, given.port)
    if given.user is None:
        raise ConnectionFailed(
            f"cannot look up {given.host}: {ssh_config.NOT_INSTALLED}",
            f"run: {install_command('ssh')}; or give the whole address as user@host or user@host:port",
        )
    plain = {"hostname": given.host, "user": given.user, "port": str(given.port or 22)}
    return WITHOUT_SSH | {keyword: (value,) for keyword, value in plain.items()}


def _jump(name: str, hops: str, path: tuple[str, ...]) -> Address | None:
    """Return the last of the hosts of a ProxyJump, each reached through the one before it."""
    source = f"ProxyJump of {name} {IN_CONFIGURATION}"
    jump: Address | None = None
    for hop in hops.split(","):
        match = HOP.fullmatch(hop)
        if match is None:
            raise ConnectionFailed(
                f"{source} is invalid: {hop!r}",
                "the form is [user@]host[:port], with commas between several hosts and IPv6 addresses in brackets",
            )
        port = int(match["port"]) if match["port"] else None
        address = profiles.Address(host=match["host"].strip("[]"), user=match["user"], port=port)
        jump = _resolve(address, path, jump, source)
    return jump


def _identities(files: Sequence[str], tokens: Mapping[str, str], name: str) -> tuple[Path, ...]:
    """Return the files of IdentityFile.  %C and %j are not supported: their value depends on the version of OpenSSH."""
    node = os.uname().nodename
    tokens = {
        **tokens,
        "%d": str(Path.home()),
        "%i": str(os.getuid()),
        "%L": node.partition(".")[0],
        "%l": node,
        "%u": getpass.getuser(),
        **{f"${{{variable}}}": value for variable, value in os.environ.items()},
    }
    return tuple(Path(_expand(FILE_TOKEN, str(_path(file)), tokens, name)) for file in files if file.lower() != "none")


def _expand(token: re.Pattern[str], text: str, values: Mapping[str, str], name: str) -> str:
    """Replace the tokens of a text that `ssh -G` prints unexpanded, in one pass as in ssh_config(5)."""

    def value(match: re.Match[str]) -> str:
        if match[0] not in values:
            raise ConnectionFailed(
                f"{match[0]} in {text!r} has no value, for {name} {IN_CONFIGURATION}",
                f"the tokens here are {', '.join(key for key in values if key[0] == '%')}",
            )
        return values[match[0]]

    return token.sub(value, text)


def _agent(text: str) -> str:
    """Return the socket of IdentityAgent, which may name a variable; empty without an agent."""
    if text == "none":
        return ""
    if text == "SSH_AUTH_SOCK" or text.startswith("$"):
        return os.environ.get(text.removeprefix("$"), "")
    return str(_path(text))


def _files(options: Options, keyword: str) -> Iterator[Path]:
    """Yield the files of a keyword, none for `none`.

    ssh prints them in one line without quotes: a word that does not begin a path continues the file before it.  A
    relative path of the configuration could otherwise name a file of the current folder that nobody stated.
    """
    default = str(KNOWN_HOSTS) if keyword == "userknownhostsfile" else "none"
    text = options.get(keyword, (default,))[0]
    if text.lower() != "none":
        yield from map(_path, re.split(" (?=[/~])", text))


def _path(text: str) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path.expanduser fails for an unknown user
