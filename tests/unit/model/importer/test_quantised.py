from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from onnx import TensorProto

from harness.model import importer
from harness.model.importer import NetworkImport
from harness.operators.qgemm import QGemm
from harness.reference import Reference
from tests.support.examples import examples
from tests.support.importer.graphs import Array, model, node, refusal, run, saved
from tests.support.importer.quantised import (
    QUANTIZE_INPUT,
    Constants,
    built,
    draw,
    matmul_integer,
    named,
    qdq,
    qgemm,
    qlinear_matmul,
)

UINT8, INT8, FLOAT = TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT
Nodes = list[onnx.NodeProto]


def quantised(folder: Path, onnx_bytes: bytes) -> NetworkImport:
    found = importer.bring_in(saved(folder, onnx_bytes))
    assert isinstance(found, NetworkImport)
    return found


def require_same_bits(found: NetworkImport, onnx_bytes: bytes, shape: list[int] | None = None) -> None:
    """On vectors that spread over the codes and beyond."""
    random = np.random.default_rng(77)
    vectors = (random.normal(size=(400, found.network.vector.size)) * 1.2).astype(np.float32)
    theirs = run(onnx_bytes, vectors, shape)
    ours = run(found.network.onnx_bytes, vectors)
    for one, other in zip(theirs, ours, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
        assert len(np.unique(one)) > 5  # they are no constants


@pytest.fixture
def constants() -> Constants:
    return draw(np.random.default_rng(11), (4, 9, 3), relu=True)


NOTATIONS: dict[str, tuple[Callable[[], Nodes], int]] = {
    "QGemm": (lambda: qgemm(1) + qgemm(2), UINT8),
    "QGemm without bias": (lambda: qgemm(1, bias=False) + qgemm(2, bias=False), UINT8),
    "QLinearMatMul": (lambda: qlinear_matmul(1) + qlinear_matmul(2), UINT8),
    "MatMulInteger": (lambda: matmul_integer(1) + matmul_integer(2), UINT8),
    "MatMulInteger, float scores": (lambda: matmul_integer(1) + matmul_integer(2, end=True), FLOAT),
    "MatMulInteger, int32 bias": (
        lambda: matmul_integer(1, bias="int32", relu=True) + matmul_integer(2, bias="int32", end=True),
        FLOAT,
    ),
    "MatMulInteger, float32 bias": (
        lambda: matmul_integer(1, bias="float32", relu=True) + matmul_integer(2, bias="float32"),
        UINT8,
    ),
    "QDQ of Gemm": (lambda: qdq(1) + qdq(2), UINT8),
    "QDQ of Gemm and Relu": (lambda: qdq(1, relu=True) + qdq(2), UINT8),
    "QDQ of Gemm without bias": (lambda: qdq(1, bias=False) + qdq(2, bias=False), UINT8),
    "QDQ of Gemm without bias, alpha": (lambda: qdq(1, bias=False, alpha=0.3) + qdq(2), UINT8),
    "QDQ of Gemm, float scores": (lambda: qdq(1) + qdq(2, end=True), FLOAT),
    "QDQ of MatMul": (lambda: qdq(1, operator="MatMul", bias=False) + qdq(2, operator="MatMul", bias=False), UINT8),
    "QDQ of MatMul, float scores": (
        lambda: qdq(1, operator="MatMul", bias=False) + qdq(2, operator="MatMul", bias=False, end=True),
        FLOAT,
    ),
    "QDQ of MatMul, Add and Relu": (lambda: qdq(1, operator="MatMul", relu=True) + qdq(2, operator="MatMul"), UINT8),
    "all of them": (lambda: qgemm(1) + qlinear_matmul(2), UINT8),
}


@pytest.mark.slow
@pytest.mark.half_of_cases
@examples(4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    widths=st.tuples(st.integers(1, 6), st.integers(2, 9), st.integers(2, 5)),
    weights=st.sampled_from(["int8", "uint8"]),
    per_column=st.booleans(),
)
@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_notation_keeps_its_bits(
    tmp_path: Path, notation: str, seed: int, widths: tuple[int, int, int], weights: str, per_column: bool
) -> None:
    nodes, end = NOTATIONS[notation]
    random = np.random.default_rng(seed)
    made = draw(random, widths, weights=weights, per_column=per_column, relu="Relu" in notation or "bias" in notation)
    more = {f"bf{number}": random.normal(size=width).astype(np.float32) for number, width in enumerate(widths)}
    onnx_bytes = built(nodes(), made, end, more=more)
    found = quantised(tmp_path, onnx_bytes)
    random_vectors = random.normal(size=(100, widths[0])).astype(np.float32)
    (theirs,), (ours,) = run(onnx_bytes, random_vectors), run(found.network.onnx_bytes, random_vectors)
    assert theirs.tobytes() == ours.tobytes()
    products = [layer for layer in found.network.layers if isinstance(layer, QGemm)]
    assert [layer.weights.tolist() for layer in products] == [p.weight.tolist() for p in made.products]
    assert all(layer.per_column == (per_column and layer.size > 1) for layer in products)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_notation_says_what_it_compared(tmp_path: Path, notation: str, constants: Constants) -> None:
    nodes, end = NOTATIONS[notation]
    more = {"bf1": np.ones(9, np.float32), "bf2": np.ones(3, np.float32)}
    onnx_bytes = built(nodes(), constants, end, more=more)
    found = quantised(tmp_path, onnx_bytes)
    outputs = {output.name for output in onnx.load_model_from_string(onnx_bytes).graph.output}
    assert set(found.check.tensors) == {"q0", "q1"} | outputs
    assert found.check.values == found.check.vectors * (4 + 9 + 3)
    require_same_bits(found, onnx_bytes)
    assert found.network.metadata["source_file"] == '"network.onnx"'


@pytest.mark.parametrize("notation", [qgemm, qlinear_matmul, matmul_integer])
def test_int8_codes(tmp_path: Path, notation: Callable[[int], Nodes]) -> None:
    onnx_bytes = built(notation(1) + notation(2), draw(np.random.default_rng(3), (4, 9, 3), codes="int8"), INT8)
    require_same_bits(quantised(tmp_path, onnx_bytes), onnx_bytes)


def test_qdq_of_int8_codes_with_float_scores(tmp_path: Path) -> None:
    made = draw(np.random.default_rng(3), (4, 9, 3), codes="int8")
    onnx_bytes = built(qdq(1) + qdq(2, end=True), made, FLOAT)
    require_same_bits(quantised(tmp_path, onnx_bytes), onnx_bytes)


@pytest.mark.slow
@examples(60)
@given(
    scales=st.tuples(*[st.integers(0x20000000, 0x4B000000)] * 3),
    weights=st.sampled_from(["int8", "uint8"]),
)
def test_qlinear_matmul_multiplies_as_qgemm(scales: tuple[int, int, int], weights: str) -> None:
    a_scale, b_scale, y_scale = (np.uint32(bits).view(np.float32) for bits in scales)
    y_scale = np.float32(np.clip(y_scale, float(a_scale) * float(b_scale) * 40, float(a_scale) * float(b_scale) * 4000))
    if not np.isfinite(y_scale) or y_scale < np.finfo(np.float32).tiny:
        return
    weight = np.arange(-60, 60, dtype=np.int64).reshape(2, 60) + (0 if weights == "int8" else 60)
    values = {"s": a_scale, "z": np.uint8(7), "w": weight.astype(weights), "ws": b_scale, "wz": np.array(3, weights)}
    values |= {"y": y_scale, "yz": np.uint8(100)}
    given_codes = np.random.default_rng(0).integers(0, 256, (200, 2)).astype(np.uint8)
    inputs = "x s z w ws wz"
    ours = model([node("QGemm", f"{inputs} - y yz", "q")], values, shape=["n", 2], kind=UINT8)
    theirs = model([node("QLinearMatMul", f"{inputs} y yz", "q")], values, shape=["n", 2], kind=UINT8)
    assert run(ours, given_codes)[0].tobytes() == run(theirs, given_codes)[0].tobytes()


def test_shapes_and_names_become_canonical(tmp_path: Path, constants: Constants) -> None:
    nodes = [
        node("Flatten", "x", "flat"),
        node("QuantizeLinear", "flat s0 z0", "q0"),
        *qlinear_matmul(1),
        node("Reshape", "q1 shape", "moved"),
        node("QLinearMatMul", "moved s1 z1 w2 ws2 wz2 s2 z2", "q2"),
        node("Identity", "q2", "scores"),
    ]
    onnx_bytes = model(
        nodes,
        {name: value for name, value in named(constants).items() if name[0] in "swz"} | {"shape": np.array([1, 9])},
        shape=[1, 1, 1, 4],
        outputs={"scores": UINT8},
        listed=True,
    )
    found = quantised(tmp_path, onnx_bytes)
    made = onnx.load_model_from_string(found.network.onnx_bytes).graph
    assert [(value.name, value.type.tensor_type.shape.dim[0].dim_param) for value in made.input] == [("x", "vectors")]
    assert [value.name for value in made.output] == ["scores"]
    assert [layer.output.name for layer in found.network.layers] == ["q0", "q1", "scores"]
    require_same_bits(found, onnx_bytes, [1, 1, 1, 4])


def test_a_canonical_file_keeps_its_nodes(tmp_path: Path, constants: Constants) -> None:
    onnx_bytes = built(qgemm(1) + qgemm(2), constants, shape=[1, 4], listed=True)
    found = quantised(tmp_path, onnx_bytes)
    before, after = (onnx.load_model_from_string(data).graph for data in (onnx_bytes, found.network.onnx_bytes))
    assert list(before.node) == list(after.node)
    assert list(before.initializer) == list(after.initializer)
    assert [value.name for value in after.input] == ["x"]
    assert found.notes == (f"{len(before.initializer)} initializers that were also inputs are constants now",)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_a_last_arg_extremum_stays(tmp_path: Path, constants: Constants, operator: str) -> None:
    nodes = [*qlinear_matmul(1), *qlinear_matmul(2), node(operator, "q2", "best", axis=-1, keepdims=0)]
    values = {name: value for name, value in named(constants).items() if name[0] in "swz"}
    onnx_bytes = model([QUANTIZE_INPUT, *nodes], values, shape=[1, 4], outputs={"best": TensorProto.INT64}, rank=1)
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm", "QGemm", operator]
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    (theirs,), (ours,) = run(onnx_bytes, vectors, [1, 4]), run(found.network.onnx_bytes, vectors)
    assert theirs.tolist() == ours.tolist()


def test_relu_between_quantisations_of_the_same_scale_is_nothing(tmp_path: Path, constants: Constants) -> None:
    between = [
        node("DequantizeLinear", "q1 s1 z1", "d"),
        node("Relu", "d", "r"),
        node("QuantizeLinear", "r s1 z1", "e"),
    ]
    second = node("QGemm", "e s1 z1 w2 ws2 wz2 b2 s2 z2", "q2")
    onnx_bytes = built([*qgemm(1), *between, second], constants)
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm", "QGemm"]
    require_same_bits(found, onnx_bytes)


def test_a_factor_that_is_computed_from_two_scales(tmp_path: Path, constants: Constants) -> None:
    nodes = [node("Mul", "s0 ws1", "m1"), *matmul_integer(1, end=True)]
    values = {name: value for name, value in named(constants).items() if name != "m1"}
    used = {name: values[name] for name in ("s0", "z0", "w1", "ws1", "wz1")}
    onnx_bytes = model([QUANTIZE_INPUT, *nodes], used, shape=["n", 4])
    found = quantised(tmp_path, onnx_bytes)
    (layer,) = [layer for layer in found.network.layers if isinstance(layer, QGemm)]
    assert set(layer.multiplier.tolist()) == {float(constants.scale * constants.products[0].scale)}
    require_same_bits(found, onnx_bytes)


def test_float32_results_of_qgemm_take_a_bias(tmp_path: Path, constants: Constants) -> None:
    nodes = [node("Flatten", "q0", "flat"), node("QGemm", "flat s0 z0 w1 ws1 wz1", "p"), node("Add", "p bf", "sum")]
    onnx_bytes = built(nodes, constants, FLOAT, more={"bf": np.linspace(-1, 1, 9, dtype=np.float32)})
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm", "Add"]
    require_same_bits(found, onnx_bytes)


def test_a_dequantised_end(tmp_path: Path, constants: Constants) -> None:
    onnx_bytes = built([*qlinear_matmul(1), node("DequantizeLinear", "q1 s1 z1", "d")], constants, FLOAT)
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QGemm", "DequantizeLinear"]
    require_same_bits(found, onnx_bytes)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("given", [{"m": TensorProto.INT64}, {"m": TensorProto.INT64, "d": FLOAT}])
def test_a_selection_behind_qdq(tmp_path: Path, constants: Constants, operator: str, given: dict[str, int]) -> None:
    nodes = [*qdq(1), node("DequantizeLinear", "q1 s1 z1", "d"), node(operator, "d", "m", axis=1)]
    onnx_bytes = built(nodes, constants, outputs=given)
    found = quantised(tmp_path, onnx_bytes)
    operators = ["QuantizeLinear", "QGemm", "DequantizeLinear", operator]
    assert [layer.operator for layer in found.network.layers] == operators
    require_same_bits(found, onnx_bytes)


def test_a_rounding_that_onnx_runtime_leaves_out_is_refused(tmp_path: Path, constants: Constants) -> None:
    nodes = [*qdq(1), node("DequantizeLinear", "q1 s1 z1", "d"), node("QuantizeLinear", "d s0 z0", "q")]
    message, hint = refusal(tmp_path, built([*nodes, node("DequantizeLinear", "q s0 z0", "e")], constants, FLOAT))
    assert "ONNX Runtime leaves out QuantizeLinear, and may so compute other values" in message
    assert hint == "no QuantizeLinear of what was dequantised before"


def test_dequantising_int8_without_a_zero_point(tmp_path: Path) -> None:
    constants = draw(np.random.default_rng(8), (4, 9), codes="int8")
    nodes = [*qlinear_matmul(1), node("DequantizeLinear", "q1 s1", "d")]
    onnx_bytes = built(nodes, constants, FLOAT)
    found = quantised(tmp_path, onnx_bytes)
    assert found.network.layers[-1].operator == "DequantizeLinear"
    require_same_bits(found, onnx_bytes)


def test_a_batch_of_vectors_of_width_1_is_any_number_of_them(tmp_path: Path) -> None:
    constants = draw(np.random.default_rng(9), (1, 3))
    found = quantised(tmp_path, built(qgemm(1), constants, shape=[4, 1]))
    assert found.notes[0] == "the first axis, 4 in the file, is the number of vectors"
    assert found.network.vector.shape == (1,)


def test_an_unknown_output_type_is_refused(tmp_path: Path) -> None:
    nodes = [node("Identity", "x", "same"), node("QuantizeLinear", "same s0", "q", output_dtype=999)]
    onnx_bytes = model(nodes, {"s0": F(0.1)}, shape=["n", 4], outputs={"q": UINT8}, opset=21)
    message, hint = refusal(tmp_path, onnx_bytes)
    assert "node 'node_q' (QuantizeLinear): quantises to element type 999" in message
    assert hint == "uint8 or int8"


def test_a_model_that_quantises_constants_only_is_refused(tmp_path: Path, constants: Constants) -> None:
    nodes = [node("DequantizeLinear", "w1 ws1 wz1", "d"), node("Identity", "x", "y")]
    used = {name: values for name, values in named(constants).items() if name in ("w1", "ws1", "wz1")}
    message, _ = refusal(tmp_path, model(nodes, used, shape=["n", 4], outputs={"y": FLOAT}))
    assert "has no layer that computes" in message


def last(nodes: Nodes, *more: onnx.NodeProto) -> Nodes:
    return [*nodes, *more]


def without(nodes: Nodes, name: str) -> Nodes:
    return [entry for entry in nodes if entry.output[0] != name]


F = np.float32
REFUSED: dict[str, tuple[Callable[[], Nodes], int, dict[str, Any], str, str]] = {
    "bias scale": (
        lambda: qdq(1) + qdq(2), UINT8, {"bs1": F(0.5)},
        "node 'node_bd1' (DequantizeLinear): the scale of the bias is 0.5, a_scale * b_scale is ",
        "the scale of the bias equal to the float32 product a_scale * b_scale",
    ),
    "two scales of nine values": (
        lambda: qdq(1) + qdq(2), UINT8, {"bs1": np.ones(2, np.float32)},
        "node 'node_bd1' (DequantizeLinear): scale and zero point have shapes (2,) and ()", "one for each of the 9",
    ),
    "bias zero point": (
        lambda: qdq(1) + qdq(2), UINT8, {"bz1": np.int32(5)},
        "the bias is int32 with zero point 5; onnxruntime would take it for int32 with zero point 0 all the same",
        "an int32 bias with zero point 0",
    ),
    "alpha with a bias": (
        lambda: qdq(1, alpha=0.5) + qdq(2), UINT8, {},
        "node 'node_p1' (Gemm): has a bias, alpha 0.5 and beta 1: onnxruntime would compute it in float32",
        "alpha 1 and beta 1",
    ),
    "beta": (lambda: qdq(1, beta=0.5) + qdq(2), UINT8, {}, "has a bias, alpha 1 and beta 0.5", "alpha 1 and beta 1"),
    "float bias": (
        lambda: [node("Gemm", "d1 wd1 bf", "p1") if n.output[0] == "p1" else n for n in without(qdq(1), "bd1")],
        UINT8, {"bf": np.ones(9, F)},
        "the bias 'bf' is float32: onnxruntime would round it to int32 multiples of a_scale * b_scale",
        "a bias stored as int32",
    ),
    "float bias of MatMul": (
        lambda: [*qdq(1, operator="MatMul")[:2], node("MatMul", "d1 wd1", "p1"), node("Add", "p1 bf", "pb1")],
        FLOAT, {"bf": np.ones(9, F)},
        "node 'node_pb1' (Add): the bias 'bf' is float32", "a bias stored as int32",
    ),
    "Relu in front of another zero point": (
        lambda: qdq(1, relu=True) + qdq(2), UINT8, {"z1": np.uint8(3)},
        "node 'node_r1' (Relu): is not followed by a QuantizeLinear whose zero point is the least code",
        "zero point 0 for uint8 or -128 for int8",
    ),
    "int32 results": (
        lambda: matmul_integer(1)[:1], TensorProto.INT32, {}, "node 'node_a1' (MatMulInteger): gives out int32 values",
        "Cast its output to float32, then Mul",
    ),
    "a Cast to float64": (
        lambda: [matmul_integer(1)[0], node("Cast", "a1", "f1", to=TensorProto.DOUBLE)], TensorProto.DOUBLE, {},
        "node 'node_f1' (Cast): casts to double", "a Cast to float32",
    ),
    "a negative factor": (
        lambda: matmul_integer(1), UINT8, {"m1": F(-0.1)},
        "the scale of b is -0.1", "a positive, finite, normal float32",
    ),
    "weights on the left": (
        lambda: [node("QLinearMatMul", "w1 ws1 wz1 q0 s0 z0 s1 z1", "q1")], UINT8,
        {"w1": np.ones((3, 1), np.uint8), "wz1": np.uint8(0)},
        "multiplies shapes (3, 1) and (1, 4)", "x @ W",
    ),
    "Det": (
        lambda: last(qgemm(1), node("DequantizeLinear", "q1 s1 z1", "d"), node("Det", "d", "t")), FLOAT, {},
        "operator Det is not supported", "leave it out",
    ),
    "ArgMax over the vectors": (
        lambda: last(qlinear_matmul(1), node("ArgMax", "q1", "m", axis=0)), TensorProto.INT64, {},
        "node 'node_m' (ArgMax): looks along axis 0 of shape (1, 9)", "the axis of the vector's values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_why(tmp_path: Path, case: str, constants: Constants) -> None:
    nodes, end, more, expected, accepted = REFUSED[case]
    message, hint = refusal(tmp_path, built(nodes(), constants, end, more=more))
    assert expected in message
    assert accepted in hint


def square(**columns: Array) -> Constants:
    """As many inputs as outputs, a scale for each column: the two axes cannot be told apart by their sizes."""
    return draw(np.random.default_rng(6), (5, 5), per_column=True, **columns)


@pytest.mark.parametrize(("axis", "transposed"), [(0, 0), (1, 1), (-2, 0)])
def test_scales_along_the_inputs_are_refused(tmp_path: Path, axis: int, transposed: int) -> None:
    message, hint = refusal(tmp_path, built(qdq(1, axis=axis, transB=transposed), square()))
    assert f"node 'node_wd1' (DequantizeLinear): has its scales along axis {axis} of the weights, the inputs" in message
    assert hint == f"axis {1 - transposed}, one scale for each output"


@pytest.mark.parametrize(("axis", "transposed"), [(1, 0), (0, 1), (-1, 0)])
def test_scales_along_the_outputs_are_taken(tmp_path: Path, axis: int, transposed: int) -> None:
    onnx_bytes = built(qdq(1, axis=axis, transB=transposed), square())
    require_same_bits(quantised(tmp_path, onnx_bytes), onnx_bytes)


def test_onnxruntime_would_misread_the_scale_of_a_bias(constants: Constants) -> None:
    nodes = qdq(1) + qdq(2)
    vectors = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    right = run(built(nodes, constants), vectors)[0]
    other = run(built(nodes, constants, more={"bs1": F(0.5)}), vectors)[0]
    assert right.tolist() == other.tolist()


@pytest.mark.parametrize("name", ["p1", "d1"])
def test_a_product_that_is_an_output_is_refused(tmp_path: Path, name: str, constants: Constants) -> None:
    onnx_bytes = built(qdq(1) + qdq(2), constants, outputs={"q2": UINT8, name: FLOAT})
    message, hint = refusal(tmp_path, onnx_bytes)
    assert f"gives out '{name}', which is inside what becomes one operator" in message
    assert "onnxruntime, too, fuses no QDQ group whose product is an output" in hint


def test_a_bias_that_is_added_after_rounding_stays(tmp_path: Path, constants: Constants) -> None:
    nodes = [*qlinear_matmul(1), node("QLinearAdd", "q1 s1 z1 c s0 z0 s1 z1", "sum")]
    onnx_bytes = built(nodes, constants, UINT8, more={"c": np.arange(9, dtype=np.uint8)})
    found = quantised(tmp_path, onnx_bytes)
    assert [layer.operator for layer in found.network.layers] == ["QuantizeLinear", "QLinearMatMul", "QLinearAdd"]
    require_same_bits(found, onnx_bytes)


def test_a_float_bias_between_two_roundings_stays(tmp_path: Path, constants: Constants) -> None:
    nodes = [
        *qlinear_matmul(1),
        node("DequantizeLinear", "q1 s1 z1", "d"),
        node("Add", "d bf", "s"),
        node("QuantizeLinear", "s s1 z1", "e"),
    ]
    onnx_bytes = built(nodes, constants, UINT8, more={"bf": np.linspace(0, 1, 9, dtype=np.float32)})
    found = quantised(tmp_path, onnx_bytes)
    operators = [layer.operator for layer in found.network.layers[1:]]
    assert operators == ["QLinearMatMul", "DequantizeLinear", "Add", "QuantizeLinear"]
    require_same_bits(found, onnx_bytes)


def test_what_onnxruntime_does_not_fuse_is_refused(tmp_path: Path) -> None:
    made = draw(np.random.default_rng(3), (4, 9, 3), codes="int8")
    message, hint = refusal(tmp_path, built(qdq(1) + qdq(2), made, INT8))
    assert "ONNX Runtime does not fuse all of its QDQ groups: left are Gemm" in message
    assert "QuantFormat.QOperator" in hint


STAYS: dict[str, Callable[[], tuple[Nodes, int, dict[str, Any]]]] = {
    "float weights": lambda: (
        [node("MatMul", "d1 wf", "p1") if n.output[0] == "p1" else n for n in without(qdq(1, bias=False), "wd1")],
        UINT8,
        {"wf": np.random.default_rng(0).normal(0, 1, (4, 9)).astype(F)},
    ),
    "another type out of QDQ": lambda: (qdq(1), INT8, {"z1": np.int8(0)}),
    "no zero points": lambda: (
        [
            onnx.helper.make_node(n.op_type, n.input[:2], n.output, n.name) if n.op_type != "Gemm" else n
            for n in qdq(1, bias=False)
        ],
        UINT8,
        {},
    ),
}


@pytest.mark.parametrize("case", STAYS)
def test_a_product_that_onnx_runtime_does_not_fuse_stays_in_float32(
    tmp_path: Path, case: str, constants: Constants
) -> None:
    nodes, end, more = STAYS[case]()
    onnx_bytes = built(nodes, constants, end, more=more)
    found = quantised(tmp_path, onnx_bytes)
    assert found.notes[-1] == "ONNX Runtime runs 'node_p1' in float32"
    require_same_bits(found, onnx_bytes)
    vectors = np.random.default_rng(7).normal(size=(50, 4)).astype(np.float32)
    expected = Reference(found.network).expected(vectors)  # ONNX Runtime and the specification agree
    assert len(np.unique(expected.activations[-1])) > 5


def test_an_accumulator_that_could_wrap_is_refused(tmp_path: Path, constants: Constants) -> None:
    onnx_bytes = built(matmul_integer(1, bias="int32"), constants, more={"b1": np.full(9, 2**31 - 9, np.int32)})
    message, _ = refusal(tmp_path, onnx_bytes)
    assert "node 'node_a1' (QGemm): the accumulator of column 0 can reach" in message
