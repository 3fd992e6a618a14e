"""The formulas of the fragments, as the Khronos interpreter runs them: the network's arithmetic, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import nnef
import numpy as np
import pytest
from onnx import helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.plan.items import composition
from harness.plan.items.description import describe_network
from harness.plan.items.graphs import Description, External, Graph, Operation
from harness.plan.nnef import parser, printer
from harness.plan.nnef.folder import write_tensor
from harness.plan.nnef.fragments import known
from harness.reference import SpecificationReference
from tests.support.builders import make_model
from tests.support.codes import every_operator
from tests.support.functions import every_definition, every_function, inputs
from tests.support.nnef import plans
from tests.support.programs.board_program import parse, uniform_vectors

COUNT = 500
EXACT = 1 << 24  # float32, in which the interpreter computes, holds all integers up to here


def interpreted(net: Network, vectors: Array, folder: Path) -> tuple[Array, ...]:
    """The results of all layers, by the formulas that stand in the text."""
    graph, parameters = describe_network(net)
    graph = _of_vectors(graph, vectors)
    (folder / "parameters").mkdir()
    for label, table in parameters.items():
        write_tensor(folder / f"{label}.dat", table)
    (folder / "graph.nnef").write_text(printer.graph_text(graph, parameters, {}))
    with nnef.Session(str(folder), stdlib="", lowered=[*known(), "clamp"]) as session:
        return tuple(session(vectors))


def _of_vectors(graph: Graph, vectors: Array) -> Graph:
    """The graph for many vectors, with the results of all layers."""
    instructions = tuple(
        External(entry.output, vectors.shape) if isinstance(entry, External) else entry for entry in graph.instructions
    )
    outputs = tuple(entry.output for entry in instructions if isinstance(entry, Operation))
    return dataclasses.replace(graph, instructions=instructions, outputs=outputs)


def assert_interpreted(net: Network, vectors: Array, folder: Path) -> None:
    """The interpreter's results are those of the integer specification, in number and sign."""
    expected = SpecificationReference(net).activations(vectors)
    for layer, found, right in zip(net.layers, interpreted(net, vectors, folder), expected, strict=True):
        if isinstance(layer, QGemm):
            assert np.abs(layer.accumulator_bounds()).max() < EXACT
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, right.astype(found.dtype), strict=True, err_msg=layer.name)
        if layer.dtype == np.float32:
            assert found.tobytes() == right.tobytes(), layer.name


@pytest.mark.parametrize("name", plans.MODELS)
def test_the_interpreter_computes_the_activations_bit_for_bit(name: str, tmp_path: Path) -> None:
    net = plans.network(name)
    assert_interpreted(net, uniform_vectors(net, COUNT, 1), tmp_path)


def test_halves_go_to_the_even_neighbour_and_codes_saturate(tmp_path: Path) -> None:
    constants = {"scale": np.float32(1), "zero_point": np.array(-3, np.int8)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["q"], name="quantize")]
    net = parse(make_model(nodes, constants, {"q": ("int8", 1)}, width=1, metadata=None))
    halves = np.arange(-140, 140, 0.5, dtype=np.float32)
    near = np.concatenate([np.nextafter(halves, np.float32(-np.inf)), np.nextafter(halves, np.float32(np.inf))])
    far = np.float32([-3e38, -(2.0**31), -1e-45, 1e-45, 2.0**31, 3e38])
    assert_interpreted(net, np.concatenate([halves, near, far]).reshape(-1, 1), tmp_path)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_of_equal_values_the_first_or_the_last_column_wins(operator: str, last: int, tmp_path: Path) -> None:
    constants = {"scale": np.float32(1), "zero_point": np.array(128, np.uint8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["q"], name="quantize"),
        helper.make_node(operator, ["q"], ["y"], name="best", axis=1, select_last_index=last),
    ]
    net = parse(make_model(nodes, constants, {"y": ("int64", 1)}, width=4))
    vectors = np.stack(np.meshgrid(*[np.float32([-1, 0, 1])] * 4), axis=-1).reshape(-1, 4)
    assert_interpreted(net, vectors, tmp_path)


