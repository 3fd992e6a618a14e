"""TfIdfVectorizer of integers by operators that harness computes: comparisons of places, and their counts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.model.importer.replacement import Replacement, Rule, Unknown, attributes_of
from harness.operators.tensor import BOOL, FLOAT32


def vectorize(to: Replacement, node: onnx.NodeProto) -> str:
    """Write a TfIdfVectorizer: the count of each n-gram at all places of a row, with any number of places between."""
    stated, shape = attributes_of(node), to.shape(node.input[0])
    pool, begins, columns = (stated.get(name, []) for name in ("pool_int64s", "ngram_counts", "ngram_indexes"))
    if not pool or len(shape) > 2 or not columns:
        raise Unknown(node.name)
    rows, width = (1, *shape)[-2:]
    row = to.reshaped(node.input[0], (rows, width))
    ends = [*begins, len(pool)]
    counts, first = list[str](), 0
    for length, (begin, end) in enumerate(pairwise(ends), start=1):
        grams = np.array(pool[begin:end]).reshape(-1, length)
        own, first = np.array(columns[first : first + len(grams)]), first + len(grams)
        skips = range(stated["max_skip_count"] + 1 if length > 1 else 1)
        places = [
            [place + step * (skip + 1) for step in range(length)]
            for skip in skips
            for place in range(width - (length - 1) * (skip + 1))
        ]
        if len(grams) and places and stated["min_gram_length"] <= length <= stated["max_gram_length"]:
            counts.append(_counts(to, row, grams, np.array(places)))
            order = np.zeros((len(own), max(columns) + 1), np.float32)
            order[np.arange(len(own)), own] = 1
            counts[-1] = to.add("MatMul", [counts[-1], to.constant(order, FLOAT32)], (rows, max(columns) + 1), FLOAT32)
    total = counts[0] if counts else to.constant(np.zeros((rows, max(columns) + 1)), FLOAT32)
    for other in counts[1:]:
        total = to.add("Add", [total, other], (rows, max(columns) + 1))
    return to.reshaped(_weighted(to, total, stated, columns), (*shape[:-1], max(columns) + 1))


def _counts(to: Replacement, row: str, grams: Array, places: Array) -> str:
    """Return how often rows, (rows, width), have n-grams, (grams, n), at places, (places, n): (rows, grams)."""
    rows, (count, length) = to.shape(row)[0], grams.shape
    whole, is_gram = (rows, count, len(places)), ""
    for step in range(length):
        values = to.add("Gather", [row, to.constant(places[:, step])], (rows, len(places)), axis=1)
        numbers = to.constant(grams[:, step].reshape(1, count, 1), to.dtype(row))
        is_equal = to.add("Equal", [to.reshaped(values, (rows, 1, len(places))), numbers], whole, BOOL)
        is_gram = to.add("And", [is_gram, is_equal], whole) if is_gram else is_equal
    return to.add("ReduceSum", [to.cast(is_gram, FLOAT32), to.constant([2])], (rows, count), keepdims=0)


def _weighted(to: Replacement, total: str, stated: Mapping[str, Any], columns: list[int]) -> str:
    """Return the counts, or 1 for each n-gram that there is, times the weights of their columns."""
    shape, mode = to.shape(total), stated["mode"]
    if mode == b"IDF":
        total = to.cast(to.add("Greater", [total, to.constant(0, FLOAT32)], shape, BOOL), FLOAT32)
    if mode == b"TF" or "weights" not in stated:
        return total
    weights = np.ones(shape[1], np.float32)
    weights[columns] = stated["weights"]
    return to.add("Mul", [total, to.constant(weights, FLOAT32)], shape)


RULES: Mapping[str, Rule] = {"TfIdfVectorizer": vectorize}
