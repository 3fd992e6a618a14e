from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.boards.tuning.interruption import SIGNALS, Interruption, interruptible


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_is_held_back_comes_when_it_is_released(number: signal.Signals) -> None:
    notes: list[str] = []
    with interruptible(notes.append) as interruption:
        interruption.remaining = ", soon"
        interrupt(number)
        assert notes == ["not yet: the board is being set or restored, soon"]
        with pytest.raises(KeyboardInterrupt):
            interruption.release()


def test_a_signal_that_is_held_back_comes_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible(print):
        interrupt()


def test_the_first_signal_interrupts_and_no_other_does() -> None:
    """What follows the first is the end of all that the block has begun, here a `finally`."""
    notes: list[str] = []

    def work(interruption: Interruption) -> None:
        interruption.release()
        try:
            interrupt()
        finally:
            interrupt()
            notes.append("ended")

    with pytest.raises(KeyboardInterrupt), interruptible(notes.append) as interruption:
        work(interruption)
    assert notes == ["not yet: the board is being set or restored", "ended"]


def test_another_error_is_not_hidden_by_a_signal_that_was_held_back() -> None:
    def fail() -> None:
        interrupt()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), interruptible(print):
        fail()


def test_the_former_handlers_come_back() -> None:
    former = [signal.getsignal(number) for number in SIGNALS]
    with interruptible(print):
        assert [signal.getsignal(number) for number in SIGNALS] != former
    assert [signal.getsignal(number) for number in SIGNALS] == former


def test_a_signal_that_is_ignored_stays_so() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible(print) as interruption:
            interrupt(signal.SIGHUP)
            interruption.release()
    finally:
        signal.signal(signal.SIGHUP, former)


def test_beside_the_main_thread_nothing_is_handled() -> None:
    def hold() -> bool:
        with interruptible(print) as interruption:
            return interruption.held

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(hold).result()


def test_a_message_in_the_midst_of_another_is_left_out() -> None:
    def say(_text: str) -> None:
        raise RuntimeError("reentrant call")

    with pytest.raises(KeyboardInterrupt), interruptible(say):
        interrupt()
