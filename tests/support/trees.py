"""Random trees in the form of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class RandomTrees:
    """The attributes `nodes_*` and `<kind>_*` of an ensemble: trees of `depth` with some leaves before it."""

    kind: str
    targets: int
    features: int
    random: np.random.Generator
    modes: Sequence[str] = ("BRANCH_LEQ",)
    nodes: dict[str, list[Any]] = field(default_factory=dict)
    leaves: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, tree: int, depth: int) -> None:
        """Add a tree."""
        self._add(tree, depth, [0], is_root=True)

    def attributes(self) -> dict[str, list[Any]]:
        """Return all attributes."""
        names = {"weight": "weights", "id": "ids"}
        leaves = {f"{self.kind}_{names.get(role, role)}": values for role, values in self.leaves.items()}
        return {f"nodes_{role}": values for role, values in self.nodes.items()} | leaves

    def _add(self, tree: int, depth: int, numbers: list[int], *, is_root: bool = False) -> int:
        number = numbers[0]
        numbers[0] += 1
        is_leaf = depth == 0 or (not is_root and self.random.random() < 0.2)
        row = {
            "treeids": tree,
            "nodeids": number,
            "featureids": 0 if is_leaf else int(self.random.integers(self.features)),
            "values": 0.0 if is_leaf else float(np.float32(self.random.normal())),
            "modes": "LEAF" if is_leaf else str(self.random.choice(self.modes)),
            "truenodeids": 0,
            "falsenodeids": 0,
        }
        place = len(self.nodes.get("treeids", []))
        for role, value in row.items():
            self.nodes.setdefault(role, []).append(value)
        if not is_leaf:
            for role in ("truenodeids", "falsenodeids"):
                self.nodes[role][place] = self._add(tree, depth - 1, numbers)
            return number
        for target in range(self.targets):
            leaf = {"treeids": tree, "nodeids": number, "id": target, "weight": float(np.float32(self.random.random()))}
            for role, value in leaf.items():
                self.leaves.setdefault(role, []).append(value)
        return number
