"""Every operator, compiled for this machine and run: its bytes are ONNX Runtime's and the specification's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.quantize_linear import QuantizeLinear
from harness.targets.contraction import DEPTH_LIMIT
from tests.support import builders
from tests.support.examples import ALL
from tests.support.programs.board_program import assert_same, build, parse, references, uniform_vectors
from tests.support.programs.chains import Node, chain, qgemm, quantize
from tests.unit.operators.test_specification import CASES, IN_SCOPE, PAIRS, _entrance, sum_network

VECTORS = 203
LARGEST = np.finfo(np.float32).max
COMPILED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # every step of shrinking would cost a compilation
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
"""Of a test that compiles each of its examples."""


def check(net: Network, vectors: Array, host: Profile, cache: Path, folder: Path, block: int = 50) -> tuple[Array, ...]:
    """Every dump of the program is the references'; gives them."""
    expected = references(net, vectors)
    assert_same(build(net, host, cache, block).activations(vectors, folder), expected)
    return expected


def half_way_vectors(net: Network, count: int, seed: int) -> Array:
    """Half of them uniform in the box, half on its codes or between two, where a tie is."""
    layer = net.layers[0]
    assert isinstance(layer, QuantizeLinear)
    vectors = uniform_vectors(net, count, seed)
    vectors[::2] = np.rint(2 * vectors[::2] / layer.scale) / 2 * layer.scale
    return vectors


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """Networks of every kind that the loader accepts."""
    activations, weights = draw(st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]))
    output = draw(st.sampled_from(["codes", "float", "dequantized", "residual"]))
    model = builders.random_network(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(st.lists(st.integers(1, 70), min_size=2, max_size=4)),
        weights=weights,
        activations=activations,
        per_column=draw(st.booleans()),
        power_of_two=draw(st.booleans()),
        float_output=output == "float",
        dequantize=output == "dequantized",
        zero_points=draw(st.booleans()),
        transposed=draw(st.booleans()),
        alpha=draw(st.sampled_from([1.0, 0.7, 2.5])),
        argmax=draw(st.booleans()),
        residual=draw(st.sampled_from([2, 3])) if output == "residual" else 1,
    )
    if model.graph.node[-1].op_type == "ArgMax":
        searching(model, draw(st.sampled_from(["ArgMax", "ArgMin"])), last=draw(st.booleans()))
    return model


def searching(model: onnx.ModelProto, operator: str, *, last: bool) -> onnx.ModelProto:
    """The model, ending with this kind of search."""
    node = model.graph.node[-1]
    node.op_type = operator
    node.attribute.append(onnx.helper.make_attribute("select_last_index", int(last)))
    return model


@settings(COMPILED, max_examples=25 if ALL else 4)
@given(model=models(), block=st.sampled_from([1, 16, 64, 1000]), seed=st.integers(0, 2**32 - 1))
def test_random_networks(
    model: onnx.ModelProto, block: int, seed: int, host: Profile, cache: Path, tmp_path: Path
) -> None:
    net = parse(model)
    check(net, half_way_vectors(net, VECTORS, seed), host, cache, tmp_path, block)


def neighbours(values: Array) -> Array:
    """The values and the next float32 on both sides."""
    values = np.asarray(values, np.float32)
    return np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)])


def special_values(scale: np.float32) -> Array:
    """What rounding and saturation can stumble over, and a hundred thousand random bit patterns."""
    denormals = np.array([1, 2, 0x7FFFFF], np.uint32).view(np.float32)
    edges = np.array([0, np.inf, LARGEST, np.finfo(np.float32).tiny, *denormals, 2**31, 2**23, 2**24], np.float32)
    not_numbers = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        whole = np.arange(-260, 261, dtype=np.float32) * scale
        half_way = (np.arange(-260, 261, dtype=np.float32) + np.float32(0.5)) * scale
    patterns = np.random.default_rng(11).integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    return np.concatenate([edges, -edges, not_numbers, neighbours(half_way), neighbours(whole), patterns])[:, None]


@pytest.mark.parametrize(
    ("scale", "zero_point", "dtype"),
    [
        (0.1, 0, "uint8"),
        (2**-7, 128, "uint8"),
        (0.0236721, -3, "int8"),
        (float(np.finfo(np.float32).tiny), 255, "uint8"),
        (3e38, -128, "int8"),
    ],
)
def test_quantize_linear_of_special_values(
    scale: float, zero_point: int, dtype: str, host: Profile, cache: Path, tmp_path: Path
) -> None:
    net = chain([quantize(scale, zero_point, dtype)], (dtype, 1), 1)
    vectors = special_values(np.float32(scale))
    codes = check(net, vectors, host, cache, tmp_path, block=1000)[0][:, 0]
    limits = np.iinfo(np.dtype(dtype))
    assert set(codes[np.isnan(vectors[:, 0])]) == {limits.min}
    assert set(codes[vectors[:, 0] == 0]) == {zero_point}
    assert set(codes[vectors[:, 0] == np.inf]) == {limits.max}
    assert set(codes[vectors[:, 0] == -np.inf]) == {limits.min}


