"""`harness` without its start: a process that has loaded all that it needs, and forks for every command.

Most of what a short command takes is to import numpy, onnx, onnxruntime and scipy, and to compile templates.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from jinja2 import TemplateAssertionError

import harness
from harness.core.installation import ROOT
from harness.report import page
from harness.report.measurements import page as measured_page
from tests.support.objects import identified_once, kept, searched_once


@dataclass(frozen=True)
class Ready:
    """The process."""

    process: subprocess.Popen[str]

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

    def kill(self) -> None:
        """It and the command that it runs, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Servers:
    """One such process for this checkout, and one for each other checkout that is used again; ended by the stack.

    Each command is started once without them, by one of the processes that share `objects`: one that forgot an import
    would not be noticed here.
    """

    objects: Path
    stack: ExitStack
    found: dict[str, Ready] = field(default_factory=dict)

    def serving(self, command: str, environment: Mapping[str, str]) -> Ready | None:
        """The process for a command with these variables, None where it is to be started by itself."""
        checkout = environment.get("PYTHONPATH", "")
        if any(name.startswith("PYTHON") for name in environment.keys() - {"PYTHONPATH", "PYTHONSAFEPATH"}):
            return None
        with suppress(FileExistsError):
            (self.objects / f"started_{hashlib.sha256((checkout or command).encode()).hexdigest()}").touch(
                exist_ok=False
            )
            return None
        if checkout not in self.found or self.found[checkout].process.poll() is not None:  # killed with a command
            self.found[checkout] = self.stack.enter_context(ready(self.objects, checkout))
        return self.found[checkout]


@contextmanager
def ready(objects: Path, checkout: str) -> Iterator[Ready]:
    """Start it with the `harness` of a checkout, "" of this; what it builds takes object files from that folder."""
    command = [sys.executable, "-m", "tests.support.cli.ready", str(objects)]
    given = {"PYTHONPATH": f"{checkout}{os.pathsep}{ROOT}", "PYTHONSAFEPATH": "1"} if checkout else {}
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT, "env": os.environ | given}
    with subprocess.Popen(command, text=True, start_new_session=True, **how) as process:  # type: ignore[call-overload]
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


def load_all() -> None:
    """All modules that a command may import, and the templates of its pages, which take long to compile."""
    for each in pkgutil.walk_packages(harness.__path__, f"{harness.__name__}."):
        if not each.name.endswith(".__main__"):
            importlib.import_module(each.name)
    for templates in (page.environment(), measured_page.template().environment):
        for name in templates.list_templates(extensions=["jinja"]):
            with suppress(TemplateAssertionError):  # of another kind of page, with filters of its own
                templates.get_template(name)


def run() -> NoReturn:
    """Run the command line; end without taking the loaded modules apart, which takes longer than many a command."""
    try:
        runpy.run_module("harness", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code or 0)  # type: ignore[arg-type] # of `harness` it is an exit code
    raise AssertionError("harness ends with SystemExit")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_all()
    gc.freeze()  # what is not looked at is not copied
    gc.set_threshold(50_000)
    with kept(folder := Path(sys.argv[1])), identified_once(folder), searched_once(folder):
        sys.argv[1:] = serve()
        run()
