"""Operators that are defined by stages of the exact language; all else is derived from the definition."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Evaluate, Layer
from harness.operators.exact import mutations
from harness.operators.exact.errors import item_errors
from harness.operators.exact.expression import COMPARISONS, literal, substituted
from harness.operators.exact.integers import of_stages
from harness.operators.exact.printing import inline
from harness.operators.exact.stage_values import Program, number_of
from harness.operators.exact.stages import (
    SKIP,
    Axis,
    History,
    Recurrence,
    Stage,
    arrays,
    computed,
    formula,
    loaded,
    loads,
    program,
    replaced,
    sources,
    with_axis,
)
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors, Perturbed
from harness.operators.float_samples import of_samples
from harness.operators.integer_samples import of_values, special_integers
from harness.operators.obligations import Extent, Obligation
from harness.operators.sum_orders import OrderedSum, SumOrder
from harness.operators.text import Fragment, Text
from harness.operators.traits import Trait

FRAGMENT_ORDER = 130
MOST_STEPS = 1 << 18
"""The most steps that are computed in integers."""
MODULAR = "operations are modulo 2^n"
ROUNDED = "each operation is rounded to float32, half to even, in the order of the definition"


def errors_of(layer: Staged) -> Errors:
    """Return the errors of stages."""
    recurrences = [item for item in layer.program.stages if isinstance(item, Recurrence)]
    steps = sum(item.time.size * len(item.stages) for item in recurrences)
    return Errors(layer, specified=layer.specified, distance=layer.distance, steps=steps)


@dataclass(frozen=True, eq=False)
class Staged(Layer):
    """A layer whose `definition` is a program of stages (exact/stages.py); `numbers` has its constants by name.

    ONNX Runtime may use other orders and roundings: each result lies within the error bounds of the stages.
    """

    traits = Trait.NONE
    text = Text(facts_of=lambda _: {})
    errors = Ability[Errors](errors_of)
    sum_order = Ability[SumOrder](lambda layer: SumOrder(layer, layer.ordered_sum))

    @abstractmethod
    def definition(self) -> Stage:
        """Return the last stage of the definition for the shapes of the layer; its input is `x`."""

    @cached_property
    def program(self) -> Program:
        """The prepared definition."""
        return Program(program(self.definition()), self.numbers())

    @cached_property
    def steps(self) -> int:
        """The steps of all folds for one vector, one for each value of another stage."""
        count = 0
        for item in program(self.definition()):
            times = item.time.size if isinstance(item, Recurrence) else 1
            count += times * sum(stage.size * stage.steps for stage in computed(item))
        return count

    def numbers(self) -> Mapping[str, Any]:
        """Return the constants of the definition, float32 arrays."""
        return self.text.facts()

    def prepare(self) -> Evaluate:
        """Return the function of the program, whose float32 operations are numpy's."""
        return self.program

    def in_integers(self, inputs: Sequence[Array]) -> Array | None:
        """Return the values of the stages for as many vectors as have few steps; None if one has many."""
        count = MOST_STEPS // self.steps
        return of_stages(self.program, [values[:count] for values in inputs]) if count else None

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array | None:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:
        """Return the error bounds of the stages for exact inputs, float64 (vectors, size)."""
        return self._errors(inputs, [np.zeros(x.shape) for x in inputs]).reshape(output.shape)

    def distance(self, at: Perturbed) -> Array:
        """Return the error bounds of the stages for inputs with errors, float64 (vectors, size)."""
        return self._errors(at.values, at.errors).reshape(at.output.shape)

    def _errors(self, inputs: Sequence[Array], errors_of_inputs: Sequence[Array]) -> Array:
        values = self.program.values(inputs)
        errors: dict[int, Array] = {}
        for source in sources(self.program.stages):
            zeros = np.zeros(values[id(source)].shape)
            own = None if source.is_constant else errors_of_inputs[number_of(source)]
            errors[id(source)] = zeros if own is None else np.ascontiguousarray(own, np.float64).reshape(zeros.shape)
        for item in self.program.stages:
            errors |= item_errors(item, values, errors, len(inputs[0]))
        return errors[id(self.program.stages[-1])]

    def ordered_sum(self, *inputs: Array) -> OrderedSum | None:
        """Return the sums of the last stage that adds terms."""
        items = self.program.stages
        places = [number for number, item in enumerate(items) if isinstance(item, Stage) and item.is_sum]
        if not places:
            return None
        place, count = places[-1], len(inputs[0])
        values = self.program.values(inputs)
        stage = items[place]
        assert isinstance(stage, Stage)  # noqa: S101 - see above
        terms, start = self.program.terms(place, values, count), stage.start.value
        known = {id(other): values[id(other)] for item in items[:place] for other in arrays(item)}

        def finish(sums: Array) -> Array:
            added = np.asarray(sums + np.float32(0) if start == 0 else sums, np.float32).reshape(count, *stage.shape)
            return self.program.from_stage(place + 1, {**known, id(stage): added}, *inputs)

        # A sum from 0 on is one from the first term on, but for the sign of 0.
        return OrderedSum(terms, finish, None if start == 0 else np.asarray(start))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders of the sum, steps that are left out, and the mutants of each stage."""
        yield from self.sum_order.faults(*inputs)
        for cause, right, wrong in self.mutants:
            yield FaultModel(cause, right, wrong(*inputs))

    @cached_property
    def mutants(self) -> list[tuple[str, str, Program]]:
        """The causes of faults of single operations, what is right there, and the programs that have them."""
        stages, mutants = self.program.stages, []
        for stage in (stage for item in stages for stage in computed(item)):
            right = f"{stage.name} is {inline(stage.root)}"
            for cause, wrong in _wrong(stage):
                mutants.append((cause, right, Program(replaced(stages, stage, wrong), self.numbers())))
        mutants += [(cause, ROUNDED, other) for cause, other in self.alternatives()]
        return mutants

    def alternatives(self) -> Iterator[tuple[str, Program]]:
        """Yield other programs with the faults that they are; none by default."""
        return iter(())

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, ROUNDED)

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption about orders and roundings."""
        yield (
            f"{self.operator} rounds each operation to float32, as IEEE 754 requires, in the order of its definition "
            "for all inputs: random and special numbers were tried."
        )


