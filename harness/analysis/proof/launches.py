"""Step 6: the schedule runs the probed code in its own buffers, for every block size, always with the same result.

A launch is asked through the functions that the schedule calls, on the thread of its item, with the schedule's buffers
and their alignment.  On an accelerator this is all that lies between two hand-overs, copies included.  The program
checks that a launch does not change its inputs and writes only the outputs of its vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.analysis.compare import difference_map
from harness.analysis.proof import constants
from harness.analysis.proof.claims import Effort, Note, Question, Side
from harness.build.codegen import Program
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps
from harness.execution.probe import Probe
from harness.operators import exact
from harness.operators.obligations import ProofStep, mixed
from harness.operators.tensor import FLOAT32, Tensor, integer_limits
from harness.plan.launches import PlannedLaunch
from harness.plan.plan import Plan, Task
from harness.reference import generated
from harness.targets import Table

DRAWN = 1024
"""Vectors of each kind that are drawn, of tensors that are not too wide."""
BYTES_OF_A_KIND = 1 << 25
"""Largest number of bytes of the vectors of a kind: wide tensors have fewer."""
SEED = 1
SPECIAL = np.array([np.nan, np.inf, -np.inf], np.float32)
REPEATED_BLOCK = 4
"""The largest block of repeated executions.  Blocks are small, so that there are many executions."""
SMALL_BLOCK = 2
"""The largest block for wide tensors, and for items that get fewer vectors (`Effort.limited`)."""
SMALL_SIZES = 256
"""The least number of vectors that pass in blocks of each size: swapped rows may be equal by chance."""
OUTPUTS_OF_A_BLOCK = 1 << 15


@dataclass(frozen=True, eq=False)
class Trial:
    """A launch of the plan and the vectors that it is given; `references` are all layers' outputs for `vectors`.

    There are at most `most` vectors of each kind that is drawn.
    """

    plan: Plan
    launch: PlannedLaunch
    vectors: Array
    references: Sequence[Array]
    most: int

    @property
    def name(self) -> str:
        """The name of its first task, or of all."""
        return self.tasks[0].name if len(self.tasks) == 1 else f"{self.tasks[0].name} to {self.tasks[-1].name}"

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks of the launch."""
        return self.launch.tasks

    @cached_property
    def _room(self) -> int:
        """The number of vectors of a kind for which there is room."""
        tensors = [*self.plan.network.inputs, *map(self._tensor, (*self.tasks, *self.launch.sources))]
        widest = max(tensor.size * tensor.dtype.itemsize for tensor in tensors)
        return min(max(BYTES_OF_A_KIND // widest, 64), self.most)

    def _tensor(self, source: Task | Tensor) -> Tensor:
        """Return the tensor of which a source of the launch has values."""
        return self.plan.network.layers[source.layer].output if isinstance(source, Task) else source

    @cached_property
    def given(self) -> dict[str, Array]:
        """Return the values of each tensor that the launch reads from outside, (n, width), by name."""
        rng = np.random.default_rng(0)
        network = self.plan.network
        known = network.values(self.vectors) | {
            layer.output.name: values for layer, values in zip(network.layers, self.references, strict=True)
        }
        tensors = dict.fromkeys(map(self._tensor, self.launch.sources))
        drawn = {tensor.name: [known[tensor.name], *self._drawn(tensor, known[tensor.name], rng)] for tensor in tensors}
        tensor_values = _of_one_length({name: np.concatenate(values) for name, values in drawn.items()})
        part = self.plan.part(self.tasks[0])
        extreme = part.sums.extremes() if part.sums else None
        if extreme is not None and len(tensor_values) == 1:
            [(name, values)], [source] = tensor_values.items(), self.plan.sources(self.tasks[0])
            chosen = extreme[rng.permutation(len(extreme))[: self._room]]
            rows = np.resize(values, (len(chosen), values.shape[1]))
            rows[:, source.region.indices(source.tensor.size)] = chosen
            tensor_values = {name: np.concatenate([values, rows])}
        return tensor_values

    def _drawn(self, tensor: Tensor, known: Array, rng: np.random.Generator) -> Iterator[Array]:
        """Yield values that the tensor may have: random, extreme, and equal in many columns."""
        width, drawn = known.shape[1], min(DRAWN, self._room)
        yield _changed_one_by_one(known, self._room)
        if known.dtype.itemsize == 1:
            low, high = integer_limits(known.dtype)
            codes = np.arange(low, high + 1).astype(known.dtype)
            yield rng.choice(codes, (drawn, width))
            yield rng.choice(codes[[0, 1, -2, -1]], (drawn, width))
            yield mixed(codes, width, self._room)
            yield np.repeat(codes[:, None], width, axis=1)
        elif tensor in self.plan.network.inputs and known.dtype == FLOAT32 and self.plan.network.takes_every(tensor):
            bits = rng.integers(0, 1 << 32, (drawn, width), dtype=np.uint32)
            yield bits.view(np.float32)
            yield mixed(np.append(known, SPECIAL), width, self._room)
        else:  # each column holds numbers that it has been seen to hold
            yield known[rng.integers(0, len(known), (drawn, width)), np.arange(width)]

    @cached_property
    def rows(self) -> Array:
        """Return the bytes of the launch's sources, concatenated, uint8 (n, bytes)."""
        parts = []
        for source in self.launch.sources:
            tensor = self._tensor(source)
            values = self.given[tensor.name]
            parts.append(values[:, source.region.indices(tensor.size)] if isinstance(source, Task) else values)
        return np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], axis=1)

    @cached_property
    def expected(self) -> dict[Task, Array]:
        """Return the expected output of each task."""
        written, found = dict(self.given), {}
        for task in self.tasks:
            layer, part = self.plan.network.layers[task.layer], self.plan.part(task)
            operate = part.prepare()
            read = self.plan.sources(task)
            terms = [written[source.tensor.name][:, source.region.indices(source.tensor.size)] for source in read]
            pieces = range(0, len(terms[0]), exact.BLOCK)
            found[task] = np.concatenate(
                [operate(*(term[at : at + exact.BLOCK] for term in terms)) for at in pieces]
            ).astype(part.dtype)
            whole = np.array(written.get(layer.output.name, np.zeros((len(terms[0]), layer.size), part.dtype)))
            whole[:, task.region.indices(layer.size)] = found[task]
            written[layer.output.name] = whole
        return found

    @cached_property
    def count(self) -> int:
        """The number of vectors."""
        count = len(self.rows)
        self.release()
        return count

    def release(self) -> None:
        """Free the memory of vectors and outputs; they are computed again when they are needed."""
        for name in ("given", "rows", "expected"):
            vars(self).pop(name, None)

    def wrong(
        self, probe: Probe | None, options: Sequence[str], executions: int, asked: Sequence[Task], note: Note
    ) -> str:
        """Describe the errors in the outputs of the tasks `asked`."""
        right = [dumps.sha256(self.expected[task]) for task in asked]
        note(" ".join(right))
        if probe is None:
            return ""
        size = sum(self.expected[task].nbytes for task in asked)
        answer = probe.launch(self.tasks[0], self.rows, options, asked, size)
        if answer.fault:
            return answer.fault
        if answer.executions != executions:
            raise BoardError(f"the program reports {answer.executions!r} executions of {self.name}, not {executions}")
        different = [task for task, *pair in zip(asked, right, answer.sha256, strict=True) if pair[0] != pair[1]]
        return self._first(probe, different[0]) if different else ""

    def _first(self, probe: Probe, task: Task) -> str:
        """Return the first wrong output of a task."""
        wanted = self.expected[task]
        found = probe.launched(task, self.plan.part(task), len(wanted))
        vector, column = next(zip(*np.nonzero(difference_map(wanted, found)), strict=True))
        text = f"{task.name}, column {column} of vector {vector}: {found[vector, column]}, expected "
        return f"{text}{wanted[vector, column]}"


