"""The operations of a description: the fragments of the operators, and those that exchange data between items.

The fragments are printed in every file that uses them.  A reader refuses a file in which one of them is different.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness import operators
from harness.operators.text import Fragment

EXCHANGE = {
    "variablesync": """\
# A variable that one item writes and others read.
fragment variablesync<? = scalar>(shape: integer[]) -> (output: tensor<?>);
""",
    "get_var": """\
# The reader's side: a local variable with what the item `source` has sent.
fragment get_var<? = scalar>(source: graphitem, data: variablesync) -> (output: tensor<?>);
""",
    "send_var": """\
# The writer's side: gives a tensor to the items `dest`.
fragment send_var<? = scalar>(dest: graphitem[], data: scalar) -> (output: variablesync);
""",
}
"""The operations by which items exchange data (the paper's syntax 2 to 4), by name."""

PARTS = {
    "join": """\
# Tensors side by side in each of the runs into which each of them is divided evenly: rows of the channels of an image.
fragment join(x: tensor<scalar>[], runs: integer) -> (y: tensor<scalar>)
{
    inner = [for each in x yield reshape(each, shape = [0, runs, -1])];
    y = reshape(concat(inner, axis = 2), shape = [0, -1]);
}
""",
    "part": """\
# The columns begin to end - 1 of each of the runs into which a tensor is divided evenly.
fragment part(x: tensor<scalar>, runs: integer, begin: integer, end: integer) -> (y: tensor<scalar>)
{
    inner = slice(reshape(x, shape = [0, runs, -1]), axes = [2], begin = [begin], end = [end]);
    y = reshape(inner, shape = [0, -1]);
}
""",
}
"""The operations within operands, by name: parts of results, and results of parts."""


def known() -> dict[str, Fragment]:
    """Return the fragments of all operators by name, each after those that it uses."""
    fragments = _with_used(fragment for operator in operators.classes() for fragment in operator.text.fragments)
    return {fragment.name: fragment for fragment in sorted(fragments, key=lambda part: (part.order, part.name))}


def needed(operations: Iterable[str]) -> list[Fragment]:
    """Return the fragments that these operations need, each after those that it uses."""
    fragments = known()
    used = _with_used(fragments[name] for name in operations)
    return [fragment for fragment in fragments.values() if fragment in used]


def _with_used(fragments: Iterable[Fragment]) -> set[Fragment]:
    found = set(fragments)
    return found.union(*(_with_used(fragment.uses) for fragment in found))
