"""ONNX's own tests (onnx.backend.test), computed by the specification: pass, refused with the reason, or wrong."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper

from harness.core.arrays import Array
from harness.core.errors import HarnessError, RequestError
from harness.model.network import Network
from harness.model.onnx_runtime.agreement import BOUNDED, padded
from harness.operators.float_contraction import FloatContraction
from harness.operators.matrix_product import MatrixProduct
from harness.operators.tensor import FLOAT16, SHORT, SHORT_FLOATS
from harness.reference.backend import HarnessBackend

PASS, REFUSED, WRONG, NOT_STATED = "pass", "refused", "wrong", "not stated"
ROUNDING = {"DFT": 2.0**-22}
"""The share of the greatest value by which float32 sums of another order differ where their terms cancel.

The tests have the rounding errors of one version of numpy.fft in the place of zeros, and accept 1e-7.
"""
RESULTS = (PASS, REFUSED, WRONG, NOT_STATED)


@dataclass(frozen=True)
class Outcome:
    """A test, its result, and the reason if that is not `pass`; `operator` is that of its first node.

    `layers` are the names of the classes that compute a passed test.  `ran_on` states where each item of a board ran,
    and is empty where the specification alone was computed.
    """

    name: str
    operator: str
    result: str
    reason: str = ""
    layers: tuple[str, ...] = field(default=(), compare=False)
    ran_on: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The reason without names, numbers and the node."""
        text = re.sub(r"\s+", " ", self.reason)
        text = re.sub(r"^.*?after these steps: .*? model '", "model '", text)
        text = re.sub(r"^model '[^']*':? ?(node '[^']*' \((\w+)\): )?", r"\2: ", text)
        text = re.sub(r"\([^()]*\d[^()]*\)|\[[^\[\]]*\]|'[^']*'", "...", text.replace("8-bit", "eight-bit"))
        return re.sub(r"-?\b\d[\w.+-]*", "n", text).removeprefix(": ")[:110]


@dataclass(frozen=True)
class Case:
    """A test of ONNX: its model, pairs of input and expected arrays, and the accepted differences."""

    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    relative: float
    absolute: float

    @property
    def operator(self) -> str:
        """The operator of the first node, with its domain if that is not ONNX's own."""
        node = self.model.graph.node[0]
        return ".".join(filter(None, (node.domain, node.op_type)))


def cases(name: str, pattern: str = "*") -> Iterator[Case]:
    """Yield the tests of a set of `onnx.backend.test.loader` whose names match the pattern, in their order."""
    from onnx.backend.test import loader  # here, because it makes all tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = loader.load_model_tests(kind=name)
    for test in sorted(tests, key=lambda test: str(test.name)):
        if fnmatch(test.name, pattern):
            folder = Path(test.model_dir or "")
            model = test.model or onnx.load(folder / "model.onnx")
            data: Sequence[Any] = test.data_sets if test.data_sets is not None else _stored(folder, model)
            yield Case(test.name, model, data, test.rtol, test.atol)


def _stored(folder: Path, model: onnx.ModelProto) -> list[tuple[list[Any], list[Any]]]:
    """Return the inputs and outputs that a folder of a test has, None for what is no tensor."""
    sets = []
    for path in sorted(folder.glob("test_data_set*")):
        values = []
        for kind, stated in (("input", model.graph.input), ("output", model.graph.output)):
            files = [path / f"{kind}_{number}.pb" for number in range(len(list(path.glob(f"{kind}_*.pb"))))]
            kinds = [value.type.HasField("tensor_type") for value in stated]
            values.append([_tensor(file) if is_tensor else None for file, is_tensor in zip(files, kinds, strict=False)])
        sets.append((values[0], values[1]))
    return sets


def _tensor(path: Path) -> Array:
    return onnx.numpy_helper.to_array(onnx.load_tensor(path))


def outcome(case: Case) -> Outcome:
    """Return the result of a test: its values must be within the differences that it accepts."""
    values = (*case.model.graph.input, *case.model.graph.output)
    if not all(value.type.HasField("tensor_type") for value in values) or _has_texts(case):
        return Outcome(case.name, case.operator, NOT_STATED, "sequences, optional values or texts")
    layers: set[str] = set()
    try:
        prepared = HarnessBackend.prepare(case.model)
        for inputs, expected in case.data:
            network, vectors = prepared.vectors([as_array(value) for value in inputs])
            results = prepared.outputs(network, vectors)
            layers.update(type(layer).__name__ for layer in network.layers)
            for result, value in zip(results, map(as_array, expected), strict=True):
                _require_near(result, value, case, _share(case, network, value))
    except RequestError as error:
        return Outcome(case.name, case.operator, REFUSED, error.message)
    except (AssertionError, HarnessError) as error:
        return Outcome(case.name, case.operator, WRONG, str(error).strip())
    except Exception as error:  # noqa: BLE001 - an error of the product is a result of its test
        return Outcome(case.name, case.operator, WRONG, f"{type(error).__name__}: {error}")
    return Outcome(case.name, case.operator, PASS, layers=tuple(sorted(layers)))


def as_array(value: Any) -> Array:
    """Return the array of an input or an output of a case."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _has_texts(case: Case) -> bool:
    values = (*case.model.graph.input, *case.model.graph.output)
    return any(value.type.tensor_type.elem_type == onnx.TensorProto.STRING for value in values)


def _share(case: Case, network: Network, expected: Array) -> float:
    """Return the accepted difference as a share of the greatest value.

    Sums of float16 and bfloat16 are rounded once here, and after each operation in the tests.
    """
    has_sums = any(isinstance(layer, FloatContraction | MatrixProduct) for layer in network.layers)
    if has_sums and expected.dtype in (FLOAT16, SHORT_FLOATS[0]):
        return float(ml_dtypes.finfo(expected.dtype).eps)  # type: ignore[no-untyped-call]
    return ROUNDING.get(case.operator, 0)


def _require_near(result: Array, expected: Array, case: Case, share: float) -> None:
    """Raise AssertionError where type, shape or values of an output are others."""
    if case.operator in BOUNDED:
        expected = padded(expected, result.shape)
    if result.dtype != expected.dtype or result.shape != expected.shape:
        raise AssertionError(
            f"the output is {result.dtype} of shape {result.shape}, expected {expected.dtype} of {expected.shape}"
        )
    if result.dtype in SHORT:
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    rounding = share * np.abs(expected).max(initial=0)
    np.testing.assert_allclose(result, expected, rtol=case.relative, atol=max(case.absolute, rounding))


def reasons(outcomes: Sequence[Outcome], result: str = REFUSED) -> list[tuple[str, int]]:
    """Return the kinds of reasons of a result, and the number of tests of each, the most frequent first."""
    return Counter(outcome.kind for outcome in outcomes if outcome.result == result).most_common()
