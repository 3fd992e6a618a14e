"""Expressions as text: for people, and as fragments of NNEF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.operators.exact.expression import LEAVES, ROUNDINGS, Expression, ordered

INFIX: Mapping[str, tuple[str, int]] = {
    "or": ("|", 1), "xor": ("^", 2), "and": ("&", 3), "equal": ("==", 4),
    "less": ("<", 5), "less_equal": ("<=", 5), "greater": (">", 5), "greater_equal": (">=", 5),
    "shift_left": ("<<", 6), "shift_right": (">>", 6),
    "add": ("+", 7), "subtract": ("-", 7), "multiply": ("*", 8), "divide": ("/", 8),
}  # fmt: skip
"""The sign of each operation of two operands, and how tightly it binds."""
ATOM, LOOSE = 10, 0  # in NNEF a sign in front binds more loosely than operations of two operands
NAMES = {
    "absolute": "abs",
    "square_root": "sqrt",
    "ceiling": "ceil",
    "from_bits": "float_of_bits",
    "round_half_even": "nearest_even",
}
SMALL = 2  # operations that are written again in each place instead of getting a name


def number(value: np.generic) -> str:
    """Return a number with the fewest digits that give its bits, a bool or integer as it is."""
    if value.dtype.kind != "f":
        return hex(int(value)) if int(value) > 9 else str(int(value))
    return str(value)


def inline(root: Expression, names: Mapping[int, str] | None = None) -> str:
    """Return an expression in one line; nodes with `names`, by identity, are these."""
    return _text(root, names or {})[0]


def statements(
    root: Expression, result: str = "y", arguments: Mapping[int, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield names and expressions: what has a name or is used several times gets a statement, then the result.

    `arguments` are names of arguments, by identity.
    """
    names: dict[int, str] = dict(arguments or {})
    for number, node in enumerate(_separate(root)):
        name = node.name or f"t{number}"
        yield name, inline(node, names)
        names[id(node)] = name
    yield result, inline(root, names)


def _separate(root: Expression) -> Iterator[Expression]:
    """Yield the inner nodes that get a name."""
    uses: dict[int, int] = {}
    nodes = ordered(root)
    for node in nodes:
        for operand in node.operands:
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    for node in nodes:
        is_large = bool(node.operands) and len(ordered(node)) > SMALL
        if node is not root and node.operands and (node.name or (uses[id(node)] > 1 and is_large)):
            yield node


def _text(node: Expression, names: Mapping[int, str]) -> tuple[str, int]:
    """Return the text and how tightly its last operation binds."""
    if id(node) in names or node.operation in LEAVES:
        return names.get(id(node), node.name), ATOM
    if node.value is not None:
        text = number(node.value)
        return text, LOOSE if text.startswith("-") else ATOM
    operands = [_text(operand, names) for operand in node.operands]
    if node.operation in INFIX:
        sign, binding = INFIX[node.operation]
        left, right = _within(operands[0], binding), _within(operands[1], binding + 1)
        return f"{left} {sign} {right}", binding
    if node.operation in {"integer", "number"}:  # exact, but of large int32 numbers
        return operands[0]
    if node.operation == "negate":
        return f"-{_within(operands[0], ATOM)}", LOOSE
    return _call([text for text, _ in operands], node), ATOM


def _call(operands: list[str], node: Expression) -> str:
    if node.operation == "code":
        zero_point = "" if node.operands[1].value == 0 else f" + {operands[1]}"
        return f"saturate(round_half_even({operands[0]}){zero_point})"
    if node.operation == "convert":
        return f"{node.dtype}({operands[0]})"
    name = node.function.name if node.function else NAMES.get(node.operation, node.operation)
    return f"{name}({', '.join(operands)})"


def _within(operand: tuple[str, int], binding: int) -> str:
    text, own = operand
    return text if own >= binding else f"({text})"


def nnef(root: Expression, name: str, attributes: Mapping[str, str], comment: str) -> str:
    """Return a fragment of NNEF of x with these attributes, which have types; it may call functions."""
    parameters = "".join(f"    {attribute}: {kind},\n" for attribute, kind in attributes.items())
    lines = "".join(f"    {target} = {text};\n" for target, text in statements(root))
    head = f"# {comment}\nfragment {name}(\n    x: tensor<scalar>,                      # float32 (vectors, N)\n"
    return f"{head}{parameters}    type: string)\n-> (y: tensor<scalar>)\n{{\n{lines}}}\n"


def roundings(root: Expression) -> set[str]:
    """Return the roundings to integers that a graph has."""
    return {node.operation for node in ordered(root)} & set(ROUNDINGS)
