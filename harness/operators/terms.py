"""The inputs of Add, Sub and Mul: two float32 activations of one shape, or one and a constant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, Tensor


def activations(node: Node, verb: str) -> list[Tensor]:
    """Return the activations that the node reads, in order; refuse two constants, and two shapes."""
    node.require_inputs(2, 2)
    node.attributes({})
    sources = [node.activation(i, [FLOAT32]) for i, name in enumerate(node.inputs) if name not in node.constants]
    if not sources:
        raise node.refusal(f"{verb} two constants", "the results of two nodes, or of one and a constant")
    if len({source.shape for source in sources}) > 1:
        first, second = (", ".join(map(str, source.shape)) for source in sources)
        raise node.refusal(f"its inputs have widths {first} and {second}", "the same width twice")
    return sources


def constant(node: Node, source: Tensor, what: str) -> npt.NDArray[np.float32]:
    """Return the constant that it reads beside `source`, finite, float32 (N,)."""
    position = next(i for i, name in enumerate(node.inputs) if name in node.constants)
    value, shape = node.constant(position, what, [FLOAT32]), source.shape
    if value.shape not in ((), (1,), shape, (1, *shape)):
        one = f"{shape}" if len(shape) > 1 else f"({source.size},)"
        raise node.refusal(f"the {what} has shape {value.shape}", f"shape (), (1,), {one} or {(1, *shape)}")
    if not np.isfinite(value).all():
        raise node.refusal(f"the {what} holds {value[~np.isfinite(value)].flat[0]}", "finite numbers")
    return np.broadcast_to(value.reshape(-1), source.size).astype(np.float32)


def bound_of_sum(node: Node, sources: list[Tensor], addend: npt.NDArray[np.float32] | None, noun: str) -> float:
    """Return the largest |a + b| or |a - b|; refuse a result that could overflow."""
    with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded sums too
        bounds = [np.float32(source.bound) for source in sources]
        bound = float(bounds[0] + (bounds[1] if addend is None else np.abs(addend).max()))
    if not np.isfinite(bound):
        reaches = " and ".join(f"{source.name!r} {source.bound:.8g}" for source in sources)
        raise node.refusal(
            f"its {noun} can overflow: the terms can reach {reaches}", f"terms whose {noun} stays below 3.4028235e+38"
        )
    return bound


def require_kept_zero(node: Node, source: Tensor, term: npt.NDArray[np.float32] | None, zero: float) -> None:
    """Refuse a constant of one number that turns -0 into 0: ONNX Runtime 1.31 leaves the node out, and -0 stays."""
    is_single = any(name in node.constants and node.constants[name].size == 1 for name in node.inputs)
    if term is not None and is_single and source.negative_zero and includes(term, zero):
        raise node.refusal(f"does nothing but turn -0 into 0, and {source.name!r} can be -0", "leave it out")


def includes(values: npt.NDArray[np.float32] | None, zero: float) -> bool:
    """Return whether a constant has a zero of this sign; False without a constant."""
    return values is not None and bool(((values == 0) & (np.signbit(values) == np.signbit(zero))).any())
