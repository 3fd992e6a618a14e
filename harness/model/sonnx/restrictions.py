"""The restrictions of the safety-related profile, one table: general ones, the operators, and those of each operator.

The numbers are those of the documents, which have no versions of their own; `DOCUMENTS` states the commits.  What a
document states without a number has the number `-`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.operators.rules import Rules
from harness.operators.tensor_facts import Variable

REPOSITORY = "github.com/onnx/working-groups"
FOLDER = "safety-related-profile/sonnx/ops/spec/informal"
REQUIREMENTS = "safety-related-profile/deliverables/reqs/reqs.md, commit 1598dbc4"
GENERAL_DOCUMENT = f"{FOLDER}/common/general_restrictions.md, commit acaff2ff"
TRANSIENT = "transient"
NO_DEFAULT = "REQ-OP-070, no default value"
CONSTRAINT = "constraint of the document"
DOCUMENT = "the document, without a number"
DRAFT = "to be confirmed, says the document"

GENERAL = {
    "GR1": "no tensor is sparse",
    "GR2": "the types and the shapes of all tensors are stated (no inference; REQ-GR-000)",
    "GR3": "no type is converted implicitly",
    "GR4": f"no attribute is left to its default ({NO_DEFAULT})",
}
"""The restrictions of all operators.  The last one is a requirement; the list of the working group ends with GR3."""
NAMES = """
Abs Add Cast Clip Concat Constant ConstantOfShape Conv ConvTranspose Div Equal Erf Exp Expand Flatten Gather Gemm
GlobalAveragePool GRU HardSwish Identity LeakyRelu Less Log LSTM MatMul Max MaxPool Min Mod Mul Neg Not Pad Pow Range
ReduceMean ReduceSum Relu Reshape Resize ScatterND Shape Sigmoid Slice Softmax Softplus Split Sqrt Squeeze Sub Tanh
Transpose Unsqueeze Where"""
OPERATORS = frozenset(NAMES.split())
"""The operators of the profile that ONNX has (REQ OP 000, Operator set)."""
DOCUMENTS = {
    "Add": "add/add.md, commit 1a718a87",
    "Clip": "clip/clip.md, commit 0ab7337a",
    "Concat": "concat/concat.md, commit 3d3740ad",
    "Constant": "constant/constant.md, commit 82c14e64",
    "Conv": "conv/conv.md, commit 3d3740ad",
    "Div": "div/div.md, commit 04069529",
    "Flatten": "flatten/flatten.md, commit 0eddfaef",
    "Gemm": "gemm/gemm.md, commit edf16dc4",
    "LeakyRelu": "leakyrelu/leakyrelu.md, commit 52021962",
    "Less": "less/less.md, commit 025cd1a1",
    "LSTM": "lstm/lstm.md, commit 64bdae00",
    "MatMul": "matmul/matmul.md, commit 0ab7337a",
    "Max": "max/max.md, commit 00b01bd0",
    "MaxPool": "maxpool/maxpool.md, commit 0a1435a5",
    "Mul": "mul/mul.md, commit 2e353359",
    "Pad": "pad/pad.md, commit 3d3740ad",
    "Pow": "pow/pow.md, commit 247d3de1",
    "Range": "range/range.md, commit 82603320",
    "Reshape": "reshape/reshape.md, commit 64bdae00",
    "Shape": "shape/shape.md, commit 0ab7337a",
    "Slice": "slice/slice.md, commit 7070975e",
    "Softmax": "softmax/softmax.md, commit b28a3f5f",
    "Sub": "sub/sub.md, commit 21e4eb4b",
    "Unsqueeze": "unsqueeze/unsqueeze.md, commit 2e353359",
    "Where": "where/where.md, commit 0eddfaef",
}
"""The documents with which the table was compared, below FOLDER; other operators have no restriction in the table."""
WITHOUT_DEFAULT = frozenset({"activation_alpha", "activation_beta", "clip", "num_outputs", "output_shape"})
"""Attributes of which no value says the same as their absence, or that exclude another way to say it."""


@dataclass(frozen=True)
class Restriction:
    """A restriction of an operator: its number, statement and origin, and whether a node keeps it.

    `holds` returns None where facts that it needs are not known.
    """

    number: str
    statement: str
    origin: str
    holds: Callable[[Rules], bool | None]


def _attribute(number: str, name: str, accepted: Any, origin: str) -> Restriction:
    """Return the restriction of an attribute to one value, which is ONNX's default, too."""
    return Restriction(
        number, f"attribute {name} is {accepted}", origin, lambda node: bool(node.attribute(name, accepted) == accepted)
    )


def _rank(number: str, position: int, rank: int, statement: str, origin: str) -> Restriction:
    def holds(node: Rules) -> bool | None:
        size = node.input(position).fact.rank
        return None if size is None else size == rank

    return Restriction(number, statement, origin, holds)


def _spatial(number: str) -> Restriction:
    return _rank(number, 0, 4, "input X has 2 spatial dimensions", TRANSIENT)


def _stated(number: str, position: int, role: str, origin: str = NO_DEFAULT) -> Restriction:
    return Restriction(number, f"input {role} is stated", origin, lambda node: node.has(position) is not None)


def _constant(position: int, role: str) -> Restriction:
    def holds(node: Rules) -> bool:
        variable = node.has(position)
        return variable is not None and variable.fact.concrete is not None

    return Restriction("-", f"input {role} is stated and constant", DOCUMENT, holds)


def _shape(variable: Variable | None) -> str | None:
    return None if variable is None or variable.fact.rank is None else variable.fact.shape_text