def float_network(width: int = 4) -> Network:
    """All float32 operators, with and without constants, and what puts values side by side or renames them."""
    nodes = [
        helper.make_node("Sub", ["x", "row"], ["centred"], name="centred"),
        helper.make_node("Mul", ["centred", "row"], ["scaled"], name="scaled"),
        helper.make_node("Clip", ["scaled", "low", "high"], ["clipped"], name="clipped"),
        helper.make_node("Sub", ["row", "clipped"], ["rest"], name="rest"),
        helper.make_node("Sub", ["clipped", "rest"], ["difference"], name="difference"),
        helper.make_node("Mul", ["clipped", "rest"], ["product"], name="product"),
        helper.make_node("Reshape", ["product", "shape"], ["folded"], name="folded"),
        helper.make_node("Relu", ["folded"], ["positive"], name="positive"),
        helper.make_node("LeakyRelu", ["difference"], ["leaky"], name="leaky", alpha=0.3),
        helper.make_node("Flatten", ["positive"], ["flat"], name="flat"),
        helper.make_node("Concat", ["flat", "leaky", "x"], ["joined"], name="joined", axis=1),
        helper.make_node("ArgMax", ["joined"], ["most"], name="most", axis=1),
        helper.make_node("ArgMin", ["joined"], ["least"], name="least", axis=1),
        helper.make_node("Concat", ["most", "least", "most"], ["indices"], name="indices", axis=1),
        helper.make_node("Reshape", ["indices", "three"], ["given"], name="given"),
        helper.make_node("Concat", ["joined"], ["alone"], name="alone", axis=1),
    ]
    constants = {
        "row": np.linspace(-2, 3, width, dtype=np.float32),
        "low": np.float32(-1),
        "high": np.float32(2.5),
        "shape": np.array([0, 2, -1], np.int64),
        "three": np.array([-1, 3], np.int64),
    }
    return parse(make_model(nodes, constants, {"given": ("int64", 3), "alone": ("float32", 3 * width)}, width=width))


def test_the_interpreter_computes_float_operators_bit_for_bit(tmp_path: Path) -> None:
    net = float_network()
    vectors = np.random.default_rng(3).uniform(-4, 4, (COUNT, 4)).astype(np.float32)
    vectors[::3, 1] = [-0.0, 0.0, *[2.5] * (len(vectors[::3]) - 2)]
    assert_interpreted(net, vectors, tmp_path)


def test_the_text_of_float_operators_is_read_back() -> None:
    graph, parameters = describe_network(float_network())
    text = printer.graph_text(graph, parameters, {})
    assert parser.parse_graph(text, "graph.nnef") == graph
    assert "joined = concat_columns(concat([flat, leaky, x], axis = 1), type = 'float32');" in text
    composition.require_network(Description(graph, (), parameters), graph, parameters, "graph.nnef")
    swapped = text.replace("concat([flat, leaky, x]", "concat([leaky, flat, x]")
    found = Description(parser.parse_graph(swapped, "graph.nnef"), (), parameters)
    with pytest.raises(RequestError, match="joined reads columns 0 to 3 of leaky and columns 0 to 3 of flat"):
        composition.require_network(found, graph, parameters, "graph.nnef")


def test_the_text_of_functions_is_read_back() -> None:
    graph, parameters = describe_network(every_function())
    text = printer.graph_text(graph, parameters, {})
    assert parser.parse_graph(text, "graph.nnef") == graph
    assert "hard = hard_sigmoid_float32(x, alpha = 0.3, beta = 0.4, type = 'float32');" in text
    assert "soft_rows = softmax_float32(rows, length = 7, type = 'float32');" in text
    composition.require_network(Description(graph, (), parameters), graph, parameters, "graph.nnef")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_interpreter_computes_operators_on_codes_bit_for_bit(dtype: str, tmp_path: Path) -> None:
    """Scales that are powers of two round no sum of products."""
    net = every_operator(dtype, 7, (0.125, 0.0625, 0.25))
    assert_interpreted(net, uniform_vectors(net, COUNT, 1), tmp_path)


def test_the_interpreter_does_not_fuse_the_multiply_adds_of_a_sum(tmp_path: Path) -> None:
    """It gives the next code where the sum is nearly half way between two codes."""
    net = every_operator("uint8", 7)
    vectors = uniform_vectors(net, COUNT, 1)
    expected = SpecificationReference(net).activations(vectors)
    differing = {}
    for layer, found, right in zip(net.layers, interpreted(net, vectors, tmp_path), expected, strict=True):
        differing[layer.name] = int((found != right).sum())
        assert np.abs(found - right.astype(np.float32)).max() <= 1
    assert [name for name, count in differing.items() if count] == ["row_sum"]
    assert differing["row_sum"] < COUNT * 7 / 100


def every_formula() -> Network:
    """All definitions but those by integers of 64 bits, whose fragments have no body."""
    return every_definition(without=("Sin", "Cos", "Tan"))


@pytest.mark.parametrize("network", [every_function, every_formula])
def test_the_interpreter_computes_functions_bit_for_bit(network: Callable[[], Network], tmp_path: Path) -> None:
    """Operations of NNEF take the place of bits: a power of two, and comparisons that keep the sign of zero."""
    net, vectors = network(), inputs()
    expected = SpecificationReference(net).activations(vectors)
    for layer, found, right in zip(net.layers, interpreted(net, vectors, tmp_path), expected, strict=True):
        assert found.shape == right.shape
        different = np.argwhere(found.view(np.uint32) != right.view(np.uint32))
        assert not len(different), (layer.name, len(different), vectors[tuple(different[0])])
