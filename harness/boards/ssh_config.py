"""Options of a host in the SSH configuration, as OpenSSH's own client reads them (`ssh -G`)."""

from __future__ import annotations

import functools
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.core.errors import ConnectionFailed
from harness.core.safe_io import one_line

SYSTEM_FILE = Path("/etc/ssh/ssh_config")
ANSWER_S = 10.0  # includes the commands of Match exec and, for CanonicalizeHostname, the DNS
NOT_INSTALLED = "ssh is not on this machine, so ~/.ssh/config is not read"

Options = Mapping[str, tuple[str, ...]]
"""The values of each keyword (in lower case), in order of precedence."""


def is_installed() -> bool:
    """Return whether this machine has OpenSSH's client."""
    return shutil.which("ssh") is not None


@functools.cache
def options(host: str, user: str | None, port: int | None) -> Options:
    """Return the options of `ssh [-l user] [-p port] host`.

    ssh is called once for the same arguments and file of boards: `profile.load` clears this cache.
    ConnectionFailed with ssh's own message if it refuses the configuration or the host, or does not end in time.
    """
    words = ["ssh", "-T", "-G"]
    words += ["-l", user] if user else []
    words += ["-p", str(port)] if port else []
    with _file() as file:
        output = _output([*words, *file, "--", host], host)
    values: dict[str, tuple[str, ...]] = {}
    for line in output.split("\n"):
        keyword, _, value = line.partition(" ")
        values[keyword] = (*values.get(keyword, ()), value)
    if not values.keys() >= {"hostname", "user", "port"}:
        raise ConnectionFailed(f"ssh -G {host} prints no address", "is that the ssh of OpenSSH? try: ssh -V")
    return values


@contextmanager
def _file() -> Iterator[list[str]]:
    """Yield the words that make ssh read the configuration of HOME, which it ignores, if that is another folder.

    ssh refuses an included file that other users may write to, as it refuses its own.
    """
    home = Path.home()
    try:
        is_other = home != Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        is_other = False  # ssh reports that it does not know the user
    if not is_other:
        yield []
        return
    folder = home / ".ssh"
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f'Include "{folder}/config"\nInclude "{SYSTEM_FILE}"\n')
        file.write(f'UserKnownHostsFile "{folder}/known_hosts" "{folder}/known_hosts2"\n')
        file.flush()
        yield ["-F", file.name]


def _output(words: Sequence[str], host: str) -> str:
    """Return what ssh prints.  Its commands may start daemons that keep standard error open: that is a file."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        with process:
            try:
                output, _ = process.communicate(timeout=ANSWER_S)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise ConnectionFailed(
                    f"ssh -G {host} did not end within {ANSWER_S:g} s",
                    "does a command of Match exec in the SSH configuration wait for a network or for input? correct it",
                ) from error
        if process.returncode == 0:
            return os.fsdecode(output)
        errors.seek(0)
        message = "; ".join(os.fsdecode(errors.read()).splitlines())
    raise ConnectionFailed(
        f"ssh refuses {host}: {one_line(message, 400) or f'exit status {process.returncode}'}",
        f"correct the address or the SSH configuration; compare with: ssh -G {shlex.quote(host)}",
    )
