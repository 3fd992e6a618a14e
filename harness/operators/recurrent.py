"""LSTM, GRU and RNN (ONNX), float32, of one direction: the state after each step, with the vectors in front.

ONNX has the vectors at the second axis of these operators, behind the steps.  The operators of this project's domain
have them in front; their functions are those of ONNX with a Transpose before and behind.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import onnx
import onnx.parser

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, fields
from harness.operators.exact.expression import Expression
from harness.operators.exact.functions import hyperbolic_tangent, logistic
from harness.operators.exact.stages import Axis, Stage, array, formula, program, recurrence
from harness.operators.fault_models import FaultModel
from harness.operators.float_contraction import read_finite
from harness.operators.frames import Frames, Streaming
from harness.operators.node import Node
from harness.operators.onnx_function import DOMAIN
from harness.operators.recurrent_cell import CarriedCell, Cell, Sizes
from harness.operators.rules import Rules
from harness.operators.staged import ROUNDED, Staged
from harness.operators.tensor import FLOAT32, Tensor
from harness.operators.text import Fragment, Text

DIRECTIONS = ("forward", "reverse")
FIRST_FRAGMENT = 133
EXCHANGED = ("the weights of the gates are in another order", "as in ONNX")
WEIGHTS = (1, 2, 3)
"""The inputs W, R and B."""
GROWTH = 2.0**-20
"""Share by which the roundings of one step can increase a state: a few units of 2**-24."""


@dataclass(frozen=True, eq=False)
class Recurrent(Staged):
    """A layer whose state after each step it writes, (steps, hidden) for each vector.

    `w` is (gates * hidden, inputs), `r` (gates * hidden, hidden), `biases` (biases, hidden), as the definition adds
    them.  One that `is_carried` is the cell of `recurrent_steps.py`, which reads the states after the steps before.
    """

    streaming = Ability(lambda layer: Streaming(layer, form=layer.frames))
    gates: ClassVar[int]
    states: ClassVar[str]
    DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    w: Array
    r: Array
    biases: Array
    initial: Mapping[str, Array | None]
    reverse: bool
    attributes: Mapping[str, Any]
    is_carried: bool = False

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, the shapes of constants, and that y has `hidden_size` values for each step."""
        cls.sized(node)

    @classmethod
    def sized(cls, node: Rules, *states: int) -> None:
        """State the same of y with more axes behind the vectors."""
        hidden = node.attribute("hidden_size", 1)
        rows = cls.gates * hidden
        node.same_type(*node.given_inputs, node.y)
        shapes = {
            node.y: (node.x.size(0), *states, node.x.size(1), hidden),
            node.input(1): (rows, node.x.size(2)),
            node.input(2): (rows, hidden),
            node.input(3): (2 * rows,),
        }
        for tensor, sizes in shapes.items():
            node.equals(tensor.rank, len(sizes))
            for axis, size in enumerate(sizes):
                node.equals(tensor.size(axis), size)
        for tensor in node.given_inputs[4:]:
            node.equals(tensor.rank, 2).equals(tensor.size(1), hidden)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant weights and biases; the states begin with constants or activations."""
        node.require_inputs(4 + len(cls.states), 4 + len(cls.states))
        stated = node.attributes({"hidden_size": 0, "direction": b"forward", **cls.DEFAULTS})
        source, hidden = node.activation(0, [FLOAT32]), stated["hidden_size"]
        direction = stated["direction"].decode(errors="replace")
        w, r, b = (read_finite(node, position, name) for position, name in ((1, "weight"), (2, "weight"), (3, "bias")))
        if len(source.shape) != 2 or hidden < 1 or direction not in DIRECTIONS:
            raise node.refusal(
                f"x has shape (vectors, {', '.join(map(str, source.shape))}), hidden_size is {hidden}, direction "
                f"{direction!r}",
                f"x (vectors, steps, inputs), a hidden_size of 1 or more, a direction of {' or '.join(DIRECTIONS)}",
            )
        rows = cls.gates * hidden
        shapes = (rows, source.shape[1]), (rows, hidden), (2 * rows,)
        if (w.shape, r.shape, b.shape) != shapes:
            raise node.refusal(f"W, R and B have shapes {w.shape}, {r.shape}, {b.shape}", f"shapes {shapes}")
        initial, sources = _initial(node, cls.states, hidden)
        bound = cls.bound(initial, sources) * (1 + source.shape[0] * GROWTH)
        written = fields(node, [source, *sources], (source.shape[0], hidden), FLOAT32, bound,
                         negative_zero=True)  # fmt: skip
        kept = {name: stated[name] for name in cls.DEFAULTS}
        return cls(**written, w=w, r=r, biases=cls.added(b.reshape(2, cls.gates, hidden), kept), initial=initial,
                   reverse=direction == "reverse", attributes=kept)  # fmt: skip

    @classmethod
    def bound(cls, initial: Mapping[str, Array | None], sources: Sequence[Tensor]) -> float:  # noqa: ARG003 - overridden
        """Return the largest |h| after a step, without roundings: no gate and no tanh is above 1."""
        return 1.0

    @classmethod
    def added(cls, b: Array, attributes: Mapping[str, Any]) -> Array:  # noqa: ARG003 - overridden
        """Return the biases of W and R, (2, gates, hidden), as the definition reads them: added, rounded to float32."""
        return np.asarray(b[0] + b[1], np.float32)

    @classmethod
    @abstractmethod
    def program_of(cls, cell: Cell, attributes: Mapping[str, Any], initial: Mapping[str, str]) -> Stage:
        """Return the definition; `initial` as of `Cell.states`."""

    def definition(self) -> Stage:
        """Return the definition for the sizes of the layer."""
        (steps, inputs), hidden = self.inputs[int(self.is_carried)].shape, self.r.shape[1]
        sizes = Sizes(steps, inputs, hidden, self.gates)
        cell = Cell(sizes, len(self.biases), reverse=self.reverse)
        if self.is_carried:
            cell = CarriedCell(sizes, len(self.biases), len(self.states))
        activations = iter(f"x{number}" for number in range(1, len(self.inputs)))
        names = {
            state: next(activations) if values is None else f"{state}0" if values.any() else ""
            for state, values in self.initial.items()
        }
        return self.program_of(cell, self.attributes, names)

    def numbers(self) -> dict[str, Array]:
        """Return weights, biases and constant initial states that are not 0."""
        starts = {f"{state}0": values for state, values in self.initial.items() if values is not None and values.any()}
        more = {"number": np.arange(2, dtype=np.float32)} if self.is_carried and len(self.states) > 1 else {}
        w, r = (rows.reshape(self.gates, self.r.shape[1], -1).swapaxes(1, 2) for rows in (self.w, self.r))
        return {"w": w, "r": r, "b": self.biases, **starts, **more}

    def frames(self, axis: int) -> Frames | str | None:
        """Return that the states carry over from step to step; why those of the other direction do not."""
        if self.reverse:
            return "begins with the last step, and a stream has none"
        if len(self.inputs) > 1:
            return "its states begin with activations, which a stream has in no step"
        return Frames(0, states=len(self.states)) if axis == 0 else None

    @property
    def form(self) -> int:
        """The number of the fragment: each state begins with 0, an activation or a constant."""
        forms = [1 if values is None else 2 if values.any() else 0 for values in self.initial.values()]
        return sum(form * 3**place for place, form in enumerate(reversed(forms)))

    def constants(self) -> Constants:
        """Return weights, biases and initial states, and whether the steps go backwards."""
        return {**{name: values.reshape(-1) for name, values in self.numbers().items()}, "reverse": int(self.reverse)}

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the other direction, gates that are exchanged, and the mutants of the definition."""
        if self.input.shape[0] > 1:
            other = replace(self, reverse=not self.reverse)
            yield FaultModel(
                "the steps go in the other direction", "from the first or the last on", other.prepare()(*inputs)
            )
        if self.gates > 1:
            yield FaultModel(*EXCHANGED, self.with_exchanged_gates.prepare()(*inputs))
        yield from super().fault_models(*inputs)

    @property
    def operations(self) -> int:
        """The operations of the sums of all steps."""
        return self.inputs[int(self.is_carried)].shape[0] * (2 * (self.w.size + self.r.size) + self.biases.size)

    @property
    def with_exchanged_gates(self) -> Self:
        """The layer whose weights are those of other gates."""
        rows = np.roll(np.arange(len(self.w)), self.r.shape[1])
        return replace(self, w=self.w[rows], r=self.r[rows])

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto:  # noqa: ARG003 - always the same number
        """Return the function: ONNX's operator with the vectors at its second axis; one initial state is for all."""
        [(_, name)] = cls.ONNX
        kinds = {"hidden_size": "int", "direction": "string"} | dict.fromkeys(cls.DEFAULTS, "int")
        stated = ", ".join(f"{attribute}: {kind} = @{attribute}" for attribute, kind in kinds.items())
        of_states = "".join(
            f"    {state}_1 = Unsqueeze ({state}, first)\n    {state}_2 = Expand ({state}_1, whole)\n"
            for state in cls.states
        )
        return onnx.parser.parse_function(
            f'<domain: "{DOMAIN}", opset_import: ["" : {opset}]>\n{name} <{", ".join(kinds)}> '
            f"(x, w, r, b, {', '.join(cls.states)}) => (y)\n{{\n"
            "    x_1 = Transpose <perm = [1, 0, 2]> (x)\n"
            "    first = Constant <value_ints = [0]> ()\n"
            "    second = Constant <value_ints = [1]> ()\n"
            "    sizes = Shape (x)\n"
            "    vectors = Slice (sizes, first, second, first)\n"
            "    whole = Concat <axis = 0> (second, vectors, second)\n"
            f"{of_states}"
            "    w_1 = Unsqueeze (w, first)\n    r_1 = Unsqueeze (r, first)\n    b_1 = Unsqueeze (b, first)\n"
            f'    y_1 = {name} <{stated}> (x_1, w_1, r_1, b_1, "", {", ".join(f"{state}_2" for state in cls.states)})\n'
            "    y_2 = Squeeze (y_1, second)\n"
            "    y = Transpose <perm = [1, 0, 2]> (y_2)\n}"
        )


