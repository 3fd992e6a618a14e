from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.float_network import DenseNetwork, to_onnx
from harness.model.importer import Changes, FloatImport
from tests.support.examples import examples
from tests.support.importer.graphs import Array, model, node, refusal, run, saved

F = np.float32


def floats(folder: Path, onnx_bytes: bytes) -> FloatImport:
    found = importer.bring_in(saved(folder, onnx_bytes))
    assert isinstance(found, FloatImport)
    return found


def greatest_difference(network: DenseNetwork, onnx_bytes: bytes, shape: list[int], kind: Any = F) -> float:
    """Between the canonical network and the file, both in ONNX Runtime, over fresh vectors of [-1, 1]."""
    width = len(network.layers[0].weight)
    vectors = np.random.default_rng(9).uniform(-1, 1, (50, width)).astype(kind)
    (ours,) = run(to_onnx(network).SerializeToString(), vectors.astype(F))
    (theirs,) = run(onnx_bytes, vectors, shape)
    return float(np.abs(ours - theirs).max())


RANDOM = np.random.default_rng(5)
W1, B1 = RANDOM.normal(size=(5, 4)).astype(F), RANDOM.normal(size=4).astype(F)
W2, B2 = RANDOM.normal(size=(4, 3)).astype(F), RANDOM.normal(size=3).astype(F)
ROWS = {"w1": W1, "b1": B1, "w2": W2, "b2": B2}
COLUMNS = {"w1": W1.T.copy(), "b1": B1, "w2": W2.T.copy(), "b2": B2}
UPRIGHT = {"w1": W1.T.copy(), "b1": B1[:, None], "w2": W2.T.copy(), "b2": B2[:, None]}
CHAIN = [
    node("MatMul", "x w1", "p1"),
    node("Add", "p1 b1", "a1"),
    node("Relu", "a1", "r1"),
    node("MatMul", "r1 w2", "p2"),
    node("Add", "b2 p2", "y"),
]
LEFT = [
    node("MatMul", "w1 x", "p1"),
    node("Add", "p1 b1", "a1"),
    node("Relu", "a1", "r1"),
    node("MatMul", "w2 r1", "p2"),
    node("Add", "p2 b2", "y"),
]