def _same_shape(node: Rules) -> bool | None:
    shapes = {_shape(variable) for variable in (*node.given_inputs, node.y)}
    return None if None in shapes else len(shapes) == 1


def _scalar(position: int, role: str) -> Restriction:
    def holds(node: Rules) -> bool | None:
        variable = node.has(position)
        if variable is None:
            return True
        return None if variable.fact.rank is None else variable.fact.rank == 0

    return Restriction("C1", f"input {role} is a scalar", CONSTRAINT, holds)


def _same_types(node: Rules) -> bool | None:
    types = {variable.fact.type for variable in node.given_inputs}
    return None if None in types else len(types) == 1


def _group(node: Rules) -> bool | None:
    group, channels = node.attribute("group", 1), node.x.fact.sizes.get(1)
    if group == 1:
        return True
    return None if channels is None or channels.constant is None else bool(channels.constant == group)


def _bias_of_whole_shape(node: Rules) -> bool | None:
    shapes = [_shape(node.has(2)), _shape(node.y)]
    return None if None in shapes else shapes[0] == shapes[1]


def _all_axes(node: Rules) -> bool | None:
    axes, rank = node.has(3), node.x.fact.rank
    if axes is None:
        return False
    size = axes.fact.shape
    return None if size is None or rank is None else size == (rank,)


@dataclass(frozen=True)
class _Slice:
    """A slice of one axis, with start and end from the first place on."""

    start: int
    end: int
    step: int
    size: int


def _slices(node: Rules) -> list[_Slice] | None:
    """Return the slices of a Slice; None if one is not known."""
    values = [variable.fact.concrete if (variable := node.has(position)) else None for position in range(1, 5)]
    starts, ends, axes, steps = values
    shape = node.x.fact.shape
    if starts is None or ends is None or axes is None or shape is None:
        return None
    steps = np.ones_like(axes) if steps is None else steps
    slices = []
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        size = shape[axis]
        slices.append(_Slice(start + size * (start < 0), end + size * (end < 0), step, size))
    return slices


def _each_slice(number: str, statement: str, condition: Callable[[_Slice], bool]) -> Restriction:
    def holds(node: Rules) -> bool | None:
        slices = _slices(node)
        return None if slices is None else all(map(condition, slices))

    return Restriction(number, statement, TRANSIENT, holds)


def _not_negative(number: str, name: str, default: int, origin: str) -> Restriction:
    return Restriction(
        number, f"attribute {name} is not negative", origin, lambda node: bool(node.attribute(name, default) >= 0)
    )


def _activations(node: Rules) -> bool:
    names = [name.decode() for name in node.attribute("activations", [b"Sigmoid", b"Tanh", b"Tanh"])]
    cells = [names[at : at + 3] for at in range(0, len(names), 3)]
    return all(cell[0] in ("Sigmoid", "Relu") and cell[1:] == ["Tanh", "Tanh"] for cell in cells)


SAME_SHAPE = Restriction("C1", "all tensors have one shape (no broadcasting)", CONSTRAINT, _same_shape)
STATES_VALUE = Restriction("R1", "attribute value has the constant", DOCUMENT, lambda node: "value" in node.attributes)
SCALES = (("alpha", 1.0), ("beta", 1.0), ("transA", 0), ("transB", 0))
RECURRENT = ("W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
RESTRICTIONS: dict[str, Sequence[Restriction]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Less", "Where"), (SAME_SHAPE,)),
    "Pow": (SAME_SHAPE, Restriction("GR3", "base and exponent have one type", GENERAL["GR3"], _same_types)),
    "Clip": (_scalar(1, "min"), _scalar(2, "max")),
    "Concat": (_not_negative("R1", "axis", 0, TRANSIENT),),
    "Constant": (STATES_VALUE,),
    "Conv": (
        _spatial("R1"),
        _attribute("R2", "auto_pad", "NOTSET", NO_DEFAULT),
        Restriction("R3", "attribute group is 1 or the number of channels of X", TRANSIENT, _group),
    ),
    "Gemm": (
        *(_attribute("R2", name, value, DRAFT) for name, value in SCALES),
        Restriction("R3", "input C has the shape of the output", DRAFT, _bias_of_whole_shape),
        _stated("R4", 2, "C", DRAFT),
    ),
    "LSTM": (
        *(_constant(position, role) for position, role in enumerate(RECURRENT, 1)),
        _attribute("-", "input_forget", 0, DOCUMENT),
        _attribute("-", "layout", 0, DOCUMENT),
        Restriction("-", "attribute activations is Sigmoid or Relu, then Tanh, Tanh", DOCUMENT, _activations),
    ),
    "MatMul": (
        _rank("C1", 0, 2, "input A has 2 dimensions", CONSTRAINT),
        _rank("C1", 1, 2, "input B has 2 dimensions", CONSTRAINT),
    ),
    "MaxPool": (
        _spatial("R1"),
        _attribute("R2", "auto_pad", "NOTSET", NO_DEFAULT),
        _attribute("R3", "ceil_mode", 0, NO_DEFAULT),
        _attribute("R4", "storage_order", 0, NO_DEFAULT),
    ),
    "Slice": (
        _stated("R1", 3, "axes"),
        Restriction("R2", "input axes has all axes", NO_DEFAULT, _all_axes),
        _stated("R3", 4, "steps"),
        _each_slice(
            "R6, R7", "each slice goes from its start toward its end", lambda s: (s.end - s.start) * s.step >= 0
        ),
        _each_slice("R8", "each start is below the size of its axis", lambda s: s.start < s.size),
    ),
    "Softmax": (_not_negative("R4", "axis", -1, DOCUMENT),),
}
"""The restrictions of each operator in the order of its document; of operators that are no key there is none."""
