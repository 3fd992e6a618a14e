"""The comparison of an engine's activations with the specification, a block of vectors at a time.

Each layer is compared twice: with the reference for the inputs of the network, and with what the specification makes of
the layer's own inputs as the engine had them.  The second comparison shows whether the layer's own arithmetic differs.
Layers without a dump are computed from the last dumps before them, and are judged together with the layer behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.analysis.compare import compare, difference_map
from harness.analysis.diagnosis import Case, portray
from harness.analysis.diagnosis.hypothesis_scoring import steps
from harness.applications.judge.activations import output_names
from harness.applications.judge.arithmetic import Chain
from harness.applications.judge.explanation import MOST_LAYERS
from harness.applications.judge.float_evaluation import prepared
from harness.applications.judge.matching import Matched, Rows
from harness.applications.judge.results import Decisions, Judgement, LayerJudgement
from harness.applications.judge.stored_reference import Reference, StoredReference
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Evaluate, Layer
from harness.operators.traits import Trait
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import Stimuli
from harness.reference.whole_network import bounds, effort

BLOCK_BYTES = 24 << 20
"""Bytes of the activations of a block: those of the engine, the reference, and those of the engine's own inputs."""
SAMPLED = 1 << 16
"""Values of a sample of a layer."""
MOST_VECTORS = 1 << 14
"""Vectors of a block."""


