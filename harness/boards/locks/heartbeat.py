"""A process that releases a labgrid place when the process that acquired it ends or hangs.

`python -I heartbeat.py JSON`, started by labgrid.py: only this file is imported.  Its `link` connects it to the holder:
every line from the holder is a heartbeat, and the link closes with the holder.  This process writes the reason to the
link when the place is lost.  It keeps the `record` locked, and empties it when the place is released.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

TICK_S = 0.5
AGAIN_S = 5.0
LOOK_S = 3.0
CALL_S = 25.0
LONGEST = 65536
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_prctl = ctypes.CDLL(None).prctl


@dataclass
class Watcher:
    """State of the process that watches a holder and the holder's labgrid place.

    All calls start with `command`; `me` is the coordinator's name of the holder.  `release` is whether the holder has,
    or may have, acquired the place.  `silent_s` is the time since the last heartbeat, `held_s` the time since the place
    was acquired; `lost` is the reason why the holder lost it.
    """

    command: Sequence[str]
    me: str
    place: str
    lease_s: float
    beat_s: float
    record: int
    link: socket.socket
    release: bool = False
    reservations: list[str] = field(default_factory=list)
    silent_s: float = 0.0
    held_s: float | None = None
    lost: str = ""

    def watch(self) -> None:
        """Watch until the holder ends, hangs or loses the place; then release the place if needed."""
        threading.Thread(target=self._monitor, daemon=True).start()
        self._await()
        with suppress(OSError):
            self.link.sendall(self.lost.encode())
        self.link.close()
        if self._hangs:
            time.sleep(self.beat_s)  # a holder that resumes reads it before another user has the place
        for token in self.reservations:
            self._call("cancel-reservation", token)
        if self.release:
            self._call("release-from", self.me)
        os.ftruncate(self.record, 0)

    @property
    def _hangs(self) -> bool:
        return self.silent_s > self.lease_s

    def _await(self) -> None:
        """Wait until the holder has ended or has lost the place."""
        began_s = time.monotonic()  # which does not count a suspension: that stops the holder as well
        while not self.lost:
            readable = select.select([self.link], [], [], TICK_S)[0]
            passed_s, began_s = time.monotonic() - began_s, time.monotonic()
            self.silent_s += passed_s
            self._look_again(passed_s)
            if readable and not self._hear():
                return
            if self._hangs:
                self.lost = f"no sign of life for {self.silent_s:.0f} s, its lease has run out"

    def _hear(self) -> bool:
        """Read the holder's messages; return whether the holder still runs."""
        try:
            said = self.link.recv(LONGEST).decode()
        except OSError:
            return False
        self.silent_s = 0.0
        self.reservations += re.findall(r"^reservation ([A-Z0-9]+)$", said, re.MULTILINE)
        for event in re.findall(r"^(acquiring|refused)$", said, re.MULTILINE):
            self.release = event == "acquiring"
        if "acquired\n" in said:
            self.held_s = 0.0
        return bool(said)

    def _look_again(self, passed_s: float) -> None:
        """Read the state once more after LOOK_S, because the monitor may have missed a change at its start."""
        if self.held_s is not None:
            before, self.held_s = self.held_s, self.held_s + passed_s
            if before < LOOK_S <= self.held_s:
                self._look()

    def _monitor(self) -> None:
        """Listen to changes from the coordinator until it ends."""
        while True:
            with suppress(OSError):  # no process to be had for a moment, or a client that is being reinstalled
                self._hear_changes()
            time.sleep(AGAIN_S)
            self._look()

    def _hear_changes(self) -> None:
        command = [*self.command, "monitor"]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes, preexec_fn=_die_too) as monitor:  # noqa: PLW1509 - one system call
            about = b""
            for line in monitor.stdout or ():
                about = line if not line.startswith(b" ") else about
                if about.startswith(f"Place {self.place} changed".encode()):
                    self._judge(line.decode(errors="replace"))

    def _look(self) -> None:
        """Ask for the place's holder; an unanswered question does not count as a loss."""
        for line in self._call("show").splitlines():
            self._judge(line)

    def _judge(self, line: str) -> None:
        """Check whether a line of `show`, or of the monitor (OLD -> NEW), states another holder of the place."""
        match = re.fullmatch(r"  acquired: (?:.+ -> )?(\S+)\s*", line)
        if match and self.held_s is not None and match[1] != self.me:
            self.lost = "somebody released it" if match[1] == "None" else f"{match[1]} has it now"

    def _call(self, *words: str) -> str:
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [*self.command, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CALL_S,
                check=False,
            )
            return done.stdout
        return ""


def _die_too() -> None:
    """Kill this process when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # sent to a whole service: its holder ends first
        signal.signal(number, signal.SIG_IGN)
    asked = json.loads(sys.argv[1])
    Watcher(**asked | {"link": socket.socket(fileno=asked["link"])}).watch()
