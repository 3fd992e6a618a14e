"""Signals that stop a command, and the messages about them."""

from __future__ import annotations

import signal

REASONS = {
    signal.SIGINT: "interrupted (Ctrl-C)",
    signal.SIGTERM: "terminated (SIGTERM)",
    signal.SIGHUP: "terminal closed (SIGHUP)",
}


def interrupt(number: int) -> KeyboardInterrupt:
    """Return the exception to raise for a signal."""
    return KeyboardInterrupt(REASONS[signal.Signals(number)])


def reason(error: BaseException) -> str:
    """Return the reason of a stop; Python's own handler of Ctrl-C raises KeyboardInterrupt without a text."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) or REASONS[signal.SIGINT]
    return str(error) or type(error).__name__
