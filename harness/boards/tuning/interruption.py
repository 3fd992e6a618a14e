"""Signals such as Ctrl-C: the first stops the work, later ones do not interrupt the restoration of settings."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from harness.boards.tuning.commands import Notify
from harness.core.interrupts import interrupt

# A closed terminal and a job's cancellation leave the board as Ctrl-C does.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Handler that raises KeyboardInterrupt at once, or delays it until the work has ended."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._pending = 0
        self.held = False
        self.remaining: str = ""

    def arrive(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal; after the first, the settings are restored, which later signals must not interrupt."""
        if not self.held:
            self.held = True
            raise interrupt(number)
        self._pending = self._pending or number
        with suppress(RuntimeError):  # in the midst of another message
            self._notify(f"not yet: the board is being set or restored{self.remaining}")

    def release(self) -> None:
        """Let signals interrupt again; raise the one that was delayed."""
        self.held = False
        self.raise_pending()

    def raise_pending(self) -> None:
        """Raise KeyboardInterrupt for a delayed signal."""
        if self._pending:
            number, self._pending = self._pending, 0
            self.held = True
            raise interrupt(number)


@contextmanager
def interruptible(notify: Notify) -> Iterator[Interruption]:
    """Handle the signals of the block; it begins with them held back.  Only a program's main thread hears of them."""
    interruption = Interruption(notify)
    interruption.held = True
    former = _handle(interruption.arrive)
    try:
        yield interruption
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    interruption.raise_pending()


def _handle(handler: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Install the handler, but not for a signal that is ignored (nohup); return the former one."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    former = {number: signal.getsignal(number) for number in SIGNALS}
    mine = {number: there for number, there in former.items() if there not in (signal.SIG_IGN, None)}
    for number in mine:
        signal.signal(number, handler)
    return mine
