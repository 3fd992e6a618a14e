"""The cases with which the program tests a GPU: they expect what the specification gives."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from harness.analysis.inspection import fixed
from harness.core.arrays import Array
from harness.operators import softfloat
from harness.operators.exact.evaluation import numpy_function
from harness.operators.exact.functions import exponential
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.tensor import Tensor
from harness.targets import KERNELS
from harness.targets.cuda.code import DeviceCode
from tests.simulators.cuda.interpreted import compiled
from tests.simulators.ptx.interpreter import Module

EXP = numpy_function(exponential)
ROW = re.compile(r"\{(\w+), (0x[0-9a-f]+), (0x[0-9a-f]+), (0x[0-9a-f]+), (0x[0-9a-f]+)\}")
CASES = [
    (name, *(int(word, 16) for word in words))
    for name, *words in ROW.findall((KERNELS / "cuda" / "self_test.c").read_text())
]


def signed(bits: int) -> int:
    return bits - 2**32 if bits >= 2**31 else bits


def number(bits: int) -> np.float32:
    return np.array(bits, np.uint32).view(np.float32)[()]


def scaled(acc: int, multiplier: int) -> int:
    """The bits of float32(acc) * m, by integers; by numpy where m is no number."""
    if not np.isfinite(number(multiplier)):
        with np.errstate(all="ignore"):
            return int((np.float32(acc) * number(multiplier)).view(np.uint32))
    factor = softfloat.decode(np.array([multiplier & 0x7FFFFFFF]))
    product = softfloat.multiply(softfloat.from_integer(np.array([abs(acc)])), factor)
    negative = np.array([(acc < 0) != (multiplier >> 31 == 1)])
    return int(softfloat.encode(product, negative)[0])


def code(v: np.float32, zero_point: int, dtype: str) -> int:
    """saturate(round_half_even(v) + zero_point), exactly: a float32 is a float64."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if np.isnan(v):
        return int(low)
    return int(np.rint(np.clip(np.float64(v), low - zero_point, high - zero_point))) + zero_point


def requantized(dtype: str) -> Callable[[int, int, int], int]:
    return lambda acc, m, zero_point: code(number(scaled(signed(acc), m)), signed(zero_point), dtype)


def quantized(dtype: str) -> Callable[[int, int, int], int]:
    """By the thresholds of the specification."""

    def quantize(x: int, scale: int, zero_point: int) -> int:
        one = np.array([[x]], np.uint32).view(np.float32)
        layer = QuantizeLinear(
            "q",
            "q",
            "QuantizeLinear",
            (Tensor("x", (1,), one.dtype),),
            Tensor("y", (1,), np.dtype(dtype)),
            number(scale),
            signed(zero_point),
        )
        made: Array = layer.prepare()(one)
        return int(made[0, 0])

    return quantize


def dot(a_type: str, b_type: str) -> Callable[[int, int, int], int]:
    def add_products(a: int, b: int, total: int) -> int:
        left, right = (np.array([bits], np.uint32).view(np.uint8).view(t) for bits, t in ((a, a_type), (b, b_type)))
        return int(left.astype(np.int64) @ right.astype(np.int64)) + total

    return add_products


OPERATIONS: dict[str, Callable[[int, int, int], int]] = {
    "REQUANTIZE_UINT8": requantized("uint8"),
    "REQUANTIZE_INT8": requantized("int8"),
    "SCALE": lambda acc, m, _: scaled(signed(acc), m),
    "QUANTIZE_UINT8": quantized("uint8"),
    "QUANTIZE_INT8": quantized("int8"),
    "DEQUANTIZE_UINT8": lambda q, scale, zero_point: scaled(q - signed(zero_point), scale),
    "ADD": lambda a, b, _: int(softfloat.add(np.array([a]), np.array([b]))[0]),
    "MULTIPLY_ADD": lambda a, b, c: int(
        softfloat.add(softfloat.product(np.array([a]), np.array([b])).astype(np.int64), np.array([c]))[0]
    ),
    "SQUARE_ROOT": lambda x, *_: int(np.sqrt(number(x)).view(np.uint32)),
    "EXP": lambda x, *_: int(EXP(np.array([number(x)])).view(np.uint32)[0]),
    "FUSED": lambda *terms: int(softfloat.fused(*(np.array([term]) for term in terms))[0]),
    "DOT_UINT8_UINT8": dot("uint8", "uint8"),
    "DOT_UINT8_INT8": dot("uint8", "int8"),
    "DOT_INT8_UINT8": dot("int8", "uint8"),
    "DOT_INT8_INT8": dot("int8", "int8"),
}


def test_there_are_as_many_cases_as_the_header_says_and_every_operation_has_some() -> None:
    header = (KERNELS / "cuda" / "self_test.h").read_text()
    assert f"SELF_TEST_CASES = {len(CASES)} " in header
    assert fixed.OBJECTS["gpu.c"]["results"] == np.zeros(len(CASES), np.uint32).nbytes
    assert set(re.findall(r"^    ([A-Z_0-9]+),", header, re.MULTILINE)) == set(OPERATIONS) == {row[0] for row in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[:4])))
def test_what_a_case_expects_is_what_the_specification_gives(case: tuple[str, int, int, int, int]) -> None:
    name, a, b, c, expected = case
    assert OPERATIONS[name](a, b, c) & 0xFFFFFFFF == expected


@pytest.mark.parametrize("arch", ["sm_61", "sm_72", "sm_90"])
def test_the_compilers_output_computes_every_case(arch: str) -> None:
    code = DeviceCode("layerwise.cuh", "", (), (), 1)
    names = re.search(r"enum self_test_operation \{(.*?)\};", (KERNELS / "cuda" / "self_test.h").read_text(), re.DOTALL)
    assert names
    numbers = {name: number for number, name in enumerate(re.findall(r"^    (\w+),", names[1], re.MULTILINE))}
    cases = np.array([[numbers[str(case[0])], *case[1:]] for case in CASES], np.uint32)
    results = np.zeros(len(cases), np.uint32)
    Module(compiled(code, arch)).launch("self_test", (1, 1, 1), (128, 1, 1), [len(cases), cases, results])
    assert np.array_equal(results, cases[:, 4])
