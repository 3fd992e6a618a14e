"""Parts of a decision, decided again: whole slabs and whole boxes, chosen at random.

Parts of few code vectors are evaluated in numpy, which shares no code with the engine that decided them; the others by
the engine of this processor.  The expected code vectors limit the number of parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt

from harness.applications.decide import dense
from harness.applications.decide.code_network import CodeNetwork
from harness.applications.decide.engine import Engine
from harness.applications.decide.partition import Partition, Sets
from harness.applications.decide.property import Rule
from harness.applications.decide.slabs import CODES_OF_A_SLAB, Task
from harness.core.console import ProgressBar

ENGINE_CODES = 1_000_000_000
"""Code vectors that the engine decides again, of slabs and of boxes each."""
DENSE_CODES, DENSE_PART = 2_000_000, 500_000
"""Code vectors that numpy evaluates, of slabs and of boxes each, and those of a part at most."""
MOST_BOXES = 10_000
CONFIDENCE = 0.99


class Evaluator:
    """The engines of a network and a rule; `codes` has the code vectors that each of them has decided."""

    def __init__(self, network: CodeNetwork, rule: Rule) -> None:
        self._network, self._rule, self._engine = network, rule, Engine(network, rule)
        self.codes = {"numpy": 0, self._engine.kernel: 0}

    def decide(
        self,
        low: Sequence[int],
        extent: Sequence[int],
        segments: Sequence[npt.NDArray[np.uint16]],
        shape: tuple[int, ...],
    ) -> Sets:
        """Return the decisions in each region, uint8 `shape`, as `dense.decide`; ToolError if memory is lacking."""
        count = math.prod(map(int, extent))
        if count <= min(DENSE_PART, DENSE_CODES - self.codes["numpy"]):
            self.codes["numpy"] += count
            return dense.decide(self._network, self._rule, low, extent, segments, shape)
        self.codes[self._engine.kernel] += count
        return self._engine.decide(low, extent, segments, shape)[0]

    @property
    def work(self) -> str:
        """The number of code vectors by engine."""
        return ", ".join(f"{codes:,} code vectors by {name}" for name, codes in self.codes.items() if codes)


def slabs_differ(
    tasks: Sequence[Task],
    regions: Callable[[Task], Sets | None],
    random: np.random.Generator,
    progress: Callable[[str, int, int], AbstractContextManager[ProgressBar]],
) -> tuple[list[int], str]:
    """Decide random slabs again; return the first codes of those with other decisions than `regions`, and the work.

    A slab beyond CODES_OF_A_SLAB is not decided again: it would take hours.
    """
    usable = [task for task in tasks if task.code_vectors <= CODES_OF_A_SLAB]
    mean = max(1, sum(task.code_vectors for task in usable) // max(1, len(usable)))
    chosen = random.permutation(len(usable))[: max(1, ENGINE_CODES // mean)]
    wrong, evaluator = [], Evaluator(tasks[0].network, tasks[0].rule)
    with progress("random slabs", len(chosen), 0) as bar:
        for task in (usable[index] for index in chosen):
            decided, stored = evaluator.decide(task.low, task.extent, task.segments, task.shape), regions(task)
            if stored is None or not np.array_equal(decided, stored):
                wrong.append(task.first)
            bar.advance(1)
    work = f"{len(chosen)} of {len(tasks)} whole slabs: {evaluator.work}"
    return sorted(wrong), f"{work}; one wrong slab is found with a probability of {len(chosen) / len(tasks):.3g}"


def random_boxes(partition: Partition, least: int, random: np.random.Generator) -> tuple[npt.NDArray[np.int64], int]:
    """Return the numbers of stratified random boxes in random order, and how many of these to decide as a whole.

    Each of n strata of equal size has one box: boxes / n numbers, whose borders may lie within a box.
    """
    mean = math.prod(float(np.mean(codes.last - codes.first + 1)) for codes in partition.codes)
    whole = int(min(partition.boxes, MOST_BOXES, max(1, ENGINE_CODES // mean)))
    return strata(partition.boxes, max(whole, min(least, partition.boxes)), random), whole


def strata(total: int, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return a random number below `total` of each of `count` strata, in random order."""
    places = (np.arange(count) + random.random(count)) * total / count
    return random.permutation(np.minimum(places.astype(np.int64), total - 1))


def detection(count: int, total: int) -> str:
    """Return which share of wrong boxes `count` random ones of `total` reveal.

    If a share f of the boxes is wrong, n of n strata miss them with a probability of at most (1 - f)^n: the strata's
    own shares have the mean f, and a product is greatest where its factors are equal.
    """
    if count >= total:
        return "these are all boxes"
    share = 1 - (1 - CONFIDENCE) ** (1 / max(1, count))
    return f"wrong sets of {share:.2%} of all boxes, or more, are found with a probability of {CONFIDENCE:.0%}"
