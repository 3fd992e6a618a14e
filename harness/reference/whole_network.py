"""ONNX Runtime on the whole model, within the bounds that errors of all layers have together.

A layer passes on the errors of its inputs and adds its own (`Errors.propagated`).  In narrow layers an error becomes a
symbol, a number of -1 to 1 that keeps its sign on all ways through the network (`Errors.affine`): without signs, the
bounds of a deep network are larger than its values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import HostCheck
from harness.operators.base import Layer
from harness.operators.float_errors import Perturbed
from harness.reference.runtime import GivenModel

MOST_VECTORS = 1024
WORK = 1 << 30
"""Operations of the bounds of one call, but at least one vector."""
STEP_WORK = 1 << 21
"""Operations in the time of one evaluation of a stage in a recurrence, 2 ms."""
MOST_SYMBOLS = 1 << 13
MOST_ROWS = 1 << 23
"""Values of the symbols of one vector and activation; beyond them only the sizes of errors are known."""
OBSERVED_BYTES = 1 << 26
"""The activations within larger models are not compared: that needs another copy of the weights."""
REMEDY = (
    "ONNX Runtime fuses layers of the whole model, and some fusions change values "
    "(docs/reference/float-operators.md, Whole network): rewrite the layers before this output, "
    "such as a Pad before a MaxPool"
)
BUDGET = 64 << 20
"""Bytes of the errors of the vectors that are compared together."""
BYTES_A_VALUE, COPIES = 40, 3
"""Specified and computed value, error, and the operands of a bound; arrays of symbols at a time."""


@dataclass(frozen=True)
class WholeOutput:
    """An output of the network by ONNX Runtime with the whole model, compared with the specification.

    `compared` of the `values` have a finite bound, `bound` at most.  `ratio` is the largest difference as a share of
    its bound.
    """

    output: str
    vectors: int
    values: int
    compared: int
    bound: float
    ratio: float

    def __add__(self, other: WholeOutput) -> WholeOutput:
        """Return the result over the vectors of both."""
        return WholeOutput(
            self.output,
            self.vectors + other.vectors,
            self.values + other.values,
            self.compared + other.compared,
            max(self.bound, other.bound),
            max(self.ratio, other.ratio),
        )


@dataclass(frozen=True)
class Whole:
    """The outputs of the network, and for each layer the largest ratio of an activation; () if none was requested."""

    outputs: tuple[WholeOutput, ...]
    ratios: tuple[float | None, ...]

    def __add__(self, other: Whole) -> Whole:
        """Return the result over the vectors of both; one of them may be NOTHING."""
        if not (self.outputs and other.outputs):
            return self if self.outputs else other
        return Whole(
            tuple(one + another for one, another in zip(self.outputs, other.outputs, strict=True)),
            tuple(max_ratio(pair) for pair in zip(self.ratios, other.ratios, strict=True)),
        )


NOTHING = Whole((), ())


def max_ratio(ratios: Iterable[float | None]) -> float | None:
    """Return the largest of some ratios of one layer; None if it has none."""
    return max((ratio for ratio in ratios if ratio is not None), default=None)


class WholeNetwork:
    """The comparison of the model of the file, with all optimisations of ONNX Runtime, and the specification."""

    def __init__(self, network: Network, threads: int, *, x64_quant_precision: bool) -> None:
        self._network = network
        observed = [True] if len(network.onnx_bytes) <= OBSERVED_BYTES else []
        self._models = [
            GivenModel(network, threads, x64_quant_precision=x64_quant_precision, all_activations=each)
            for each in (False, *observed)
        ]
        work, self._at_once = effort(network)
        self._most = max(min(WORK // work, MOST_VECTORS), 1)

    def compare(self, vectors: Array, activations: Sequence[Array], host: HostCheck) -> Whole:
        """Return the results over the first vectors, as many as WORK allows.

        `activations` are the specified ones of all layers.  Raises ReferenceFailed at a value beyond its bound.
        """
        found = NOTHING
        count = min(self._most, len(vectors))
        for start in range(0, count, self._at_once):
            part = slice(start, min(start + self._at_once, count))
            written = {
                **self._network.values(vectors[part]),
                **{layer.output.name: y[part] for layer, y in zip(self._network.layers, activations, strict=True)},
            }
            outputs = [model.outputs(vectors[part]) for model in self._models]
            found += require_within_bounds(self._network, written, outputs, host, start)
        return found


def effort(network: Network, dumped: Collection[str] = ()) -> tuple[int, int]:
    """Return the operations of `bounds` for one vector, and the number of vectors for which the memory is enough."""
    work = symbols = rows = 0
    for layer in network.layers:
        work += max(layer.runtime.roundings(0), 1) * layer.size * (1 + symbols) + STEP_WORK * layer.errors.steps
        if layer.output.name not in dumped:
            symbols += layer.size if _has_symbols(layer, symbols, layer.size) else 0
        rows = max(rows, min(symbols * layer.size, MOST_ROWS))
    values = sum(tensor.size for tensor in network.inputs) + sum(layer.size for layer in network.layers)
    return work, max(BUDGET // (BYTES_A_VALUE * values + COPIES * rows * np.dtype(float).itemsize), 1)


def bounds(
    network: Network, written: Mapping[str, Array], dumped: Mapping[str, Array] | None = None
) -> Iterator[tuple[Layer, npt.NDArray[np.float64]]]:
    """Yield for each layer how far a right engine can be from its activations, float64 (vectors, size).

    `written` has the inputs of the network and all specified activations by their names.  Behind an activation whose
    errors exceed its values there are no bounds: they would show nothing, and take the time of two references.

    `dumped` are activations of the engine by their names: the layers behind one read it without errors, and `written`
    has what is specified for it.
    """
    layers, dumped = network.layers, dumped or {}
    last_reader = {name: layer for layer in layers for name in layer.sources}
    forms = {tensor.name: Form.exact(written[tensor.name].shape) for tensor in network.inputs}
    roundings = {tensor.name: 0 for tensor in network.inputs}
    symbols = 0
    for layer in layers:
        name, sources = layer.output.name, layer.sources
        read = [forms[source] for source in sources]
        before = max(roundings[source] for source in sources)
        values = [dumped.get(source, written[source]) for source in sources]
        at = Perturbed(values, [form.errors for form in read], written[name], before)
        form = _form(layer, at, read, symbols)
        columns = np.flatnonzero((np.isfinite(form.rest) & (form.rest > 0)).any(axis=0))
        if name not in dumped and _has_symbols(layer, symbols, len(columns)):
            form = form.with_symbols(symbols, columns)
            symbols += len(columns)
        forms[name], roundings[name] = form, layer.runtime.roundings(before)
        if name in dumped:
            forms[name], roundings[name] = Form.exact(form.rest.shape), 0
        yield layer, form.errors
        for source in {*sources, name}:
            if last_reader.get(source) in (layer, None):
                del forms[source]


@dataclass(frozen=True, eq=False)
class Form:
    """The differences of an activation, float64: `errors` (vectors, size) bound them.

    They are the sum of symbols times `rows` (symbols, vectors, size), up to `rest` (vectors, size).
    """

    rows: Array
    rest: Array
    errors: Array

    @classmethod
    def exact(cls, shape: tuple[int, ...]) -> Form:
        """Return the form of values without errors."""
        return cls(np.zeros((0, *shape)), np.zeros(shape), np.zeros(shape))

    @classmethod
    def unbounded(cls, shape: tuple[int, ...]) -> Form:
        """Return the form of values without a bound."""
        return cls(np.zeros((0, *shape)), np.full(shape, np.inf), np.full(shape, np.inf))

    def within(self, values: Array) -> Form:
        """Return the same, without a bound for vectors whose mean error exceeds 1 and their largest value."""
        beyond = self.errors.mean(axis=1) > np.maximum(np.abs(values.astype(np.float64)).max(axis=1), 1)
        if beyond.all():
            return self.unbounded(values.shape)
        rest, errors = (np.where(beyond[:, None], np.inf, each) for each in (self.rest, self.errors))
        return Form(self.rows, rest, errors)

    def padded(self, symbols: int) -> Array:
        """Return the rows of so many symbols."""
        more = symbols - len(self.rows)
        return np.concatenate([self.rows, np.zeros((more, *self.rest.shape))]) if more else self.rows

    def with_symbols(self, symbols: int, columns: npt.NDArray[np.intp]) -> Form:
        """Return the same with a new symbol for the finite rest of each of these columns; `symbols` are in use."""
        fresh, finite = np.zeros((len(columns), *self.rest.shape)), np.isfinite(self.rest)
        fresh[np.arange(len(columns)), :, columns] = np.where(finite, self.rest, 0)[:, columns].T
        return Form(np.concatenate([self.padded(symbols), fresh]), np.where(finite, 0, self.rest), self.errors)


def _has_symbols(layer: Layer, symbols: int, more: int) -> bool:
    return symbols + more <= MOST_SYMBOLS and (symbols + more) * layer.size <= MOST_ROWS


def _form(layer: Layer, at: Perturbed, inputs: Sequence[Form], symbols: int) -> Form:
    """Return the differences of the output; without affine arithmetic there are no rows."""
    affine = None
    if any(np.isinf(form.errors).all() for form in inputs):
        return Form.unbounded(at.output.shape)
    if symbols and symbols * max(layer.size, *(form.rest.shape[1] for form in inputs)) <= MOST_ROWS:
        with np.errstate(all="ignore"):
            affine = layer.errors.affine(at, [form.padded(symbols) for form in inputs], [form.rest for form in inputs])
    if affine is None:
        errors = layer.errors.propagated(at)
        return Form(np.zeros((0, *errors.shape)), errors, errors).within(at.output)
    rows, rest = affine[0], np.where(np.isnan(affine[1]), np.inf, affine[1])
    return Form(rows, rest, np.abs(rows).sum(axis=0) + rest).within(at.output)


def require_within_bounds(
    network: Network,
    written: Mapping[str, Array],
    found: Sequence[Mapping[str, Array]],
    host: HostCheck,
    first: int = 0,
) -> Whole:
    """Return the results of what ONNX Runtime has `found`: the outputs of the model, and perhaps all activations.

    Values without a finite bound are not compared.  `first` is the number of the first vector.
    Raises ReferenceFailed at a value beyond its bound.
    """
    outputs, ratios = [], []
    for layer, bound in bounds(network, written):
        name, largest = layer.output.name, float(bound.max(initial=0, where=np.isfinite(bound)))
        compared = int(np.count_nonzero(np.isfinite(bound)))
        for number, each in enumerate(found):
            if name not in each:
                continue
            ratio = _require_within(layer, each[name], written[name], bound, host, first)
            if number:
                ratios.append(ratio if compared else None)
            else:
                outputs.append(WholeOutput(name, len(bound), bound.size, compared, largest, ratio))
    return Whole(tuple(outputs), tuple(ratios))


def _require_within(layer: Layer, one: Array, right: Array, bound: Array, host: HostCheck, first: int) -> float:
    """Return the largest |one - right| / bound of values with a finite bound."""
    with np.errstate(all="ignore"):
        ratio = np.abs(one.astype(np.float64) - right) / bound
    ratio = np.where((one == right) | np.isinf(bound), 0, ratio)
    wrong = ~(ratio <= 1)
    if wrong.any():
        vector, column = np.argwhere(wrong)[0]
        raise ReferenceFailed(
            f"output {layer.output.name!r}, vector {first + vector}, column {column}: ONNX Runtime with the whole "
            f"network says {one[vector, column]:.9g}, the specification {right[vector, column]:.9g}, further apart "
            f"than the propagated bound {bound[vector, column]:.3g} ({np.count_nonzero(wrong)} values; {host.place})",
            REMEDY,
        )
    return float(ratio.max(initial=0))
