"""The net that a trace is replayed on: the paper's coloured Petri net, repeated for a stream of executions.

The net of a plan is translation 2 of its description (`harness.plan.items`): transitions are the tasks, in the colours
of their items, and a task takes a token in its own colour for every tensor that it reads.  What `sync` hands on, it
hands on at once, so that such a token is there as soon as the writer has put its own.  Parameters are there from the
beginning.  What is left are the places between two tasks, where an execution can go wrong:

    variable   from the task that writes it to one that reads it; empty at first
    free       from a reader back to the writer (the paper's remark 2): a copy of the buffer that it no longer needs;
               at first as many tokens as the buffer has copies
    input      from one reader of the network's input to another: the main thread, which no trace shows, fills it again
               when all have read it, and none of them can go on before that; at first one token

The paper has one place with a token for every reader; each in its own place is the same.  Then every place has one
task that puts tokens and one that takes them: the net is a marked graph.  There the k-th token that is put into a place
with m first ones is what the taker's firing k + m takes, so that it adds nothing to colour tokens by executions.
Hence a trace is a path of the net if and only if, for every place and every execution, the taker begins when the giver
has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from harness.plan.items.description import describe, identifier, input_identifier
from harness.plan.items.translation import translate_items
from harness.plan.plan import Plan


@dataclass(frozen=True)
class Place:
    """The place that `giver` fills and `taker` empties (indices of tasks), with its first tokens."""

    kind: Literal["variable", "free", "input"]
    giver: int
    taker: int
    tokens: int


def places_of(plan: Plan) -> tuple[Place, ...]:
    """All places between two tasks in the net of `plan`: variables for each reader, their free copies, the input."""
    net = translate_items(describe(plan).items)
    tasks = {identifier(task.name): index for index, task in enumerate(plan.tasks)}
    taken = [(t.place, tasks[o.name]) for o in net.transitions if not o.sync for t in o.consumes]
    read = sorted((tasks[place], reader) for place, reader in taken if place in tasks)
    first = [reader for place, reader in taken if place == input_identifier(plan.network)]
    variables = (Place("variable", writer, reader, 0) for writer, reader in read)
    free = (Place("free", reader, writer, plan.tasks[writer].buffers) for writer, reader in read)
    inputs = (Place("input", reader, other, 1) for reader, other in permutations(sorted(first), 2))
    return (*variables, *free, *inputs)
