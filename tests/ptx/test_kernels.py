"""The device code of kernels/cuda as the compiler writes it, executed: its bytes are the integer specification's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.network import Array, Network, QGemm, QuantizeLinear
from harness.reference.specification import SpecificationReference
from harness.targets.cuda import ptx
from tests import builders
from tests.kernels.board_program import assert_same, parse, uniform_vectors
from tests.ptx import samples
from tests.ptx.errors import PtxError
from tests.ptx.interpreter import Module

ARCHITECTURES = ["sm_72", "sm_90"]
KINDS = [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]


def halfway_vectors(network: Network, count: int, seed: int = 0) -> Array:
    """Uniform ones, and every other on a code or half way between two."""
    first = network.layers[0]
    assert isinstance(first, QuantizeLinear)
    vectors = uniform_vectors(network, count, seed)
    vectors[::2] = np.rint(2 * vectors[::2] / first.scale) / 2 * first.scale
    return vectors


def random_network(activations: str, weights: str, widths: list[int], seed: int = 0, **choices: object) -> Network:
    rng = np.random.default_rng(seed)
    return parse(builders.random_network(rng, widths, weights=weights, activations=activations, **choices))  # type: ignore[arg-type]


def check_layerwise(network: Network, arch: str, vectors: Array) -> None:
    text = samples.compiled(samples.layerwise(network), arch)
    ptx.inspect(text)
    actual = samples.run_layerwise(Module(text), network, vectors)
    assert_same(actual, SpecificationReference(network).activations(vectors))


def check_fused(network: Network, arch: str, vectors: Array, block: tuple[int, int]) -> None:
    text = samples.compiled(samples.fused(network), arch)
    ptx.inspect(text)
    actual = samples.run_fused(Module(text), network, vectors, block)
    assert_same(actual, SpecificationReference(network).activations(vectors))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("activations", "weights"), KINDS)
@pytest.mark.parametrize("output", ["float_output", "dequantize", "argmax"])
def test_layerwise(arch: str, activations: str, weights: str, output: str) -> None:
    network = random_network(
        activations, weights, [5, 17, 6], per_column=True, zero_points=True, power_of_two=True, **{output: True}
    )
    check_layerwise(network, arch, halfway_vectors(network, 61))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_layerwise_sums(arch: str) -> None:
    network = random_network("int8", "int8", [7, 9, 4], residual=3, zero_points=True, argmax=True)
    check_layerwise(network, arch, halfway_vectors(network, 50))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("activations", "weights"), KINDS)
@pytest.mark.parametrize("float_output", [False, True])
def test_fused(arch: str, activations: str, weights: str, float_output: bool) -> None:
    network = random_network(
        activations,
        weights,
        [5, 18, 33, 3],
        per_column=True,
        zero_points=True,
        power_of_two=True,
        float_output=float_output,
    )
    check_fused(network, arch, halfway_vectors(network, 53), (16, 4))


@given(st.data())
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
def test_random_networks(data: st.DataObject) -> None:
    activations, weights = data.draw(st.sampled_from(KINDS))
    network = random_network(
        activations,
        weights,
        data.draw(st.lists(st.integers(1, 70), min_size=2, max_size=4)),
        data.draw(st.integers(0, 2**32 - 1)),
        per_column=data.draw(st.booleans()),
        zero_points=data.draw(st.booleans()),
        power_of_two=data.draw(st.booleans()),
        float_output=data.draw(st.booleans()),
    )
    vectors = halfway_vectors(network, data.draw(st.integers(1, 70)))
    check_layerwise(network, "sm_72", vectors)
    check_fused(network, "sm_72", vectors, data.draw(st.sampled_from([(16, 1), (16, 16), (8, 3), (1, 7)])))


def test_outputs_that_nobody_asks_for_stay_as_they_are() -> None:
    network = random_network("uint8", "int8", [5, 18, 3])
    vectors = halfway_vectors(network, 20)
    module = Module(samples.compiled(samples.fused(network)))
    actual = samples.run_fused(module, network, vectors, (16, 2), [False, False, True])
    expected = SpecificationReference(network).activations(vectors)
    assert_same(actual[2:], expected[2:])
    assert not actual[0].any()
    assert not actual[1].any()


def small() -> tuple[Network, Array]:
    """Of which every layer has more words than a block has lanes, and more groups than are staged at a time."""
    network = random_network("uint8", "int8", [9, 30, 30, 30], zero_points=True)
    return network, halfway_vectors(network, 40)


def without_barrier(function: str, number: int) -> dict[str, bytes]:
    """fused.cuh, of which a function lacks one of its barriers."""
    header = samples.headers()["fused.cuh"].decode()
    barrier = "__syncthreads();"
    at = header.index(f" void {function}(")
    for _ in range(number + 1):
        at = header.index(barrier, at + 1)
    return {"fused.cuh": (header[:at] + header[at + len(barrier) :]).encode()}


@pytest.mark.parametrize(("function", "number"), [("fill", 0), ("each_group", 0), ("each_group", 1)])
def test_each_missing_barrier_is_found(function: str, number: int) -> None:
    network, vectors = small()
    module = Module(samples.compiled(samples.fused(network), changed=without_barrier(function, number)))
    with pytest.raises(PtxError, match=r"races with|nothing wrote"):
        samples.run_fused(module, network, vectors, (16, 4))


def changed_rounding(old: str, new: str) -> dict[str, bytes]:
    header = samples.headers()["rounding.cuh"].decode()
    assert header.count(old) == 1, old
    return {"rounding.cuh": header.replace(old, new).encode()}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v > low ? v : low", "v > low ? v : low + 1"),
        ("(Code)(__float2int_rn(v) + zero_point)", "(Code)(int32_t)(__float2int_rn(v + 1) + zero_point)"),
        ("__fmul_rn(__int2float_rn(acc), m)", "__fmul_rn(__int2float_rn(acc), m * 1.0000001f)"),
    ],
)
def test_other_results_are_seen(old: str, new: str) -> None:
    network = random_network("uint8", "int8", [9, 30, 30, 30], zero_points=True, float_output=True)
    vectors = halfway_vectors(network, 40)
    module = Module(samples.compiled(samples.fused(network), changed=changed_rounding(old, new)))
    actual = samples.run_fused(module, network, vectors, (16, 4))
    expected = SpecificationReference(network).activations(vectors)
    assert any((a != e).any() for a, e in zip(actual, expected, strict=True))


def test_every_stage_has_one_code_which_its_kernel_calls() -> None:
    network, _ = small()
    dense = [layer.name for layer in network.layers if isinstance(layer, QGemm)]
    for source in (samples.layerwise(network), samples.fused(network)):
        text = samples.compiled(source)
        names = ptx.functions(text)
        called = [callee for callees in ptx.calls(text).values() for callee in callees]
        for name in dense:
            for stage in (f"{name}_accumulate", f"{name}_finish"):
                assert names.count(stage) == 1
                assert called.count(stage) == 1
