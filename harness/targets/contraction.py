"""Constants of contractions that the lowerings of several targets share."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.operators.contraction import Contraction
from harness.operators.obligations import StageKind
from harness.targets.generated import Stage, Table, stage

INT32 = np.dtype(np.int32)
DEPTH_LIMIT = 33025  # QGEMM_DEPTH_LIMIT in kernels/c/qgemm.h: 33025 * 255 * 255 < 2^31


def offset(layer: Contraction) -> Array:
    """Return acc[n] without its sums over a: bias[n] - za * sum_k b[n][k] + depth * za * zb[n], uint32 (N,)."""
    centered = layer.weights.astype(np.int64) - layer.weights_zero_point
    constant: Array = (layer.bias - layer.a_zero_point * centered.sum(axis=0)).astype(np.uint32)
    return constant


def too_deep(layer: Contraction) -> str | None:
    """Return why sums of quantised inputs times stored weights, without zero points, could leave int32, or None."""
    if len(layer.weights) > DEPTH_LIMIT:
        return (
            f"{len(layer.weights)} inputs of a sum, but the kernel's sums stay inside int32 for at most {DEPTH_LIMIT}"
        )
    return None


def reaches_sentinel(layer: Contraction) -> str | None:
    """Return why thresholds cannot express the layer: 2^31 - 1 encodes a value that is never reached; or None."""
    if layer.accumulator_bounds()[1].max() == np.iinfo(np.int32).max:
        return "an accumulator can be 2^31 - 1, which encodes a code that is never reached"
    return None


def stages(layer: Contraction) -> tuple[Stage, Stage]:
    """Return the stages from quantised values to accumulators, and from them to the output."""
    return (
        stage(layer, StageKind.ACCUMULATE, layer.input.dtype, layer.input.size, INT32, layer.size),
        stage(layer, StageKind.FINISH, INT32, layer.size, layer.dtype, layer.size),
    )


def tables(layer: Contraction, *, computed: bool = False) -> tuple[Table, ...]:
    """Return the constants of the definition; of uint8 weights and their zero points both are 128 less."""
    numbers, comments = dict(layer.numbers()), {"multiplier": layer.scales.formula}
    if "weights" in numbers:
        weights, zero_points = signed_weights(layer)
        numbers |= {"weights": weights.T, "weights_zero_point": zero_points[: numbers["weights_zero_point"].size]}
        comments["weights"] = f"{origin_of_weights(layer)}: one row a channel"
    flat = {role: np.asarray(values).reshape(-1) for role, values in numbers.items()}
    return tuple(
        Table(f"{layer.name}_{role}", values, comments.get(role, ""), computed) for role, values in flat.items()
    )


def signed_weights(layer: Contraction) -> tuple[Array, Array]:
    """Return int8 weights (K, N) and their zero points, int32 (N,); of uint8 weights both are 128 less."""
    shift = 128 if layer.weights.dtype == np.uint8 else 0
    return (layer.weights.astype(np.int32) - shift).astype(np.int8), layer.weights_zero_point - shift


def origin_of_weights(layer: Contraction) -> str:
    """Return a comment on the origin of `signed_weights`."""
    less = ", less 128" if layer.weights.dtype == np.uint8 else ""
    return f"{layer.weights.dtype} weights of node {layer.name}{less}"


def origin_of_multiplier(layer: Contraction) -> str:
    """Return a comment on the origin of the multiplier's bits."""
    divided = "" if layer.dtype == np.float32 else " / y_scale"
    return f"float32 bits of ((alpha * a_scale) * b_scale[n]){divided}"
