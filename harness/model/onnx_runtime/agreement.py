"""Two models of the same function: ONNX Runtime without optimisations computes both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.onnx_runtime.sessions import Stored, refused, session
from harness.model.onnx_runtime.values import computed, type_of
from harness.operators.tensor import FLOAT16, SHORT, SHORT_FLOATS, is_float

if TYPE_CHECKING:
    import onnxruntime

VECTORS = 8
BOUNDED = ("NonMaxSuppression", "NonZero")
"""The operators whose last rows are -1 in a network: those that ONNX's operators do not have."""
PADDED = "rows of -1 are behind those of ONNX"
"""The description of their outputs."""
BATCH_SHARE = 1e-4
"""Accepted difference as a share of the greatest value: several vectors at once are summed in another order."""
SHARES = {FLOAT16: 2.0**-8, SHORT_FLOATS[0]: 2.0**-5}
"""The share of float16 and bfloat16, 8 units in the last place: ONNX Runtime rounds their operators more than once."""


def require_same(before: Stored, after: onnx.ModelProto, name: str, batch: int = 1, *, is_near: bool = False) -> None:
    """Compare the outputs of two models for random inputs: bit for bit, or within a share.

    They may differ by a share if `is_near`, because sums have another order, and for `batch` vectors at once.  `before`
    takes `batch` vectors, `after` one; all first axes are those of vectors then.  Raises RequestError where ONNX
    Runtime refuses or fails, and where outputs differ.
    """
    inputs, outputs = [], []
    sizes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in after.graph.input}
    loaded = _loaded(before, name)
    for number in range(VECTORS):
        inputs.append(random_inputs(loaded, sizes, batch, number))
        outputs.append(_run(loaded, inputs[-1], name))
    names, bounded = [value.name for value in loaded.get_outputs()], bounded_outputs(after)
    del loaded  # it holds the weights
    loaded = _loaded(Stored(after), name)
    taken = {value.name for value in loaded.get_inputs()}
    for feed, expected in zip(inputs, outputs, strict=True):
        read = {key: value for key, value in feed.items() if key in taken}
        rows = [{key: _row(value, row) if batch > 1 else value for key, value in read.items()} for row in range(batch)]
        results = [_run(loaded, row, name) for row in rows]
        for output, rows_of_file, *parts in zip(names, expected, *results, strict=True):
            values = padded(rows_of_file, parts[0].shape) if output in bounded else rows_of_file
            if not _same(values, parts, is_near=is_near):
                raise RequestError(
                    f"model {name!r}: output {output!r} has other values after the changes at import, according to "
                    "ONNX Runtime without optimisations",
                    "export it with a newer opset, with a fixed input shape of one vector; and report the file",
                )


def require_same_vectors(
    before: Stored, after: onnx.ModelProto, name: str, sizes: Mapping[str, tuple[int, ...]]
) -> None:
    """Compare the outputs of a model with those of another one that has an axis of vectors in front, for one vector.

    `sizes` are the shapes of the inputs of `before`.  Values may differ by a share, because both models can sum in
    another order.  Raises RequestError as `require_same` does.
    """
    loaded, with_axis = _loaded(before, name), _loaded(Stored(after), name)
    bounded = bounded_outputs(after)
    one_vector = {value.name: [1, *value.shape[1:]] for value in with_axis.get_inputs()}
    for number in range(VECTORS):
        feed = random_inputs(loaded, sizes, 1, number)
        expected = _run(loaded, feed, name)
        results = _run(with_axis, {key: feed[key].reshape(shape) for key, shape in one_vector.items()}, name)
        for output, rows, result in zip(loaded.get_outputs(), expected, results, strict=True):
            values = padded(rows, result.shape) if output.name in bounded else rows
            if values.dtype != result.dtype or not near(values, result.reshape(values.shape)):
                raise RequestError(
                    f"model {name!r}: output {output.name!r} has other values with an axis of vectors in front, "
                    "according to ONNX Runtime without optimisations",
                    "export it with a first axis that is the number of vectors; and report the file",
                )


def require_near(before: Stored, after: onnx.ModelProto, name: str, batch: int) -> None:
    """Compare the outputs of two models that sum in other orders; raise RequestError as `require_same` does."""
    loaded, other = _loaded(before, name), _loaded(Stored(after), name)
    for number in range(VECTORS):
        feed = random_inputs(loaded, {}, batch, number)
        outputs = loaded.get_outputs()
        for output, values, result in zip(outputs, _run(loaded, feed, name), _run(other, feed, name), strict=True):
            if not isinstance(values, np.ndarray):  # a sequence of maps
                continue
            if (
                values.dtype != result.dtype
                or values.size != result.size
                or not near(values, result.reshape(values.shape))
            ):
                raise RequestError(
                    f"model {name!r}: output {output.name!r} has other values with operators of ONNX's own domain, "
                    "according to ONNX Runtime without optimisations",
                    "operators of ONNX's own domain; and report the file",
                )


