"""Ensembles of trees (ai.onnx.ml) as selections: a tree of depth d becomes 2^d leaves, which are halved d times.

All decisions are computed.  Those of the last level select among pairs of leaves, those of the level before among pairs
of these results, until each tree has one value for each target.  The values of all trees are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.importer.replacement import Replacement, Unknown, attribute
from harness.operators.onnx_function import DOMAIN

MOST_KEYS = 256
BINARY = 2
DEEPEST = 12
LARGEST = 1 << 20
"""Leaves of all trees, of all targets."""
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""The decisions in the order of their numbers in TreeEnsemble."""
COMPARISONS = {"LEQ": "LessOrEqual", "LT": "Less", "GTE": "GreaterOrEqual", "GT": "Greater", "EQ": "Equal"}
OPPOSITES = {"LEQ": "GT", "GT": "LEQ", "LT": "GTE", "GTE": "LT"}
TRANSFORMATIONS = {"NONE": "", "SOFTMAX": "Softmax", "LOGISTIC": "Sigmoid"}
AGGREGATIONS = ("AVERAGE", "SUM", "MIN", "MAX")


class Decision(NamedTuple):
    """A comparison of x[feature] with a threshold, and the subtrees."""

    mode: str
    feature: int
    threshold: float
    true: Tree
    false: Tree


Leaf: TypeAlias = dict[int, float]
"""The values of a leaf by target."""
Tree: TypeAlias = Union[Decision, Leaf]  # noqa: UP007 - Decision is not complete yet


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a file: modes, features, thresholds, and the places of subtrees, below 0 for leaves -1, -2, ..."""

    modes: Sequence[str]
    features: Sequence[int]
    thresholds: Sequence[float]
    tracks_true: Sequence[int]
    true: Sequence[int]
    false: Sequence[int]
    leaves: Sequence[Leaf]
    members: Mapping[int, Sequence[float]]

    def tree(self, place: int, depth: int = 0) -> Tree:
        """Return the tree of a node; raise ValueError for one that is too deep."""
        if place < 0:
            return self.leaves[-1 - place]
        if depth > DEEPEST:
            raise ValueError(f"a tree is deeper than {DEEPEST}")
        true, false = (self.tree(self.true[place], depth + 1), self.tree(self.false[place], depth + 1))
        mode, feature, threshold = self.modes[place], self.features[place], self.thresholds[place]
        if self.tracks_true[place] and mode in OPPOSITES:  # NaN compares as false
            mode, true, false = OPPOSITES[mode], false, true
        elif self.tracks_true[place] and mode != "NEQ":
            raise ValueError(f"a node of mode {mode} follows the true branch for NaN")
        if mode == "NEQ":
            mode, true, false = "EQ", false, true
        if mode != "MEMBER":
            return Decision(mode, feature, threshold, true, false)
        tree = false
        for member in self.members[place]:
            tree = Decision("EQ", feature, member, true, tree)
        return tree


def _depth(tree: Tree) -> int:
    return 1 + max(_depth(tree.true), _depth(tree.false)) if isinstance(tree, Decision) else 0


def _levels(tree: Tree, depth: int) -> tuple[list[list[Decision]], list[Leaf]]:
    """Return the decisions of each level and the leaves of a whole tree of a depth.

    The false subtree of decision i of level d is decision i + 2^d of the next level, the true one decision i there.
    """
    levels: list[list[Decision]] = []
    row: list[Tree] = [tree]
    for _ in range(depth):
        decisions = [node if isinstance(node, Decision) else Decision("LEQ", 0, 0.0, node, node) for node in row]
        levels.append(decisions)
        row = [*(decision.true for decision in decisions), *(decision.false for decision in decisions)]
    return levels, [leaf for leaf in row if not isinstance(leaf, Decision)]


def _values(to: Replacement, x: str, trees: Sequence[Tree], targets: int, dtype: Any) -> str:
    """Add the nodes for the sums of all trees, (vectors, targets)."""
    depth, kind = max(map(_depth, trees)), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if depth == 0 or (len(trees) * targets) << depth > LARGEST:
        raise ValueError(f"{len(trees)} trees of depth {depth} and {targets} targets")
    whole = [_levels(tree, depth) for tree in trees]
    rows = [[levels[level] for levels, _ in whole] for level in range(depth)]
    decisions = [of_tree[place] for row in rows for place in range(len(row[0])) for of_tree in row]
    parts = _split(to, _decided(to, x, decisions, dtype), [len(row[0]) * len(trees) for row in rows])
    leaves = np.zeros((1 << depth, len(trees), targets), dtype)
    for number, (_, of_tree) in enumerate(whole):
        for place, leaf in enumerate(of_tree):
            leaves[place, number, [*leaf]] = [*leaf.values()]
    halves = [to.constant(half, dtype) for half in np.split(leaves, 2)]
    for level in reversed(range(depth)):
        sizes = to.constant([0, 1 << level, len(trees), 1])
        condition = to.add("Reshape", [parts[level], sizes])
        name = "Where" if kind == TensorProto.FLOAT else "Select"
        selected = to.add(name, [condition, *halves], domain=DOMAIN)
        halves = _split(to, selected, [1 << level - 1] * 2) if level else [selected]
    values = to.add("Reshape", [halves[0], to.constant([0, len(trees), targets])])
    return to.add("ReduceSum", [values, to.constant([1])], keepdims=0)


def _decided(to: Replacement, x: str, decisions: Sequence[Decision], dtype: Any) -> str:
    """Add the comparisons of all decisions; return 1 where they are true, else 0, in the type of x."""
    modes = sorted({decision.mode for decision in decisions})
    results, order = [], list[int]()
    for mode in modes:
        places = [place for place, decision in enumerate(decisions) if decision.mode == mode]
        features = to.constant([decisions[place].feature for place in places])
        thresholds = to.constant([decisions[place].threshold for place in places], dtype)
        is_true = to.add(COMPARISONS[mode], [to.add("Gather", [x, features], axis=1), thresholds])
        results.append(to.add("Cast", [is_true], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))
        order += places
    if len(modes) == 1:
        return results[0]
    joined = to.add("Concat", results, axis=1)
    return to.add("Gather", [joined, to.constant(np.argsort(order))], axis=1)


def _split(to: Replacement, tensor: str, sizes: Sequence[int]) -> list[str]:
    """Return parts along the axis behind the vectors."""
    if len(sizes) == 1:
        return [tensor]
    ends = np.cumsum(sizes)
    axis = to.constant([1])
    return [
        to.add("Slice", [tensor, to.constant([end - size]), to.constant([end]), axis])
        for size, end in zip(sizes, ends, strict=True)
    ]


def transformed(to: Replacement, node: onnx.NodeProto, scores: str, output: str = "") -> str:
    """Add the scores after the node's transformation."""
    stated = attribute(node, "post_transform", b"NONE")
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    name = names[stated] if isinstance(stated, int) else stated.decode()
    if name not in TRANSFORMATIONS:
        raise to.refusal(node, f"post_transform is {name}", ", ".join(TRANSFORMATIONS))
    return to.add(TRANSFORMATIONS[name] or "Identity", [scores], output=output)


