"""Loops over the values of a layer, with sizes as literals, or as parameters of a function that layers share.

ACETONE's first variant, `c:generic`, has one function per operator.  It follows from the text of the loops: what a
layer alone has are parameters, sizes, constants and arrays between stages, and layers of one text have one function.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.operators.base import Layer
from harness.targets.c import code
from harness.targets.c.code import CLowering, L
from harness.targets.generated import C_TYPES, LayerCode, Table

NAME = "THIS_FUNCTION"


class Sizes:
    """The numbers that follow from the sizes of a layer, as C text: literals, or `parameters` of a function."""

    def __init__(self, *, are_parameters: bool = False) -> None:
        self.are_parameters = are_parameters
        self.parameters: dict[str, int] = {}

    def text(self, name: str, value: int, suffix: str = "") -> str:
        """Return a number; equal ones with the same name are one parameter."""
        if not self.are_parameters:
            return f"{value}{suffix}"
        names = itertools.chain([name], (f"{name}{number}" for number in itertools.count(2)))
        return next(text for text in names if self.parameters.setdefault(text, value) == value)

    def sum(self, terms: Sequence[tuple[str, int, str]], constant: int = 0, name: str = "") -> str:
        """Return a sum of texts times numbers, each with the name of its number, and of a constant with a name.

        Numbers without a name are left out, and as literals also those that change nothing.
        """
        signed = []
        for text, step, factor in terms:
            has_factor = factor and (self.are_parameters or abs(step) > 1)
            signed.append((f"{text} * {self.text(factor, abs(step))}" if has_factor else text, step))
        if constant or (self.are_parameters and name):
            signed.append((self.text(name, abs(constant)), constant or -1))
        added, subtracted = ([text for text, sign in signed if (sign > 0) is is_added] for is_added in (True, False))
        return " - ".join([" + ".join(added) or "0", *subtracted])


@dataclass(frozen=True)
class Body:
    """The statements that compute `out`; they read `tables` and call `function`, which has the name <layer>_value.

    `between` are definitions of arrays, one a line, which the statements of a function with parameters lack.
    """

    statements: str
    tables: tuple[Table, ...] = ()
    function: str = ""
    between: Sequence[str] = ()


class LoopsLowering(CLowering[L]):
    """A layer of one stage whose loops do not depend on the variant, but for their sizes."""

    @abstractmethod
    def body(self, layer: L, sizes: Sizes) -> Body:
        """Return the loops, which read `in`, or `in_0`, `in_1` and so on."""

    def plain(self, layer: L, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Return the loops."""
        return of_body(layer, sources, self.body(layer, Sizes()))

    def generic(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Return a call of the function with the loops, which layers share."""
        sizes = Sizes(are_parameters=True)
        body = self.body(layer, sizes)
        call, shared = called(layer, body, sizes, (layer.input.dtype, layer.dtype), len(sources))
        return replace(of_body(layer, sources, Body(call, body.tables)), shared=shared)


def called(
    layer: Layer, body: Body, sizes: Sizes, types: tuple[np.dtype[Any], np.dtype[Any]], inputs: int = 1
) -> tuple[str, dict[str, str]]:
    """Return the call of a function with these loops, and its text by its name; `types` are of inputs and output."""
    names = {f"{layer.name}_value": f"{NAME}_value"}
    read, written = (C_TYPES[dtype.name] for dtype in types)
    sources = ["in"] if inputs == 1 else [f"in_{number}" for number in range(inputs)]
    arguments = {f"const {read} *{name}": name for name in sources} | {f"{written} *restrict out": "out"}
    for table in body.tables:
        names[table.name] = f"layer{table.name.removeprefix(layer.name)}"
        pointer = table.name if table.values.ndim == 1 else f"{table.name}[0]"
        arguments[f"const {C_TYPES[table.values.dtype.name]} *restrict {names[table.name]}"] = pointer
    for array in body.between:
        c_type, name, _ = re.split(r"[ \[]", array, maxsplit=2)
        arguments[f"{c_type} *restrict {name}"] = name
    # 32 bits: the proof sees that the sizes are no addresses.
    arguments |= {f"uint32_t {name}": str(value) for name, value in sizes.parameters.items()}
    text = f"{body.function}\nstatic ONE_CODE void {NAME}({', '.join(arguments)})\n{{\n    {body.statements}\n}}"
    text = re.sub(r"\b(" + "|".join(map(re.escape, names)) + r")\b", lambda match: names[match[0]], text)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    name = f"generic_{re.sub(r'[^a-z0-9]', '_', layer.operator.lower())}_{digest}"
    call = "\n    ".join([*body.between, f"{name}({', '.join(arguments.values())});"])
    return call, {name: text.replace(NAME, name)}


def of_body(layer: L, sources: Sequence[str], body: Body) -> LayerCode:
    """Return the code of a layer of one stage."""
    layer_code = code.elementwise(layer, sources, body.tables, body.statements)
    return replace(layer_code, definitions=f"{body.function}{layer_code.definitions}")
