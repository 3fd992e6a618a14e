"""The content that every table of a program must have, derived from the bytes of the ONNX file.

Nothing is taken from harness.model and from the generators in harness.targets.  A layout is a formula: for each place
of a table, the model's constant at that place, and 0 where there is none.  It is taken from the headers of the kernels,
not from the code that fills the tables.

Every target has a line in `RULES`; `independent` reads the constants of every operator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from harness.analysis.proof.independent.node import CODES, DENSE, FLOAT_CONVOLUTIONS, FLOAT_DENSE, OPERANDS, Node
from harness.analysis.proof.independent.windows import counts
from harness.core.arrays import Array
from harness.operators.exact import fused
from harness.operators.region import Region

INFINITY = 0x7F800000
IMAGE = 3  # axes of an image with its channels: conv_vector.h does not compute volumes
LANES, QUAD = 16, 4  # columns of a panel, inputs of a group: kernels/c/lanes.h, kernels/c/integer/dot4.h
TILE_COLUMNS, TILE_PRODUCTS = (16, 32, 64), 64  # kernels/cuda/tensor.cuh: sizes of a tile, products of a step
LEVELS = 8  # of the binary search in kernels/vitis/layer.hpp
TIOVX_VERSION = 2  # KERNELS_VERSION in kernels/tiovx/protocol.h
TIOVX_TILE = 1 << 16  # TILE_BYTES in kernels/tiovx/target/windows.h
SCALES = ("alpha", "a_scale", "b_scale", "y_scale")  # of which the multiplier is made
FLIP = 128  # the offset that the kernels of tiovx add to int8 codes

Rule: TypeAlias = Callable[[Node], Mapping[str, Array]]
"""Function from a node to the tables of a target, by the part of their names after the layer's."""


def of_part(node: Node, name: str, target: str) -> dict[str, Array] | None:
    """Return by their names all tables that `target` must have for the layer `name`; None for an unknown target."""
    rule = RULES.get(target)
    return None if rule is None else {f"{name}_{part}": values for part, values in rule(node).items()}


def in_instructions(node: Node, target: str) -> tuple[str, ...]:
    """Return the constants of a node that are in the instructions of `target` and in no table."""
    if target == "iree:static":
        left = {*_in_arguments(node), *SCALES, "groups"}
        return tuple(name for name in node.constants if name not in left)
    if target != "c:unrolled":
        return ()
    kept = {
        **dict.fromkeys(DENSE, ("multiplier", "output_zero_point")),
        "QLinearConv": tuple(name for name in node.constants if name not in SCALES),
        **dict.fromkeys(FLOAT_CONVOLUTIONS, ("weights", "bias")),
        "ArgMax": (),
        "ArgMin": (),
    }
    names = kept.get(node.operator, tuple(node.constants))
    return tuple(name for name in names if name in node.constants and not _is_lookup(name))


def _is_lookup(name: str) -> bool:
    """Return whether a constant is a table for codes, which code without loops reads too."""
    return name.startswith("table")


def _has_weights(node: Node) -> bool:
    """Return whether a node sums products of floats with constants; a MatMul can multiply two activations."""
    return node.operator in (*FLOAT_DENSE, *FLOAT_CONVOLUTIONS) and "weights" in node.constants


# The rules, one a target.


def _by_rows(node: Node) -> dict[str, Array]:
    """Return tables of c, c:generic and c:inlined: weights in one row an output (kernels/c/qgemm.h)."""
    if node.operator == "QLinearConv":
        return _of_convolution(node)
    if node.operator not in DENSE:
        return _of_elements(node)
    return {"weights": node.signed.T, "offset": _offset(node), **_of_columns(node, _signed_zero_points(node))}


