"""`harness` without its start: a process that has imported all that it needs, and forks for every command.

Most of what a short command takes is to import numpy, onnx, onnxruntime and scipy.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import harness
from tests.support.objects import identified_once, kept


@dataclass(frozen=True)
class Ready:
    """The process, and the names of the commands that were started without it.

    Each is once: one that forgot an import would not be noticed here.
    """

    process: subprocess.Popen[str]
    started: set[str] = field(default_factory=set)

    def run(self, arguments: list[str], environment: Mapping[str, str], out: Path, err: Path, timeout_s: float) -> int:
        """Run `harness ARGUMENTS` to its end, its output in two files; gives its exit code."""
        asked = {"arguments": arguments, "environment": dict(environment), "folder": str(Path.cwd())}
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(asked | {"out": str(out), "err": str(err)}), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            self.kill()
            raise subprocess.TimeoutExpired(arguments, timeout_s)
        return int(self.process.stdout.readline())

    def serves(self, command: str, environment: Mapping[str, str]) -> bool:
        """Whether it can, and that command has been started once in a process that imports what it needs itself."""
        known = command in self.started
        self.started.add(command)
        return known and not any(name.startswith("PYTHON") for name in environment)

    def kill(self) -> None:
        """It and the command that it runs."""
        os.killpg(self.process.pid, signal.SIGKILL)


@contextmanager
def ready(objects: Path) -> Iterator[Ready]:
    """Start it; what it builds takes object files from that folder."""
    command = [sys.executable, "-m", "tests.support.cli.ready", str(objects)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        yield (started := Ready(process))
        started.kill()


def serve() -> list[str]:
    """Fork for every line of the input; in the forked process, as the line says, gives the arguments."""
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            return become(**asked)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    sys.exit()


def become(arguments: list[str], environment: dict[str, str], folder: str, out: str, err: str) -> list[str]:
    """Be a process that somebody has started so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        os.dup2(os.open(path, flags | (os.O_CREAT if stream else 0), 0o600), stream)
    return arguments


def import_all() -> None:
    """All that a command may import."""
    for each in pkgutil.walk_packages(harness.__path__, f"{harness.__name__}."):
        if not each.name.endswith(".__main__"):
            importlib.import_module(each.name)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import_all()
    with kept(Path(sys.argv[1])), identified_once(Path(sys.argv[1])):
        sys.argv[1:] = serve()
        runpy.run_module("harness", run_name="__main__", alter_sys=True)
