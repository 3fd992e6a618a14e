"""Definitions of stages in C without loops: a call for each value and step, and the terms of a sum one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.operators.exact.expression import Expression
from harness.operators.exact.stage_values import after
from harness.operators.exact.stages import Indexed, Place, Recurrence, Source, Stage, computed, guards, loads, place
from harness.operators.staged import Staged
from harness.targets.c import expression
from harness.targets.c.stage_loops import as_one
from harness.targets.c.stage_writer import Part, Step, Writer


class Operations(Writer):
    """The operations of a layer: a function of each expression, and a call for each value and step."""

    def __init__(self, layer: Staged | Part) -> None:
        super().__init__(layer)
        self._constants = {role: np.asarray(values).reshape(-1) for role, values in layer.numbers().items()}

    def functions(self) -> str:
        """Return the functions."""
        texts = []
        for stage in (stage for stage in self.stages if not _is_chain(stage)):
            names = self._parameters(stage)
            kinds = {name: (stage if node is None else node).dtype for name, node in names.items()}
            arguments = {stage.name if node is None else node.name: name for name, node in names.items()}
            texts.append(f"\n{expression.function(self._function(stage), stage.root, kinds, arguments)}\n")
        return "".join(texts)

    def statements(self) -> list[str]:
        """Return the statements of the function."""
        lines = [*self.declared(), *self.declared_arrays(lambda axis: axis.size)]
        for item in self.items:
            steps: list[tuple[Step, Sequence[Stage]]] = [({}, computed(item))]
            if isinstance(item, Recurrence):
                steps = [({}, item.starts), *(({item.time: n}, item.stages) for n in range(item.time.size))]
            for step, stages in steps:
                for stage in stages:
                    points = (dict(zip(stage.axes, point, strict=True)) for point in np.ndindex(stage.shape))
                    lines += [line for point in points for line in self._value(stage, {**step, **point})]
        return lines

    def _function(self, stage: Stage) -> str:
        is_start = id(stage) in self.moments and not self.moments[id(stage)][1].steps
        return f"{self.layer.name}_{stage.name}{'_start' if is_start else ''}"

    def _parameters(self, stage: Stage) -> dict[str, Expression | None]:
        """Return the loads of a stage by the names of parameters; None for the value so far."""
        own = {} if stage.accumulator is None else {"so_far": None}
        nodes = {node.name: node for node, _, _ in loads(stage.root)}
        return {**own, **{f"x_{number}": node for number, node in enumerate(nodes.values())}}

    def _value(self, stage: Stage, point: Step) -> Iterator[str]:
        """Yield the statements of the value of a stage at a point."""
        array, places = self.places(stage, tuple(map(place, stage.axes)))
        target = f"{self.arrays[id(array)]}[{_number(array, places, point)}]"
        if stage.accumulator is None:
            yield f"{target} = {self._call(stage, point, target)};"
            return
        numbers = np.ndindex(*(axis.size for axis in stage.over))
        limits = guards(stage.root)
        points = ({**point, **dict(zip(stage.over, number, strict=True))} for number in numbers)
        steps = (step for step in points if all(0 <= after(at, step).constant < size for _, at, size in limits))
        if _is_chain(stage):
            terms = [self._text(stage.start, point), *(self._text(stage.root.operands[1], step) for step in steps)]
            yield f"{target} = {' + '.join(terms)};"
            return
        texts = {node.name: self._load(node, point) for node, _, _ in loads(stage.start)}
        yield from as_one(self.assigned(stage.start, target, texts))
        for step in steps:
            yield f"{target} = {self._call(stage, step, target)};"

    def _text(self, root: Expression, step: Step) -> str:
        """Return the C expression of a value of `_is_short`."""
        if root.value is not None:
            return expression.literal(root.value)
        if root.load is not None:
            return self._load(root, step)
        return expression.OPERATIONS[root.operation].format(*(self._text(operand, step) for operand in root.operands))

    def _call(self, stage: Stage, step: Step, so_far: str) -> str:
        values = [so_far if node is None else self._argument(node, step) for node in self._parameters(stage).values()]
        values += [self.limits[number] for number in expression.limits(stage.root)]
        return f"{self._function(stage)}({', '.join(values)})"

    def constant(self, node: Expression) -> str:
        """Return the number."""
        return self._load(node, {})

    def _argument(self, node: Expression, step: Step) -> str:
        return "zero_point" if node.name in self.zero_points else self._load(node, step)

    def _load(self, node: Expression, step: Step) -> str:
        assert node.load is not None  # noqa: S101 - by the caller
        outside, [source, places] = node.load.outside, self.places(node.load.source, node.load.places)
        if any(not 0 <= after(at, step).constant < size for _, at, size in node.load.guards):
            return expression.literal(outside)  # type: ignore[arg-type] # a step without a number is left out
        number = _number(source, places, step)
        if isinstance(source, Source) and source.is_constant:
            return expression.literal(self._constants[source.name][number])
        array = self.source(source) if isinstance(source, Source) else self.arrays[id(source)]
        return f"{array}[{number}]"


def _is_chain(stage: Stage) -> bool:
    """Return whether C computes a sum of terms as it is written, from left to right."""
    return stage.is_sum and _is_short(stage.start, "add") and _is_short(stage.root.operands[1], "multiply")


def _is_short(root: Expression, operation: str) -> bool:
    """Return whether an expression is a value, or this operation on two."""
    return not root.operands or (root.operation == operation and not any(x.operands for x in root.operands))


def _number(source: Indexed, places: Sequence[Place], step: Step) -> int:
    """Return the place of a value in the flat array."""
    return int(np.ravel_multi_index([after(at, step).constant for at in places], source.shape)) if places else 0
