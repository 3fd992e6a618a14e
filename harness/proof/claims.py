"""What a proof is made of: questions with a definite answer each, and the claims that the answers make."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass


class Step(enum.Enum):
    """The steps of the argument, in its order; the value says what each shows."""

    CONSTANTS = "the program holds the model's constants"
    QUANTIZATION = "every input becomes the right code"
    ACCUMULATION = "every sum of products is the right one"
    REQUANTIZATION = "every sum becomes the right activation"
    OTHERS = "every other operator gives the right activation"
    COMPOSITION = "every layer reads what the one before it wrote"


class Side(enum.Enum):
    """Who answers a question: the deployed program, or the reference on this machine."""

    BOARD = "program"
    REFERENCE = "reference"


@dataclass(frozen=True)
class Question:
    """Something that can be asked: `answer` returns a counterexample in words, or nothing if there is none.

    `cases` is how many values are tried; `complete` says that they are all that there can be.
    """

    step: Step
    side: Side
    layer: str | None
    statement: str
    method: str
    cases: int
    complete: bool
    answer: Callable[[], str]

    def ask(self) -> Claim:
        """The answer, and how long it took."""
        started = time.perf_counter()
        counterexample = self.answer()
        return Claim(self, counterexample, time.perf_counter() - started)


@dataclass(frozen=True)
class Claim:
    """A question with its answer: it holds where there is no counterexample."""

    question: Question
    counterexample: str
    time_s: float

    @property
    def holds(self) -> bool:
        """Whether no counterexample was found."""
        return not self.counterexample
