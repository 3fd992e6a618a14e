"""The smallest failing case of a run that differs, found by further executions on the board.

It is not a part of the verdict: a failure of the board during the search is noted and changes nothing else.
"""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.compare import Difference, compare, difference_map
from harness.analysis.minimise import minimise
from harness.core.arrays import Array
from harness.core.errors import InfrastructureError
from harness.execution import dumps, program
from harness.execution.program import Deployed
from harness.model.network import Network
from harness.plan import claims
from harness.plan.plan import Plan
from harness.runs.entries import FailingEntry, InputValueEntry
from harness.runs.folder import ChunkRecord
from harness.runs.job import Job

FILE = "failing.npy"


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A vector, (1, K), for which the layer of index `layer` is the first that differs.

    `found_at` is the index within the run of the vector that it was made from, `first` a difference of the layer for
    it.  `again` says whether it fails when run alone; `note` what was not as it should be, or nothing.
    """

    layer: int
    found_at: int
    vector: Array
    first: Difference
    again: bool = True
    note: str = ""


def smallest(job: Job, deployed: Deployed, notify: Callable[[str], None]) -> Counterexample | None:
    """Minimise the first vector for which the first layer differs; None if nothing differs.

    None is returned for a plan without one, see `has_none`.
    """
    first = first_difference(job.folder.chunks())
    if first is None or has_none(job.plan):
        return None
    layer, difference = first
    notify(f"searching the smallest failing vector of layer {job.network.layers[layer].name}")
    vector = job.stimuli.chunk(difference.vector, difference.vector + 1)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            board = _Board(job, deployed, layer, Path(scratch))
            return _minimised(board, Counterexample(layer, difference.vector, vector, difference))
    except InfrastructureError as error:
        notify(f"warning: the search for the smallest failing vector ended: {error.part}: {error.message}")
        note = f"the search for a smaller one ended: {error.part}: {error.message}"
        return Counterexample(layer, difference.vector, vector, difference, note=note)


def has_none(plan: Plan) -> str:
    """Return why a plan has no smallest failing vector, or nothing.

    Bounded layers differ for their own inputs, not for the network's.
    """
    if plan.network.steps > 1:
        return "a step of a stream fails with the steps before it, not alone"
    return "the plan has bounded layers" if claims.bounded(plan) else ""


def first_difference(records: Iterable[ChunkRecord]) -> tuple[int, Difference] | None:
    """Return the first layer that differs, with its first difference within the run."""
    found = [(layer, result.first) for record in records for layer, result in enumerate(record.layers) if result.first]
    return min(found, key=lambda pair: (pair[0], pair[1].vector), default=None)


def _minimised(board: _Board, given: Counterexample) -> Counterexample:
    minimal = minimise(given.vector[0], board.fails)
    if minimal is None:
        note = "it does not fail again when run alone: timing or stale data"
        return dataclasses.replace(given, again=False, note=note)
    vector = minimal.vector[None]
    first = board.difference(vector)
    if first is None:
        note = "smaller ones fail among others, but not alone: timing or stale data"
        return dataclasses.replace(given, note=note)
    note = "" if minimal.finished else "a smaller one may exist: the search was cut short"
    return dataclasses.replace(given, vector=vector, first=first, note=note)


class _Board:
    """A test on the board whether `layer` is the first that differs."""

    def __init__(self, job: Job, deployed: Deployed, layer: int, scratch: Path) -> None:
        self._job = job
        self._deployed = deployed
        self._layer = layer
        self._scratch = scratch

    def fails(self, vectors: Array) -> npt.NDArray[np.bool_]:
        """Return for each of the vectors, (n, K), whether it fails, by one execution."""
        *before, asked = (difference_map(*pair).any(axis=1) for pair in self._outputs(vectors))
        failing: npt.NDArray[np.bool_] = asked & ~np.any([np.zeros_like(asked), *before], axis=0)
        return failing

    def difference(self, vector: Array) -> Difference | None:
        """Return the layer's first difference for one vector, (1, K); None if it is right or follows a wrong one."""
        *before, asked = (compare(*pair).first for pair in self._outputs(vector))
        return None if any(before) else asked

    def _outputs(self, vectors: Array) -> list[tuple[Array, Array]]:
        """Return expected and actual output of every layer up to this one that the board keeps."""
        count, upload = len(vectors), self._scratch / "vectors.npy"
        layers = self._job.network.layers
        dumps.write(upload, vectors)
        options, timeout_s = program.options(self._job.plan), self._job.profile.timeout_s
        kept = self._job.plan.kept
        executed = program.execute_chunk(self._deployed, 0, upload, count, layers, options, timeout_s, kept=kept)
        wanted = [layer for layer in range(self._layer + 1) if kept[layer]]
        found = program.collect(self._deployed, executed, wanted, layers, self._scratch)
        expected = self._job.reference.activations(vectors)
        return [(expected[layer], actual) for layer, actual in found.items()]


def save(failing: Counterexample, job: Job) -> FailingEntry:
    """Write the vector to the run folder if it fails again; return its entry in the run's document."""
    replay = ""
    if failing.again:
        dumps.write(job.folder.path / FILE, failing.vector)
        replay = replay_line(job)
    return FailingEntry(
        **dataclasses.asdict(failing.first)
        | case(job.network, failing.layer, failing.found_at, failing.vector)
        | {"file": FILE if replay else None, "replay": replay, "note": failing.note}
    )


def case(network: Network, layer: int, found_at: int, vector: Array) -> dict[str, Any]:
    """Return the entries of a failing vector, (1, K): layer, origin, inputs that are not 0."""
    names = network.normalisation.names if network.normalisation else ()
    numbers = network.numbers(vector)[0]
    return {
        "layer": network.layers[layer].name,
        "vector": found_at,
        "inputs": [
            InputValueEntry(
                index=index, name=names[index] if names else _place(network, index), value=float(numbers[index])
            )
            for index in np.flatnonzero(numbers).tolist()
        ],
        "of_inputs": len(numbers),
    }


def _place(network: Network, index: int) -> str:
    """Return the input of a value, and its index there; empty if there is one input."""
    name, place = network.places[index]
    return f"{name}[{place}]" if len(network.inputs) > 1 else ""


def replay_line(job: Job) -> str:
    """Return the command that runs the vector with the plan of the run."""
    here, folder = Path.cwd(), job.folder.path
    near = folder.relative_to(here) if folder.is_relative_to(here) else folder
    precise = [] if job.request.x64_quant_precision else ["--no-x64-quant-precision"]
    return shlex.join(["harness", "run", "--plan", str(near / "plan"), "--vectors", str(near / FILE), *precise])
