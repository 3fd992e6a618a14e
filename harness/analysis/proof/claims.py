"""What a proof is made of: questions with a definite answer each, and the claims that the answers make."""

from __future__ import annotations

import enum
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from harness.operators.obligations import ProofStep

Note: TypeAlias = Callable[[str], object]
"""Hears of each answer of the program that was found right, by its SHA-256."""


class Side(enum.Enum):
    """Who answers a question: the deployed program, its file, the reference here, or a ThreadSanitizer build."""

    BOARD = "program"
    FILE = "program file"
    REFERENCE = "reference"
    SANITIZER = "ThreadSanitizer build"


@dataclass(frozen=True)
class Question:
    """Something that can be asked: `answer` returns a counterexample in words, or nothing if there is none.

    On the way it notes what the program answered rightly.  `cases` is how many values are tried; `complete` says that
    they are all that there can be.  `observed` tells, after the answer, what else was seen that bears on it.
    """

    step: ProofStep
    side: Side
    layer: str | None
    statement: str
    method: str
    cases: int
    complete: bool
    answer: Callable[[Note], str]
    observed: Callable[[], str] = str

    def ask(self) -> Claim:
        """The answer, the hash of all that was found right on the way to it, and how long it took."""
        started, right = time.perf_counter(), hashlib.sha256()
        counterexample = self.answer(lambda sha256: right.update(sha256.encode()))
        return Claim(self, counterexample, time.perf_counter() - started, right.hexdigest(), self.observed())


@dataclass(frozen=True)
class Claim:
    """A question with its answer: it holds where there is no counterexample.

    `answers_sha256` is the SHA-256 of the SHA-256s, as text, of all answers that were right, in their order.
    """

    question: Question
    counterexample: str
    time_s: float
    answers_sha256: str = ""
    observed: str = ""

    @property
    def holds(self) -> bool:
        """Whether no counterexample was found."""
        return not self.counterexample