@pytest.mark.parametrize(("zero_point", "dtype"), [(77, "uint8"), (-128, "int8")])
def test_dequantize_linear_of_every_code(
    zero_point: int, dtype: str, host: Profile, cache: Path, tmp_path: Path
) -> None:
    limits = np.iinfo(np.dtype(dtype))
    constants = {"scale": np.float32(0.0236721), "zero_point": np.array(zero_point, dtype)}
    net = chain([quantize(1, 0, dtype), Node("DequantizeLinear", constants)], ("float32", 1), 1)
    vectors = np.arange(limits.min, limits.max + 1, dtype=np.float32)[:, None]
    codes, numbers = check(net, vectors, host, cache, tmp_path)
    assert np.array_equal(codes, vectors)
    assert len(np.unique(numbers)) == 256


@pytest.mark.parametrize("scale", [2.0**-25, 1.2e-38, 0.1])
def test_add_of_all_pairs_of_codes(scale: float, host: Profile, cache: Path, tmp_path: Path) -> None:
    """Ties, sums that cancel, terms that vanish."""
    sums = check(sum_network(["a", "b"], {}, scale), PAIRS, host, cache, tmp_path, block=1000)[3]
    assert len(np.unique(sums)) > 250


@pytest.mark.parametrize(("addend", "subnormal"), [(-0.0, False), (1e-45, True), (-2e-38, True), (0.1, False)])
def test_add_of_a_constant(addend: float, subnormal: bool, host: Profile, cache: Path, tmp_path: Path) -> None:
    """Subnormal sums are not flushed to zero."""
    net = sum_network(["addend", "b"], {"addend": np.float32(addend)}, 1.2e-38)
    sums = np.abs(check(net, PAIRS[::256], host, cache, tmp_path)[3])
    assert ((sums > 0) & (sums < np.finfo(np.float32).tiny)).any() == subnormal


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_search_with_every_pattern_of_ties(
    operator: str, last: bool, host: Profile, cache: Path, tmp_path: Path
) -> None:
    search = Node(operator, attributes={"axis": 1, "select_last_index": int(last)})
    vectors = np.stack(np.meshgrid(*[[0, 1, 255]] * 5), axis=-1).reshape(-1, 5).astype(np.float32)
    net = chain([quantize(1, 0, "uint8"), search], ("int64", 1), 5)
    _, found = check(net, vectors, host, cache, tmp_path)
    extreme = vectors.max(axis=1, keepdims=True) if operator == "ArgMax" else vectors.min(axis=1, keepdims=True)
    columns = [np.flatnonzero(row) for row in vectors == extreme]
    assert found[:, 0].tolist() == [ties[-1 if last else 0] for ties in columns]


@pytest.mark.parametrize("output", [None, (1.0, 128)])
def test_accumulators_over_the_whole_of_int32(
    output: tuple[float, int] | None, host: Profile, cache: Path, tmp_path: Path
) -> None:
    """Above 2^24, where not every integer is a float32, and up to both ends of int32."""
    rng, depth, width = np.random.default_rng(12), 31, 67
    weights = rng.integers(-128, 128, (depth, width)).astype(np.int8)
    room = 255 * 128 * depth
    bias = rng.integers(-(2**31) + room, 2**31 - room, width)
    bias[:8] = bias[:8] >> 6
    scales = rng.uniform(0.5, 1.5, width) * 100 / (np.abs(bias) + room)
    layer = qgemm(weights, bias, scales, output)
    net = chain([quantize(1, 0, "uint8"), layer], ("uint8" if output else "float32", width), depth)
    vectors = rng.integers(0, 256, (500, depth)).astype(np.float32)
    outputs = check(net, vectors, host, cache, tmp_path)
    assert len(np.unique(outputs[1])) > 60


def test_the_deepest_sum_of_the_largest_products(host: Profile, cache: Path, tmp_path: Path) -> None:
    """255 * 255 at every one of the inputs that the target allows: the last accumulator before int32 ends."""
    weights = np.full((DEPTH_LIMIT, 1), 255, np.uint8)
    layer = qgemm(weights, np.zeros(1), np.array([1.0]), None)
    net = chain([quantize(1, 0, "uint8"), layer], ("float32", 1), DEPTH_LIMIT)
    vectors = np.stack([np.full(DEPTH_LIMIT, 255), np.arange(DEPTH_LIMIT) % 256]).astype(np.float32)
    _, outputs = check(net, vectors, host, cache, tmp_path)
    assert outputs[0, 0] == np.float32(DEPTH_LIMIT * 255 * 255)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", IN_SCOPE)
def test_cases_of_onnx(name: str, host: Profile, cache: Path, tmp_path: Path) -> None:
    """ONNX's own cases of the operators; codes come through a QuantizeLinear that does not change them."""
    case = CASES[name]
    inputs, (right,) = case.data_sets[0]
    node = onnx.NodeProto.FromString(case.model.graph.node[0].SerializeToString())
    data = np.atleast_2d(inputs[0])
    constants = dict(zip(node.input[1:], inputs[1:], strict=True))
    entrance: list[onnx.NodeProto] = []
    if node.op_type != "QuantizeLinear":
        entrance, constants = _entrance(constants, data.dtype)
    node.input[0] = "data" if entrance else "x"
    output = (str(right.dtype), 1 if right.dtype == np.int64 else data.shape[1])
    model = builders.make_model([*entrance, node], constants, {node.output[0]: output}, width=data.shape[1])
    if right.ndim < data.ndim and right.dtype == np.int64:
        del model.graph.output[0].type.tensor_type.shape.dim[1]
    assert check(parse(model), data.astype(np.float32), host, cache, tmp_path)[-1].tobytes() == right.tobytes()
