"""Sizes of axes as polynomials of symbols with integer coefficients, such as 16*H*W or floor((H + 1)/2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

Monomial: TypeAlias = tuple[Union[str, "Floor"], ...]
"""A product of symbols and rounded quotients, sorted by their text; empty for the constant term."""


@dataclass(frozen=True)
class Floor:
    """The quotient of a size and an integer, rounded down."""

    dividend: Size
    divisor: int

    def __str__(self) -> str:
        """Return floor(dividend/divisor)."""
        text = str(self.dividend)
        return f"floor({f'({text})' if ' ' in text else text}/{self.divisor})"


@dataclass(frozen=True)
class Size:
    """The sum of coefficient * monomial over `terms`, which are sorted and have no coefficient 0."""

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def of(cls, value: Size | int | str) -> Size:
        """Return a size, an integer or a symbol as a size."""
        if isinstance(value, Size):
            return value
        return _sum([((value,), 1)] if isinstance(value, str) else [((), int(value))])

    @property
    def constant(self) -> int | None:
        """The integer that it is; None with symbols."""
        return 0 if not self.terms else self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def symbol(self) -> str | None:
        """The symbol that it is; None if it is more or less than one."""
        [(monomial, factor), *others] = self.terms or (((), 0),)
        alone = not others and factor == 1 and len(monomial) == 1 and isinstance(monomial[0], str)
        return str(monomial[0]) if alone else None

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols on which it depends."""
        atoms = [atom for monomial, _ in self.terms for atom in monomial]
        return frozenset().union(*({atom} if isinstance(atom, str) else atom.dividend.symbols for atom in atoms))

    def solved(self) -> tuple[str, Size] | None:
        """Return a symbol and the value of it for which the size is 0; None if no symbol occurs once, linearly.

        A value that is no integer is returned as a negative one, which no size has.
        """
        for monomial, factor in self.terms:
            if len(monomial) == 1 and isinstance(name := monomial[0], str):
                rest = self - Size(((monomial, factor),))
                if name in rest.symbols:
                    continue
                if factor in (1, -1):
                    return name, rest * -factor
                if rest.constant is not None:
                    return name, Size.of(-1 if rest.constant % factor else -rest.constant // factor)
        return None

    def substituted(self, values: Mapping[str, Size]) -> Size:
        """Return the size with sizes in the place of symbols."""
        if not self.symbols & values.keys():
            return self
        total = Size(())
        for monomial, factor in self.terms:
            product = Size.of(factor)
            for atom in monomial:
                if isinstance(atom, str):
                    product *= values.get(atom, Size.of(atom))
                else:
                    product *= atom.dividend.substituted(values) // atom.divisor
            total += product
        return total.substituted(values)

    def __add__(self, other: Size | int) -> Size:
        """Return the sum."""
        return _sum([*self.terms, *Size.of(other).terms])

    def __neg__(self) -> Size:
        """Return the size with the other sign."""
        return self * -1

    def __sub__(self, other: Size | int) -> Size:
        """Return the difference."""
        return self + -Size.of(other)

    def __mul__(self, other: Size | int) -> Size:
        """Return the product."""
        pairs = [(a, b) for a in self.terms for b in Size.of(other).terms]
        return _sum([(tuple(sorted((*a[0], *b[0]), key=str)), a[1] * b[1]) for a, b in pairs])

    def __floordiv__(self, divisor: int) -> Size:
        """Return the quotient, rounded down; a symbol stays where its coefficient is a multiple."""
        whole = _sum([(monomial, factor // divisor) for monomial, factor in self.terms])
        rest = self - whole * divisor
        if rest.constant is not None:
            return whole
        [(monomial, factor), *others] = rest.terms
        if not others and factor == 1 and len(monomial) == 1 and isinstance(atom := monomial[0], Floor):
            return whole + atom.dividend // (atom.divisor * divisor)  # rounding down twice is once
        return whole + _sum([((Floor(rest, divisor),), 1)])

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: int) -> Size:
        """Return an integer less the size."""
        return -self + other

    def exactly_divided(self, other: Size) -> Size | None:
        """Return the quotient without a rest; None if there is none that is a polynomial."""
        if len(other.terms) != 1:
            return Size.of(1) if self == other and self.terms else None
        [(divisor, factor)] = other.terms
        quotients = []
        for monomial, coefficient in self.terms:
            left = list(monomial)
            for atom in divisor:
                if atom not in left:
                    return None
                left.remove(atom)
            if coefficient % factor:
                return None
            quotients.append((tuple(left), coefficient // factor))
        return _sum(quotients)

    def __str__(self) -> str:
        """Return the polynomial, the constant term last."""
        texts = []
        for monomial, factor in sorted(self.terms, key=lambda term: (not term[0], str(term[0]))):
            factors = [*([str(abs(factor))] if abs(factor) != 1 or not monomial else []), *map(str, monomial)]
            texts.append(("- " if factor < 0 else "+ ") + "*".join(factors))
        text = " ".join(texts).removeprefix("+ ") or "0"
        return f"-{text[2:]}" if text.startswith("- ") else text


def _sum(terms: list[tuple[Monomial, int]]) -> Size:
    found: dict[Monomial, int] = {}
    for monomial, factor in terms:
        found[monomial] = found.get(monomial, 0) + factor
    return Size(tuple(sorted(((m, f) for m, f in found.items() if f), key=lambda term: tuple(map(str, term[0])))))
