"""The comparison itself: every contender is checked before it is timed, and all take turns, block by block."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import HarnessError
from peers.case import Case
from peers.competitors import Peer, Workshop
from peers.report import Row, Times
from peers.worker import Failed, Unavailable, Worker, telling

# Root mean square of the difference to the right outputs, in units of these.  It tells a wrong network from a right
# one: float32 is within 1e-6 of the float network (4e-6 of VGG-16), an engine's own rounding of int8 within 0.04 of
# the model.
FLOAT_LIMIT, INT8_LIMIT = 1e-4, 0.25


class Contest:
    """The contenders that run, and of every one what is known so far."""

    def __init__(self, case: Case, core: int) -> None:
        self._case, self._core = case, core
        self._rows: dict[str, Row] = {}
        self._workers: dict[str, Worker] = {}
        self._times_ns: dict[tuple[str, str], list[int]] = {}

    def enter(self, peer: Peer, shop: Workshop) -> None:
        """Build and start a contender, and check what it computes; a row in any case."""
        self._rows[peer.name] = Row(peer.name, peer.is_ours)
        try:
            self._start(peer, shop)
        except Unavailable as error:
            self._leave(peer.name, str(error))
        except HarnessError as error:
            self._leave(peer.name, f"failed: {telling(error.message.splitlines())}; {error.hint}")

    def play(self, rounds: int, block: int) -> None:
        """In every round one block of each contender, another one first each time."""
        for index in range(rounds):
            names = list(self._workers)
            first = index % max(len(names), 1)
            for name in names[first:] + names[:first]:
                self._turn(name, block)

    def rows(self) -> tuple[Row, ...]:
        """In the order in which the contenders entered."""
        return tuple(self._rows.values())

    def close(self) -> None:
        """Sum up and end all contenders."""
        for name in list(self._workers):
            self._rows[name] = replace(self._rows[name], times=self._times(name))
            self._workers.pop(name).close()

    def _start(self, peer: Peer, shop: Workshop) -> None:
        worker = Worker(peer.command(shop), self._core, self._file("log.txt"))
        self._workers[peer.name] = worker
        row = replace(self._rows[peer.name], version=worker.version, computes=worker.computes)
        self._rows[peer.name] = row
        outputs = worker.outputs(self._file("outputs.npy"), self._case.exact.shape)
        checked = judge(self._case, worker.computes, outputs)
        self._rows[peer.name] = replace(row, outputs=checked, threads=worker.threads())

    def _turn(self, name: str, block: int) -> None:
        try:
            for kind in ("go", "empty"):
                self._times_ns.setdefault((name, kind), []).extend(self._workers[name].times_ns(kind, block))
        except Failed as error:
            self._leave(name, str(error))

    def _leave(self, name: str, reason: str) -> None:
        self._rows[name] = replace(self._rows[name], failure=reason)
        if name in self._workers:
            self._workers.pop(name).close()

    def _times(self, name: str) -> Times | None:
        go, empty = (self._times_ns.get((name, kind), []) for kind in ("go", "empty"))
        if not go:
            return None
        return Times(len(go), min(go), round(statistics.median(go)), round(statistics.median(empty)))

    def _file(self, suffix: str) -> Path:
        """Of the contender that entered last."""
        return self._case.folder / f"{len(self._rows)}-{suffix}"


def compare(peers: Sequence[Peer], shop: Workshop, core: int, rounds: int, block: int) -> tuple[Row, ...]:
    """Let all contenders enter, play and leave; a row of each."""
    with contextlib.closing(Contest(shop.case, core)) as contest:
        for peer in peers:
            contest.enter(peer, shop)
        with elsewhere(core):
            contest.play(rounds, block)
    return contest.rows()


def judge(case: Case, computes: str, outputs: Array) -> str:
    """Return the remark on a contender's outputs, float32 (n, N); Failed where they are not what it computes."""
    equal = outputs.view(np.uint32) == case.exact.view(np.uint32)
    if computes == "model":
        if not equal.all():
            raise Failed(f"{(~equal).sum():,} of {equal.size:,} outputs are not the model's; it was not timed")
        return "the model's, bit for bit"
    network, right = ("float network", case.real) if computes == "float" else ("model", case.exact)
    error = distance(case, outputs, right)
    if error > (FLOAT_LIMIT if computes == "float" else INT8_LIMIT):
        raise Failed(f"its outputs are off those of the {network} by {error:.2g} of their size; it was not timed")
    return f"float's to {error:.0e}" if computes == "float" else f"{equal.sum():,} of {equal.size:,} are the model's"


def distance(case: Case, outputs: Array, right: Array) -> float:
    """Root mean square of the difference to the `right` outputs, over that of these, within the case's range."""
    wanted = np.clip(right.astype(np.float64), *case.range)
    difference = np.clip(outputs.astype(np.float64), *case.range) - wanted
    return float(np.sqrt(np.mean(difference**2) / np.mean(wanted**2)))


@contextlib.contextmanager
def elsewhere(core: int) -> Iterator[None]:
    """Leave `core` to the contenders, where the machine has another for this process."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {core} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
