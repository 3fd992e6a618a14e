"""`harness models show`, `load` and `list`, as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import model as networks
from harness.boards.workspace import Workspace
from harness.cli.models import list as list_command
from harness.cli.models import load as load_command
from harness.cli.models import show as show_command
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.sonnx import describe
from harness.model.text.facts import parameter_count, short_widths, widths
from harness.operators.qgemm import QGemm
from harness.targets.iree.module import network_pieces
from tests.support.builders import random_network
from tests.support.cli.command import User

ACAS = ROOT / "models" / "acas_coc.onnx"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """A workspace whose models folder is empty."""
    (tmp_path / "models").mkdir()
    return Workspace(tmp_path / "boards.yaml", tmp_path / "models", tmp_path / "runs", tmp_path / "cache")


def save(path: Path, **options: object) -> bytes:
    model = random_network(np.random.default_rng(1), [5, 50, 50, 5], **options)  # type: ignore[arg-type]
    path.write_bytes(model.SerializeToString())
    return path.read_bytes()


def test_show_prints_mlir_and_the_description_of_the_profile(user: User) -> None:
    text = "".join(network_pieces(networks.load(ACAS)))
    ended = user.harness("models", "show", "acas_coc", "--format", "mlir")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == text
    shown = user.harness("models", "show", "acas_coc", "--format", "mlir", "--json")
    document = json.loads(shown.out)
    assert (document["model"], document["mlir"]) == ("acas_coc", text)
    described = user.harness("models", "show", "acas_coc", "--format", "sonnx")
    assert (described.code, described.out) == (0, "".join(describe(networks.load(ACAS))))
    both = user.harness("models", "show", "acas_coc", "--format", "mlir", "--text", "acas.txt")
    assert both.code == 2
    assert "--text writes another form than --format mlir prints" in both.err


def test_show_fits_a_page_of_100_columns(user: User) -> None:
    ended = user.harness("models", "show", "acas_coc")
    assert ended.code == 0, ended.err
    lines = [line.rstrip() for line in ended.out.splitlines()]
    assert max(map(len, lines)) <= 100
    net = networks.load(ACAS)
    assert lines[0] == f"acas_coc  {short_widths(widths(net))}, {parameter_count(net):,} parameters"
    for layer in net.layers:
        operator, numbers = (line.split() for line in lines if line.startswith(f"{layer.name} "))
        flow = [layer.name, layer.operator, *layer.sources, "->", layer.output.name]
        types = [str(layer.input.dtype), str(layer.input.size), "->", str(layer.dtype), str(layer.size)]
        assert operator == flow + types
        if isinstance(layer, QGemm):
            bounds = layer.sums and layer.sums.accumulator()
            assert " ".join(numbers).endswith(f"{bounds.low} to {bounds.high} {bounds.headroom_bits} bits exact")
    assert any("int32 overflow is excluded" in line for line in lines)


def test_text_and_back_and_no_runtime(user: User, tmp_path: Path) -> None:
    text, copy = tmp_path / "acas.txt", tmp_path / "copy.onnx"
    shown = user.harness("models", "show", "acas_coc", "--text", str(text), "--json")
    assert shown.document["weights"] == str(tmp_path / "acas.weights.txt")
    assert [layer["name"] for layer in shown.document["layers"]] == [layer.name for layer in networks.load(ACAS).layers]
    loaded = user.harness("models", "load", str(text), "-o", str(copy), "--json")
    assert loaded.document == {"model": "copy", "file": str(copy), "sha256": shown.document["sha256"], "original": True}
    assert loaded.err == ""
    assert copy.read_bytes() == ACAS.read_bytes()


def test_the_commands_do_without_onnxruntime(tmp_path: Path) -> None:
    text, copy = tmp_path / "net.txt", tmp_path / "copy.onnx"
    for words in (["show", "acas_coc", "--text", str(text)], ["load", str(text), "-o", str(copy)]):
        program = (
            "import sys; from harness.cli.main import cli; "
            f"cli.main(['models', *{words}], standalone_mode=False); sys.exit('onnxruntime' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_show_lists_the_terms_of_a_sum(space: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    save(space.models / "net.onnx", residual=2, per_column=True)
    show_command.show("net", None, space, Console.open(as_json=False))
    out = capsys.readouterr().out
    assert "layer_0_term_1_out, layer_0_term_2_out -> layer_0_sum_2_out" in out
    assert "x, each of 5" in out


def test_names_of_inputs_do_not_reach_the_terminal_as_they_are(
    space: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    save(space.models / "net.onnx")
    model = onnx.load(space.models / "net.onnx")
    names, units = ["\x1b[31m", "b", "c", "d", "e"], ["", "\x1b]", "", "", ""]
    metadata = {"input_names": names, "input_units": units, "input_mean": [0, 1e300, 0, 0, 0], "input_range": [1] * 5}
    onnx.helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.save(model, space.models / "net.onnx")
    show_command.show("net", None, space, Console.open(as_json=False))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert '"\\u001b[31m"' in out
    assert '1e+300 to 1e+300 "\\u001b]"' in out


def test_text_does_not_replace_what_is_no_description(space: Workspace, tmp_path: Path) -> None:
    content = save(space.models / "net.onnx")
    console = Console.open(as_json=True)
    with pytest.raises(RequestError, match="exists and is not a description of a model"):
        show_command.show("net", space.models / "net.onnx", space, console)
    assert (space.models / "net.onnx").read_bytes() == content
    with pytest.raises(RequestError, match="No such file or directory"):
        show_command.show("net", tmp_path / "missing" / "net.txt", space, console)
    (tmp_path / "net.weights.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"net\.weights\.txt exists and is not a description of a model"):
        show_command.show("net", tmp_path / "net.txt", space, console)
    assert not (tmp_path / "net.txt").exists()
    (tmp_path / "net.weights.txt").unlink()
    show_command.show("net", tmp_path / "net.txt", space, console)
    show_command.show("net", tmp_path / "net.txt", space, console)


def test_load_wants_both_files(space: Workspace, tmp_path: Path) -> None:
    save(space.models / "net.onnx")
    console = Console.open(as_json=True)
    show_command.show("net", tmp_path / "net.txt", space, console)
    (tmp_path / "net.weights.txt").unlink()
    with pytest.raises(RequestError, match=r"net\.weights\.txt: No such file or directory"):
        load_command.load(tmp_path / "net.txt", tmp_path / "new.onnx", console)
    with pytest.raises(RequestError, match=r"net\.onnx, line \d+: expected UTF-8 text"):
        load_command.load(space.models / "net.onnx", tmp_path / "new.onnx", console)
    assert not (tmp_path / "new.onnx").exists()


def test_what_an_edited_text_describes_is_checked(space: Workspace, tmp_path: Path) -> None:
    save(space.models / "net.onnx")
    text, console = tmp_path / "net.txt", Console.open(as_json=True)
    show_command.show("net", text, space, console)
    lines = [line for line in text.read_text().splitlines() if not line.startswith("sha256 ")]
    edited = "\n".join(lines).replace('node QGemm "layer_1"', 'node QGemm "layer_0"')
    text.write_text(edited)
    with pytest.raises(RequestError, match="2 nodes are named 'layer_0'"):
        load_command.load(text, tmp_path / "new.onnx", console)
    text.write_text(edited.replace('node QGemm "layer_0"', 'node QGemm "first"', 1))
    load_command.load(text, tmp_path / "new.onnx", console)
    nodes = onnx.load(tmp_path / "new.onnx").graph.node
    assert [node.name for node in nodes] == ["quantize", "first", "layer_0", "layer_2"]


def test_a_changed_comment_is_noticed(space: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = save(space.models / "net.onnx")
    text, console = tmp_path / "net.txt", Console.open(as_json=False)
    show_command.show("net", text, space, console)
    text.write_text(text.read_text().replace("  # y_scale", "  # y_scale, reviewed", 1))
    load_command.load(text, tmp_path / "new.onnx", console)
    assert (tmp_path / "new.onnx").read_bytes() == content
    assert "comments or blanks in net.txt were changed; they are not part of the model" in capsys.readouterr().err


def float_model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["sum"]), helper.make_node("Det", ["sum"], ["y"], "end")],
        "float",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(np.ones((3, 2), np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_list_shows_every_file_and_what_is_wrong_with_it(space: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    (space.models / "acas.onnx").write_bytes(ACAS.read_bytes())
    save(space.models / "expanded.onnx", residual=2)
    onnx.save(float_model(), str(space.models / "floats.onnx"))
    (space.models / "damaged.onnx").write_bytes(ACAS.read_bytes()[:9000])
    (space.models / "gone.onnx").symlink_to(space.models / "nowhere")
    list_command.list_models(space, Console.open(as_json=True))
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["models"]}
    acas = networks.load(ACAS)
    recipe = json.loads(acas.metadata["recipe_sha256"])
    assert entries["acas"]["widths"] == list(widths(acas))
    assert entries["acas"]["parameters"] == parameter_count(acas)
    assert entries["acas"]["provenance"]["recipe_sha256"] == recipe
    assert entries["expanded"]["operators"] == {"QuantizeLinear": 3, "QGemm": 6, "Add": 3}
    assert entries["floats"]["problem"] == "model 'floats': node 'end' (Det): operator Det is not supported"
    assert "is not an ONNX model, or is cut short" in entries["damaged"]["problem"]
    assert entries["gone"]["problem"] == "No such file or directory"
    list_command.list_models(space, Console.open(as_json=False))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    size = [short_widths(widths(acas)), f"{parameter_count(acas):,}"]
    assert lines["acas"].split()[1:] == [*size, "ArgMax", "recipe", recipe[:12], acas.sha256[:12]]
    assert "QuantizeLinear x2, Add x3" in lines["expanded"]
    assert "(Det): operator Det is not" in lines["floats"]


def test_an_empty_folder_has_no_models(space: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    list_command.list_models(space, Console.open(as_json=False))
    assert "import one with harness models import" in capsys.readouterr().err