def _in_panels(node: Node) -> dict[str, Array]:
    """Return tables of c:vector: zero-padded panels of 16 columns, and a second row of offsets (qgemm_vector.h)."""
    if node.operator == "QLinearConv":
        return _of_windows(node)
    if node.operator == "Conv" and len(node.image) <= IMAGE:
        return {"weights": _in_quads(node), "bias": node.constants["bias"]}
    if node.operator in FLOAT_DENSE and _has_weights(node):
        return {"weights": _float_panels(node), "bias": _padded(node.constants["bias"], LANES)}
    if node.operator not in DENSE:
        return _of_elements(node)
    tables = _of_columns(node, _signed_zero_points(node))
    per_column = ("multiplier", "weights_zero_point")
    padded = {name: _padded(tables[name], LANES) for name in per_column if name in tables}
    return {**tables, **padded, "weights": _panels(node.signed), "offset": _padded(_offsets(node), LANES)}


def _in_statements(node: Node) -> dict[str, Array]:
    """Return the tables of c:unrolled: of functions of one code, and what init reads back of a QGemm (unrolled.h)."""
    if node.operator not in DENSE:
        return {name: values for name, values in node.constants.items() if _is_lookup(name)}
    return {"start": _offset(node).view(np.int32), "terms": node.centred.T.astype(np.int32)}


def _in_arguments(node: Node) -> dict[str, Array]:
    """Return tables of iree:static, arguments of its functions: constants of several values, as the file has them."""
    if _has_weights(node):
        return {name: node.constants[name] for name in ("weights", "bias")}
    if node.operator not in (*DENSE, "QLinearConv"):
        return {name: values for name, values in _of_elements(node).items() if np.size(values) > 1}
    tables = {name: node.constants[name] for name in ("weights", "bias", "multiplier")}
    zero_points = node.constants["weights_zero_point"]
    return tables if (zero_points == zero_points[0]).all() else tables | {"weights_zero_point": zero_points}


def _by_columns(node: Node) -> dict[str, Array]:
    """Return tables of cuda:layerwise: weights as stored, one column an output (kernels/cuda/layerwise.cuh)."""
    if node.operator == "QLinearConv":
        return _of_convolution(node)
    if node.operator not in DENSE:
        return _of_elements(node)
    tables = {name: node.constants[name] for name in ("weights", "weights_zero_point")}
    return _of_columns(node, tables["weights_zero_point"]) | tables