class Judge:
    """The comparison of a network and matched dumps; `stimuli` are the vectors that the engine had, if they are known.

    `explains` is whether causes of differences are searched.  `reference` is a folder that keeps the reference.
    """

    def __init__(
        self,
        network: Network,
        matched: Matched,
        stimuli: Stimuli | None,
        *,
        explains: bool = True,
        reference: Path | None = None,
    ) -> None:
        self.network, self.activations, self.stimuli = network, matched.activations, stimuli
        self.explains = explains and network.steps == 1  # a cause of a stream needs all vectors that precede it
        self.evaluate: dict[str, Evaluate] = {layer.name: prepared(layer) for layer in network.layers}
        specification = SpecificationReference(network, prepare=lambda layer: self.evaluate[layer.name])
        self.has_tolerance = any(layer.errors.has_tolerance for layer in network.layers)
        self.bounded_at_once = effort(network, set(self.activations))[1]
        dumped = [index for index, layer in enumerate(network.layers) if layer.output.name in self.activations]
        self.layers = {index: LayerJudgement(network.layers[index], index) for index in dumped}
        for judged in self.layers.values():
            stored = self.activations[judged.layer.output.name].dumped.dtype
            judged.is_converted = stored.kind == "f" != judged.layer.dtype.kind
        outputs = output_names(network)
        self.decided = {
            layer.output.name: (Decisions(layer.output.name), layer)
            for layer in (network.layers[index] for index in dumped)
            if layer.output.name in outputs and (layer.size > 1 or Trait.INDEX in layer.traits)
        }
        counts = {name: activation.count for name, activation in self.activations.items()}
        self.vectors = min(counts.values(), default=0)
        self.problems = list(matched.problems)
        self._require_counts(counts)
        self.stored = None
        if reference and stimuli and stimuli.count == self.vectors:
            self.stored = StoredReference(reference, network, stimuli, specification)
        self.specification: Reference = self.stored or specification
        missing = [name for name in outputs if name not in self.activations]
        self._result = Judgement(
            list(self.layers.values()), [one for one, _ in self.decided.values()], self.vectors, outputs, missing,
            self.problems,
        )  # fmt: skip

    def _require_counts(self, counts: Mapping[str, int]) -> None:
        """Note where tensors have different numbers of vectors, or other than the vectors that the engine had."""
        if len(set(counts.values())) > 1:
            fewest = [name for name, count in counts.items() if count == self.vectors]
            more = f" and {len(fewest) - 3} more" if len(fewest) > 3 else ""
            self.problems.append(
                f"only the first {self.vectors:,} vectors are compared: the dumps have no more of "
                f"{', '.join(fewest[:3])}{more}, and up to {max(counts.values()):,} of the others"
            )
        if self.stimuli and self.stimuli.count != self.vectors:
            self.problems.append(f"the dumps have {self.vectors:,} vectors, and --vectors {self.stimuli.count:,}")
            self.vectors = min(self.vectors, self.stimuli.count)
        if not self.stimuli:
            self.problems.append("the inputs of the network are not known: give --vectors, or dump them too")

    @property
    def nbytes(self) -> int:
        """The bytes of all compared dumps."""
        return sum(activation.nbytes for activation in self.activations.values())

    def run(self, advance: Callable[[int], object]) -> Judgement:
        """Compare all vectors; `advance` is called with the number of finished ones."""
        size = sum(layer.size * layer.dtype.itemsize for layer in self.network.layers)
        steps_of_stream = self.network.steps
        at_once = max(min(BLOCK_BYTES // size, MOST_VECTORS) // steps_of_stream, 1) * steps_of_stream
        for start in range(0, self.vectors, at_once):
            stop = min(start + at_once, self.vectors)
            _Block(self, start, stop).compare()
            advance(stop - start)
        if self.stored:
            self.stored.finish()
        self._result.vectors = self.vectors
        return self._result


class _Block:
    """Some vectors: what the engine had, what is specified for it, and the reference."""

    def __init__(self, judge: Judge, start: int, stop: int) -> None:
        self._judge, self._start, self._stop = judge, start, stop
        self._network = judge.network
        self._values: dict[str, Array] = {}
        self._local: dict[str, Array] = {}
        self._reference: dict[str, Array] = {}
        self._changed: set[str] = set()
        self._derived: dict[str, tuple[str, ...]] = {}
        self._unequal: list[int] = []

    def compare(self) -> None:
        """Compare all layers, then find bounds and causes for those that differ."""
        judge = self._judge
        self._read_inputs()
        for index, layer in enumerate(self._network.layers):
            self._specify(index, layer)
            if index in judge.layers:
                rows = judge.activations[layer.output.name].rows(self._start, self._stop)
                self._compare_layer(judge.layers[index], rows)
                self._values[layer.output.name] = rows.values
            elif layer.output.name in self._local:
                self._values[layer.output.name] = self._local[layer.output.name]
        limits = self._limits() if self._unequal and judge.has_tolerance else {}
        for index in self._unequal:
            self._judge_own(judge.layers[index], limits)

    def _read_inputs(self) -> None:
        """Read the vectors; inputs in the dumps must be the same."""
        judge = self._judge
        dumped = {
            tensor.name: judge.activations[tensor.name].rows(self._start, self._stop)
            for tensor in self._network.inputs
            if tensor.name in judge.activations
        }
        if judge.stimuli:
            vectors = judge.stimuli.chunk(self._start, self._stop)
            self._values |= self._network.values(vectors)
        else:
            self._values |= {name: rows.values for name, rows in dumped.items()}
            return
        for name, rows in dumped.items():
            if rows.off is not None or difference_map(rows.values, self._values[name]).any():
                self._problem(f"the input {name!r} in the dumps is not that of the vectors")
        activations = judge.specification.activations(vectors)
        names = (layer.output.name for layer in self._network.layers)
        self._reference = dict(zip(names, activations, strict=True))

    def _problem(self, text: str) -> None:
        if text not in self._judge.problems:
            self._judge.problems.append(text)

    def _specify(self, index: int, layer: Layer) -> None:
        """Compute what is specified for the inputs of a layer that the engine had; nothing if one is not known."""
        name = layer.output.name
        if any(source not in self._values for source in layer.sources):
            return
        self._extend_chain(index, layer)
        misled = not self._changed.isdisjoint(layer.sources)
        if name in self._reference and not misled:
            self._local[name] = self._reference[name]
            return
        inputs = [self._values[source] for source in layer.sources]
        with np.errstate(all="ignore"):  # an engine can have anything
            self._local[name] = self._judge.evaluate[layer.name](*inputs)
        if name not in self._judge.activations:
            self._changed.add(name)

    def _extend_chain(self, index: int, layer: Layer) -> None:
        """Note which layers without a dump are computed together with this one."""
        before = [name for source in layer.sources for name in self._derived.get(source, ())]
        if index in self._judge.layers:
            self._judge.layers[index].chain = tuple(dict.fromkeys(before))
        else:
            self._derived[layer.output.name] = tuple(dict.fromkeys([*before, layer.name]))

    def _compare_layer(self, judged: LayerJudgement, rows: Rows) -> None:
        """Compare the values of the engine with the reference, and with what is specified for its inputs."""
        name, values = judged.layer.output.name, rows.values
        judged.compared += values.size
        judged.off += 0 if rows.off is None else int(np.count_nonzero(rows.off))
        reference, local = self._reference.get(name), self._local.get(name)
        if reference is None:
            judged.differing = None
        else:
            self._compare_reference(judged, rows, reference)
        specified = local if local is not None else reference
        if rows.nan is not None:
            expected = np.zeros(values.shape, bool) if specified is None else _is_nan(specified)
            judged.nan += int(np.count_nonzero(rows.nan & ~expected))
        if local is None:
            return
        judged.own_compared += values.size
        if self._judge.explains and judged.sample is None and not judged.chain:
            judged.sample = self._sample(judged, local, values)
        is_equal = local is reference and name not in self._changed
        if not is_equal and difference_map(local, values).any():
            self._unequal.append(judged.index)

    def _compare_reference(self, judged: LayerJudgement, rows: Rows, reference: Array) -> None:
        name, values = judged.layer.output.name, rows.values
        if _is_nan(reference).any():
            self._problem(f"{judged.layer.name}: a specified value is NaN, whose bits IEEE 754 leaves open")
        comparison = compare(reference, values, self._start)
        if judged.differing is not None:
            judged.differing += comparison.differing
        judged.first = judged.first or comparison.first
        if comparison.differing or rows.off is not None:
            self._changed.add(name)
            judged.largest = max(judged.largest, _largest(reference, values))
            if values.dtype.kind == "f":
                judged.distance = max(judged.distance, _largest_number(reference, values))
                judged.range = max(judged.range, _largest_number(reference, np.zeros_like(reference)))
        if name in self._judge.decided:
            self._decide(reference, rows, *self._judge.decided[name])

    def _sample(self, judged: LayerJudgement, local: Array, values: Array) -> Case:
        rows = slice(max(SAMPLED // judged.layer.size, 1))
        inputs = tuple(self._values[source][rows] for source in judged.layer.sources)
        return Case(judged.index, judged.layer, inputs, local[rows], values[rows], self._start)

    def _decide(self, reference: Array, rows: Rows, decisions: Decisions, layer: Layer) -> None:
        def decided(values: Array) -> Array:
            return values if Trait.INDEX in layer.traits else np.argmax(values, axis=1)[:, None]

        changed = (decided(reference) != decided(rows.values)).any(axis=1)
        decisions.vectors += len(changed)
        decisions.changed += int(np.count_nonzero(changed))
        if decisions.first is None and changed.any():
            decisions.first = self._start + int(changed.argmax())

    def _limits(self) -> dict[str, Array]:
        """Return how far right values of the engine can be from what is specified for it, by the name of the layer."""
        judge, network = self._judge, self._network
        dumped = {name: self._values[name] for name in judge.activations if name in self._local}
        sources = {tensor.name for tensor in network.inputs}
        if not all(name in self._values for name in sources):
            return self._limits_of_single_layers()
        limits: dict[str, list[Array]] = {}
        for start in range(0, self._stop - self._start, judge.bounded_at_once):
            part = slice(start, start + judge.bounded_at_once)
            written = {name: self._values[name][part] for name in sources}
            written |= {name: values[part] for name, values in self._local.items()}
            with np.errstate(all="ignore"):
                for layer, bound in bounds(network, written, {name: x[part] for name, x in dumped.items()}):
                    if layer.output.name in dumped:
                        limits.setdefault(layer.output.name, []).append(bound)
        return {name: np.concatenate(parts) for name, parts in limits.items()}

    def _limits_of_single_layers(self) -> dict[str, Array]:
        """Return the tolerances of layers all of whose inputs are in the dumps."""
        limits: dict[str, Array] = {}
        for index in self._unequal:
            layer = self._network.layers[index]
            local = self._local[layer.output.name]
            if self._judge.layers[index].chain:
                limits[layer.output.name] = np.full(local.shape, np.inf)
                continue
            with np.errstate(all="ignore"):
                tolerance = layer.tolerance([self._values[source] for source in layer.sources], local)
            limits[layer.output.name] = np.zeros(local.shape) if tolerance is None else tolerance
        return limits

    def _judge_own(self, judged: LayerJudgement, limits: Mapping[str, Array]) -> None:
        layer = judged.layer
        expected, actual = self._local[layer.output.name], self._values[layer.output.name]
        different = difference_map(expected, actual)
        judged.unequal += int(np.count_nonzero(different))
        judged.own_first = judged.own_first or compare(expected, actual, self._start).first
        wrong = different
        if layer.output.name in limits:
            wrong = self._beyond(judged, expected, actual, limits[layer.output.name]) & different
        judged.own += int(np.count_nonzero(wrong))
        inputs = tuple(self._values[source] for source in layer.sources)
        case = Case(judged.index, layer, inputs, expected, actual, self._start)
        if layer.dtype.kind in "iuf" and layer.dtype.itemsize <= np.dtype(np.float32).itemsize:
            summary = portray(case, expected, self._judge.vectors)
            judged.summary = judged.summary + summary if judged.summary else summary
        if self._judge.explains and not judged.off:
            judged.explanation.add(case, self._chain(judged))

    def _beyond(self, judged: LayerJudgement, expected: Array, actual: Array, bound: Array) -> Array:
        """Return where values lie beyond their bound; those without a finite bound are counted instead."""
        with np.errstate(all="ignore"):
            ratio = np.abs(actual.astype(np.float64) - expected.astype(np.float64)) / bound
        different = difference_map(expected, actual)
        ratio = np.where(different, np.where(np.isnan(ratio), np.inf, ratio), 0)
        open_ended = np.isinf(bound) & different & ~_is_nan(actual)
        judged.unbounded += int(np.count_nonzero(open_ended))
        beyond = (ratio > 1) & ~open_ended
        judged.ratio = max(judged.ratio, float(ratio.max(initial=0, where=~open_ended)))
        return beyond

    def _chain(self, judged: LayerJudgement) -> Chain | None:
        """Return the layers without dumps before this one, if there are some, and not too many."""
        if not 0 < len(judged.chain) < MOST_LAYERS:
            return None
        by_name = {layer.name: layer for layer in self._network.layers}
        layers: Sequence[Layer] = [*(by_name[name] for name in judged.chain), judged.layer]
        written = {layer.output.name for layer in layers}
        sources = {source for layer in layers for source in layer.sources if source not in written}
        return Chain(layers, self._judge.evaluate, {source: self._values[source] for source in sources})


def _is_nan(values: Array) -> Array:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)


def _largest_number(expected: Array, actual: Array) -> float:
    """Return the largest finite difference of numbers."""
    with np.errstate(all="ignore"):
        distance = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return float(distance.max(initial=0, where=np.isfinite(distance)))


def _largest(expected: Array, actual: Array) -> float:
    """Return the largest difference in steps of the scale or units in the last place; 0 for other floats."""
    if expected.dtype.kind == "f" and expected.dtype != np.float32:
        return 0.0
    counted = difference_map(expected, actual) & ~(_is_nan(expected) | _is_nan(actual))
    with np.errstate(all="ignore"):
        return float(np.abs(steps(expected[counted], actual[counted])).max(initial=0))
