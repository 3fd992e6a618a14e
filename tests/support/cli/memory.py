"""The most memory that a command has at once: a process of its own tells it."""

from __future__ import annotations

import sys

from tests.support.cli.command import User

SCRIPT = (
    "import atexit, pathlib, sys; from harness.cli.main import main\n"
    "status = pathlib.Path('/proc/self/status')\n"
    "atexit.register(lambda: print(status.read_text(), file=sys.stderr))\n"
    "main()"
)
"""`harness`, and then its status according to Linux; the peak is not that of getrusage, which has its parent's."""


def peak(user: User, *arguments: str) -> tuple[str, int]:
    """Run `harness ARGUMENTS` to its end, and return what it prints and its most bytes at once."""
    process = user.start(*arguments, program=[sys.executable, "-c", SCRIPT], OPENBLAS_NUM_THREADS="1")
    out, status = process.communicate(timeout=150)
    assert process.returncode == 0, status
    [peak_kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return out, int(peak_kib) * 1024