def bounded_outputs(model: onnx.ModelProto) -> set[str]:
    """Return the outputs of a model whose last rows are -1."""
    return {value.name for value in model.graph.output if value.doc_string == PADDED}


def padded(values: Array, shape: Sequence[int]) -> Array:
    """Return rows of unknown number with -1 behind them, in a shape that ends with the bounds of their sizes.

    Values of which the shape has too few places, or of another rank, stay as they are.
    """
    bounds = tuple(shape[-values.ndim :])
    if len(bounds) != values.ndim or any(size > bound for size, bound in zip(values.shape, bounds, strict=True)):
        return values
    result = np.full(bounds, -1, values.dtype)
    result[tuple(slice(size) for size in values.shape)] = values
    return result.reshape(shape) if result.size == math.prod(shape) else values


def keeps_vectors(model: onnx.ModelProto, name: str, count: int) -> bool:
    """Return whether all outputs for `count` vectors, the free first axis of inputs, are those for each vector."""
    stored = Stored(model)
    try:
        loaded = _loaded(stored, name)
        feed = random_inputs(loaded, {}, count, 0)
        together = _run(loaded, feed, name)
        parts = [_run(loaded, {key: _row(value, row) for key, value in feed.items()}, name) for row in range(count)]
    except RequestError:
        return False
    return all(
        np.shape(values)[:1] == (count,) and _same(values, list(of_output))
        for values, *of_output in zip(together, *parts, strict=True)
    )


def _row(value: Array, row: int) -> Array:
    """Return one vector of an input; an input that is a number is that of all vectors."""
    return value[row : row + 1] if value.ndim else value


def _same(values: Any, parts: list[Any], *, is_near: bool = False) -> bool:
    if not isinstance(values, np.ndarray):  # a sequence of maps, or of tensors
        return len(parts) == 1 and repr(values) == repr(parts[0])
    if len(parts) == 1:
        is_alike = values.dtype == parts[0].dtype and values.shape == parts[0].shape
        return is_alike and (near if is_near else same_bits)(values, parts[0])
    if len({np.shape(part)[1:] for part in parts}) > 1:  # a shape that depends on the data
        return False
    joined = np.concatenate(parts) if all(np.ndim(part) for part in parts) else np.array(parts)
    return joined.shape == values.shape and near(values, joined)


def near(values: Array, others: Array) -> bool:
    """Return whether the values of arrays of one shape differ by a share of the greatest finite one at most."""
    share = SHARES.get(values.dtype, BATCH_SHARE)
    if values.dtype in SHORT:
        values, others = values.astype(np.float32), others.astype(np.float32)
    with np.errstate(all="ignore"):
        greatest = np.abs(values[np.isfinite(values)]).max(initial=0)
        near = np.abs(others.astype(np.float64) - values) <= share * greatest
    return bool((near | (others == values) | (np.isnan(others) & np.isnan(values))).all())


def same_bits(first: Array, second: Array) -> bool:
    """Return whether two arrays of one shape and type have the same bits."""
    return np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()


def random_inputs(
    loaded: onnxruntime.InferenceSession, sizes: Mapping[str, Sequence[int]], batch: int, seed: int, end: int = 2
) -> dict[str, Array]:
    """Return a value of each input: random floats, integers from 0 to `end` - 1.

    A size that the session leaves free is that of `sizes`, else `batch` or 1.
    """
    random, inputs = np.random.default_rng(seed), {}
    for value in loaded.get_inputs():
        known = sizes.get(value.name) or [0] * len(value.shape)
        free = [batch, *[1] * len(value.shape)]
        shape = [size if isinstance(size, int) and size > 0 else known[axis] or free[axis]
                 for axis, size in enumerate(value.shape)]  # fmt: skip
        drawn: Array = random.standard_normal(shape) * 2
        dtype = type_of(value.type)
        if not is_float(dtype):
            drawn = random.integers(end, size=shape) if end > 2 and dtype.kind in "iu" else drawn > 0
        inputs[value.name] = np.asarray(drawn).astype(dtype)
    return inputs


def _loaded(model: Stored, name: str) -> onnxruntime.InferenceSession:
    try:
        return session(model.path, 1, optimised=False)
    except Exception as error:  # its exceptions have no common base of their own
        raise refused(name, error) from error


def _run(loaded: onnxruntime.InferenceSession, inputs: Mapping[str, Array], name: str) -> list[Any]:
    try:
        return computed(loaded, None, inputs)
    except Exception as error:  # as above
        raise RequestError(
            f"ONNX Runtime fails on model {name!r}: {error}", "give a model that runs with one vector at a time"
        ) from error


def is_run(model: Stored, batch: int) -> bool:
    """Return whether ONNX Runtime has the operators of a model for its types, and takes random inputs."""
    try:
        loaded = session(model.path, 1, optimised=False)
        loaded.run(None, random_inputs(loaded, {}, batch, 0))
    except Exception:  # noqa: BLE001 - as above
        return False
    return True