class OfIntegers(Staged):
    """Stages of integers, whose sums have one value in every order."""

    errors = Ability[Errors](lambda layer: Errors(layer, exact=True))
    sum_order = Ability[SumOrder](SumOrder)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:  # noqa: ARG002 - as of the base
        """Return None: every bit must agree."""
        return None

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - of integers
        """Yield special values and random bits."""
        special = special_integers(self.input.dtype)
        yield of_values(self, "integers give the specified bits, at the ends of their type too", special)

    def assumptions(self) -> Iterator[str]:
        """Yield that the values are samples."""
        yield f"{self.operator} computes with integers modulo 2^n: random and special values were tried."


def _wrong(stage: Stage) -> Iterator[tuple[str, Stage]]:
    """Yield the faults of a stage in words, and the stage that has them."""
    for axis in stage.over:
        if axis.size > 1:
            yield (
                f"the last values along {axis.name} are left out of {stage.name}",
                with_axis(stage, axis, Axis(axis.name, axis.size - 1)),
            )
    if stage.is_sum and sum(axis.size > 1 for axis in stage.over) > 1:
        yield f"the axes of the steps of {stage.name} are exchanged", replace(stage, over=stage.over[::-1])
    yield from _wrong_guards(stage)
    condition, *choices = stage.root.operands if stage.root.operation == "select" else [stage.root]
    is_of_order = condition.operation in COMPARISONS and condition.operation != "equal"
    if stage.accumulator is not None and stage.start.value is not None and choices and is_of_order:
        one, other = choices
        opposite = replace(condition, operands=condition.operands[::-1])
        root = replace(stage.root, operands=(opposite, one, other))
        limits = np.iinfo(stage.dtype) if stage.dtype.kind in "iu" else None
        end = -float(stage.start.value) if limits is None else limits.min + limits.max - int(stage.start.value)
        yield "the value at the other end is taken", replace(stage, root=root, start=literal(end, stage.dtype))
    for node, source, places in loads(stage.root):
        for at in (places[0] - 1, places[0] + 1) if isinstance(source, History) else ():
            if at.is_inside(source.shape[0]):  # the state of the step before, or behind
                value = source[(at, *places[1:])]
                root = substituted(stage.root, {id(node): value})
                yield f"in {stage.name}: {node.name} is {inline(value)}", replace(stage, root=root)
    for cause, root in mutations.mutants(stage.root):
        is_same = stage.dtype.kind in "iu" and "equality" in cause  # of equal codes either one is the largest
        if not is_same:
            yield f"in {stage.name}: {cause}", replace(stage, root=root)


def _wrong_guards(stage: Stage) -> Iterator[tuple[str, Stage]]:
    """Yield that windows begin one place early or late, and that places outside take part."""
    for node, source, places in loads(stage.root):
        if node.load is None or node.load.outside is not SKIP:
            continue
        zero = node.load._replace(outside=source.dtype.type(0))
        # 0 changes no sum of products, and no largest code from 0 on; a zero point may be taken from a code.
        is_neutral = source.dtype == stage.dtype and (stage.is_sum or stage.start.value == 0)
        others = {} if is_neutral else {f"places outside {source.name} count as 0 in {stage.name}": zero}
        for number, at, _ in node.load.guards:
            for cause, shift in (("early", -1), ("late", 1)):
                moved = (*places[:number], at + shift, *places[number + 1 :])
                axes = ", ".join(axis.name for axis in at.axes if axis in stage.over)
                others[f"{stage.name} begins one place {cause} along {axes}"] = node.load._replace(places=moved)
        for cause, load in others.items():
            yield cause, replace(stage, root=substituted(stage.root, {id(node): loaded(load)}))


def described(operator: str, example: Stage, constants: Mapping[str, str], kind: str = "float32") -> dict[str, Any]:
    """Return the formula and the fragments of `Text` for an operator of a kind by a definition of any sizes.

    `constants` has the roles of the constants with the comments of the fragment.
    """
    lines = formula(program(example))
    comment = "".join(f"#     {line}\n" for line in lines)
    kinds = {role: "integer" if text.startswith("int") else "scalar" for role, text in constants.items()}
    numbers = [f"    {role}: tensor<{kinds[role]}>,".ljust(44) + f"# {text}\n" for role, text in constants.items()]
    name = f"{operator.lower()}_{kind}"
    text = f"""\
# ONNX {operator}: {ROUNDED if kind == "float32" else MODULAR}.
{comment}fragment {name}(
    x: tensor<scalar>,                      # {kind} (vectors, N)
{"".join(numbers)}    axes: tensor<integer>,                  # int32 (2, axes): sizes, and 1 for those that it folds
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
"""
    return {"formula": "\n".join(lines), "fragments": (Fragment(name, FRAGMENT_ORDER, text),)}
