"""Functions of two codes in C: QLinearAdd and QLinearMul; a term is an activation or a constant table of codes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

import numpy as np

from harness.operators.code_pairs import CodePairs
from harness.operators.qlinear_add import QLinearAdd
from harness.operators.qlinear_mul import QLinearMul
from harness.targets.c import broadcast, code
from harness.targets.c.code import CLowering
from harness.targets.generated import LayerCode, Table, literal

P = TypeVar("P", bound=CodePairs)


class CodePairsLowering(CLowering[P]):
    """One float32 per value, which is rounded."""

    kernel: ClassVar[str]
    """Name of the function in the operator's header, without prefix and type."""

    @abstractmethod
    def value(self, layer: P, a: str, b: str, number: Callable[[str], str]) -> str:
        """Return the float32 that is rounded; `number` returns the text of a constant of the layer."""

    def plain(self, layer: P, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Call the function of the operator's header."""
        if layer.broadcasts:
            return self.inlined(layer, sources)
        numbers = ", ".join(f"{layer.name}_{role}[0]" for role in layer.numbers())
        call = f"{prefix}{self.kernel}_{layer.dtype}({layer.size}, {', '.join(_arrays(layer))}, {numbers}, out);"
        return code.elementwise(layer, sources, _tables(layer), call)

    def inlined(self, layer: P, sources: Sequence[str]) -> LayerCode:
        """Loop over the values, or over the axes with broadcasting."""
        if layer.broadcasts:
            operands = list(zip(("in_0", "in_1"), layer.shapes, strict=True))
            loops = broadcast.loops(
                layer.output.shape,
                operands,
                lambda pair: self._rounded(layer, pair, lambda role: f"{layer.name}_{role}[0]"),
            )
            return code.of_inputs(layer, sources, f"{code.zero_point('0')}\n    {loops}", _tables(layer))
        a, b = (f"{array}[n]" for array in _arrays(layer))
        value = self.value(layer, a, b, lambda role: f"{layer.name}_{role}[0]")
        loop = code.loop(layer, f"out[n] = {code.rounded(layer.dtype, value)};")
        return code.elementwise(layer, sources, _tables(layer), f"{code.zero_point('0')}\n    {loop}")

    def unrolled(self, layer: P, sources: Sequence[str]) -> LayerCode:
        """Write every value, with the constants as literals."""
        numbers = {role: literal(np.atleast_1d(number)[0]) for role, number in layer.numbers().items()}
        if layer.broadcasts:
            read = [[f"in_{number}[{n}]" for n in range(tensor.size)] for number, tensor in enumerate(layer.inputs)]
            operands = list(zip(read, layer.shapes, strict=True))
            values = broadcast.elements(
                layer.output.shape, operands, lambda pair: self._rounded(layer, pair, numbers.__getitem__)
            )
            return code.of_inputs(layer, sources, f"{code.zero_point('0')}\n    {code.assigned(values)}")
        constant = [] if layer.operand is None else [str(value) for value in layer.operand]
        texts = {name: [f"{name}[{n}]" for n in range(layer.size)] for name in ("in", "other")}
        terms = [texts.get(array, constant) for array in _arrays(layer)]
        body = code.assigned(self._rounded(layer, pair, numbers.__getitem__) for pair in zip(*terms, strict=True))
        return code.elementwise(layer, sources, (), f"{code.zero_point('0')}\n    {body}")

    def _rounded(self, layer: P, pair: Sequence[str], number: Callable[[str], str]) -> str:
        a, b = pair
        return code.rounded(layer.dtype, self.value(layer, a, b, number))


def _arrays(layer: CodePairs) -> tuple[str, str]:
    """Return the names of the arrays that hold a and b."""
    if layer.operand is None:
        return "in", "other"
    operand = f"{layer.name}_{layer.operand_role}"
    return (operand, "in") if layer.constant_first else ("in", operand)


def _tables(layer: CodePairs) -> tuple[Table, ...]:
    """Return the tables of the constant operand, if there is one, and of the numbers."""
    operand = {} if layer.operand is None else {layer.operand_role: layer.operand}
    numbers = {
        role: np.atleast_1d(np.int32(number) if isinstance(number, int) else number)
        for role, number in layer.numbers().items()
    }
    return tuple(Table(f"{layer.name}_{role}", values) for role, values in (operand | numbers).items())


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """Two fused multiply-adds per value (kernels/c/qlinear_add.h)."""

    operator = QLinearAdd
    headers = ("qlinear_add.h",)
    kernel = "qlinear_add"

    def value(self, layer: QLinearAdd, a: str, b: str, number: Callable[[str], str]) -> str:  # noqa: ARG002 - no fact
        """Return fma(ra, a, fma(rb, b, c))."""
        second = f"fused({number('second_ratio')}, (float){b}, {number('fixed')})"
        return f"fused({number('first_ratio')}, (float){a}, {second})"


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """An integer product, a multiplication and an addition per value (kernels/c/qlinear_mul.h)."""

    operator = QLinearMul
    headers = ("qlinear_mul.h",)
    kernel = "qlinear_mul"

    def value(self, layer: QLinearMul, a: str, b: str, number: Callable[[str], str]) -> str:  # noqa: ARG002 - no fact
        """Return (a - za) * (b - zb) * m + zy."""
        product = f"({a} - ({number('a_zero_point')})) * ({b} - ({number('b_zero_point')}))"
        return f"(float)({product}) * {number('multiplier')} + (float){number('y_zero_point')}"