def behind(*first: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The chain behind nodes of which the last writes "z"."""
    return [*first, node("MatMul", "z w1", "p1"), *CHAIN[1:]]


PLAIN = {
    "a free number of vectors": (CHAIN, ROWS, ["n", 5], 2),
    "a fixed batch of 1": (CHAIN, ROWS, [1, 5], 2),
    "initializers listed as inputs": (CHAIN, ROWS, [1, 5], 2),
    "rank 1": (CHAIN, ROWS, [5], 1),
    "rank 3": (CHAIN, ROWS, [1, 1, 5], 3),
    "rank 4": (CHAIN, ROWS, [1, 1, 1, 5], 4),
    "rank 4, free": (CHAIN, ROWS, ["n", 1, 1, 5], 4),
    "weights on the left of a rank-1 vector": (LEFT, COLUMNS, [5], 1),
    "weights on the left of a column": (LEFT, UPRIGHT, [5, 1], 2),
    "weights on the left of a column in a batch": (LEFT, UPRIGHT, [1, 5, 1], 3),
    "Flatten of rank 4": (behind(node("Flatten", "x", "z")), ROWS, [1, 1, 1, 5], 2),
    "Flatten at axis 3": (behind(node("Flatten", "x", "z", axis=3)), ROWS, [1, 1, 1, 5], 2),
    "Flatten of a free batch of images": (behind(node("Flatten", "x", "z")), ROWS, ["n", 1, 5, 1], 2),
    "Reshape": (behind(node("Reshape", "x shape", "z")), ROWS | {"shape": np.array([-1, 5])}, [1, 1, 1, 5], 2),
    "Reshape with 0": (behind(node("Reshape", "x shape", "z")), ROWS | {"shape": np.array([0, -1])}, ["n", 1, 5], 2),
    "Squeeze": (behind(node("Squeeze", "x axes", "z")), ROWS | {"axes": np.array([0, 1])}, [1, 1, 1, 5], 2),
    "Squeeze of all": (behind(node("Squeeze", "x", "z")), ROWS, [1, 1, 1, 5], 1),
    "Unsqueeze": (behind(node("Unsqueeze", "x axes", "z")), ROWS | {"axes": np.array([0])}, [5], 2),
    "Transpose that moves nothing": (behind(node("Transpose", "x", "z", perm=[0, 2, 1])), ROWS, [1, 5, 1], 3),
    "Identity": (behind(node("Identity", "x", "z")), ROWS, ["n", 5], 2),
    "Dropout": (behind(node("Dropout", "x", "z")), ROWS, ["n", 5], 2),
    "Dropout told not to train": (
        behind(node("Dropout", "x ratio train", "z")),
        ROWS | {"ratio": F(0.5), "train": np.array(0, np.bool_)},
        ["n", 5],
        2,
    ),
    "Cast to float32": (behind(node("Cast", "x", "z", to=TensorProto.FLOAT)), ROWS, ["n", 5], 2),
    "Clip at 0 for Relu": ([*CHAIN[:2], node("Clip", "a1 zero", "r1"), *CHAIN[3:]], ROWS | {"zero": F(0)}, [1, 5], 2),
    "Sub of zeros": (behind(node("Sub", "x zeros", "z")), ROWS | {"zeros": np.zeros((1, 1, 5), F)}, [1, 1, 5], 3),
    "Gemm": (
        [node("Gemm", "x w1 b1", "a1"), node("Relu", "a1", "r1"), node("Gemm", "r1 w2 b2", "y")],
        ROWS,
        ["n", 5],
        2,
    ),
    "Gemm with transB": (
        [node("Gemm", "x w1 b1", "a1", transB=1), node("Relu", "a1", "r1"), node("Gemm", "r1 w2 b2", "y", transB=1)],
        COLUMNS,
        ["n", 5],
        2,
    ),
    "Gemm with the weights as A": (
        [node("Gemm", "w1 x b1", "a1"), node("Relu", "a1", "r1"), node("Gemm", "w2 r1 b2", "y")],
        UPRIGHT,
        [5, 1],
        2,
    ),
    "Gemm with transA": (
        [node("Gemm", "x w1 b1", "a1", transA=1), node("Relu", "a1", "r1"), node("Gemm", "r1 w2 b2", "y")],
        ROWS,
        [5, 1],
        2,
    ),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("case", PLAIN)
def test_it_comes_in_as_the_same_layers(tmp_path: Path, case: str) -> None:
    nodes, constants, shape, rank = PLAIN[case]
    onnx_bytes = model(nodes, constants, shape=shape, listed="listed" in case, rank=rank)
    found = floats(tmp_path, onnx_bytes)
    first, second = found.network.layers
    assert first.weight.tolist() == W1.tolist()
    assert first.bias.tolist() == B1.tolist()
    assert second.weight.tolist() == W2.tolist()
    assert second.bias.tolist() == B2.tolist()
    assert (first.relu, second.relu) == (True, False)
    assert found.folded == ()
    assert found.check.difference <= 1e-5
    one = [size if isinstance(size, int) else 1 for size in shape]
    assert greatest_difference(found.network, onnx_bytes, one) <= 1e-5


FOLDED = {
    "Sub": (behind(node("Sub", "x c", "z")), {"c": RANDOM.normal(size=5).astype(F)}, ("node_z",)),
    "Sub from": (behind(node("Sub", "c x", "z")), {"c": RANDOM.normal(size=5).astype(F)}, ("node_z",)),
    "Div": (behind(node("Div", "x c", "z")), {"c": RANDOM.normal(size=5).astype(F)}, ("node_z",)),
    "Mul by one number": (behind(node("Mul", "c x", "z")), {"c": F(0.3)}, ("node_z",)),
    "Sub, then Div": (
        behind(node("Sub", "x c", "m"), node("Div", "m d", "z")),
        {"c": RANDOM.normal(size=5).astype(F), "d": RANDOM.normal(size=5).astype(F)},
        ("node_m", "node_z"),
    ),
    "Mul behind": ([*CHAIN, node("Mul", "y c", "out")], {"c": RANDOM.normal(size=3).astype(F)}, ("node_out",)),
    "Mul between": (
        [*CHAIN[:3], node("Mul", "r1 c", "m"), node("MatMul", "m w2", "p2"), CHAIN[4]],
        {"c": RANDOM.normal(size=4).astype(F)},
        ("node_m",),
    ),
    "Add twice": ([*CHAIN, node("Add", "y c", "out")], {"c": RANDOM.normal(size=3).astype(F)}, ("node_out",)),
}


@pytest.mark.parametrize("case", FOLDED)
def test_constants_at_the_vector_are_folded_and_named(tmp_path: Path, case: str) -> None:
    nodes, constants, folded = FOLDED[case]
    onnx_bytes = model(nodes, ROWS | constants, shape=["n", 5])
    found = floats(tmp_path, onnx_bytes)
    assert found.folded == folded
    assert len(found.network.layers) == 2
    assert greatest_difference(found.network, onnx_bytes, [1, 5]) <= 2e-5


@examples(25)
@given(
    seed=st.integers(0, 2**32),
    inputs=st.integers(1, 6),
    outputs=st.integers(1, 6),
    alpha=st.sampled_from([1.0, 0.5, -1.7]),
    beta=st.sampled_from([1.0, 0.3, 0.0]),
    flags=st.tuples(st.booleans(), st.booleans()),
    left=st.booleans(),
    bias=st.sampled_from(["none", "one", "each", "matrix"]),
)
def test_gemm_with_any_attributes(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    inputs: int,
    outputs: int,
    alpha: float,
    beta: float,
    flags: tuple[bool, bool],
    left: bool,
    bias: str,
) -> None:
    random = np.random.default_rng(seed)
    weight = random.normal(size=(outputs, inputs) if left else (inputs, outputs)).astype(F)
    turned = flags[0] if left else flags[1]
    vector = [inputs, 1] if left else [1, inputs]
    vector = vector[::-1] if (flags[1] if left else flags[0]) else vector
    result = (outputs, 1) if left else (1, outputs)
    shapes = {"one": (1,), "each": result if left else (outputs,), "matrix": result}
    constants: dict[str, Array] = {"w": weight.T.copy() if turned else weight}
    if bias != "none":
        constants["b"] = random.normal(size=shapes[bias]).astype(F)
    names = ("w x" if left else "x w") + (" b" if bias != "none" else "")
    attributes = {"alpha": alpha, "beta": beta, "transA": int(flags[0]), "transB": int(flags[1])}
    onnx_bytes = model([node("Gemm", names, "y", **attributes)], constants, shape=vector)
    found = floats(tmp_path_factory.mktemp("gemm"), onnx_bytes)
    (layer,) = found.network.layers
    exact = (F(alpha) * weight.astype(np.float64)).astype(F)
    assert layer.weight.tolist() == (exact.T if left else exact).tolist()
    assert greatest_difference(found.network, onnx_bytes, vector) <= 1e-5
    assert bool(found.folded) == (alpha != 1 or (beta != 1 and bias != "none"))


@examples(20)
@given(
    seed=st.integers(0, 2**32),
    widths=st.lists(st.integers(1, 7), min_size=2, max_size=5),
    rank=st.integers(1, 4),
    left=st.booleans(),
    biased=st.booleans(),
    normalised=st.booleans(),
)
def test_chains_of_any_widths(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    widths: list[int],
    rank: int,
    left: bool,
    biased: bool,
    normalised: bool,
) -> None:
    random = np.random.default_rng(seed)
    column = left and rank > 1
    shape = [1] * (rank - 1) + [widths[0]] if not column else [1] * (rank - 2) + [widths[0], 1]
    constants: dict[str, Array] = {}
    nodes = []
    end = "x"
    if normalised:
        constants |= {"mean": random.normal(size=shape).astype(F), "span": random.uniform(0.5, 2, shape).astype(F)}
        nodes += [node("Sub", "x mean", "centred"), node("Div", "centred span", "scaled")]
        end = "scaled"
    for number, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        weight = random.normal(size=(inputs, outputs)).astype(F)
        constants[f"w{number}"] = weight.T.copy() if left else weight
        nodes.append(node("MatMul", f"w{number} {end}" if left else f"{end} w{number}", f"p{number}"))
        end = f"p{number}"
        if biased:
            constants[f"b{number}"] = random.normal(size=(outputs, 1) if column else outputs).astype(F)
            nodes.append(node("Add", f"{end} b{number}", f"a{number}"))
            end = f"a{number}"
        if number < len(widths) - 2:
            nodes.append(node("Relu", end, f"r{number}"))
            end = f"r{number}"
    onnx_bytes = model(nodes, constants, shape=shape, rank=rank)
    found = floats(tmp_path_factory.mktemp("chain"), onnx_bytes)
    assert [layer.weight.shape for layer in found.network.layers] == list(itertools.pairwise(widths))
    assert found.folded == (("node_centred", "node_scaled") if normalised else ())
    assert greatest_difference(found.network, onnx_bytes, shape) <= 1e-3


@pytest.mark.parametrize(("names", "shape"), [("x w", [5]), ("x w", [1, 5]), ("w x", [5]), ("w x", [5, 1])])
def test_weights_of_rank_1(tmp_path: Path, names: str, shape: list[int]) -> None:
    onnx_bytes = model([node("MatMul", names, "y")], {"w": B1[[0, 1, 2, 3, 0]]}, shape=shape, rank=len(shape) - 1)
    found = floats(tmp_path, onnx_bytes)
    assert found.network.layers[0].weight.tolist() == [[value] for value in B1[[0, 1, 2, 3, 0]].tolist()]


def test_a_constant_that_does_not_fit_its_reshape_is_refused(tmp_path: Path) -> None:
    nodes = [node("Reshape", "w shape", "w1"), *CHAIN]
    constants = {"w": W1, "shape": np.array([3, 5]), **{name: ROWS[name] for name in ("b1", "w2", "b2")}}
    message, _ = refusal(tmp_path, model(nodes, constants, shape=["n", 5]))
    assert "node 'node_w1': number of values is 20 and 15" in message


def test_constant_nodes_and_what_moves_constants_are_folded(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(W1.T.copy())),
        onnx.helper.make_node("Constant", [], ["b"], value_floats=B1.tolist()),
        node("Transpose", "w", "turned"),
        node("Identity", "turned", "w1"),
        node("Unsqueeze", "b axes", "b1"),
        *CHAIN,
    ]
    onnx_bytes = model(nodes, {"w2": W2, "b2": B2, "axes": np.array([0])}, shape=["n", 5])
    network = floats(tmp_path, onnx_bytes).network
    assert network.layers[0].weight.tolist() == W1.tolist()
    assert network.layers[0].bias.tolist() == B1.tolist()


@pytest.mark.parametrize("opset", [8, 11, 13])
def test_older_opsets(tmp_path: Path, opset: int) -> None:
    clip = [node("Clip", "a1", "r1", min=0.0)] if opset < 11 else [node("Clip", "a1 zero", "r1")]
    squeeze = [node("Squeeze", "x", "z", axes=[0])] if opset < 13 else [node("Squeeze", "x axes", "z")]
    nodes = [*behind(*squeeze)[:3], *clip, *CHAIN[3:]]
    constants = ROWS | ({"zero": F(0)} if opset >= 11 else {}) | ({"axes": np.array([0])} if opset >= 13 else {})
    onnx_bytes = model(nodes, constants, shape=[1, 1, 5], opset=opset)
    assert [layer.relu for layer in floats(tmp_path, onnx_bytes).network.layers] == [True, False]


@pytest.mark.parametrize(("kind", "dtype"), [(TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16)])
def test_other_float_types_whose_constants_float32_has(tmp_path: Path, kind: int, dtype: Any) -> None:
    constants = {name: value.astype(np.float16).astype(dtype) for name, value in ROWS.items()}
    onnx_bytes = model(CHAIN, constants, shape=["n", 5], kind=kind)
    if dtype == np.float16:
        with pytest.raises(RequestError, match=r"its numbers are float16 \(input 'x'\)") as refused:
            importer.bring_in(saved(tmp_path, onnx_bytes))
        assert "--to-float32" in refused.value.hint
    changes = Changes(to_float32=dtype == np.float16)
    imported = importer.bring_in(saved(tmp_path, onnx_bytes), asked=changes)
    assert isinstance(imported, FloatImport)
    assert any("float16 numbers become float32" in note for note in imported.notes) == changes.to_float32
    network = imported.network
    assert network.layers[0].weight.tolist() == constants["w1"].tolist()
    assert greatest_difference(network, onnx_bytes, [1, 5], dtype) <= (1e-2 if dtype == np.float16 else 1e-5)


def test_doubles_that_float32_has_not_are_refused(tmp_path: Path) -> None:
    constants = {name: value.astype(np.float64) for name, value in ROWS.items()}
    constants["w2"][1, 2] = 0.1
    message, hint = refusal(tmp_path, model(CHAIN, constants, shape=["n", 5], kind=TensorProto.DOUBLE))
    assert "node 'node_p2' (MatMul): 1 values of 'w2' are no float32 numbers, the first 0.1" in message
    assert hint.startswith("finite constants that float32 has")


def test_the_metadata_and_the_names_stay(tmp_path: Path) -> None:
    metadata = {"input_box_low": json.dumps([-2.0] * 5), "input_box_high": json.dumps([0.5] * 5), "more": '"kept"'}
    metadata |= {"input_names": '["a","b","c","d","e"]', "input_units": '["m","m","m","m","m"]'}
    metadata |= {"input_mean": "[0,0,0,0,0]", "input_range": "[1,2,1,1,1]"}
    network = floats(tmp_path, model(CHAIN, ROWS, shape=["n", 5], metadata=metadata)).network
    assert (network.input_name, network.output_name) == ("x", "y")
    assert network.box is not None
    assert network.box.tolist() == [[-2.0] * 5, [0.5] * 5]
    assert network.normalisation is not None
    assert network.normalisation.range == (1.0, 2.0, 1.0, 1.0, 1.0)
    assert network.metadata["more"] == '"kept"'
    assert network.metadata["source_file"] == '"network.onnx"'


def test_without_a_box_the_network_has_none(tmp_path: Path) -> None:
    assert floats(tmp_path, model(CHAIN, ROWS, shape=["n", 5])).network.box is None


def test_the_canonical_file_comes_in_again_unchanged(tmp_path: Path) -> None:
    network = replace(floats(tmp_path, model(CHAIN, ROWS, shape=["n", 5])).network, input_name="dense_1_product")
    again = floats(tmp_path, to_onnx(network).SerializeToString()).network
    assert again.input_name == "dense_1_product"
    for one, other in zip(network.layers, again.layers, strict=True):
        assert one.weight.tobytes() == other.weight.tobytes()
        assert one.bias.tobytes() == other.bias.tobytes()
        assert one.relu == other.relu


REFUSED: dict[str, tuple[list[onnx.NodeProto], dict[str, Array], str, str]] = {
    "Tanh": (
        [*CHAIN, node("Tanh", "y", "t")], {},
        "node 'node_t' (Tanh): operator Tanh is no dense layer", "accepted: MatMul, Gemm, Add",
    ),
    "Sigmoid": ([*CHAIN, node("Sigmoid", "y", "t")], {}, "Sigmoid is no dense layer", "accepted: MatMul"),
    "Softmax": ([*CHAIN, node("Softmax", "y", "t")], {}, "Softmax is no dense layer", "accepted: MatMul"),
    "LeakyRelu": ([*CHAIN, node("LeakyRelu", "y", "t")], {}, "LeakyRelu is no dense layer", "accepted: MatMul"),
    "Relu6": (
        [*CHAIN, node("Clip", "y low high", "t")], {"low": F(0), "high": F(6)},
        "node 'node_t' (Clip): clips to 0.0 .. 6.0", "a minimum of 0 and no maximum, which is Relu",
    ),
    "Clip at 1": ([*CHAIN, node("Clip", "y low", "t")], {"low": F(1)}, "clips to 1.0 .. inf", "a minimum of 0"),
    "BatchNormalization": (
        [*CHAIN, node("BatchNormalization", "y b2 b2 b2 v", "t")], {"v": -np.ones(3, F)},
        "is not that of inference with constants", "variances above -epsilon",
    ),
    "ArgMax": ([*CHAIN, node("ArgMax", "y", "t", axis=1)], {}, "operator ArgMax is no dense layer", "accepted: MatMul"),
    "an operator of another domain": (
        [*CHAIN, node("Snake", "y", "t", domain="com.microsoft")], {},
        "operator com.microsoft.Snake is no dense layer", "accepted: MatMul",
    ),
    "a branch": (
        [*CHAIN, node("Add", "y p2", "t")], {},
        "2 nodes read 'p2'", "a chain of layers without branches",
    ),
    "the vector times itself": (
        [*CHAIN, node("Mul", "y y", "t")], {},
        "node 'node_t' (Mul): reads 'y', 'y' where the chain is at 'y'", "a chain of layers without branches",
    ),
    "a tensor that nobody writes": (
        [*CHAIN[:3], node("Relu", "p0", "dead"), *CHAIN[3:]], {},
        "is not valid ONNX", "check_model",
    ),
    "division by the vector": ([*CHAIN, node("Div", "b2 y", "t")], {}, "divides by the vector", "by a constant"),
    "division by 0": ([*CHAIN, node("Div", "y c", "t")], {"c": F([1, 0, 2])}, "divides by 0", "divisors other than 0"),
    "infinite weights": (
        [*CHAIN, node("Mul", "y c", "t")], {"c": F([1, np.inf, 2])},
        "1 values of 'c' are not finite, the first inf", "constants that float32 has",
    ),
    "a bias that makes a matrix": (
        [*CHAIN, node("Add", "y c", "t")], {"c": np.ones((2, 1), F)},
        "combines one vector of shape (1, 3) with a constant of shape (2, 1)", "a constant of one value",
    ),
    "an outer product": (
        [node("MatMul", "w1 x", "y")], {"w1": np.ones((4, 1), F)},
        "multiplies shapes (4, 1) and (1, 5)", "x @ W with x (1, inputs) and W (inputs, outputs)",
    ),
    "weights that do not fit": (
        [node("MatMul", "x w1", "y")], {"w1": np.ones((4, 5), F)}, "multiplies shapes (1, 5) and (4, 5)", "x @ W",
    ),
    "the vector as bias": (
        [node("Gemm", "w1 w2 x", "y")], {"w1": np.ones((1, 2), F), "w2": np.ones((2, 5), F)},
        "node 'node_y' (Gemm): reads the vector as its input 2", "the vector as a factor",
    ),
    "a computed constant": (
        [node("Exp", "b2", "power"), *CHAIN, node("Add", "y power", "t")], {},
        "node 'node_power' (Exp): computes a constant", "store its value",
    ),
    "a Cast to another type": (
        [*CHAIN, node("Cast", "y", "t", to=TensorProto.DOUBLE)], {},
        "casts float32 to double", "one type from the input on: float32",
    ),
    "Dropout in training": (
        [*CHAIN, node("Dropout", "y ratio train", "t")], {"ratio": F(0.5), "train": np.array(1, np.bool_)},
        "is in training mode", "export the model for inference",
    ),
    "no layer": ([node("Identity", "x", "y")], {}, "has no layer that computes", "a chain of MatMul or Gemm"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_why(tmp_path: Path, case: str) -> None:
    nodes, constants, expected, accepted = REFUSED[case]
    message, hint = refusal(tmp_path, model(nodes, ROWS | constants, shape=["n", 5]))
    assert expected in message
    assert accepted in hint


def test_a_transpose_that_moves_values_is_refused(tmp_path: Path) -> None:
    constants = {"w": np.ones((6, 2), F), "to": np.array([1, 2, 3]), "back": np.array([1, 6])}
    nodes = [
        node("Reshape", "x to", "m"),
        node("Transpose", "m", "n", perm=[0, 2, 1]),
        node("Reshape", "n back", "z"),
        node("MatMul", "z w", "y"),
    ]
    message, hint = refusal(tmp_path, model(nodes, constants, shape=["n", 6]))
    assert "node 'node_n' (Transpose): reorders the values of a vector" in message
    assert "permute the weights" in hint


@pytest.mark.parametrize(
    ("shape", "found", "accepted"),
    [
        ([1, 5, 2], "node 'node_p1' (MatMul): multiplies shapes (1, 5, 2)", "x @ W with x (1, inputs)"),
        ([1, "k"], "input 'x' has shape (1, k)", "one is the width and the others are 1"),
    ],
)
def test_more_than_one_vector_is_refused(tmp_path: Path, shape: list[int | str], found: str, accepted: str) -> None:
    message, hint = refusal(tmp_path, model(CHAIN, ROWS, shape=shape, rank=len(shape)))
    assert found in message
    assert accepted in hint


def test_integers_several_inputs_and_several_outputs_are_refused(tmp_path: Path) -> None:
    message, _ = refusal(tmp_path, model(CHAIN, ROWS, shape=["n", 5], kind=TensorProto.INT32))
    assert "input 'x' is int32" in message
    message, _ = refusal(tmp_path, model(CHAIN, ROWS, shape=["n", 5], outputs={"y": 1, "r1": 1}))
    assert "gives out 'y', 'r1'" in message
    both = onnx.load_model_from_string(model(CHAIN, ROWS, shape=["n", 5]))
    both.graph.input.append(onnx.helper.make_tensor_value_info("other", TensorProto.FLOAT, [1]))
    message, hint = refusal(tmp_path, both.SerializeToString())
    assert "has 2 inputs ('x', 'other')" in message
    assert hint == "exactly one, the vectors"


def test_a_maximum_that_is_no_number_is_refused(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w1", "p"), node("Clip", "p low high", "y")]
    constants = {"w1": W1, "low": F(0), "high": F(np.nan)}
    message, hint = refusal(tmp_path, model(nodes, constants, shape=["n", 5]))
    assert "node 'node_y' (Clip): clips to 0.0 .. nan" in message
    assert hint == "a minimum of 0 and no maximum, which is Relu"


def test_a_product_without_outputs_is_refused(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w", "y")]
    message, _ = refusal(tmp_path, model(nodes, {"w": np.zeros((5, 0), F)}, shape=["n", 5]))
    assert "node 'node_y' (MatMul): multiplies shapes (1, 5) and (5, 0), one of them empty" in message


def test_values_lost_to_the_files_own_roundings_are_refused(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x w1", "p"), node("Add", "p large", "far"), node("Sub", "far large", "y")]
    message, hint = refusal(tmp_path, model(nodes, {"w1": W1, "large": F(1e8)}, shape=["n", 5]))
    assert "its own roundings are up to" in message
    assert "no large constants that are added and taken away again" in hint


def test_an_overflow_is_refused(tmp_path: Path) -> None:
    message, _ = refusal(tmp_path, model(CHAIN, ROWS | {"w1": W1 * 0 + F(3e38)}, shape=["n", 5]))
    assert "its values are not finite" in message
