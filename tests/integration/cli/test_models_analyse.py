"""`harness models analyse` and `harness models optimise`, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from harness import model as networks
from harness.core.installation import ROOT
from harness.model.analysis.document import AnalysisDocument
from tests.support.analysed_graphs import figure_7, figure_8
from tests.support.cli.command import User


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def test_a_shipped_network_has_facts_ranges_and_findings(user: User) -> None:
    ended = user.harness("models", "analyse", "acas_coc", "--json", "--vectors", "8")
    assert ended.code == 0, ended.err
    document = AnalysisDocument.from_json(ended.document)
    assert (document.verdict, document.complete, document.vectors) == ("analysed", True, 8)
    edges = {each.name: each for each in document.edges}
    assert (edges["activation_8"].type, edges["activation_8"].shape) == ("uint8", "[vectors, 50]")
    assert edges["state_quantized"].range == "0 to 240"
    layers = {each.layer: each for each in document.layers}
    assert layers["dense_2"].method == "zonotope"
    assert layers["dense_1"].accumulator_bits == 18
    assert [each.node for each in document.findings if each.kind == "constant_channels"] == ["dense_1"]
    text = user.harness("models", "analyse", "acas_coc", "--vectors", "8")
    assert text.code == 0
    assert "12 edges, 2 passes: all types and shapes are known; 1 warning" in text.out
    assert "dense_1: 3 of 50 channels (5, 23, 42) have one value" in text.out
    assert "QGemm" not in text.out


def test_hints_give_symbols_a_size_and_a_contradiction_ends_with_2(user: User, tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.zeros((8, 3, 3, 3), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv", strides=[2, 2])]
    inputs = [onnx.ValueInfoProto(name="x")]
    graph = helper.make_graph(nodes, "net", inputs, [onnx.ValueInfoProto(name="y")], [weights])
    file = tmp_path / "net.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    known = user.harness("models", "analyse", str(file), "--fact", "x:shape=1,3,H,W", "--json")
    assert known.code == 0
    [y] = [each for each in known.document["edges"] if each["name"] == "y"]
    assert (y["type"], y["shape"]) == ("float32", "[1, 8, floor((H + 1)/2) - 1, floor((W + 1)/2) - 1]")
    wrong = user.harness("models", "analyse", str(file), "--fact", "x:shape=1,4,H,W")
    assert wrong.code == 2
    assert "error: conv: tensor 'x': size 1 is 4 and 3; --fact x:shape says the first" in wrong.out
    assert "X.shape[1] = W.shape[1] (node conv)" in wrong.out
    refused = user.harness("models", "analyse", str(file), "--fact", "z:shape=1")
    assert (refused.code, "unknown tensor 'z'" in refused.err) == (2, True)


def test_the_profile_check_names_nodes_and_restrictions(user: User) -> None:
    ended = user.harness("models", "analyse", "lenet5", "--profile", "sonnx", "--vectors", "0")
    assert ended.code == 0, ended.err
    assert "warning: pool_1: REQ OP 000: operator AveragePool is none of the 55 operators of the profile" in ended.out
    assert "warning: dense_1: R2 of Gemm (to be confirmed, says the document): does not hold" in ended.out
    document = user.harness("models", "analyse", "lenet5", "--profile", "sonnx", "--vectors", "0", "--json").document
    [*departures, summary] = [entry for entry in document["findings"] if entry["kind"] == "sonnx"]
    assert {entry["severity"] for entry in departures} == {"warning"}
    assert summary["reason"] == "13 of 13 nodes leave the safety-related profile"
    assert "sonnx" not in user.harness("models", "analyse", "lenet5", "--vectors", "0", "--json").out


@pytest.mark.parametrize("prune", ["sinks", "lca"])
def test_the_smaller_file_is_written_and_verified(user: User, tmp_path: Path, prune: str) -> None:
    file, output = tmp_path / "figure.onnx", tmp_path / "folded.onnx"
    onnx.save(figure_7(), file)
    ended = user.harness("models", "optimise", str(file), str(output), "--prune", prune, "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert document["bytes_after"] == output.stat().st_size < document["bytes_before"] == file.stat().st_size
    assert (document["nodes_before"], document["nodes_after"]) == (5, 2)
    assert document["components"][0]["removed"] == ["pack", "shape", "strided_slice"]
    assert document["verified"]["values"] == 16 * 61 * 60
    assert [node.op_type for node in onnx.load(output).graph.node] == ["Relu", "Reshape"]


@pytest.mark.parametrize(
    ("prune", "message"),
    [
        (["--prune", "sinks"], "gets no smaller"),
        (["--prune", "none"], "has no constant nodes that are removed"),
        ([], "has no constant nodes that are removed"),
    ],
)
def test_a_file_that_would_grow_is_not_written(user: User, tmp_path: Path, prune: list[str], message: str) -> None:
    file, output = tmp_path / "figure.onnx", tmp_path / "folded.onnx"
    onnx.save(figure_8(), file)
    ended = user.harness("models", "optimise", str(file), str(output), *prune)
    assert (ended.code, message in ended.err, output.exists()) == (2, True, False)


def test_a_file_without_constant_nodes_is_refused_without_a_table(user: User, tmp_path: Path) -> None:
    file = ROOT / "models" / "acas_coc.onnx"
    ended = user.harness("models", "optimise", str(file), str(tmp_path / "folded.onnx"))
    message = "error: model 'acas_coc' has no constant nodes, so nothing can be folded"
    assert (ended.code, ended.out, ended.err.splitlines()) == (2, "", [message, "hint: keep the file"])


def test_the_specification_confirms_what_harness_can_run(user: User, tmp_path: Path) -> None:
    model = onnx.load(ROOT / "models" / "acas_coc.onnx")
    tensor = model.graph.initializer.pop()
    model.graph.node.insert(
        0, helper.make_node("Constant", [], [tensor.name], "stored_constant_of_a_node", value=tensor)
    )
    file, output = tmp_path / "net.onnx", tmp_path / "folded.onnx"
    onnx.save(model, file)
    ended = user.harness("models", "optimise", str(file), str(output), "--json", "--vectors", "4")
    assert ended.code == 0, ended.err
    assert ended.document["verified"]["engines"] == ["ONNX Runtime without optimisations", "the specification"]
    assert networks.load(output).layers[-1].size == 1
