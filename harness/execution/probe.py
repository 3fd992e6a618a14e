"""Queries of single parts of a deployed program: its constants, and its stages with inputs from the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from harness.boards.hashes import hashes_of
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps, program
from harness.execution.program import Deployed
from harness.operators.base import Layer
from harness.operators.sweeps import Steps, Sweep
from harness.plan.plan import Task
from harness.reference.generated import Generated
from harness.targets import Stage, Table

STEP_FIELDS = 3
UINT32 = np.dtype(np.uint32)


@dataclass(frozen=True)
class Launched:
    """Report of a launch: the faults found, the number of executions, the outputs' SHA-256."""

    fault: str
    executions: Any
    sha256: tuple[str, ...]


@dataclass(frozen=True)
class Probe:
    """A deployed program, the options that follow from its plan, and a local folder for transferred files.

    Every method raises BoardError if the program fails or its answer is incomplete.
    """

    deployed: Deployed
    options: Sequence[str]
    timeout_s: float
    scratch: Path
    _written: list[str] = field(default_factory=list, init=False)
    """The names of the outputs on the board: those of all stages together may exceed its disk."""

    def tables(self, tables: Sequence[Table]) -> list[Array]:
        """Return the content of these tables, (rows, columns) each, in their types."""
        if self._run("--tables") != (len(tables), len(tables)):
            raise BoardError("the program on the board has other tables than its target generated")
        return self.read_tables(tables)

    def outputs(self, stage: Stage, inputs: Array) -> Array:
        """Return the outputs of the stage for these inputs, (n, input width) -> (n, output width)."""
        _require_all(self._pass(stage, vectors=inputs)[0], len(inputs))
        return self._fetch([(stage.name, stage.output_dtype, (len(inputs), stage.output_width))])[0]

    def outputs_sha256(self, stage: Stage, inputs: Array) -> str:
        """Return the SHA-256 of the file with the outputs of the stage for these inputs, (n, input width)."""
        _require_all(self._pass(stage, vectors=inputs)[0], len(inputs))
        return self._sha256(stage, len(inputs))

    def generated_sha256(self, stage: Stage, vectors: Generated) -> str:
        """Return the SHA-256 of the file with the stage's outputs for vectors that the program generates itself."""
        _require_all(self._pass(stage, *vectors.option)[0], vectors.count)
        return self._sha256(stage, vectors.count)

    def launch(self, task: Task, vectors: Array, options: Sequence[str], wanted: Sequence[Task], size: int) -> Launched:
        """Pass `vectors`, uint8 (n, bytes), through the launch that starts with `task`; return the answer.

        The answer has the SHA-256 of the output of each task in `wanted`; all outputs have `size` bytes together.
        """
        self._remove_other_outputs([other.name for other in wanted])
        answer = self._ask("--task", task.name, *options, vectors=vectors)
        _require_all(answer.get("vectors"), len(vectors))
        paths = [self._out / f"{other.name}.npy" for other in wanted]
        hashes = hashes_of(self.deployed.board, paths, size)
        return Launched(program.faultless(answer), answer.get("executions"), tuple(hashes))

    def launched(self, task: Task, part: Layer, rows: int) -> Array:
        """Return the values that `task` wrote in the last launch."""
        return self._fetch([(task.name, part.dtype, (rows, part.size))])[0]

    def read_tables(self, tables: Sequence[Table]) -> list[Array]:
        """Return the tables that the program wrote at the last request, (rows, columns) each."""
        shapes = [np.atleast_2d(table.values).shape for table in tables]
        return self._fetch(
            [(table.name, table.values.dtype, shape) for table, shape in zip(tables, shapes, strict=True)]
        )

    def steps(self, stage: Stage, sweep: Sweep) -> tuple[Steps, Sweep]:
        """Return the steps of a sweep through a stage of 4-byte inputs and 1-byte outputs, and the swept length.

        The program ends a sweep early when the outputs change too often for a monotone stage.
        """
        vectors, rows = self._sweep(stage, sweep)
        done = sweep.first(vectors)
        steps = self._fetch([(stage.name, UINT32, (rows, STEP_FIELDS))])[0]
        if (steps[:, 0] >= stage.output_width).any():
            raise BoardError(f"the program reports steps of columns that {stage.name} does not have")
        return done.within(steps), done

    def sweep_sha256(self, stage: Stage, sweep: Sweep) -> str:
        """Return the SHA-256 of the file with all outputs of a sweep; a shorter column continues past its end."""
        _require_all(self._sweep(stage, sweep)[0], sweep.vectors)
        return self._sha256(stage, sweep.vectors)

    def _sweep(self, stage: Stage, sweep: Sweep) -> tuple[int, int]:
        """Return the number of vectors that the program swept and of rows that it wrote."""
        first = sweep.values(1).view(stage.input_dtype)
        return self._pass(stage, "--sweep", str(sweep.vectors), vectors=first)

    def _sha256(self, stage: Stage, rows: int) -> str:
        size = rows * stage.output_width * stage.output_dtype.itemsize
        return hashes_of(self.deployed.board, [self._out / f"{stage.name}.npy"], size)[0]

    @property
    def _out(self) -> PurePosixPath:
        return program.out_folder(self.deployed.run_folder, 0)

    def _pass(self, stage: Stage, *arguments: str, vectors: Array | None = None) -> tuple[int, int]:
        """Pass vectors through a stage; return the number of vectors and of rows that the program reports."""
        self._remove_other_outputs([stage.name])
        return self._run("--stage", stage.name, *arguments, vectors=vectors)

    def _remove_other_outputs(self, names: Sequence[str]) -> None:
        stale = [str(self._out / f"{name}.npy") for name in self._written if name not in names]
        if stale:
            program.remove(self.deployed.board, stale, self.timeout_s)
        self._written[:] = names

    def _run(self, *arguments: str, vectors: Array | None = None) -> tuple[int, int]:
        """Return the number of vectors and of rows that the program reports."""
        answer = self._ask(*arguments, vectors=vectors)
        passed, rows = answer.get("vectors"), answer.get("rows")
        if not isinstance(passed, int) or not isinstance(rows, int):
            raise BoardError(f"the program on the board reports {passed!r} vectors and {rows!r} rows")
        return passed, rows

    def _ask(self, *arguments: str, vectors: Array | None = None) -> dict[str, Any]:
        """Return the program's last line."""
        given: list[str] = []
        there = self.deployed.run_folder / "probed.npy"
        if vectors is not None:
            dumps.write(self.scratch / there.name, vectors)
            self.deployed.board.put(self.scratch / there.name, there)
            given = ["--vectors", str(there)]
        words = [*self.options, *arguments, *given, "--out", str(self._out)]
        return program.run_program(self.deployed, words, self.timeout_s)

    def _fetch(self, files: Sequence[tuple[str, np.dtype[Any], tuple[int, int]]]) -> list[Array]:
        """Return the arrays that the program wrote, each given by name, type and shape (rows, width)."""
        return program.fetch_arrays(
            self.deployed.board, [(self._out / f"{name}.npy", dtype, shape) for name, dtype, shape in files]
        )


def _require_all(vectors: Any, expected: int) -> None:
    if vectors != expected:
        raise BoardError(f"the program passed {vectors} vectors through a stage, not {expected}")
