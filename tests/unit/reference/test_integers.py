"""Specified values are checked by integers: a process without subnormal numbers is found."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import model as networks
from harness.core.errors import ReferenceFailed
from harness.operators.exact.integers import canonical
from harness.reference import Reference
from tests.support.importer.graphs import model, node
from tests.support.stages import example
from tests.unit.operators.exact.test_stages import STAGES, X

SOURCE = """
#include <xmmintrin.h>
void flush_to_zero(void) { _mm_setcsr(_mm_getcsr() | 0x8040u); }
void keep_subnormals(void) { _mm_setcsr(_mm_getcsr() & ~0x8040u); }
"""


@pytest.fixture
def flush(tmp_path: Path) -> Iterator[ctypes.CDLL]:
    """Functions that switch subnormal numbers off, as a library does that was linked with -ffast-math, and on."""
    if platform.machine() != "x86_64":
        pytest.skip("the register is one of x86-64")
    (tmp_path / "flush.c").write_text(SOURCE)
    library = tmp_path / "flush.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "flush.c"], check=True)
    functions = ctypes.CDLL(str(library))
    yield functions
    functions.keep_subnormals()


@pytest.mark.parametrize("operator", ["Mul", "Softsign"])
def test_a_process_without_subnormal_numbers_is_found(operator: str, flush: ctypes.CDLL) -> None:
    constants = {"c": np.full(8, 1e-3, np.float32)} if operator == "Mul" else {}
    net = networks.parse(model([node(operator, "x c" if constants else "x", "y")], constants, shape=["v", 8]), "one")
    vectors = np.full((4, 8), 1e-37 if constants else 1e-40, np.float32)
    reference = Reference(net)  # a new session of ONNX Runtime switches them on
    flush.flush_to_zero()
    with pytest.raises(ReferenceFailed, match=r"vector 0, column 0: float arithmetic of this process gives 0,"):
        reference.expected(vectors)


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("Softmax", {"axis": 1}),
        ("LogSoftmax", {"axis": 2}),
        ("ReduceL2", {"axes": [2], "keepdims": 1}),
        ("MaxPool", {"kernel_shape": [2], "strides": [2]}),
        ("AveragePool", {"kernel_shape": [3], "pads": [1, 1]}),
        ("LRN", {"size": 3}),
        ("Relu", {}),
        ("Sigmoid", {}),
    ],
)
def test_a_definition_has_the_same_values_in_integers(operator: str, options: dict[str, Any]) -> None:
    net = networks.parse(
        model([node(operator, "x", "y", **options)], {}, shape=["v", 4, 6, 1] if operator == "LRN" else ["v", 4, 6]),
        "one",
    )
    vectors = np.random.default_rng(1).normal(size=(50, 24)).astype(np.float32)
    values = net.layers[0].in_integers([vectors])
    assert values is not None
    np.testing.assert_array_equal(values.view(np.uint32), net.layers[0].prepare()(vectors).view(np.uint32))


@pytest.mark.parametrize("name", STAGES)
def test_a_program_of_stages_has_the_same_values_in_integers(name: str) -> None:
    layer, vectors = example(name), np.random.default_rng(1).normal(size=(20, X.size)).astype(np.float32)
    values = layer.in_integers([vectors])
    assert values is not None
    np.testing.assert_array_equal(canonical(values), canonical(layer.prepare()(vectors)))


@pytest.mark.parametrize(("size", "count"), [(10, 1), (64, 64), (256, 4), (600, None)])
def test_as_many_vectors_are_computed_in_integers_as_have_few_steps(size: int, count: int | None) -> None:
    constants = {"w": np.ones((size, size), np.float32)}
    net = networks.parse(model([node("MatMul", "x w", "y")], constants, shape=["v", size]), "one")
    values = net.layers[0].in_integers([np.ones((max(size, 1), size), np.float32)[: count or 1]])
    assert count == (None if values is None else len(values))
