"""Layers of programs of stages that no operator has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.operators.exact.stages import Stage
from harness.operators.node import Node
from harness.operators.staged import Staged
from harness.operators.tensor import FLOAT32, Tensor
from tests.unit.operators.exact.test_stages import CONSTANTS, STAGES, X


@dataclass(frozen=True, eq=False)
class Example(Staged):
    """A layer of the program with its name."""

    def definition(self) -> Stage:
        return STAGES[self.name]()

    def numbers(self) -> Mapping[str, Any]:
        return CONSTANTS

    @classmethod
    def read(cls, node: Node) -> Example:
        raise NotImplementedError


def example(name: str) -> Example:
    shape = STAGES[name]().shape
    return Example(name, name, name, (Tensor("x", X.shape, FLOAT32),), Tensor("y", shape, FLOAT32))
