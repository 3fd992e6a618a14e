"""Base classes of operators: a layer is a node of the model with everything that is true of it on any target.

An operator is a subclass of `Layer` in a file of its own.  The code for a target is in
`harness/targets/<target>/<operator>.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.code_sums import Rounded
from harness.operators.counters import Stimuli
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
from harness.operators.frames import Streaming
from harness.operators.node import Node
from harness.operators.obligations import (
    Extent,
    Obligation,
)
from harness.operators.product import Runtime
from harness.operators.region import Division
from harness.operators.rules import Rules
from harness.operators.sum_orders import SumOrder
from harness.operators.tensor import Tensor, integer_limits
from harness.operators.text import Text
from harness.operators.traits import Trait

if TYPE_CHECKING:
    from harness.operators.contraction import Contraction

Evaluate: TypeAlias = Callable[..., Array]
"""Function from the values of a layer's inputs, (vectors, size) each, to those of its output, (vectors, size)."""
A_co = TypeVar("A_co", covariant=True)
ALONE = "alone/input"
"""The input of a node that is computed alone."""
Constants: TypeAlias = Mapping[str, Array | np.float32 | int | bool]
"""The constants of a layer by role: tables of float32 or integers, (N,) or (K, N), and numbers."""


class Ability(cached_property[A_co]):
    """An ability of a layer: an object with defaults that has the layer, made when it is first used.

    A class with another behaviour sets `streaming = Ability(OtherStreaming)`, or `Ability[Streaming](OtherStreaming)`
    if its subclasses can go back to the default.
    """


@dataclass(frozen=True, eq=False)  # or layers with arrays, which inherit it, would be equal by their names
class Layer(ABC):
    """One node of the model and the activation that it writes.

    `node` is the ONNX node's name, `name` a unique stem [a-z][a-z0-9_]* derived from it for files and C, `operator`
    the ONNX operator.  `inputs` are the activations that it reads, without constants.
    """

    ONNX: ClassVar[tuple[tuple[str, str], ...]]
    """The (domain, operator) pairs that the class reads; ONNX's own domain is empty."""
    traits: ClassVar[Trait] = Trait.ELEMENTWISE

    text: ClassVar[Text] = Text()
    streaming = Ability(Streaming)
    division = Ability(Division)
    runtime = Ability(Runtime)
    stimuli = Ability(lambda _: Stimuli())
    rounded = Ability(lambda _: Rounded())
    errors = Ability(Errors)
    sum_order = Ability(SumOrder)

    name: str
    node: str
    operator: str
    inputs: tuple[Tensor, ...]
    output: Tensor

    @classmethod
    @abstractmethod
    def read(cls, node: Node) -> Layer:
        """Read a node as a layer, mostly of this class; raise RequestError if its arithmetic is not reproducible."""

    @classmethod  # not abstract: operators of third parties may have none
    def rules(cls, node: Rules) -> None:  # noqa: ARG003 - operators override it
        """State the rules between types, shapes and values of the node's tensors; none by default."""
        return

    @abstractmethod
    def prepare(self) -> Evaluate:
        """Return the exact function of the layer; every rounding is decided by integer arithmetic."""

    def in_integers(self, inputs: Sequence[Array]) -> Array | None:  # noqa: ARG002 - operators override it
        """Return the values of the first vectors, (n, size), without floating point; None if there is no such way."""
        return None

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto | None:  # noqa: ARG003 - operators override it
        """Return the ONNX function of an operator of this project's own domain, which its models contain.

        `inputs` is the number of inputs of the function, `opset` the version of ONNX's own domain.
        """
        return None

    def constants(self) -> Constants:
        """Return all constants, in the order of the fragment's parameters."""
        return {}

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - see above
        """Yield the obligations of a proof of this extent about the stages of the layer."""
        raise RequestError(
            f"layer {self.name}: a proof of {self.operator} is not available",
            "use harness run, which compares every activation of its vectors",
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumptions of a proof of the layer, in complete sentences."""
        return iter(())

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:  # noqa: ARG002 - operators override it
        """Yield the outputs that known faults make of the inputs, (vectors, size) each, the more special ones first.

        The causes depend on the layer alone, not on its inputs.
        """
        return iter(())

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:  # noqa: ARG002 - as above
        """Return the largest difference of a right value of ONNX Runtime from `output`, float64 (vectors, size).

        None if every bit must agree.  A float sum in another order, and a function that a library approximates, have
        several right values; `output` is the specified one, `inputs` are (vectors, size) each.
        """
        return None

    @property
    def sums(self) -> Contraction | None:
        """The layer itself as sums of products of codes; None if it has none."""
        return None

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the activations that it reads."""
        return tuple(tensor.name for tensor in self.inputs)

    @property
    def input(self) -> Tensor:
        """The first activation that it reads."""
        return self.inputs[0]

    @property
    def size(self) -> int:
        """The number of values that it writes for one vector."""
        return self.output.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values that it writes."""
        return self.output.dtype


def fields(
    node: Node,
    inputs: Sequence[Tensor],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    bound: float = math.inf,
    *,
    negative_zero: bool = False,
    least: float = 0.0,
) -> dict[str, Any]:
    """Return the fields of `Layer`, for an operator's `read`; the last arguments are those of the output."""
    return {
        "name": node.name,
        "node": node.name,
        "operator": node.operator,
        "inputs": tuple(inputs),
        "output": Tensor(node.output, shape, dtype, bound, negative_zero, least),
    }


def limits(dtype: np.dtype[Any]) -> dict[str, int]:
    """Return the quantised values at which a result saturates, as constants of a fragment."""
    return dict(zip(("low", "high"), integer_limits(dtype), strict=True))
