"""The order in which threads go through a function."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.frame import Frame, Lanes
from tests.simulators.ptx.memory import AccessError
from tests.simulators.ptx.steps import Barrier, Branch, Code, Machine, Return

Places = npt.NDArray[np.intp]


class Run:
    """One execution of a function: groups of threads by where they stand, and those that wait at a barrier.

    Those furthest behind go first, so that threads which took different ways meet again.
    """

    def __init__(self, machine: Machine, code: Code, frame: Frame) -> None:
        self._machine = machine
        self._code = code
        self._frame = frame
        self._groups: dict[int, Places] = {0: np.arange(frame.count)}
        self._waiting: dict[int, Places] = {}
        self._meeting = set(code.function.labels.values())

    def to_the_end(self) -> None:
        """Until every thread has returned."""
        while self._groups or self._waiting:
            if not self._groups:
                self._open_barrier()
            at = min(self._groups)
            self._advance(at, self._groups.pop(at))

    def _advance(self, at: int, places: Places) -> None:
        """A group, up to where it splits, may meet others, or waits."""
        self._machine.count()
        lanes: Lanes = None if len(places) == self._frame.count else places
        steps, begin = self._code.steps, at
        while at == begin or at not in self._meeting:
            step = steps[at]
            at += 1
            self._code.executed += len(places)
            if isinstance(step, Branch):
                return self._branch(step, at, places, lanes)
            if isinstance(step, Barrier):
                return self._join(self._waiting, at, places)
            if isinstance(step, Return):
                return self._leave(places)
            try:
                step(self._machine, self._frame, lanes)
            except AccessError as error:
                raise PtxError(f"{self._where(at - 1)}: {self._thread(lanes, error.lane)} {error.what}") from error
            except PtxError as error:
                raise PtxError(f"{self._where(at - 1)}: {error}") from error
        return self._join(self._groups, at, places)

    def _branch(self, branch: Branch, following: int, places: Places, lanes: Lanes) -> None:
        if branch.condition is None:
            return self._join(self._groups, branch.target, places)
        taken = branch.condition(self._frame, lanes)
        self._join(self._groups, branch.target, places[taken])
        return self._join(self._groups, following, places[~taken])

    @staticmethod
    def _join(groups: dict[int, Places], at: int, places: Places) -> None:
        if at in groups:
            places = np.sort(np.concatenate([groups[at], places]))
        if len(places):
            groups[at] = places

    def _leave(self, places: Places) -> None:
        """Of a kernel the threads that go on are packed; a function's results are wanted of all."""
        if not self._code.function.is_entry:
            return
        stays = np.ones(self._frame.count, np.bool_)
        stays[places] = False
        self._frame.keep(np.flatnonzero(stays))
        place = np.cumsum(stays) - 1
        for groups in (self._groups, self._waiting):
            groups.update({at: place[members] for at, members in groups.items()})

    def _open_barrier(self) -> None:
        """All threads of a block must be there; in a function, they have called it together."""
        block, blocks = self._frame.threads.block, self._machine.blocks
        there = np.zeros(blocks, np.bool_)
        for at, places in self._waiting.items():
            arrived = np.bincount(block[places], minlength=blocks)
            missing = (arrived > 0) & (arrived < self._machine.per_block)
            if missing.any():
                number = int(np.argmax(missing))
                raise PtxError(
                    f"{self._where(at - 1)}: {arrived[number]} of {self._machine.per_block} threads of block {number} "
                    "wait, the others wait elsewhere or have ended"
                )
            there |= arrived > 0
        self._machine.shared.pass_barrier(there)
        self._groups, self._waiting = self._waiting, {}

    def _where(self, at: int) -> str:
        instruction = self._code.function.body[at]
        return f"{self._code.function.name}, PTX line {instruction.line}: {instruction.text!r}"

    def _thread(self, lanes: Lanes, lane: int) -> str:
        threads = self._frame.chosen(lanes)
        return f"thread {threads.number[lane]} of block {threads.block[lane]}"
