"""A package outside harness/ adds an operator by one definition, and a target with a section in a profile."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from harness.core.installation import ROOT
from tests.support import builders
from tests.support.cli.command import User

PACKAGE = ROOT / "tests" / "support" / "third_party"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def shrunk(tmp_path: Path) -> Path:
    """A network of which small float32 results become 0."""
    model = builders.random_network(np.random.default_rng(3), (5, 6, 4), dequantize=True)
    [output] = model.graph.output
    node = helper.make_node("Shrink", [output.name], ["shrunk"], "shrink", domain="com.example")
    model.graph.node.append(node)
    model.opset_import.append(helper.make_opsetid(node.domain, 1))
    output.name = node.output[0]
    path = tmp_path / "shrunk.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def asked(
    user: User, model: Path, *more: str, command: str = "run", **environment: str
) -> tuple[int, dict[str, object]]:
    ended = user.harness(command, "--model", str(model), "--vectors", "500", "--json", *more, **environment)
    return ended.code, json.loads(ended.out)


def in_campaign(items: str) -> Any:
    """Return a parameter that the campaigns have and `make test` has not."""
    return pytest.param(items, marks=pytest.mark.campaign)


def test_without_the_package_the_operator_is_refused(user: User, shrunk: Path) -> None:
    code, document = asked(user, shrunk, "--board", "host")
    assert code == 2
    assert "operator com.example.Shrink is not supported" in str(document["error"])


@pytest.mark.parametrize("items", ["c:vector,c:inlined", *map(in_campaign, ("c,c", "c:generic,c:unrolled"))])
def test_the_operator_runs_in_every_variant_of_target_c(user: User, shrunk: Path, items: str) -> None:
    code, document = asked(user, shrunk, "--board", "host", "--items", items, PYTHONPATH=str(PACKAGE))
    assert (code, document["verdict"]) == (0, "identical")
    layers = document["layers"]
    assert isinstance(layers, list)
    assert (layers[-1]["name"], layers[-1]["compared"]) == ("shrink", 500 * 4)


@pytest.mark.campaign
def test_a_proof_reads_the_constants_with_the_reader_of_the_package(user: User, shrunk: Path) -> None:
    code, document = asked(user, shrunk, "--board", "host", command="prove", PYTHONPATH=str(PACKAGE))
    assert (code, document["verdict"]) == (0, "identical")
    assert "defined by shrinkage.shrink, a package of a third party" in str(document["assumptions"])


def test_a_proof_refuses_an_operator_without_a_reader(user: User, shrunk: Path, tmp_path: Path) -> None:
    package = shutil.copytree(PACKAGE, tmp_path / "package")
    [entries] = package.glob("*.dist-info/entry_points.txt")
    entries.write_text(entries.read_text().replace("[harness.readers]\n", "[another.group]\n"))
    code, document = asked(user, shrunk, "--board", "host", command="prove", PYTHONPATH=str(package))
    assert (code, document["error"]) == (2, "node shrink: a proof does not know the constants of com.example.Shrink")
    assert "entry points harness.readers" in str(document["hint"])


def test_a_proof_refutes_a_reader_that_disagrees(user: User, shrunk: Path, tmp_path: Path) -> None:
    package = shutil.copytree(PACKAGE, tmp_path / "package")
    reader = package / "shrinkage" / "reader.py"
    reader.write_text(reader.read_text().replace('"lambd", 0.5', '"lambd", 0.25'))
    code, document = asked(user, shrunk, "--board", "host", command="prove", PYTHONPATH=str(package))
    assert code != 0
    assert "lambd" in json.dumps(document)


@pytest.fixture
def documented(tmp_path: Path) -> Path:
    """The package of docs/add-an-operator.md, and a network whose domain ONNX Runtime does not know."""
    text = (ROOT / "docs" / "add-an-operator.md").read_text()
    blocks = re.findall(r"^`(hard_tanh\S+)`[^\n]*:\n\n```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == [
        "hard_tanh/__init__.py",
        "hard_tanh-1.0.dist-info/entry_points.txt",
        "hard_tanh-1.0.dist-info/METADATA",
        "hard_tanh/gated_sum.py",
    ]
    for name, content in blocks:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    operator, reader = re.findall(r"`(\S*GatedSum = \S+)`", text)
    entries = tmp_path / "hard_tanh-1.0.dist-info" / "entry_points.txt"
    entries.write_text(entries.read_text().replace("\n\n", f"\n{operator}\n\n") + reader)
    nodes = [
        helper.make_node("HardTanh", ["x"], ["h"], "hard_tanh", domain="com.example", min_val=-0.5),
        helper.make_node("GatedSum", ["bias", "h"], ["y"], "gated_sum", domain="com.example"),
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    bias = numpy_helper.from_array(np.float32([1.5]), "bias")
    graph = helper.make_graph(nodes, "two", tensors[:1], tensors[1:], [bias])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=8)
    (tmp_path / "two.onnx").write_bytes(model.SerializeToString())
    return tmp_path


@pytest.mark.parametrize("items", ["c:generic,c:generic", in_campaign("iree:static,iree:static")])
def test_the_documented_operator_runs_from_its_page_alone(user: User, documented: Path, items: str) -> None:
    options = ["--board", "host", "--items", items]
    code, document = asked(user, documented / "two.onnx", *options, PYTHONPATH=str(documented))
    assert (code, document["verdict"]) == (0, "identical")
    evidence = json.loads((Path(str(document["run"])) / "run.json").read_text())
    assert "the functions that the file defines for GatedSum, HardTanh" in evidence["reference"]["agreement"]
    standard = documented / "standard.onnx"
    convert = ["models", "convert", str(documented / "two.onnx"), "--to", "onnx-standard", "-o", str(standard)]
    assert user.harness(*convert, PYTHONPATH=str(documented)).code == 0
    assert {node.domain for node in onnx.load(standard).graph.node} == {""}
    code, document = asked(user, documented / "two.onnx", *options)
    assert (code, "HardTanh" in str(document["error"])) == (2, True)


@pytest.mark.campaign
def test_a_proof_holds_of_the_documented_operator(user: User, documented: Path) -> None:
    items = ["--board", "host", "--items", "c:unrolled,c:unrolled"]
    model = documented / "two.onnx"
    code, document = asked(user, model, *items, command="prove", PYTHONPATH=str(documented))
    assert (code, document["verdict"]) == (0, "identical")


WRONG_PACKAGES = {
    "has ONNX = ": ('(("com.example", "HardTanh"),)', '("com.example", "HardTanh")'),
    "is no dataclass": ("@dataclass(frozen=True, eq=False)\n", ""),
    "has the fields ['max_val'] and defaults of": ("    min_val: np.float32\n", ""),
    "has no function for ONNX Runtime: ONNX has no operator for bits": ("x < min_val", "is_nan(x)"),
    "'return math.sqrt(x)  #(x < min_val, min_val, select(x > max_val, max_val, x))': TypeError": (
        "return select",
        "return math.sqrt(x)  #",
    ),
    "the definition of HardTanh returns bool": ("return select", "return x < min_val  #"),
    "1e+300 as float32 is not in the language": ("return select", "return x + 1e300  #"),
    "hard_tanh/__init__.py:20: SyntaxError": ("max_val: np.float32", "max_val: ="),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("message", WRONG_PACKAGES)
def test_a_wrong_class_is_refused_with_its_fault(user: User, documented: Path, message: str) -> None:
    old, new = WRONG_PACKAGES[message]
    file = documented / "hard_tanh" / "__init__.py"
    text = file.read_text().replace("import Expression, select", "import Expression, is_nan, select")
    file.write_text(text.replace(old, new).replace("import numpy", "import math; import numpy"))
    model = documented / "two.onnx"
    code, document = asked(user, model, "--board", "host", PYTHONPATH=str(documented))
    assert (code, message in str(document["error"])) == (2, True), document


def test_the_text_form_has_an_operator_of_another_domain(user: User, documented: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(documented)}
    imported, again = tmp_path / "imported.onnx", tmp_path / "again.onnx"
    ended = user.harness("models", "import", str(documented / "two.onnx"), "--output", str(imported), **environment)
    assert ended.code == 0, ended.err
    ended = user.harness("models", "show", str(imported), "--text", str(tmp_path / "two.txt"), **environment)
    assert ended.code == 0, ended.err
    ended = user.harness("models", "load", str(tmp_path / "two.txt"), "-o", str(again), **environment)
    assert ended.code == 0, ended.err
    assert again.read_bytes() == imported.read_bytes()


def test_the_target_has_a_section_in_a_profile(cache: Path, shrunk: Path, tmp_path: Path) -> None:
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())["host"]
    entry["items"]["network"]["target"] = "mine"
    user = User(tmp_path, cache, tmp_path / "boards.yaml")
    assert user.boards is not None
    user.boards.write_text(yaml.safe_dump({"host": entry | {"mine": {"label": "of a third party"}}}))
    code, document = asked(user, shrunk, "--board", "host", PYTHONPATH=str(PACKAGE))
    assert (code, document["verdict"]) == (0, "identical")
    user.boards.write_text(yaml.safe_dump({"host": entry | {"mine": {"lable": "of a third party"}}}))
    code, document = asked(user, shrunk, "--board", "host", PYTHONPATH=str(PACKAGE))
    assert code == 2
    assert "lable" in f"{document['error']}{document['hint']}"