def _initial(node: Node, states: str, hidden: int) -> tuple[dict[str, Array | None], list[Tensor]]:
    """Return the constant initial states, None for those that are activations, and the latter."""
    constants: dict[str, Array | None] = {}
    activations = []
    for position, state in enumerate(states, start=4):
        is_constant = node.inputs[position] in node.constants
        values = read_finite(node, position, "initial state") if is_constant else None
        tensor = None if is_constant else node.activation(position, [FLOAT32])
        shape = (1, hidden) if tensor is None else tensor.shape
        if (values is not None and values.shape != shape) or (tensor is not None and shape != (hidden,)):
            raise node.refusal("an initial state has another size than hidden_size", f"a constant (1, {hidden}), or "
                               f"an activation (vectors, {hidden})")  # fmt: skip
        constants[state] = None if values is None else values.reshape(-1)
        activations += [] if tensor is None else [tensor]
    return constants, activations


def _texts(name: str, order: int, biases: str, example: Stage, states: str) -> Text:
    """Return the texts of an operator, with one fragment for each set of initial states.

    The number of a fragment has a digit of base 3 for each state: 0, an activation, a constant.
    """
    lines = formula(program(example))
    forms = itertools.product(*[("", "activation", "constant")] * len(states))
    fragments = tuple(
        _fragment(name, order + number, biases, lines, dict(zip(states, form, strict=True)))
        for number, form in enumerate(forms)
    )
    return Staged.text.but(
        "\n".join(lines), ("X", "W", "R", "B", "initial_h", "initial_c"), fragments, chosen=lambda layer: layer.form,
        parameters=WEIGHTS, operations_of=lambda layer: layer.operations,
    )  # fmt: skip


