"""The fabric's kernel in C simulation, against the integer specification."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.network import Array, QGemm, accumulator_bounds
from harness.reference import specification
from tests import builders
from tests.kernels.board_program import parse
from tests.kernels.test_operators import COMPILED
from tests.kernels.vitis import simulated
from tests.kernels.vitis.simulated import ACCUMULATE, FINISH, TABLES, Kernel


def chain(seed: int, widths: list[int], **options: object) -> list[QGemm]:
    net = parse(builders.random_network(np.random.default_rng(seed), widths, **options))  # type: ignore[arg-type]
    return [layer for layer in net.layers if isinstance(layer, QGemm)]


def codes(layer: QGemm, count: int, seed: int) -> Array:
    limits = np.iinfo(layer.input_dtype)
    drawn = np.random.default_rng(seed).integers(limits.min, limits.max + 1, (count, layer.input_width))
    drawn[:2] = [[limits.min], [limits.max]]
    return drawn.astype(layer.input_dtype)


def expected(layers: list[QGemm], inputs: Array) -> list[Array]:
    """Of every layer its codes, or its accumulators where its output is float32."""
    found = []
    for layer in layers:
        acc = specification.accumulator(layer)(inputs)
        inputs = acc if layer.dtype == np.float32 else specification.finish(layer)(acc)
        found.append(inputs.astype(np.int32))
    return found


def check(kernel: Kernel, seed: int) -> None:
    """The network, everything of it, its parts and its constants."""
    layers, inputs = list(kernel.layers), codes(kernel.layers[0], 37, seed)
    wanted = expected(layers, inputs)
    assert np.array_equal(kernel.ask(inputs, layers[-1].width), wanted[-1])
    record = np.concatenate([inputs.astype(np.int32), *wanted], axis=1)
    assert np.array_equal(kernel.ask(inputs, record.shape[1], everything=True), record)
    for number, layer in enumerate(layers):
        own = codes(layer, 20, seed + number)
        acc = specification.accumulator(layer)(own)
        assert np.array_equal(kernel.ask(own, layer.width, ACCUMULATE, number), acc)
        low, high = accumulator_bounds(layer)
        sweep = np.random.default_rng(seed).integers(low, high + 1, (50, layer.width))
        if layer.dtype != np.float32:
            edges = specification.thresholds(layer).T
            sweep = np.clip(np.concatenate([sweep, edges - 1, edges]), low, high)
        right = sweep if layer.dtype == np.float32 else specification.finish(layer)(sweep)
        assert np.array_equal(kernel.ask(sweep, layer.width, FINISH, number), right)
        held = simulated.constants(layer)
        assert np.array_equal(kernel.ask(np.empty((1, 0)), len(held), TABLES, number)[0], held)


@hypothesis_settings(COMPILED, max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    widths=st.lists(st.integers(1, 60), min_size=2, max_size=4),
    types=st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]),
    power_of_two=st.booleans(),
    float_output=st.booleans(),
)
def test_random_chains(
    seed: int, widths: list[int], types: tuple[str, str], power_of_two: bool, float_output: bool, tmp_path: Path
) -> None:
    activations, weights = types
    options = {"activations": activations, "weights": weights, "zero_points": True, "per_column": True}
    layers = chain(seed, widths, **options, power_of_two=power_of_two, float_output=float_output)
    check(simulated.build(layers, tmp_path / str(seed)), seed % 1000)


MUTANTS = {
    "threshold off by one": ("held.level_3[n][reached] <= acc", "held.level_3[n][reached] < acc"),
    "levels swapped": ("held.level_1[n][reached] <= acc", "held.level_1[n][1 - reached] <= acc"),
    "accumulator narrowed": ("acc[n] += centred", "acc[n] = (int16_t)acc[n] + centred"),
    "zero point left out": ("a[k] - held.input_zero_point", "a[k]"),
    "bias left out": ("acc[n] = held.bias[n];", "acc[n] = 0;"),
    "inputs from the wrong place": ("? LAYER::FULL_AT : LAYER::AT", "? 0u : LAYER::AT"),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_found(mutant: str, tmp_path: Path) -> None:
    layers = chain(5, [9, 24, 7], zero_points=True, power_of_two=True, activations="int8", weights="int8")
    kernel = simulated.build(layers, tmp_path, changed={"layer.hpp": MUTANTS[mutant]})
    with pytest.raises(AssertionError):
        check(kernel, 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("made[i] = in.read();", "made[i] = i ? in.read() : 0;", "elements that nobody reads"),
        ("out.write(given[i]);", "if (i != 3) out.write(given[i]);", "no element to read"),
    ],
)
def test_an_element_too_many_or_too_few_ends_the_simulation(old: str, new: str, said: str, tmp_path: Path) -> None:
    simulated.build(chain(5, [9, 4]), tmp_path, changed={"layer.hpp": (old, new)})
    code = (
        "import ctypes, sys\nlibrary = ctypes.CDLL(sys.argv[1])\n"
        "question = (ctypes.c_uint32 * 6)(1, 0, 0, 0, 9, 4)\n"
        "class Q(ctypes.Structure): _fields_ = [('words', ctypes.c_uint32 * 6)]\n"
        "library.network((ctypes.c_int32 * 9)(), (ctypes.c_int32 * 4)(), Q(question))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "network.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert f"C simulation: a stream has {said}" in done.stderr


def test_nothing_is_undefined(tmp_path: Path) -> None:
    layers = chain(6, [9, 24, 7], zero_points=True, activations="int8", weights="int8", float_output=True)
    check(simulated.build(layers, tmp_path, "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"), 3)
