"""The operators: one file each, with everything that is true of an operator on any target.

Operators are discovered by name; third parties register theirs in the entry point group `harness.operators`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import onnx

from harness.core.entry_points import load
from harness.core.errors import RequestError
from harness.operators.base import Layer
from harness.operators.node import domain_of

GROUP = "harness.operators"


def by_onnx_name() -> dict[tuple[str, str], type[Layer]]:
    """Return the operators by (domain, ONNX operator), those of third parties included.

    Raises RequestError if an operator of a third party cannot be loaded or takes a name that is taken.
    """
    return _by_onnx_name(tuple(sys.path))


def classes() -> list[type[Layer]]:
    """Return the classes of all operators, and of forms that operators read some nodes as, each once."""
    return list(dict.fromkeys((*_built_in(), *by_onnx_name().values())))


def of_node(node: onnx.NodeProto) -> type[Layer] | None:
    """Return the operator that reads a node, None for an unknown node."""
    return by_onnx_name().get((domain_of(node), node.op_type))


@functools.cache
def _by_onnx_name(path: tuple[str, ...]) -> dict[tuple[str, str], type[Layer]]:  # noqa: ARG001 - where to look
    found: dict[tuple[str, str], type[Layer]] = {}
    for operator in (*_built_in(), *_of_third_parties()):
        for name in operator.ONNX:
            if name in found:
                raise RequestError(
                    f"operator {'.'.join(filter(None, name))} is provided twice: by {found[name].__module__} and "
                    f"{operator.__module__}",
                    "remove one of the two packages",
                )
            found[name] = operator
    return found


def _built_in() -> Iterator[type[Layer]]:
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for _, operator in inspect.getmembers(module, inspect.isclass):
            if operator.__module__ == module.__name__ and issubclass(operator, Layer) and hasattr(operator, "ONNX"):
                yield operator


def _of_third_parties() -> Iterator[type[Layer]]:
    for point in entry_points(group=GROUP):
        operator = load(point, "operator")
        fault = _fault(operator)
        if fault:
            raise RequestError(f"operator {point.name}: {point.value} {fault}", "see docs/add-an-operator.md")
        yield operator


def _fault(operator: Any) -> str:
    """Return what a third party's class lacks; the empty text of a complete one."""
    from harness.operators.fold import Joint
    from harness.operators.pointwise import Pointwise

    if not (inspect.isclass(operator) and issubclass(operator, Layer)):
        return "is not a Layer"
    names = getattr(operator, "ONNX", None)
    if not (isinstance(names, tuple) and names and all(isinstance(name, tuple) and len(name) == 2 for name in names)):
        return f'has ONNX = {names!r}: give pairs of domain and operator, such as (("com.example", "HardTanh"),)'
    if "__dataclass_params__" not in vars(operator):
        return "is no dataclass: write @dataclass(frozen=True, eq=False) above it"
    if inspect.isabstract(operator):
        return f"does not define {', '.join(sorted(operator.__abstractmethods__))}"
    return operator.incomplete() if issubclass(operator, (Pointwise, Joint)) else ""


def has_rules(operator: type[Layer]) -> bool:
    """Return whether an operator, or its family, states rules for the analysis of a graph."""
    return operator.rules.__func__ is not Layer.rules.__func__  # type: ignore[attr-defined] # of class methods