def _changed_one_by_one(known: Array, most: int) -> Array:
    """Return vectors that differ from the one before in one column: each column in turn, or evenly spread ones."""
    width = known.shape[1]
    count = min(max(DRAWN, 2 * width), most)
    step = 1 if count >= 2 * width else next(step for step in range(width // 2, 0, -1) if math.gcd(step, width) == 1)
    changed = np.empty((count, width), known.dtype)
    changed[0] = known[0]
    for row in range(1, count):
        column = row * step % width
        changed[row] = changed[row - 1]
        changed[row, column] = known[row % len(known), column]
    return changed


def _of_one_length(values: Mapping[str, Array]) -> dict[str, Array]:
    """Return as many rows of each tensor as the longest has; the others repeat theirs."""
    rows = max(map(len, values.values()))
    return {name: np.resize(array, (rows, array.shape[1])) for name, array in values.items()}


def questions(
    program: Program, probe: Probe | None, vectors: Array, references: Sequence[Array], effort: Effort
) -> Iterator[Question]:
    """Check that every launch writes the right outputs in its own buffers, also after many executions."""
    layers = program.plan.network.layers
    for launch in program.launches:
        if any(layers[task.layer].streaming.steps > 1 for task in launch.tasks):
            continue  # it reads what the execution before has left, which these overwrite: whole runs show it
        trial = Trial(program.plan, launch, vectors, references, effort.of_launch(launch.item))
        width = sum(task.size for task in launch.tasks)
        largest = effort.largest_size(launch.item, program.plan.block, width)
        yield _in_buffers(trial, probe, largest, SMALL_SIZES if launch.item not in effort.limited else 0)
        block = SMALL_BLOCK if launch.item in effort.limited else REPEATED_BLOCK
        yield _repeated(trial, probe, effort, block, program.tables)


def _in_buffers(trial: Trial, probe: Probe | None, largest: int, least: int) -> Question:
    rows, block = trial.count, trial.plan.block
    found = generated.passes(rows, block, SEED, 1)
    options = ["--dump", "all", "--random-block", str(SEED), "--every-size", f"{largest}:{least}"]
    of_sizes = [max(-(-least // size), 1) for size in range(1, largest + 1)]
    executions, more = found.executions + sum(of_sizes), sum(size * n for size, n in enumerate(of_sizes, 1))
    return Question(
        ProofStep.EXECUTION,
        Side.BOARD,
        None,
        f"{trial.name}: the schedule's function gives the right outputs in the schedule's buffers, and changes nothing "
        "else",
        f"{rows:,} vectors of activations, extreme, random and equal values at its inputs, in {found.executions:,} "
        f"blocks of 1 to {block} vectors, then {more:,} in blocks of every size from 1 to {largest}; outputs hold a "
        "pattern, zeros, ones, random bytes or former outputs before; inputs and the rest of all buffers are compared "
        "afterwards",
        (rows + more) * sum(task.size for task in trial.tasks),
        complete=False,
        answer=lambda note: trial.wrong(probe, options, executions, trial.tasks, note),
    )


def _repeated(trial: Trial, probe: Probe | None, effort: Effort, largest: int, tables: Sequence[Table]) -> Question:
    rows, outputs = trial.count, sum(task.size for task in trial.launch.outputs)
    block = min(largest, max(OUTPUTS_OF_A_BLOCK // max(outputs, 1), SMALL_BLOCK), trial.plan.block)
    executions = effort.executions(trial.launch.item, outputs)
    found = generated.passes(rows, block, SEED, executions)
    window, more = generated.windows(effort.window)
    repeated = ["--dump", "last", "--executions", str(executions), *window, "--tables"]
    options = generated.options(repeated, block, SEED)

    def wrong(note: Note) -> str:
        counterexample = trial.wrong(probe, options, found.executions + more, trial.launch.outputs, note)
        trial.release()
        right = [np.atleast_2d(table.values) for table in tables]
        if counterexample:
            return counterexample
        held = probe.read_tables(tables) if probe else right
        compared = (constants.difference(*each, note) for each in zip(tables, held, right, strict=True))
        return next(filter(None, compared), "")

    return Question(
        ProofStep.EXECUTION,
        Side.BOARD,
        None,
        f"{trial.name}: every execution in one process gives the same outputs, and the tables stay as they are",
        f"{found.executions:,} executions in blocks of 1 to {block} vectors pass {rows:,} vectors {found.passes:,} "
        f"times, then {more:,} have numbers around the powers of two from 2^16 to 2^53; all outputs are compared; then "
        "all tables are read again and compared as bits",
        rows * found.passes * outputs + sum(table.values.size for table in tables),
        complete=False,
        answer=wrong,
    )