def are_labels(labels: Sequence[int] | None) -> bool:
    """Return whether a classifier with these labels has a score for each; one alone has rules of its own."""
    return labels is not None and 1 < len(labels) <= MOST_KEYS


def label(to: Replacement, scores: str, labels: Sequence[int]) -> None:
    """Add the label of the first greatest score."""
    place = to.add("ArgMax", [scores], axis=1, keepdims=0)
    *others, (_, last) = enumerate(labels)
    selected(to, place, others, last, (np.int64, np.int64))


def selected(to: Replacement, x: str, pairs: Iterable[tuple[Any, Any]], default: Any, dtypes: tuple[Any, Any]) -> None:
    """Add the value of the first key that equals x, else the default; `dtypes` are those of keys and values."""
    of_keys, of_values = dtypes
    result = to.constant(default, of_values)
    for key, value in reversed([*pairs]):
        is_key = to.add("Equal", [x, to.constant(key, of_keys)])
        result = to.add("Where", [is_key, to.constant(value, of_values), result])


def _written(
    to: Replacement, node: onnx.NodeProto, trees: Sequence[Tree], targets: int, dtype: Any, output: str = ""
) -> str:
    """Add an ensemble with its average, base values and transformation; return the scores."""
    stated = attribute(node, "aggregate_function", b"SUM")
    aggregation = AGGREGATIONS[stated] if isinstance(stated, int) else stated.decode()
    if aggregation not in ("SUM", "AVERAGE"):
        raise to.refusal(node, f"aggregate_function is {aggregation}", "SUM or AVERAGE")
    try:
        total = _values(to, node.input[0], trees, targets, dtype)
    except ValueError as error:
        accepted = f"a depth of 1 to {DEEPEST}, {LARGEST:,} leaves of all trees and targets in all"
        raise to.refusal(node, str(error), accepted) from error
    if aggregation == "AVERAGE":
        total = to.add("Div", [total, to.constant(len(trees), dtype)])
    base = _stated(node, "base_values")
    if len(base):
        total = to.add("Add", [total, to.constant(base, dtype)])
    return transformed(to, node, total, output)


def _stated(node: onnx.NodeProto, name: str) -> Any:
    """Return a list of numbers, stated as one or as a tensor."""
    tensor = attribute(node, f"{name}_as_tensor", None)
    return attribute(node, name, []) if tensor is None else numpy_helper.to_array(tensor)