def _in_fours(node: Node) -> dict[str, Array]:
    """Return tables of cuda:fused: 4 x 4 groups of outputs and inputs, padded with zeros (kernels/cuda/fused.cuh)."""
    if node.operator == "QLinearConv":
        return _of_words(node)
    if node.operator not in DENSE:
        return _of_elements(node)
    weights = node.constants["weights"]
    words, groups = (-(-size // QUAD) for size in weights.shape)
    row, column = np.indices((groups, QUAD * QUAD * words))
    k, n = QUAD * (column // (QUAD * QUAD)) + column % QUAD, QUAD * row + column // QUAD % QUAD
    zero_points = node.constants["weights_zero_point"]
    tables = {
        "weights": _placed(weights, k, n),
        "offset": _padded(_offset(node), QUAD),
        "multiplier": _padded(node.constants["multiplier"], QUAD),
    }
    if zero_points.any():
        tables["weights_zero_point"] = _padded(zero_points, QUAD)
    return tables | _output_zero_point(node)


def _in_tiles(node: Node) -> dict[str, Array]:
    """Return tables of cuda:tensor: of wide layers a row a column, by place of the window (kernels/cuda/tensor.cuh)."""
    is_sum = node.operator == "QLinearConv" or node.operator in DENSE
    if not is_sum or node.attributes.get("group", 1) > 1 or min(node.signed.shape) < TILE_COLUMNS[0]:
        return _by_columns(node)
    depth, width = node.signed.shape
    columns = next((columns for columns in TILE_COLUMNS if width <= columns), TILE_COLUMNS[-1])
    channels = node.window[0] if node.window else depth
    k = np.full(-(-depth // TILE_PRODUCTS) * TILE_PRODUCTS, depth)
    k[:depth] = np.arange(depth).reshape(channels, -1).T.reshape(-1)
    places = np.broadcast_arrays(k, np.arange(-(-width // columns) * columns)[:, None])
    zero_points = _signed_zero_points(node)
    tables = {
        "weights": _placed(node.signed, *places),
        "offset": _padded(_offset(node), columns),
        "total": _padded(node.centred.sum(axis=0).astype(np.int32), columns),
        "multiplier": _padded(node.constants["multiplier"], QUAD),
        "input_zero_point": node.constants["input_zero_point"],
    }
    if zero_points.any():
        tables["weights_zero_point"] = _padded(zero_points, columns)
    return tables | _output_zero_point(node)


def _in_parts(node: Node) -> dict[str, Array]:
    """Return tables of tiovx: thresholds, no floating point, and a header with the sizes (kernels/tiovx/protocol.h)."""
    flip = FLIP if node.input_dtype == np.int8 else 0
    parts = TIOVX_PARTS[node.operator](node, flip) if node.operator in TIOVX_PARTS else {}
    lowest = 0 if node.dtype == np.float32 else np.iinfo(node.dtype).min % 256
    order = (
        ("offset",),
        ("weights_zero_point",),
        ("thresholds",),
        ("multiplier",),
        ("weights",),
        ("window",),
        ("codes",),
        ("addend", "factor"),
        ("terms",),
        ("rows",),
    )
    sizes = [sum(parts[part].nbytes for part in each if part in parts) for each in order]
    head = [TIOVX_VERSION, node.depth, node.width, flip, lowest, *sizes]
    return {"head": np.array(head, np.uint32), **parts}


def _contraction_parts(node: Node, flip: int) -> dict[str, Array]:
    """Return the parts of a sum of products but for its weights."""
    zero_points = _signed_zero_points(node)
    parts = {"offset": _offset(node, flip)} | ({"weights_zero_point": zero_points} if zero_points.any() else {})
    if node.dtype == np.float32:
        return parts | {"multiplier": node.constants["multiplier"]}
    return parts | {"thresholds": thresholds(node)}


def _dense_parts(node: Node, flip: int) -> dict[str, Array]:
    return _contraction_parts(node, flip) | {"weights": _panels(node.signed)}


def _convolution_parts(node: Node, flip: int) -> dict[str, Array]:
    groups, outside = node.attributes.get("group", 1), int(node.constants["input_zero_point"][0]) + flip
    tiles = _tiles(node, groups, node.window[0], node.shape[0] // groups, outside)
    return _contraction_parts(node, flip) | {"weights": _padded(node.signed.T, QUAD), "window": tiles}


def _pair_parts(node: Node, flip: int) -> dict[str, Array]:  # noqa: ARG001 - the table has the order of the codes
    operand = {name: node.constants[name].view(np.uint8) for name in OPERANDS if name in node.constants}
    return {"codes": np.ascontiguousarray(_pairs(node).astype(node.dtype)).view(np.uint8), **operand}


def _tiles(node: Node, groups: int, inputs: int, outputs: int, outside: int, exponent: int = 0) -> Array:
    """Return struct windows of kernels/tiovx/target/windows.h, uint32."""
    axes = len(node.image) - 1
    one, none = [1] * (2 - axes), [0] * (2 - axes)
    sizes = [node.attributes[name] for name in ("kernel_shape", "strides", "dilations")]
    rows = [[*one, *each] for each in (node.image[1:], *sizes)]
    rows += [[*none, *node.attributes["pads"][:axes]], [*one, *node.shape[1:]]]
    _, (high, wide), (down, right), (step, aside), _, (count, columns) = rows
    width = (columns - 1) * right + (wide - 1) * aside + 1
    bands = [band for band in range(1, count + 1)
             if inputs * ((band - 1) * down + (high - 1) * step + 1) * width <= TIOVX_TILE]  # fmt: skip
    sizes_of_group = [groups, inputs, outputs, max(bands, default=1), outside, exponent]
    return np.array([*np.concatenate(rows), *sizes_of_group], np.int64).astype(np.uint32)


def _mean_parts(node: Node, flip: int) -> dict[str, Array]:
    """Return the parts of a QLinearAveragePool: kernels/c/integer/rounded_sum.h has the unit of the terms."""
    constants = node.constants
    if "input_step" not in constants:
        return _global_mean_parts(node, flip)
    outside = int(constants["input_zero_point"][0]) + flip
    thresholds_of, terms, rows, exponent = _means(node)
    return {
        "thresholds": thresholds_of,
        "window": _tiles(node, node.image[0], 1, 1, outside, exponent),
        "terms": terms,
        "rows": rows.astype(np.uint32),
    }


def _means(node: Node) -> tuple[Array, Array, Array, int]:
    """Return thresholds of QLinearAveragePool, terms by their codes, rows, and the exponent of the terms' unit."""
    constants = node.constants
    step, y_scale, y_zero_point = (constants[name] for name in ("input_step", "output_step", "output_zero_point"))
    divisors = _divisors(node)
    different = np.unique(divisors)
    codes = np.arange(CODES + 1) + np.iinfo(node.dtype).min - constants["input_zero_point"]
    exponent = max(int(np.frexp(step[0])[1]) - 24, -149)
    terms = np.ldexp((codes.astype(np.float32) * step).astype(np.float64), -exponent).astype(np.int64)
    wanted = _codes_above_lowest(node)

    def reached(numbers: Array) -> Array:
        with np.errstate(over="ignore"):
            v = _numbered(numbers) / different[:, None].astype(np.float32) / y_scale + y_zero_point.astype(np.float32)
        return np.asarray(np.rint(v) >= wanted)

    shape = (len(different), CODES)
    least = _least(reached, np.full(shape, 1 - INFINITY), np.full(shape, INFINITY))
    return least.astype(np.int32), terms, np.searchsorted(different, divisors), exponent


def _divisors(node: Node) -> Array:
    """Return the divisors of QLinearAveragePool, int64: padding counts as far as a kernel reads."""
    divisors = counts(node.attributes, node.image, node.shape).astype(np.int64)
    include = node.attributes.get("count_include_pad")
    return np.full_like(divisors, math.prod(node.attributes["kernel_shape"])) if include else divisors


def _global_mean_parts(node: Node, flip: int) -> dict[str, Array]:
    """Return the parts of a QLinearGlobalAveragePool, a contraction with weights of 1; its channels are alike."""
    width = node.width
    of_contraction: dict[str, Array] = {
        "weights": np.ones((node.input_width // width, width), np.int8),
        "weights_zero_point": np.zeros(width, np.int32),
        "bias": np.zeros(width, np.int32),
        "multiplier": np.repeat(node.constants["multiplier"], width),
    }
    parts = _contraction_parts(replace(node, constants={**node.constants, **of_contraction}), flip)
    return parts | {"thresholds": parts["thresholds"][:1]}


def _in_levels(node: Node, fold: int = 1) -> dict[str, Array]:
    """Return tables of vitis: weights minus zero points, thresholds in search order (kernels/vitis/layer.hpp).

    The weights of a convolution and of a folded QGemm stand in blocks (kernels/vitis/window.hpp); functions of codes
    are tables (look_up.hpp), and codes that are only moved or compared have none.
    """
    constants = node.constants
    if node.operator in ("QLinearAdd", "QLinearMul"):
        return _pairs_beside(node)
    if node.operator == "QLinearConcat":
        return {"codes": constants["table"].astype(np.int32)}
    if "input_step" in constants:
        steps, terms, rows, exponent = _means(node)
        halves = np.roll(terms, np.iinfo(node.dtype).min)[:, None] >> np.array([0, 32])
        own = {"terms": halves.astype(np.int32), "rows": rows, "exponent": np.array([exponent])}
        return {**{name: each.astype(np.int32) for name, each in own.items()}, **_levels(node, steps)}
    if "input_zero_point" not in constants:
        return {}
    tables = {"input_zero_point": constants["input_zero_point"]}
    if node.operator == "QLinearConv" or (node.operator in DENSE and fold > 1):
        tables |= _in_blocks(node, fold)
    elif node.operator in DENSE:
        tables |= {"weights": node.centred.astype(np.int32), "bias": constants["bias"]}
    if node.dtype == np.float32:
        return tables | {"multiplier": constants["multiplier"]}
    shared = len(np.unique(constants["multiplier"].view(np.uint32))) == 1
    return {**tables, **_levels(node, thresholds(node, shared=shared))}


def _levels(node: Node, steps: Array) -> dict[str, Array]:
    """Return thresholds in search order, and the lowest code."""
    places = ((2 * np.arange(1 << level) + 1) * (1 << (LEVELS - 1 - level)) - 1 for level in range(LEVELS))
    tables = {f"level_{level}": steps[:, of_level] for level, of_level in enumerate(places)}
    return tables | {"lowest": np.array([np.iinfo(node.dtype).min], np.int32)}


def _pairs_beside(node: Node) -> dict[str, Array]:
    """Return all pairs of codes, or those beside the values of a constant and, by elements of a stream, their places.

    In a stream the channels of a position stand side by side.
    """
    pairs = _pairs(node)
    operand = [node.constants[name].reshape(-1) for name in OPERANDS if name in node.constants]
    if not operand:
        return {"pairs": pairs}
    values = np.unique(operand[0])
    by_position = operand[0].reshape(node.shape[0], -1).swapaxes(0, 1).reshape(-1)
    columns = values.astype(np.int64) - np.iinfo(node.dtype).min
    return {"pairs": pairs[:, columns], "columns": np.searchsorted(values, by_position).astype(np.int32)}


TIOVX_PARTS: dict[str, Callable[[Node, int], dict[str, Array]]] = {
    "QuantizeLinear": lambda node, _: {"thresholds": quantize_thresholds(node)[None]},
    **dict.fromkeys(DENSE, _dense_parts),
    "QLinearConv": _convolution_parts,
    "QLinearAdd": _pair_parts,
    "QLinearMul": _pair_parts,
    "QLinearConcat": lambda node, _: {"codes": node.constants["table"].view(np.uint8)},
    "MaxPool": lambda node, _: {"window": _tiles(node, node.image[0], 1, 1, 0)},
    "QLinearAveragePool": _mean_parts,
    "QLinearGlobalAveragePool": _global_mean_parts,
}
"""The parts of a layer of tiovx (enum part in kernels/tiovx/protocol.h), by operator; others have none."""


RULES: dict[str, Rule] = {
    "c": _by_rows,
    "c:generic": _by_rows,
    "c:inlined": _by_rows,
    "c:vector": _in_panels,
    "c:unrolled": _in_statements,
    "iree:static": _in_arguments,
    "cuda:layerwise": _by_columns,
    "cuda:fused": _in_fours,
    "cuda:tensor": _in_tiles,
    "tiovx:c7x": _in_parts,
    "tiovx:mpu": _in_parts,
    "vitis": _in_levels,
    **{f"vitis:fold{fold}": functools.partial(_in_levels, fold=fold) for fold in (2, 4, 8, 16)},
}


# What they have in common.


def _of_convolution(node: Node) -> dict[str, Array]:
    """Return the tables of a QLinearConv, its weights in one row a channel, one row after the other."""
    tables = {"weights": node.signed.T.reshape(-1), "weights_zero_point": _signed_zero_points(node)[:1]}
    return tables | {
        name: node.constants[name] for name in ("bias", "input_zero_point", "multiplier", "output_zero_point")
    }


def _of_windows(node: Node) -> dict[str, Array]:
    """Return the tables of a QLinearConv of c:vector, its weights in groups of QUAD (qlinear_conv_vector.h)."""
    tables = _of_convolution(node) | {"weights": _in_groups(node), "offset": _offsets(node)}
    return {part: values for part, values in tables.items() if part != "weights_zero_point" or values.any()}


def _of_words(node: Node) -> dict[str, Array]:
    """Return the tables of a QLinearConv of cuda:fused: rows of four channels, by place and word of four inputs."""
    inputs, *kernel = node.window
    size, width = math.prod(kernel), node.signed.shape[1]
    share = width * inputs // node.image[0]
    first = np.arange(width) // share * inputs
    by_fours = np.arange(-(-width // QUAD))
    begins = np.minimum.reduceat(first, QUAD * by_fours) // QUAD
    count = int((np.maximum.reduceat(first + inputs - 1, QUAD * by_fours) // QUAD - begins).max()) + 1
    begins = np.minimum(begins, -(-node.image[0] // QUAD) - count)
    row, place, word, n, i = np.indices((len(by_fours), size, count, QUAD, QUAD)).reshape(5, len(by_fours), -1)
    channel = QUAD * row + n
    c = QUAD * (begins[row] + word) + i - channel // share * inputs
    k = np.where((c >= 0) & (c < inputs), c * size + place, len(node.signed))
    tables = {name: _padded(values, QUAD) for name, values in _of_convolution(node).items() if name == "multiplier"}
    tables |= {name: node.constants[name] for name in ("input_zero_point", "output_zero_point")}
    tables |= {"weights": _placed(node.signed, k, channel), "offset": _padded(_offset(node), QUAD)}
    zero_point = _signed_zero_points(node)[:1]
    if not zero_point.any():
        return tables
    return tables | {"weights_zero_point": zero_point, "ones": _placed(np.ones_like(node.signed), k, channel)}


def _in_groups(node: Node) -> Array:
    """Return the weights in rows of groups (c, i, j), in each QUAD columns of the kernel or QUAD channels, or zeros."""
    channels, *kernel = node.window
    rows, columns = [1, *kernel][-2:]
    by_fours = -(-channels // QUAD), -(-columns // QUAD)
    if channels * rows * by_fours[1] <= by_fours[0] * rows * columns:
        c, i, j, _ = np.indices((channels, rows, by_fours[1], QUAD)).reshape(4, -1)
        j = QUAD * j + np.arange(len(j)) % QUAD
    else:
        c, i, j, _ = np.indices((by_fours[0], rows, columns, QUAD)).reshape(4, -1)
        c = QUAD * c + np.arange(len(c)) % QUAD
    k = np.where((c < channels) & (j < columns), (c * rows + i) * columns + j, node.signed.shape[0])
    return _placed(node.signed, *np.broadcast_arrays(k, np.arange(node.signed.shape[1])[:, None]))


def _in_blocks(node: Node, fold: int) -> dict[str, Array]:
    """Return weights, by rows and columns of the kernel, then channels, and bias, in blocks of adjacent columns.

    A block has a share of 1 / fold of a group's columns, rounded up, and 0 where a group ends; of groups with one
    channel it has all columns of such a share of the groups, unless that is one.
    """
    channels, *kernel = node.window or (len(node.centred),)
    depth, width = node.centred.shape
    part, at_once = width // node.attributes.get("group", 1), -(-node.attributes.get("group", 1) // fold)
    lanes = -(-part // fold)
    if channels == 1 and at_once > 1:
        part, lanes = width, part * at_once
    k = np.moveaxis(np.arange(depth).reshape(channels, *kernel), 0, -1).reshape(-1)
    starts = [(first, at) for first in range(0, width, part) for at in range(0, part, lanes)]
    n = np.array([[first + at + lane if at + lane < part else width for lane in range(lanes)] for first, at in starts])
    rows = [_placed(node.centred, *np.broadcast_arrays(k[:, None], of_block)) for of_block in n]
    bias = _placed(node.constants["bias"][None], np.zeros_like(n), n)
    return {"weights": np.concatenate(rows).astype(np.int32), "bias": bias}


def _pairs(node: Node) -> Array:
    """Return the code of all pairs of codes of QLinearAdd or QLinearMul, int32 (256, 256), by that of an activation."""
    limits, constants = np.iinfo(node.dtype), node.constants
    codes = np.arange(limits.min, limits.max + 1)
    if node.operator == "QLinearAdd":
        numbers = codes.astype(np.float32)
        second = fused(constants["second_ratio"], numbers[None], constants["fixed"])
        v = fused(constants["first_ratio"], numbers[:, None], second)
    else:
        products = np.outer(codes - constants["a_zero_point"], codes - constants["b_zero_point"]).astype(np.float32)
        v = products * constants["multiplier"] + constants["y_zero_point"].astype(np.float32)
    code: Array = np.clip(np.rint(v), limits.min, limits.max).astype(np.int32)
    return code.T if node.operator == "QLinearAdd" and node.constant_first else code


def _of_elements(node: Node) -> dict[str, Array]:
    """Return the tables of an operator that is no sum of products of codes; one row has the weights of all channels."""
    names = {"zero_point": "zero"}
    if _has_weights(node):
        weights = node.constants["weights"]
        by_rows = weights.T if node.operator in FLOAT_CONVOLUTIONS else weights
        return {"weights": by_rows.reshape(-1), "bias": node.constants["bias"]}
    tables = {names.get(name, name): value for name, value in node.constants.items() if name not in ("last", "groups")}
    return tables | ({"count": _divisors(node).astype(np.float32)} if "input_step" in tables else {})


def _of_columns(node: Node, zero_points: Array) -> dict[str, Array]:
    """Return the tables with one value a column or one in all; the weights' `zero_points` unless all are 0."""
    tables = {name: node.constants[name] for name in ("bias", "input_zero_point", "multiplier")}
    if zero_points.any():
        tables["weights_zero_point"] = zero_points
    return tables | _output_zero_point(node)


def _output_zero_point(node: Node) -> dict[str, Array]:
    return {name: node.constants[name] for name in ("output_zero_point",) if name in node.constants}


def _signed_zero_points(node: Node) -> Array:
    zero_points: Array = node.constants["weights_zero_point"] - np.int32(node.signed_shift)
    return zero_points


def _offset(node: Node, shift: int = 0) -> Array:
    """Return each column's accumulator for codes that are 0 after `shift` was added to them, modulo 2^32: uint32."""
    code = -shift - int(node.constants["input_zero_point"][0])
    sums: Array = node.constants["bias"] + (code * node.centred).sum(axis=0)
    return sums.astype(np.uint32)


def _offsets(node: Node) -> Array:
    """Return `_offset`, and the same for codes with their highest bit flipped: uint32 (2, N)."""
    offset = _offset(node)
    flipped = (128 if node.input_dtype == np.uint8 else -128) * node.signed.astype(np.int64).sum(axis=0)
    return np.stack([offset, (offset.astype(np.int64) + flipped).astype(np.uint32)])


def _panels(weights: Array) -> Array:
    """Return weights (K, N) in the order that qgemm_vector.h and dot4.h state, one row a group of inputs.

    b[16 p + lane][4 g + i]  at  ((p * groups + g) * 16 + lane) * 4 + i
    """
    groups, panels = -(-weights.shape[0] // QUAD), -(-weights.shape[1] // LANES)
    row, column = np.indices((panels * groups, LANES * QUAD))
    return _placed(weights, QUAD * (row % groups) + column % QUAD, LANES * (row // groups) + column // QUAD)


def _float_panels(node: Node) -> Array:
    """Return the weights of a Gemm as gemm_vector.h states: w[k][16 p + lane] at (p * K + k) * 16 + lane."""
    weights = node.constants["weights"]
    row, column = np.indices((-(-weights.shape[1] // LANES) * len(weights), LANES))
    return _placed(weights, row % len(weights), LANES * (row // len(weights)) + column)


def _in_quads(node: Node) -> Array:
    """Return the weights of a Conv as conv_vector.h states: w[4 q + i][k] at (q * K + k) * 4 + i, group by group."""
    weights, groups = node.constants["weights"], int(node.constants["groups"][0])
    depth, share = len(weights), weights.shape[1] // groups
    row, column = np.indices((-(-share // QUAD) * depth, QUAD))
    of_groups = (weights[:, group * share : (group + 1) * share] for group in range(groups))
    return np.concatenate([_placed(each, row % depth, QUAD * (row // depth) + column) for each in of_groups])


def _placed(weights: Array, k: Array, n: Array) -> Array:
    """Return a table with weight (k, n) at each place, 0 for places without one; `k` and `n` have the table's shape."""
    depth, width = weights.shape
    there = weights[np.minimum(k, depth - 1), np.minimum(n, width - 1)]
    return np.where((k < depth) & (n < width), there, 0).astype(weights.dtype)


def _padded(values: Array, unit: int) -> Array:
    """Return the values with zeros after the last column, padded to a multiple of `unit`."""
    padded = np.zeros((*values.shape[:-1], -(-values.shape[-1] // unit) * unit), values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded


def thresholds(node: Node, *, shared: bool = False) -> Array:
    """Return the least accumulator of each column that reaches each code above the lowest: int32 (N, 255).

    v = float32(acc) * m[n] in float32;  code = round_half_even(v) + zero point.  They are clipped to the bounds of the
    column, where one above the highest means "never"; with `shared` to those of all columns, as one row (1, 255).
    """
    limits, constants = np.iinfo(node.input_dtype), node.constants
    weights = node.centred if "weights" in constants else np.ones((node.input_width // node.width, 1), np.int64)
    terms = [(int(code) - constants["input_zero_point"][0]) * weights for code in (limits.min, limits.max)]
    low = constants.get("bias", 0) + np.minimum(*terms).sum(axis=0)
    high = constants.get("bias", 0) + np.maximum(*terms).sum(axis=0)
    multiplier = constants["multiplier"][:, None]
    if shared:
        low, high, multiplier = low.min(keepdims=True), high.max(keepdims=True), multiplier[:1]
    wanted = _codes_above_lowest(node) - constants["output_zero_point"][0]

    def reached(acc: Array) -> Array:
        return np.asarray(np.rint(acc.astype(np.float32) * multiplier) >= wanted)

    shape = (len(multiplier), CODES)
    least = _least(reached, np.broadcast_to(low[:, None], shape), np.broadcast_to(high[:, None] + 1, shape))
    return least.astype(np.int32)


def quantize_thresholds(node: Node) -> Array:
    """Return the least float32 that becomes each code above the lowest, int32 (255,).

    Floats are numbered in their order, 0 for zero; one below zero has minus the number of its absolute value.
    """
    wanted = _codes_above_lowest(node) - node.constants["zero_point"][0]

    def reached(numbers: Array) -> Array:
        with np.errstate(over="ignore"):
            v = _numbered(numbers) / node.constants["scale"]
        return np.asarray(np.rint(v) >= wanted)

    return _least(reached, np.full(CODES, 1 - INFINITY), np.full(CODES, INFINITY)).astype(np.int32)


def _numbered(numbers: Array) -> Array:
    """Return the float32 of these numbers, which have their order."""
    magnitude = np.abs(numbers).astype(np.uint32).view(np.float32)
    return np.copysign(magnitude, numbers.astype(np.float32))


def _codes_above_lowest(node: Node) -> Array:
    return np.arange(1, CODES + 1) + np.iinfo(node.dtype).min


def _least(reached: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the least integer from `low` on that is reached, `high` where none below it is."""
    while (low < high).any():
        middle = (low + high) >> 1
        at_middle = (low == high) | reached(middle)
        low, high = np.where(at_middle, low, middle + 1), np.where(at_middle, middle, high)
    return low


def columns_of(widths: Sequence[tuple[str, int]]) -> Iterator[Region]:
    """Yield the columns of each part of a layer.

    `widths` are the output tensor and the width of every part, those of one layer in the order of their columns.
    """
    done: dict[str, int] = {}
    for output, width in widths:
        start = done.get(output, 0)
        done[output] = start + width
        yield Region(start, start + width)
