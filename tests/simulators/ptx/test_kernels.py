"""The target's device code as the compiler writes it, executed: its bytes are the integer specification's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx.compose
import onnx.helper
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.reference.specification import SpecificationReference
from harness.targets.cuda import build, ptx
from harness.targets.cuda.code import DeviceCode
from tests.integration.programs.test_operators import half_way_vectors
from tests.simulators.cuda import interpreted
from tests.simulators.ptx.errors import PtxError
from tests.support import builders
from tests.support.programs.board_program import assert_same, parse

ARCHITECTURES = ["sm_72", "sm_87", "sm_90"]
KINDS = [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]
# With room for the weights of few groups, so that a small network needs it several times.
FUSED = re.sub(r"\bSTAGED = \d+,", "STAGED = 40,", interpreted.header("fused.cuh"))


def side_by_side(models: Sequence[onnx.ModelProto]) -> Network:
    """One network of all layers of these, which read the same input."""
    graphs = [onnx.compose.add_prefix_graph(model.graph, f"m{i}_") for i, model in enumerate(models)]
    for number, graph in enumerate(graphs):
        for node in graph.node:
            node.input[:] = ["x" if name == f"m{number}_x" else name for name in node.input]
    merged = onnx.helper.make_graph(
        [node for graph in graphs for node in graph.node],
        "network",
        models[0].graph.input,
        [output for graph in graphs for output in graph.output],
        [constant for graph in graphs for constant in graph.initializer],
    )
    model = onnx.helper.make_model(merged, opset_imports=models[0].opset_import, ir_version=builders.IR_VERSION)
    onnx.helper.set_model_props(model, {entry.key: entry.value for entry in models[0].metadata_props})
    return parse(model)


def model_of(kind: tuple[str, str], widths: Sequence[int], **choices: bool | int) -> onnx.ModelProto:
    activations, weights = kind
    rng = np.random.default_rng(0)
    return builders.random_network(rng, widths, weights=weights, activations=activations, **choices)  # type: ignore[arg-type]


def every_operator(kind: tuple[str, str]) -> Network:
    """Every operator on codes of a kind, with sizes of which none is whole words; the last layer is a search."""
    hard = {"per_column": True, "zero_points": True, "power_of_two": True}
    floats = model_of(kind, [5, 6], **hard, float_output=True, argmax=kind == ("uint8", "uint8"))
    codes = model_of(kind, [5, 18], **hard, dequantize=True)
    searched = model_of(kind, [5, 7], **hard, argmax=True)
    sums = model_of(kind, [5, 9, 4], zero_points=True, residual=2)
    return side_by_side([codes, sums, floats] if kind == ("uint8", "uint8") else [codes, sums, floats, searched])


def without_target(text: str) -> str:
    """PTX but for the line that names the GPU."""
    return re.sub(r"^\.target .*", "", text, flags=re.MULTILINE)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("target", ["cuda:layerwise", "cuda:fused"])
def test_every_operator_on_every_architecture(target: str, kind: tuple[str, str], host: Profile) -> None:
    """What differs from one GPU to another is executed; what the compiler writes alike, once."""
    net = every_operator(kind)
    code, vectors = interpreted.device_code(net, host, target), half_way_vectors(net, 45, 0)
    expected = SpecificationReference(net).activations(vectors)
    texts = {arch: interpreted.translated(code, arch) for arch in ARCHITECTURES}
    assert [re.findall(r"^\.target (\w+)", text, re.MULTILINE) for text in texts.values()] == [[a] for a in texts]
    for text in {without_target(text): text for text in texts.values()}.values():
        ptx.inspect(text, build.fusing([code]))
        assert_same(interpreted.activations(net, code, text, vectors, 16), expected)


@pytest.fixture(scope="module")
def small() -> Network:
    """Of which every layer has more words than a block has lanes, and more groups than are staged at a time."""
    return parse(model_of(KINDS[0], [9, 30, 30, 30], zero_points=True, float_output=True))


@pytest.fixture(scope="module")
def code(small: Network, host: Profile) -> DeviceCode:
    return interpreted.device_code(small, host, "cuda:fused")


@pytest.fixture(scope="module")
def vectors(small: Network) -> Array:
    return half_way_vectors(small, 40, 0)


@pytest.fixture(scope="module")
def expected(small: Network, vectors: Array) -> tuple[Array, ...]:
    return SpecificationReference(small).activations(vectors)


@pytest.fixture(scope="module")
def text(code: DeviceCode) -> str:
    return interpreted.translated(code, changed={"fused.cuh": FUSED})


@pytest.mark.parametrize("block", [(16, 1), (16, 8), (8, 3), (1, 7)])
def test_the_fused_kernel_takes_blocks_of_any_shape(
    small: Network, code: DeviceCode, text: str, vectors: Array, expected: tuple[Array, ...], block: tuple[int, int]
) -> None:
    count = 40 if block[0] > 1 else 3
    found = interpreted.activations(small, code, text, vectors[:count], *block)
    assert_same(found, [activation[:count] for activation in expected])


def test_outputs_that_nobody_asks_for_are_not_written(
    small: Network, code: DeviceCode, text: str, vectors: Array, expected: tuple[Array, ...]
) -> None:
    for layer, right in zip(small.layers, expected, strict=True):
        found = interpreted.activations(small, code, text, vectors, 16, 2, [layer.name])
        assert_same([found[small.layers.index(layer)]], [right])


@pytest.mark.half_of_cases
@pytest.mark.parametrize("barrier", interpreted.BARRIERS_OF_DENSE)
def test_each_missing_barrier_is_found(small: Network, code: DeviceCode, vectors: Array, barrier: int) -> None:
    text = interpreted.translated(code, changed={"fused.cuh": interpreted.without_barrier(FUSED, barrier)})
    with pytest.raises(PtxError, match=r"races with|nothing wrote"):
        interpreted.activations(small, code, text, vectors, 16, 4)


def changed_rounding(old: str, new: str) -> Mapping[str, str]:
    header = interpreted.header("rounding.cuh")
    assert header.count(old) == 1, old
    return {"rounding.cuh": header.replace(old, new)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v > low ? v : low", "v > low ? v : low + 1"),
        ("(Code)(__float2int_rn(v) + zero_point)", "(Code)(int32_t)(__float2int_rn(v + 1) + zero_point)"),
        ("__fmul_rn(__int2float_rn(acc), m)", "__fmul_rn(__int2float_rn(acc), m * 1.0000001f)"),
    ],
)
def test_other_results_are_seen(
    small: Network, code: DeviceCode, vectors: Array, expected: tuple[Array, ...], old: str, new: str
) -> None:
    text = interpreted.translated(code, changed=changed_rounding(old, new))
    found = interpreted.activations(small, code, text, vectors, 16, 4)
    assert any((a != e).any() for a, e in zip(found, expected, strict=True))
