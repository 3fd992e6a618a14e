"""ONNX's own tests on a board: the program of each test's network, bit for bit against the specification."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness import targets
from harness.analysis.compare import compare
from harness.boards.connect import Connection
from harness.boards.locks import session
from harness.boards.profile import Profile
from harness.boards.tuning import Notify
from harness.boards.workspace import Workspace
from harness.build import bundle, codegen
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.execution import dumps, program
from harness.plan import plan_check
from harness.plan.plan import Plan
from harness.reference.backend import HarnessBackend
from harness.reference.conformance import PASS, REFUSED, WRONG, Case, Outcome, as_array, outcome
from harness.reference.specification import SpecificationReference
from harness.runs.document import where
from harness.runs.job import planned

DEFAULTS: Mapping[str, None] = dict.fromkeys(("block", "split", "sync", "buffers"))


@dataclass(frozen=True)
class BoardTests:
    """An open session with the board, and the targets of its items; None for those of the profile."""

    profile: Profile
    connection: Connection
    cache: Path
    items: Sequence[str] | None

    def outcome(self, case: Case) -> Outcome:
        """Return the result of a test that the specification passes, as the board computes it; others stay.

        A test is refused where a target of the items does not have a layer, and wrong where a bit of an activation is
        not that of the specification.  Raises InfrastructureError where the board or the compiler failed.
        """
        specified = outcome(case)
        if specified.result != PASS:
            return specified
        try:
            prepared, result = HarnessBackend.prepare(case.model), specified
            for inputs, _ in case.data:
                network, vectors = prepared.vectors([as_array(value) for value in inputs])
                plan = planned(network, self.profile, {**DEFAULTS, "items": self.items})
                result = replace(specified, ran_on=self._places(plan))
                if wrong := self._difference(plan, vectors):
                    return replace(result, result=WRONG, reason=wrong)
        except RequestError as error:
            return replace(specified, result=REFUSED, reason=error.message)
        return result

    def _places(self, plan: Plan) -> tuple[str, ...]:
        """Return where each item that computes a layer runs."""
        busy = {task.item for task in plan.tasks}
        places = where(plan, self.profile, self.connection.identity.kind)
        return tuple(f"{item.name} by {places[index]}" for index, item in enumerate(plan.items) if index in busy)

    def _difference(self, plan: Plan, vectors: Array) -> str:
        """Return the first layer of which the board computes other bits; the empty text without one."""
        network = plan.network
        expected = SpecificationReference(network).activations(vectors)
        for layer, right, actual in zip(network.layers, expected, self._computed(plan, vectors), strict=True):
            comparison = compare(right, _with_nan(right, actual))
            if comparison.first is not None:
                return (
                    f"layer {layer.name} ({layer.operator}): {comparison.differing} of {comparison.compared} values "
                    f"differ, the first is {comparison.first.actual} and not {comparison.first.expected}"
                )
        return ""

    def _computed(self, plan: Plan, vectors: Array) -> Sequence[Array]:
        """Return the activations of all layers, as the board computes them."""
        plan_check.require_sound(plan_check.assess(plan))
        built = bundle.build(codegen.generate(plan), self.profile, self.cache)
        board, work = self.connection.board, self.connection.work
        deployed = program.deploy(board, built, work, f"conformance-{built.sha256[:16]}")
        with tempfile.TemporaryDirectory() as folder:
            file, count, layers = Path(folder) / "vectors.npy", len(vectors), plan.network.layers
            dumps.write(file, vectors)
            options, timeout_s = program.options(plan), self.profile.timeout_s
            try:
                executed = program.execute_chunk(deployed, 0, file, count, layers, options, timeout_s)
                activations = program.collect(deployed, executed, range(len(layers)), layers, Path(folder))
            finally:
                program.clean(deployed)
        return [activations[index] for index in range(len(layers))]


def _with_nan(expected: Array, actual: Array) -> Array:
    """Return the values of the board, with the NaN of the specification where both are NaN: its bits are not stated."""
    if expected.dtype.kind != "f":
        return actual
    return np.where(np.isnan(expected) & np.isnan(actual), expected, actual)


@contextmanager
def on_board(
    board: str, items: Sequence[str] | None, workspace: Workspace, wait_s: float, notify: Notify
) -> Iterator[BoardTests]:
    """Lock the board, open a session and yield its tests."""
    profile = targets.load_boards(workspace.boards).board(board)
    cache = workspace.cache
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with session(profile, workspace.locks(profile), cache, "ONNX's tests", wait_s, notify) as connection:
        yield BoardTests(profile, connection, cache, items)
