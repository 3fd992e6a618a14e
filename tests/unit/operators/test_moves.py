"""Operators that move values against ONNX Runtime, byte for byte: random configurations, refusals, wrong variants."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.order import Copy, Order, of_steps
from harness.operators.tensor import BOOL, EVERY_TYPE, FLOAT16, FLOAT64, INT16, UINT16
from tests.support.codes import (
    COUNTS,
    assert_agree,
    assert_agree_at_random,
    layer_of,
    model_of,
    node,
    outputs_of,
    runtime,
    specified,
)

INT64 = np.int64


def random_values(rng: np.random.Generator, *shape: int) -> Array:
    """Values of any type, any bits, but one NaN in float16, of which ONNX Runtime changes others."""
    dtype = np.dtype(rng.choice([str(kind) for kind in (*EVERY_TYPE, FLOAT16, FLOAT64)]))
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(BOOL)
    size = int(np.prod(shape)) * dtype.itemsize
    values = rng.integers(0, 256, size).astype(np.uint8).view(dtype).reshape(shape)
    return np.where(np.isnan(values), dtype.type(np.nan), values) if dtype == FLOAT16 else values


def random_shape(rng: np.random.Generator) -> list[int]:
    return rng.integers(1, 6, int(rng.integers(1, 4))).tolist()


def transpose(rng: np.random.Generator, x: Array) -> None:
    perm = [0, *(1 + rng.permutation(x.ndim - 1)).tolist()]
    assert assert_agree(node("Transpose", "x", perm=perm), {}, {"x": x}) is not None


def cut(rng: np.random.Generator, x: Array) -> None:
    axes = 1 + rng.permutation(x.ndim - 1)[: int(rng.integers(1, x.ndim))]
    starts, ends = rng.integers(-7, 7, len(axes)), rng.integers(-7, 9, len(axes))
    starts[:1], ends[-1:] = rng.choice([0, -2, 1, -(2**63)]), rng.choice([2**63 - 1, 2**31, -1, 3])
    signed = np.where(rng.random(len(axes)) < 0.5, axes, axes - x.ndim)
    given: dict[str, Any] = {"starts": starts, "ends": ends, "axes": signed}
    if rng.random() < 0.5:
        given["steps"] = rng.integers(1, 4, len(axes))
    if rng.random() < 0.3 and max(abs(starts).max(), abs(ends).max()) < 2**31:
        given = {name: value.astype(np.int32) for name, value in given.items()}
    assert_agree(node("Slice", "x", *given), given, {"x": x})


def of_pads(x: Array) -> Array:
    """Values of a type of which ONNX Runtime has a Pad."""
    if x.dtype in (FLOAT16, FLOAT64):
        return np.nan_to_num(x).astype(np.float32)
    return x.astype(x.dtype.str.replace("2", "4")) if x.dtype in {INT16, UINT16} else x


def pad(rng: np.random.Generator, x: Array) -> None:
    x = of_pads(x)
    given: dict[str, Any] = {"pads": rng.integers(0, 4, 2 * x.ndim)}
    given["pads"][[0, x.ndim]] = 0
    names = ["pads"]
    if rng.random() < 0.6:
        given["value"] = np.nan_to_num(rng.choice(x.reshape(-1), 1))
        names.append("value")
    if len(names) == 2 and rng.random() < 0.4 and x.ndim > 1:
        given |= {"axes": np.array([-1]), "pads": given["pads"][[1, -1]]}
        names.append("axes")
    assert assert_agree(node("Pad", "x", *names), given, {"x": x}) is not None


def test_a_pad_of_negative_zeros_has_their_sign() -> None:
    given = {"pads": np.array([0, 1, 0, 1]), "value": np.array([-0.0], np.float32)}
    proto, inputs = node("Pad", "x", *given), {"x": np.ones((2, 1), np.float32)}
    result = specified(layer_of(proto, given, inputs), inputs)
    assert np.signbit(result).tolist() == [[True, False, True]] * 2
    assert result.tobytes() == runtime(proto, given, inputs).tobytes()


def pad_with_values(rng: np.random.Generator, x: Array) -> None:
    x, mode = of_pads(x), str(rng.choice(["reflect", "edge", "wrap"]))
    given: dict[str, Any] = {"pads": rng.integers(0, 4, 2 * x.ndim)}
    given["pads"][[0, x.ndim]] = 0
    names, sizes = ["pads"], x.shape[1:]
    if rng.random() < 0.4:
        given |= {"axes": np.array([-1]), "pads": given["pads"][[1, -1]]}
        names, sizes = ["pads", "", "axes"], x.shape[-1:]
    widths = given["pads"][-2 * len(sizes) :] if "axes" in given else np.delete(given["pads"], [0, x.ndim])
    most = np.tile(sizes, 2) - (mode == "reflect")
    layer = assert_agree(node("Pad", "x", *names, mode=mode), given, {"x": x})
    assert (layer is None) == (mode != "edge" and bool((widths > most).any()))


def rearrange(rng: np.random.Generator, x: Array) -> None:
    kind = str(rng.choice(["Tile", "Expand", "DepthToSpace", "SpaceToDepth"]))
    given: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    if kind == "Tile":
        given = {"repeats": np.array([1, *rng.integers(1, 4, x.ndim - 1)])}
    elif kind == "Expand":
        kept = rng.random(x.ndim) < 0.6
        x = x[tuple(slice(None) if keep or not axis else slice(1) for axis, keep in enumerate(kept))]
        sizes = [1, *(int(rng.integers(1, 5)) if size == 1 else int(rng.choice([1, size])) for size in x.shape[1:])]
        given = {"shape": np.array(sizes[int(rng.integers(0, x.ndim)) :])}
    else:
        block = int(rng.integers(1, 4))
        shape = rng.integers(1, 4, 3) * ([block**2, 1, 1] if kind == "DepthToSpace" else [1, block, block])
        x = random_values(rng, 3, *shape.tolist())
        attributes = {"blocksize": block}
        if kind == "DepthToSpace" and rng.random() < 0.7:
            attributes["mode"] = str(rng.choice(["DCR", "CRD"]))
    proto = node(kind, "x", *given, **attributes)
    if kind in ("DepthToSpace", "SpaceToDepth") and x.dtype not in (np.float32, np.uint8):
        right = ReferenceEvaluator(model_of(proto, given, {"x": x})).run(None, {"x": x})[0]
        found = specified(layer_of(proto, given, {"x": x}), {"x": x})
        assert found.tobytes() == right.tobytes()
    else:
        assert assert_agree(proto, given, {"x": x}) is not None


def gather(rng: np.random.Generator, x: Array) -> None:
    axis, shape = int(rng.integers(1, x.ndim)), [(), (1,), (4,), (2, 3), (1, 1)][int(rng.integers(5))]
    size, dtype = x.shape[axis], rng.choice(["int32", "int64"])
    given = {"i": rng.integers(-size, size, shape).astype(dtype)}
    proto = node("Gather", "x", "i", axis=axis if rng.random() < 0.5 else axis - x.ndim)
    layer = assert_agree(proto, given, {"x": x})
    assert (layer is None) == (x.ndim == 2 and shape == ())


def split(rng: np.random.Generator, x: Array) -> None:
    axis, count = int(rng.integers(1, x.ndim)), int(rng.integers(1, 4))
    x = np.concatenate([x, x, x[:, ::-1]], axis=axis)
    size, kind = x.shape[axis], str(rng.choice(["sizes", "num_outputs", "equal"]))
    cuts = np.sort(rng.choice(np.arange(1, size), count - 1, replace=False)).tolist()
    given = {"split": np.diff([0, *cuts, size])} if kind == "sizes" else {}
    attributes: dict[str, Any] = {"axis": axis if rng.random() < 0.5 else axis - x.ndim}
    if kind != "sizes":
        attributes["num_outputs"] = count
    proto = helper.make_node("Split", ["x", *given], [f"y{k}" for k in range(count)], name="y", **attributes)
    for position, right in enumerate(outputs_of(proto, given, {"x": x})):
        layer = layer_of(proto, given, {"x": x}, position)
        found = specified(layer, {"x": x})
        assert layer.output.name == f"y{position}"
        assert (layer.output.shape, found.tobytes()) == (right.shape[1:], right.reshape(found.shape).tobytes())


def concat(rng: np.random.Generator, x: Array) -> None:
    axis = int(rng.integers(1, x.ndim))
    inputs = {"x": x}
    for name in "abc"[: int(rng.integers(0, 3))]:
        inputs[name] = np.repeat(x[::-1], int(rng.integers(1, 4)), axis=axis)
    read = [*inputs, *rng.choice(list(inputs), int(rng.integers(0, 2)))]
    proto = node("Concat", *read, axis=axis if rng.random() < 0.5 else axis - x.ndim)
    assert assert_agree(proto, {}, inputs) is not None


def rename(rng: np.random.Generator, x: Array) -> None:
    kind = rng.choice(["Squeeze", "Unsqueeze", "Identity", "Dropout", "Reshape", "Flatten", "Cast"])
    if kind == "Squeeze":
        x = x.reshape(*x.shape[:2], 1, *x.shape[2:], 1)
        given = {"axes": np.array([2, -1])}
    elif kind == "Unsqueeze":
        given = {"axes": np.array([1 + int(rng.integers(0, x.ndim)), -1])}
        given["axes"] = given["axes"][: 1 + (given["axes"][0] != x.ndim + 1)]
    elif kind == "Reshape":
        given = {"shape": np.array([rng.choice([0, -1]), *rng.permutation(x.shape[1:])])}
    else:
        given = {"ratio": np.float32(0.3)} if kind == "Dropout" and rng.random() < 0.5 else {}
    attributes = {"to": helper.np_dtype_to_tensor_dtype(x.dtype)} if kind == "Cast" else {}
    layer = assert_agree(node(kind, "x", *given, **attributes), given, {"x": x})
    assert (layer is None) == (kind == "Dropout" and x.dtype != np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("check", [transpose, cut, pad, pad_with_values, rearrange, gather, split, concat, rename])
def test_random_configurations_agree(check: Callable[[np.random.Generator, Array], None], count: int) -> None:
    def at_random(rng: np.random.Generator) -> None:
        check(rng, random_values(rng, 5, *random_shape(rng)))

    assert_agree_at_random(at_random, count)


X = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
BOUNDS: dict[str, Any] = {"starts": np.array([1, 0]), "ends": np.array([-1, 4]), "axes": np.array([2, 3]),
                          "steps": np.array([1, 3])}  # fmt: skip
PADS: dict[str, Any] = {"pads": np.array([0, 0, 1, 2, 0, 1, 0, 0]), "value": np.uint8(200)}
INDICES: dict[str, Any] = {"i": np.array([2, 0, -3])}
REPEATS: dict[str, Any] = {"r": np.array([1, 1, 2, 3])}
SHAPED: dict[str, Array] = {"DepthToSpace": X.reshape(2, 12, 2, 2), "Expand": X[:, :, :1]}
"""The values that an operator reads, if they are not X."""


def spread(x: Array, order: tuple[int, ...], *channels: int) -> Array:
    return x.reshape(2, *channels, 2, 2).transpose(order)


def joined(axis: int) -> onnx.NodeProto:
    return node("Concat", "x", "a", axis=axis)


OTHER = X[::-1] // 2
TRANSPOSED, CUT = node("Transpose", "x", perm=[0, 2, 3, 1]), node("Slice", "x", *BOUNDS)
PADDED = node("Pad", "x", *PADS)
WIDTHS = ((0, 0), (0, 1), (1, 0), (2, 0))
WRONG: dict[str, tuple[Any, dict[str, Any], str, Array]] = {
    "no transposition": (TRANSPOSED, {}, "the values keep their order", X),
    "two axes": (TRANSPOSED, {}, "loops 1 and 3, over 4 and 3 places, are exchanged", X.transpose(0, 1, 3, 2)),
    "a start before": (CUT, BOUNDS, "axis 2 is one value too late", X[:, :, 0:2, ::3]),
    "a column before": (PADDED, PADS, "axis 3 is one value too early",
                        np.roll(np.pad(X, WIDTHS, constant_values=200), -1, axis=3)),
    "zeros": (PADDED, PADS, "the constant is 0", np.pad(X, WIDTHS)),
    "repeats the border": (node("Pad", "x", "pads", mode="edge"), PADS, "axis 1 is one value too late",
                           np.roll(np.pad(X, WIDTHS, mode="edge"), 1, axis=1)),
    "values one by one": (node("Tile", "x", "r"), {"r": np.array([1, 1, 1, 3])},
                          "values are repeated one by one", X.repeat(3, 3)),
    "vectors repeated": (node("Tile", "x", "r"), REPEATS, "the whole vector is repeated", np.tile(X.reshape(2, -1), 6)),
    "along another axis": (node("Expand", "x", "s"), {"s": np.array([4, 1])},
                           "loops 2 and 3, over 4 and 4 places, are exchanged", X[:, :, 0].repeat(4, 2)),
    "other mode": (node("DepthToSpace", "x", blocksize=2), {}, "channels have the order of the other mode",
                   spread(X, (0, 1, 4, 2, 5, 3), 3, 2, 2)),
    "default mode": (node("DepthToSpace", "x", blocksize=2, mode="CRD"), {},
                     "channels have the order of the other mode", spread(X, (0, 3, 4, 1, 5, 2), 2, 2, 3)),
    "columns first": (node("SpaceToDepth", "x", blocksize=2), {}, "rows and columns of a block are exchanged",
                      X.reshape(2, 3, 2, 2, 2, 2).transpose(0, 5, 3, 1, 2, 4)),
    "indices from 1": (node("Gather", "x", "i", axis=2), INDICES, "axis 2 is one value too late", X[:, :, [1, 3, 0]]),
    "second first": (joined(1), {}, "the inputs begin with number 2", np.concatenate([OTHER, X], axis=1)),
    "as a whole": (joined(2), {}, "the values keep their order", np.concatenate([X, OTHER], axis=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_order_is_a_fault_model_and_all_fault_models_change_some_values(name: str) -> None:
    proto, given, cause, wrong = WRONG[name]
    inputs = {"x": SHAPED.get(proto.op_type, X)} | ({"a": OTHER} if proto.op_type == "Concat" else {})
    layer, flat = layer_of(proto, given, inputs), [x.reshape(len(X), -1) for x in inputs.values()]
    right = specified(layer, inputs)
    assert (right == runtime(proto, given, inputs).reshape(len(X), -1)).all()
    outputs = {}
    for model in layer.fault_models(*flat):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype)
        assert (model.output != right).any(), model.cause
        outputs[model.cause] = model.output
    assert outputs[cause].tolist() == wrong.reshape(len(X), -1).tolist()


def test_boxes_of_many_inputs_and_of_several_steps() -> None:
    columns = of_steps(np.array([[7, 4, 1, -1], [8, 5, 2, -1]], np.int32))
    assert columns.boxes([9]) == [Copy(0, (0, 0), (2, 3), 7, (1, -3))]
    assert of_steps(np.array([[2, 1, 0, 1, 2, 9]], np.int32)).boxes([4, 6]) == [
        Copy(0, (0, 0), (1, 3), 2, (0, -1)), Copy(0, (0, 3), (1, 2), 1, (0, 1)), Copy(1, (0, 5), (1, 1), 5, (0, 0))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("places", "steps"),
    [
        ([[0, 1], [2, 4]], [[0, 1], [2, 4]]),
        ([[0, 2], [1, 3]], [[0, 1], [2, 3]]),
        ([[0, -1], [-1, 3]], [[0, -1], [-1, 3]]),
    ],
)
def test_places_without_steps_are_refused(places: list[list[int]], steps: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="do not follow steps"):
        Order(np.array(places, np.int32), np.array(steps, np.int32)).boxes([5])


REFUSED: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "vectors transposed": (node("Transpose", "x", perm=[1, 0, 2, 3]), {}, r"perm is \[1, 0, 2, 3\]", "axes 1 to 3"),
    "no perm": (node("Transpose", "x"), {}, r"perm is \[3, 2, 1, 0\]", "0, for any number of vectors"),
    "vectors cut": (node("Slice", "x", "s", "e"), {"s": np.array([0]), "e": np.array([1])}, r"axes is \[0\]", "1 to 3"),
    "backwards": (
        node("Slice", "x", "s", "e", "a", "t"),
        {"s": np.array([3]), "e": np.array([0]), "a": np.array([1]), "t": np.array([-1])},
        r"steps is \[-1\]",
        "1 or more",
    ),
    "nothing": (
        node("Slice", "x", "s", "e", "a"),
        {"s": np.array([3]), "e": np.array([1]), "a": np.array([1])},
        "takes no values",
        "before ends",
    ),
    "computed bounds": (node("Slice", "x", "x", "x"), {}, "starts, 'x', is not constant", "initializer"),
    "symmetric": (node("Pad", "x", "pads", mode="symmetric"), PADS, "mode is 'symmetric'", "constant, reflect, edge"),
    "reflected twice": (
        node("Pad", "x", "p", mode="reflect"), {"p": np.array([0, 0, 4, 0, 0, 0, 0, 0])}, "mode reflect", "at most"
    ),
    "vectors repeated": (node("Tile", "x", "r"), {"r": np.array([2, 1, 1, 1])}, r"repeats is \[2, 1, 1, 1\]", "is 1"),
    "no values": (node("Tile", "x", "r"), {"r": np.array([1, 1, 0, 1])}, r"repeats is \[1, 1, 0, 1\]", "1 or more"),
    "vectors expanded": (node("Expand", "x", "s"), {"s": np.array([2, 3, 4, 4])}, r"shape is \[2, 3, 4, 4\]", "is 1"),
    "other size": (node("Expand", "x", "s"), {"s": np.array([2, 1, 1])}, r"shape is \[2, 1, 1\]", "numbers of 1"),
    "more axes": (node("Expand", "x", "s"), {"s": np.ones(5, np.int64)}, "shape is", "4 numbers"),
    "computed repeats": (node("Tile", "x", "x"), {}, "the repeats, 'x', is not constant", "initializer"),
    "few channels": (node("DepthToSpace", "x", blocksize=2), {}, "blocksize is 2", r"multiple of blocksize\^2"),
    "uneven": (node("SpaceToDepth", "x", blocksize=3), {}, "blocksize is 3", "multiples of blocksize"),
    "mode": (node("DepthToSpace", "x", blocksize=1, mode="RCD"), {}, "mode is 'RCD'", "DCR or CRD"),
    "vectors gathered": (node("Gather", "x", "i", axis=0), {"i": np.array([0])}, "axis is 0", "axes 1 to 3"),
    "beyond the axis": (node("Gather", "x", "i", axis=1), {"i": np.array([3])}, "values beyond -3 to 2", "of the axis"),
    "computed indices": (node("Gather", "x", "x", axis=1), {}, "the indices, 'x', is not constant", "initializer"),
    "vectors split": (node("Split", "x", axis=0), {}, "axis is 0", "axes 1 to 3"),
    "sizes of parts": (node("Split", "x", "s", axis=1), {"s": np.array([2])}, r"sizes \[2\]", "3 in all"),
    "computed parts": (node("Split", "x", "x", axis=1), {}, "the split, 'x', is not constant", "initializer"),
    "to texts": (node("Cast", "x", to=TensorProto.STRING), {}, "float32 to string", "float32, uint8"),
    "negative": (node("Pad", "x", "p"), {"p": np.array([0, 0, 0, -1, 0, 0, 0, 0])}, "pads is", "0 or more"),
    "vectors padded": (node("Pad", "x", "p"), {"p": np.array([1, 0, 0, 0, 0, 0, 0, 0])}, "pads is", "first axis"),
    "axes of pads": (
        node("Pad", "x", "pads", "value", "axes"), PADS | {"axes": np.array([1, 2])}, "pads is", "4 integers"
    ),
    "vectors joined": (node("Concat", "x", "x", axis=-4), {}, "axis is -4", "axis 1 to 3"),
    "vectors squeezed": (node("Squeeze", "x", "a"), {"a": np.array([0])}, r"axes is \[0\]", "the first one"),
    "all squeezed": (node("Squeeze", "x"), {}, r"axes is \[\]", "some of the axes"),
    "size": (node("Squeeze", "x", "a"), {"a": np.array([1])}, r"shape \(vectors, 3, 4, 4\)", "size 1"),
    "before the vectors": (node("Unsqueeze", "x", "a"), {"a": np.array([0])}, r"axes is \[0\]", "the first one"),
    "no axis": (node("Concat", "x", "x"), {}, "axis is 0", "axis 1 to 3, or -1"),
    "two types": (node("Concat", "x", "f", axis=1), {}, "'f' is float32", "reads uint8"),
    "a constant": (node("Concat", "x", "c", axis=1), {"c": X}, "'c' is a constant", "another node"),
    "one vector": (node("Reshape", "x", "c"), {"c": np.array([1, -1])}, r"shape is \[1, -1\]", r"such as \[-1, 48\]"),
    "another size": (node("Reshape", "x", "c"), {"c": np.array([-1, 4])}, r"shape is \[-1, 4\]", "48 values together"),
    "no divisor": (node("Reshape", "x", "c"), {"c": np.array([0, 5, -1])}, "48 values in a vector", "48 values"),
    "flat": (node("Reshape", "x", "c"), {"c": np.array([-1])}, r"shape is \[-1\]", "48 values together"),
    "no shape": (node("Reshape", "x", "c"), {"c": np.zeros(0, np.int64)}, r"shape is \[\]", "48 values together"),
    "zeros are zeros": (
        node("Reshape", "x", "c", allowzero=1), {"c": np.array([0, 48])}, r"shape is \[0, 48\]", "48 values"
    ),
    "computed shape": (node("Reshape", "x", "x"), {}, "shape, 'x', is not constant", "initializer"),
    "flatten all": (node("Flatten", "x", axis=0), {}, "axis is 0", "axis 1"),
    "flatten nothing": (node("Flatten", "x", axis=2), {}, "axis is 2", "axis 1"),
    "inputs": (node("Flatten", "x", "x"), {}, "has 2 inputs", "takes 1 to 1"),
    "training": (
        node("Dropout", "x", "r", "t"), {"r": np.float32(0.5), "t": np.bool_(1)}, "training_mode is true", "inference"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_the_node_and_what_is_accepted(case: str) -> None:
    proto, given, message, hint = REFUSED[case]
    x = np.float32(X) if proto.op_type in ("Dropout", "Cast") else X
    with pytest.raises(RequestError, match=f"node 'y' .*{message}") as caught:
        layer_of(proto, given, {"x": x, "f": np.float32(X)})
    assert re.search(hint, caught.value.hint)


def test_images_of_other_sizes_are_not_joined() -> None:
    inputs = {"x": X, "a": X[:, :2], "b": X[:, 0]}
    with pytest.raises(RequestError, match=r"shapes \(3, 4, 4\) and \(2, 4, 4\)"):
        layer_of(node("Concat", "x", "a", axis=2), {}, inputs)
    with pytest.raises(RequestError, match=r"shapes \(3, 4, 4\) and \(4, 4\)"):
        layer_of(node("Concat", "x", "b", axis=1), {}, inputs)
    with pytest.raises(RequestError, match="nan"):
        layer_of(node("Pad", "f", "p", "v"), PADS | {"p": PADS["pads"], "v": np.float32("nan")}, {"f": np.float32(X)})