def _fragment(name: str, order: int, biases: str, lines: Sequence[str], initial: Mapping[str, str]) -> Fragment:
    comment = "".join(f"#     {line}\n" for line in lines)
    read = [state for state, form in initial.items() if form == "activation"]
    kept = [state for state, form in initial.items() if form == "constant"]
    own_name = "_".join([name, *(f"{state}_read" for state in read), *(f"{state}_kept" for state in kept)])
    sources = "".join(f"    x{number}: tensor<scalar>,\n" for number in range(1, len(read) + 1))
    tables = "".join(f"    {state}0: tensor<scalar>,\n" for state in kept)
    return Fragment(
        own_name,
        order,
        f"""\
# {ROUNDED}.
{comment}# Initial states: {", ".join(f"{state} is {form or '0'}" for state, form in initial.items())}.
fragment {own_name}(
    x: tensor<scalar>,                      # float32 (vectors, steps * inputs)
{sources}    w: tensor<scalar>,                      # float32 (1, gates * inputs * hidden)
    r: tensor<scalar>,                      # float32 (1, gates * hidden * hidden)
    b: tensor<scalar>,                      # float32 {biases}
{tables}    reverse: integer,                       # 1: the steps go from the last one to the first
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )


def _example(gates: int, definition: Callable[..., Stage], states: str = "hc") -> Stage:
    cell = Cell(Sizes(2, 2, 2, gates), max(gates, 4) if gates > 1 else 1, reverse=False)
    return definition(cell, dict.fromkeys(states, ""))


def lstm(cell: Cell, initial: Mapping[str, str]) -> Stage:
    """Return the hidden state of an LSTM; the gates are i, o, f and c."""
    u = cell.u

    def step(h: Any, c: Any) -> list[Expression]:
        a = cell.of_input("a", cell.g)
        s = cell.of_state("s", cell.g, a[cell.g, u], h)
        i, o, f = (array(name, (u,), logistic(s[gate, u])) for gate, name in enumerate(("i", "o", "f")))
        z = array("z", (u,), hyperbolic_tangent(s[3, u]))
        d = array("d", (u,), f[u] * c[u] + i[u] * z[u])
        return [o[u] * hyperbolic_tangent(d[u]), d[u]]

    h, c = recurrence(cell.t, cell.states(initial), step)
    return cell.history(h, c)


@dataclass(frozen=True, eq=False)
class Lstm(Recurrent):
    """An LSTM with logistic gates."""

    ONNX = ((DOMAIN, "LSTM"),)
    gates, states = 4, "hc"
    text = _texts("lstm", FIRST_FRAGMENT, "(gates, hidden)", _example(4, lstm), "hc")

    @classmethod
    def program_of(cls, cell: Cell, attributes: Mapping[str, Any], initial: Mapping[str, str]) -> Stage:  # noqa: ARG003 - none
        """Return the definition."""
        return lstm(cell, initial)


def gru(cell: Cell, initial: Mapping[str, str], *, linear: bool) -> Stage:
    """Return the state of a GRU; the gates are z, r and h.  If `linear`, the reset gate is applied to the product."""
    u, two, one = cell.u, Axis("g", 2), Axis("g", 1)

    def step(h: Any) -> Any:
        a = cell.of_input("a", two)
        s = cell.of_state("s", two, a[two, u], h)
        z, r = (array(name, (u,), logistic(s[gate, u])) for gate, name in enumerate("zr"))
        m = cell.of_input("m", one, 2)
        if linear:
            k = cell.of_state("k", one, cell.b[3, u], h, 2)
            n = array("n", (u,), hyperbolic_tangent(m[0, u] + r[u] * k[0, u]))
        else:
            q = array("q", (u,), r[u] * h[u])
            k = cell.of_state("k", one, m[one, u], q, 2)
            n = array("n", (u,), hyperbolic_tangent(k[0, u]))
        return (1 - z[u]) * n[u] + z[u] * h[u]

    [h] = recurrence(cell.t, cell.states(initial), step)
    return cell.history(h)


@dataclass(frozen=True, eq=False)
class Gru(Recurrent):
    """A GRU with logistic gates."""

    ONNX = ((DOMAIN, "GRU"),)
    gates, states = 3, "h"
    DEFAULTS: ClassVar[Mapping[str, Any]] = {"linear_before_reset": 0}

    text = _texts("gru", FIRST_FRAGMENT + 9, "(gates, hidden), and one more row of R if linear_before_reset is 1",
                  _example(3, partial(gru, linear=True), "h"), "h")  # fmt: skip

    @classmethod
    def bound(cls, initial: Mapping[str, Array | None], sources: Sequence[Tensor]) -> float:
        """Return the largest |h| without roundings: a mean of 1 at most and the state before."""
        first = initial["h"]
        return max(1.0, float(np.abs(first).max()) if first is not None else sources[0].bound)

    @classmethod
    def added(cls, b: Array, attributes: Mapping[str, Any]) -> Array:
        """Return the sums of both biases of a gate; of the last one those of W and of R if it is linear."""
        if not attributes["linear_before_reset"]:
            return super().added(b, attributes)
        return np.asarray([*(b[0, :2] + b[1, :2]), b[0, 2], b[1, 2]], np.float32)

    @classmethod
    def program_of(cls, cell: Cell, attributes: Mapping[str, Any], initial: Mapping[str, str]) -> Stage:
        """Return the definition."""
        return gru(cell, initial, linear=bool(attributes["linear_before_reset"]))


def rnn(cell: Cell, initial: Mapping[str, str]) -> Stage:
    """Return the state of a simple recurrent network."""
    u, one = cell.u, Axis("g", 1)

    def step(h: Any) -> Expression:
        s = cell.of_state("s", one, cell.of_input("a", one)[one, u], h)
        return hyperbolic_tangent(s[0, u])

    [h] = recurrence(cell.t, cell.states(initial), step)
    return cell.history(h)


@dataclass(frozen=True, eq=False)
class Rnn(Recurrent):
    """A simple recurrent network with Tanh."""

    ONNX = ((DOMAIN, "RNN"),)
    gates, states = 1, "h"
    text = _texts("rnn", FIRST_FRAGMENT + 12, "(gates, hidden)", _example(1, rnn, "h"), "h")

    @classmethod
    def program_of(cls, cell: Cell, attributes: Mapping[str, Any], initial: Mapping[str, str]) -> Stage:  # noqa: ARG003 - none
        """Return the definition."""
        return rnn(cell, initial)