def _by_identifier(to: Replacement, node: onnx.NodeProto, kind: str) -> Iterator[Tree]:
    """Yield the trees of a regressor or classifier, whose nodes have numbers within their tree."""
    keys = [*zip(attribute(node, "nodes_treeids", []), attribute(node, "nodes_nodeids", []), strict=True)]
    modes = [mode.decode().removeprefix("BRANCH_") for mode in attribute(node, "nodes_modes", [])]
    leaves: list[Leaf] = [{} for _ in keys]
    places = {key: -1 - number if modes[number] == "LEAF" else number for number, key in enumerate(keys)}
    owners = zip(attribute(node, f"{kind}_treeids", []), attribute(node, f"{kind}_nodeids", []), strict=True)
    weights = zip(owners, attribute(node, f"{kind}_ids", []), _stated(node, f"{kind}_weights"), strict=True)
    for owner, target, weight in weights:
        leaf = leaves[-1 - places[owner]]
        if target in leaf:
            raise to.refusal(node, f"leaf {owner} has two values of target {target}", "one value")
        leaf[target] = float(weight)
    true, false = (
        [places.get((tree, child), 0) for (tree, _), child in
         zip(keys, attribute(node, f"nodes_{side}nodeids", []), strict=True)]
        for side in ("true", "false")
    )  # fmt: skip
    tracks = attribute(node, "nodes_missing_value_tracks_true", None) or [0] * len(keys)
    nodes = Nodes(modes, attribute(node, "nodes_featureids", []), _stated(node, "nodes_values"), tracks, true, false,
                  leaves, {})  # fmt: skip
    roots: dict[int, int] = {}
    for key in keys:
        roots.setdefault(key[0], places[key])  # the first node of each tree
    for root in roots.values():
        yield nodes.tree(root)


def _read(to: Replacement, node: onnx.NodeProto, kind: str) -> list[Tree]:
    try:
        return list(_by_identifier(to, node, kind))
    except (ValueError, LookupError) as error:
        raise to.refusal(node, f"its trees are malformed: {error}", f"trees of depth {DEEPEST} at most") from error


def regressor(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    """Write a TreeEnsembleRegressor of float32."""
    if dtype != np.float32:
        raise Unknown(node.name)
    _written(to, node, _read(to, node, "target"), attribute(node, "n_targets", 1), dtype)


def classifier(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    """Write a TreeEnsembleClassifier of float32 with a weight for each of its labels, which are integers."""
    labels = attribute(node, "classlabels_int64s", None)
    if not are_labels(labels) or dtype != np.float32 or {*attribute(node, "class_ids", [])} != {*range(len(labels))}:
        raise Unknown(node.name)
    if len(labels) == BINARY:
        reason = "has two labels: ONNX does not state the label then, and ONNX Runtime's is not the greatest score"
        raise to.refusal(node, reason, "a TreeEnsembleRegressor, whose targets are the scores, or more labels")
    scores = _written(to, node, _read(to, node, "class"), len(labels), dtype, node.output[1])
    label(to, scores, labels)


def ensemble(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    """Write a TreeEnsemble."""
    arrays: dict[str, Array] = {name: numpy_helper.to_array(attribute(node, name, None))
                                for name in ("nodes_modes", "nodes_splits", "leaf_weights")}  # fmt: skip
    leaves: list[Leaf] = [{target: float(weight)} for target, weight in
                          zip(attribute(node, "leaf_targetids", []), arrays["leaf_weights"], strict=True)]  # fmt: skip
    modes = [MODES[mode] for mode in arrays["nodes_modes"]]
    true, false = (
        [-1 - place if is_leaf else place for place, is_leaf in
         zip(attribute(node, f"nodes_{side}nodeids", []), attribute(node, f"nodes_{side}leafs", []), strict=True)]
        for side in ("true", "false")
    )  # fmt: skip
    tracks = attribute(node, "nodes_missing_value_tracks_true", None) or [0] * len(modes)
    features, splits = attribute(node, "nodes_featureids", []), arrays["nodes_splits"].tolist()
    nodes = Nodes(modes, features, splits, tracks, true, false, leaves, _members(node, modes))
    try:
        trees = [nodes.tree(root) for root in attribute(node, "tree_roots", [])]
    except (ValueError, LookupError) as error:
        raise to.refusal(node, f"its trees are malformed: {error}", f"trees of depth {DEEPEST} at most") from error
    _written(to, node, trees, attribute(node, "n_targets", 1), dtype)


def _members(node: onnx.NodeProto, modes: Sequence[str]) -> dict[int, list[float]]:
    """Return the members of each node of mode MEMBER; NaN stands behind those of a node."""
    tensor = attribute(node, "membership_values", None)
    values = [] if tensor is None else numpy_helper.to_array(tensor).tolist()
    groups: list[list[float]] = [[]]
    for value in values:
        if np.isnan(value):
            groups.append([])
        else:
            groups[-1].append(value)
    return dict(zip((place for place, mode in enumerate(modes) if mode == "MEMBER"), groups, strict=False))
