"""Real engines judged: ONNX Runtime, LiteRT with three sets of kernels, tract and IREE, and their arithmetic named."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from harness.applications.judge.document import JudgementDocument
from harness.boards import workspace
from harness.core.arrays import Array
from harness.model.network import Network
from harness.reference.engines import StandardReference
from harness.reference.runtime import shaped, with_all_activations, with_free_batch
from tests.support import judged

IS_X86 = platform.machine() == "x86_64"
FUSED = "multiplications and additions are contracted (FMA), the bias is added last"


def has_fma() -> bool:
    """Return whether this processor has fused multiply-adds, which ONNX Runtime and tract use on x86-64."""
    return IS_X86 and " fma " in Path("/proc/cpuinfo").read_text()


@pytest.fixture(scope="module")
def codes() -> Network:
    """LeNet-5 of int8 codes."""
    return workspace.find().model("lenet5_int8")


@pytest.fixture(scope="module")
def floats() -> Network:
    return workspace.find().model("lenet5")


def named(document: JudgementDocument) -> dict[str, set[str]]:
    """The causes of each layer that an arithmetic explains."""
    return {name: {entry.cause, *entry.also} for entry in document.arithmetic for name in entry.layers}


def by_onnx_runtime(network: Network, values: Array, level: str, *, every: bool = True) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    model = with_all_activations(network) if every else with_free_batch(network).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, shaped(network, values)), strict=True))


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("every", [True, False])
def test_codes_of_onnx_runtime_are_identical(codes: Network, level: str, every: bool, tmp_path: Path) -> None:
    values = judged.vectors(codes, 20)
    dumps = by_onnx_runtime(codes, values, level, every=every)
    document = judged.judge(codes, tmp_path, dumps, values)
    assert (document.verdict, len(document.layers)) == ("identical", 10 if every else 1)


def test_float_sums_of_onnx_runtime_are_named(floats: Network, tmp_path: Path) -> None:
    values = judged.vectors(floats, 8)
    document = judged.judge(floats, tmp_path, by_onnx_runtime(floats, values, "ORT_ENABLE_ALL"), values)
    assert document.verdict == "within bound"
    if has_fma():
        causes = named(document)
        assert all(FUSED in causes[name] for name in ("conv_1", "dense_1", "dense_2", "dense_3"))


def stored_by_litert(network: Network, first: int, values: Array, resolver: str | None) -> dict[str, Array]:
    """The activations of the layers from `first` on, as LiteRT stores them: int8, the channels last."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="the extra litert is not installed")
    from harness import targets
    from harness.applications.convert.check import encoded
    from harness.model.tflite.file import encode
    from harness.targets.litert.convert import convert

    lowerings: Any = targets.find("litert:xnnpack").lowerings
    layers = network.layers[first:]
    source = layers[0].inputs[0]
    file = convert(layers, [source], [layer.output.name for layer in layers], lowerings)
    options = {} if resolver is None else {
        "experimental_op_resolver_type": getattr(interpreter.OpResolverType, resolver)
    }  # fmt: skip
    engine = interpreter.Interpreter(model_content=encode(file.file), num_threads=1, **options)
    engine.allocate_tensors()
    outputs: dict[str, list[Array]] = {}
    [detail] = engine.get_input_details()
    for row in values:
        engine.set_tensor(detail["index"], encoded(row, file.inputs[source.name]).reshape(detail["shape"]))
        engine.invoke()
        for layer in layers:
            outputs.setdefault(layer.output.name, []).append(
                np.array(engine.get_tensor(file.layers[layer.name].tensor))
            )
    return {name: np.concatenate(rows) for name, rows in outputs.items()}


def test_codes_of_litert_with_xnnpack_are_identical(codes: Network, tmp_path: Path) -> None:
    values = judged.vectors(codes, 20)
    document = judged.judge(codes, tmp_path, stored_by_litert(codes, 0, values, None), values)
    assert document.verdict == "identical", document.reason
    notes = {layer.name: layer.notes for layer in document.layers}
    assert notes["conv_2"] == ["read with the channels last"]
    assert notes["flatten"] == ["in the order of pool_2_codes, with the channels last"]


@pytest.mark.skipif(not IS_X86, reason="its kernels for x86-64")
def test_the_two_roundings_of_litert_are_named(codes: Network, tmp_path: Path) -> None:
    values = judged.vectors(codes, 60)
    dumps = stored_by_litert(codes, 0, values, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    document = judged.judge(codes, tmp_path, dumps, values)
    assert document.verdict == "differs"
    causes = named(document)
    layers = [layer for layer in document.layers if layer.unequal and layer.operator in ("QLinearConv", "QGemm")]
    assert len(layers) >= 3
    for layer in layers:
        assert any("two roundings, both half up (ruy on x86)" in cause for cause in causes[layer.name]), layer.name
        assert layer.largest == 1


def test_the_reference_kernels_of_litert_round_half_away(tmp_path: Path) -> None:
    """Sums of scales that are powers of two lie half way between two codes more often than others."""
    network = judged.network(3, 20, 40, 30, 20, activations="int8", power_of_two=True)
    values = judged.vectors(network, 1000)
    quantised = judged.activations(network, values)["quantize_out"]
    dumps = stored_by_litert(network, 1, quantised, "BUILTIN_REF") | {"quantize_out": quantised}
    document = judged.judge(network, tmp_path, dumps, values)
    assert document.verdict == "differs"
    assert named(document).keys() == {"layer_0", "layer_1", "layer_2"}
    for causes in named(document).values():
        assert "rounding is half away from zero" in causes


def by_engine(network: Network, values: Array, name: str) -> dict[str, Array]:
    pytest.importorskip(name, reason=f"the extra {name} is not installed")
    outputs = StandardReference(network, name, separate=False).activations(values)
    return {
        layer.output.name: output.reshape(len(values), *layer.output.shape)
        for layer, output in zip(network.layers, outputs, strict=True)
    }


def test_float_sums_of_tract_are_named(floats: Network, tmp_path: Path) -> None:
    values = judged.vectors(floats, 8)
    document = judged.judge(floats, tmp_path, by_engine(floats, values, "tract"), values)
    assert document.verdict == "within bound"
    if has_fma():
        sums = [layer.name for layer in document.layers if layer.operator in ("Conv", "Gemm")]
        assert all(FUSED in named(document)[name] for name in sums)


def test_codes_of_tract_are_identical(codes: Network, tmp_path: Path) -> None:
    values = judged.vectors(codes, 8)
    assert judged.judge(codes, tmp_path, by_engine(codes, values, "tract"), values).verdict == "identical"


@pytest.mark.slow
@pytest.mark.skipif(not IS_X86, reason="its code without FMA for x86-64")
@pytest.mark.campaign
def test_float_sums_of_iree_are_named(floats: Network, tmp_path: Path) -> None:
    values = judged.vectors(floats, 4)
    document = judged.judge(floats, tmp_path, by_engine(floats, values, "iree"), values)
    causes = named(document)
    assert document.verdict == "within bound"
    assert "the bias is added last" in causes["dense_1"]
    assert "the products are added by position and channel, the bias last" in causes["conv_2"]
