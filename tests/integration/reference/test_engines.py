"""Further engines of the reference: their bits, their disagreement as a user meets it, and what they refuse."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from harness.core.arrays import Array
from harness.core.console import Console
from harness.core.errors import EXIT_INFRASTRUCTURE, EXIT_REQUEST, RequestError
from harness.core.installation import ROOT
from harness.model import load
from harness.model.network import Network
from harness.model.standard import standard_form
from harness.reference import EnginesDisagree, Reference, engines, ratios_to, require_engines
from harness.reference.engines import StandardReference
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import stimuli
from harness.report import terminal
from tests.support import builders, codes, float_images, images
from tests.support.cli.command import Ended, User
from tests.support.programs.board_program import parse, uniform_vectors
from tests.support.programs.convolutions import random_convolutions

PACKAGES = {"tract": "tract", "iree": "iree.compiler"}
ALL = "ort,specification,tract"
CAMPAIGN = pytest.mark.campaign
SHIPPED = [
    *(("tract", name) for name in ("acas_coc", "lenet5_int8", "ds_cnn_int8", "resnet8_int8", "autoencoder_int8")),
    ("iree", "acas_coc"),
    *(
        pytest.param("tract", name, marks=CAMPAIGN)
        for name in ("acas_sl", "acas_sr", "acas_wl", "acas_wr", "mobilenet_int8", "lenet5", "cifarnet")
    ),
    *(
        pytest.param("iree", name, marks=CAMPAIGN)
        for name in ("lenet5_int8", "ds_cnn_int8", "resnet8_int8", "autoencoder_int8", "mobilenet_int8", "lenet5")
    ),
]
VALUES = 1 << 20
"""Values of all layers that a test compares, about."""
SEARCHED = 1000
"""Values of all layers of a network from which on the search for ties takes seconds."""


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


def need(engine: str) -> None:
    pytest.importorskip(PACKAGES[engine], reason=f"the extra {engine} is not installed")


def differing(net: Network, engine: str, count: int) -> dict[str, int]:
    """The number of values by layer that an engine computes otherwise, or beyond the tolerance."""
    few = sum(layer.size for layer in net.layers) < SEARCHED
    vectors = stimuli(net, count, 1).chunk(0, count) if few else uniform_vectors(net, count, 1)
    right = SpecificationReference(net).activations(vectors)
    separate = any(layer.errors.has_tolerance for layer in net.layers)
    found = StandardReference(net, engine, separate=separate).activations(vectors, right if separate else ())
    values = {net.vector.name: vectors, **{layer.output.name: of for layer, of in zip(net.layers, right, strict=True)}}
    wrong = {}
    for layer, one, of in zip(net.layers, found, right, strict=True):
        tolerance = layer.tolerance([values[name] for name in layer.sources], of)
        other = one.view(f"V{one.itemsize}") != of.view(f"V{of.itemsize}")
        beyond = other if tolerance is None else ~(ratios_to(one, of, tolerance) <= 1)
        assert one.shape == (count, layer.size)
        wrong |= {layer.name: int(beyond.sum())} if beyond.any() else {}
    return wrong


@pytest.mark.parametrize(("engine", "name"), SHIPPED)
def test_shipped_networks_have_the_specified_bits(engine: str, name: str) -> None:
    need(engine)
    net = load(ROOT / "models" / f"{name}.onnx")
    count = min(max(VALUES // sum(layer.size for layer in net.layers), 2), 300)
    assert differing(net, engine, count) == {}


ENGINES = ["tract", pytest.param("iree", marks=CAMPAIGN)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["codes uint8", "codes int8", "images uint8", "images int8"])
def test_every_operator_on_codes_has_the_specified_bits(engine: str, name: str) -> None:
    need(engine)
    kind, dtype = name.split()
    net = codes.every_operator(dtype, 9) if kind == "codes" else images.every_operator(dtype)
    assert differing(net, engine, 100) == {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=CAMPAIGN) for seed in range(1, 20))])
def test_random_layers_have_the_specified_bits(engine: str, seed: int) -> None:
    need(engine)
    rng = np.random.default_rng(seed)
    activations, weights = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")][seed % 3]
    net = random_convolutions(rng, 1 + seed % 2, activations, weights, 3)
    try:
        assert differing(net, engine, 60) == {}
    except RequestError as refused:
        if engine == "tract":
            raise
        pytest.skip(str(refused))  # its compiler fails for some grouped convolutions with strides
    dense = builders.random_network(
        rng, (5, 17, 4), activations=activations, weights=weights, per_column=seed % 2 == 0, power_of_two=seed % 4 == 1
    )
    assert differing(parse(dense), engine, 200) == {}


def with_another(net: Network, role: str) -> onnx.ModelProto:
    """The standard form of a network with the first constant of this role one more."""
    model = standard_form(net)
    tensor = next(each for each in model.graph.initializer if each.name.endswith(f"/{role}"))
    values = numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[:1] += values.dtype.type(1)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


@pytest.mark.parametrize("role", ["weights", "y_zero_point"])
def test_a_wrong_engine_is_found_with_the_values_of_all(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need("tract")
    net = load(ROOT / "models" / "acas_coc.onnx")
    monkeypatch.setattr(engines, "standard_form", lambda network: with_another(network, role))
    vectors = stimuli(net, 500, 1).chunk(0, 500)
    right = SpecificationReference(net).activations(vectors)
    reference = Reference(net, engines=ALL.split(","))
    with pytest.raises(EnginesDisagree) as caught:
        reference.expected(vectors, 3000)
    found = caught.value.disagreement
    place = found["vector"] - 3000, found["index"]
    layer = next(at for at, layer in enumerate(net.layers) if layer.name == found["layer"])
    value = int(right[layer][place])
    assert found["values"]["ort"] == found["values"]["specification"] == value != found["values"]["tract"]
    assert layer == (0 if role == "y_zero_point" else 1)
    for name, version in reference.versions.items():
        assert f"{name} {version}: {found['values'][name]}" in caught.value.message
    assert f"vector {found['vector']}, column {found['index']}: " in caught.value.message


def asked(folder: Path) -> list[str]:
    run = ["run", "--board", "host", "--model", "acas_coc", "--vectors", "100", "--trace", "0", "--json"]
    return [*run, "--run-folder", str(folder), "--reference", ALL]


def verify(folder: Path) -> list[str]:
    return ["verify", str(folder), "--no-rebuild", "--json"]


def claims(verified: Ended) -> dict[str, tuple[str, str, bool]]:
    return {each["claim"]: (each["state"], each["text"], each["needed"]) for each in verified.document["claims"]}


def test_a_run_says_which_engines_agreed_and_verify_asks_the_same(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    need("tract")
    folder = user.folder / "good"
    ended = user.here(*asked(folder))
    assert ended.code == 0, ended.err
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    assert ended.document["engines"] == run["reference"]["engines"]
    assert [engine["name"] for engine in run["reference"]["engines"]] == ALL.split(",")
    assert run["reference"]["agreement"].endswith("; tract on its standard form agreed with both on every byte")
    shown = ", ".join(f"{engine['name']} {engine['version']}" for engine in run["reference"]["engines"])
    assert shown in (folder / "report.html").read_text()
    assert terminal_text(run) == f"reference: {shown}, which agree"
    state, text, needed = claims(user.here(*verify(folder)))["reference"]
    assert (state, needed) == ("ok", True)
    assert "by ort, specification, tract: " in text
    missing(monkeypatch)
    verified = user.here(*verify(folder))
    state, text, needed = claims(verified)["reference"]
    assert (state, needed, verified.code) == ("not checked", True, EXIT_INFRASTRUCTURE)
    assert "; run: make setup" in text


def terminal_text(run: dict[str, Any]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        terminal.show(run, Path("report.html"), Console.open(as_json=False))
    return next(line for line in out.getvalue().splitlines() if line.startswith("reference: ")).rstrip()


def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(engines, "version", version)


def test_engines_that_disagree_make_a_run_inconclusive(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    need("tract")
    folder = user.folder / "odd"
    with monkeypatch.context() as patch:
        patch.setattr(engines, "standard_form", lambda network: with_another(network, "weights"))
        ended = user.here(*asked(folder))
    assert ended.code == EXIT_INFRASTRUCTURE
    document = ended.document
    found = document["disagreement"]
    assert (document["verdict"], document["part"], found["layer"]) == ("inconclusive", "reference", "dense_1")
    assert sorted(found["values"]) == sorted(ALL.split(","))
    assert "engines disagree in layer 'dense_1' (QGemm)" in ended.err
    assert all(f": {value}" in document["reason"] for value in found["values"].values())
    assert not (folder / "run.json").exists()
    page = (folder / "report.html").read_text()
    assert "Inconclusive" in page
    for name, value in found["values"].items():
        assert f'<tr><th>{name}</th><td class="number">{value}</td></tr>' in page
    resumed = user.here("run", "--resume", str(folder), "--json")
    assert resumed.code == 0, resumed.err
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    assert run["attempts"][0]["disagreement"] == found
    assert "Engines, first difference" in (folder / "report.html").read_text()
    states = claims(user.harness(*verify(folder)))
    assert [states[name][0] for name in ("fields", "request", "reference", "reports")] == ["ok"] * 4


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("ort,specification,onnx", "there is no engine 'onnx'; valid choices: ort, specification, iree, tract"),
        ("tract", "every run has ort and specification, and each engine once; further engines: iree, tract"),
        ("ort,specification,tract,tract", "and each engine once"),
        (ALL, "the package tract is not installed; run: make setup"),
    ],
)
def test_engines_that_cannot_be_asked_are_refused(names: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch)
    with pytest.raises(RequestError) as caught:
        engines.versions(names.split(","))
    assert words in f"{caught.value.message}; {caught.value.hint}"


@pytest.mark.parametrize("command", ["run", "measure", "prove"])
def test_a_command_refuses_an_unknown_engine(user: User, command: str) -> None:
    ended = user.harness(command, "--board", "host", "--model", "acas_coc", "--reference", "ort,ncnn", "--json")
    assert ended.code == EXIT_REQUEST
    assert ended.document["error"] == "--reference ort,ncnn: there is no engine 'ncnn'"


def test_a_network_that_an_engine_does_not_run_is_refused_with_its_node(user: User) -> None:
    need("tract")
    path = user.folder / "images.onnx"
    path.write_bytes(float_images.every_operator().onnx_bytes)
    ended = user.harness("run", "--board", "host", "--model", str(path), "--vectors", "5", "--reference", ALL, "--json")
    assert ended.code == EXIT_REQUEST
    assert "tract does not run node 'window_norms' (LpPool)" in ended.document["error"]


def test_a_float_layer_beyond_its_bound_is_named_with_all_values() -> None:
    net = load(ROOT / "models" / "lenet5.onnx")
    vectors = stimuli(net, 2, 1).chunk(0, 2)
    right = SpecificationReference(net).activations(vectors)
    near: tuple[Array, ...] = tuple(np.nextafter(values, np.float32(np.inf)) for values in right)
    versions = {"ort": "1", "specification": "2", "tract": "3"}
    given = {net.vector.name: vectors}
    exact = [layer.name for layer in net.layers if not layer.errors.has_tolerance]
    same = tuple(one if layer.name not in exact else of for layer, one, of in zip(net.layers, near, right, strict=True))
    require_engines(net.layers, {"ort": right, "tract": same}, right, versions, given)
    far = (same[0] + np.float32(1), *same[1:])
    with pytest.raises(EnginesDisagree, match=r"further apart than the bound .*: tract in [\d,]+ of") as caught:
        require_engines(net.layers, {"ort": right, "tract": far}, right, versions, given, 7)
    assert caught.value.disagreement["values"]["tract"] == far[0][0, 0].item()
    assert caught.value.disagreement["vector"] == 7
