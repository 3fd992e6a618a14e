"""Networks as MLIR text, without IREE: golden texts, constants, names and refusals."""

import re
from dataclasses import replace

import numpy as np
import pytest

from harness import targets
from harness.core.errors import RequestError
from harness.operators.qgemm import QGemm
from harness.targets.iree.module import module_text, sources
from tests.support.mlir import FOLDER, SMALL, text_of


@pytest.mark.parametrize("name", SMALL)
def test_the_text_is_the_one_that_is_kept(name: str) -> None:
    assert text_of(name) == (FOLDER / f"{name}.mlir").read_text()


def function_of(text: str, name: str) -> str:
    found = re.search(rf"func\.func @{name}\(.*?\n}} loc", text, re.DOTALL)
    assert found is not None
    return found[0]


def test_constants_have_the_bytes_of_the_layer() -> None:
    net = SMALL["codes"]()
    layer = next(layer for layer in net.layers if isinstance(layer, QGemm))
    text = function_of(text_of("codes"), layer.name)
    found = {
        name: (bytes.fromhex(digits), kind)
        for name, digits, kind in re.findall(r'%(\w+) = arith.constant dense<"0x(\w+)"> : (\S+)', text)
    }
    depth, width = layer.weights.shape
    expected = {
        "weights": (layer.weights.tobytes(), f"tensor<{depth}x{width}xi8>"),
        "bias": (layer.bias.astype("<i4").tobytes(), f"tensor<{width}xi32>"),
        "multiplier": (layer.multiplier.astype("<f4").tobytes(), f"tensor<{width}xf32>"),
    }
    assert expected.items() <= found.items()
    [quantize] = [layer for layer in net.layers if layer.operator == "QuantizeLinear"]
    bits = int(np.float32(quantize.constants()["scale"]).view(np.uint32))
    assert f"arith.constant 0x{bits:08X} : f32" in function_of(text_of("codes"), quantize.name)


def test_some_layers_read_the_activations_of_others() -> None:
    net = SMALL["codes"]()
    part = net.layers[1:-1]
    text = module_text(part, vectors=7)
    assert [tensor.name for tensor in sources(part)] == [net.layers[0].output.name]
    assert re.findall(r"func.func @(\w+)", text) == [*(layer.name for layer in part), "main"]
    assert "func.func @main(%in: tensor<7x3xi8>) ->" in text


def test_outputs_can_be_chosen() -> None:
    net = SMALL["codes"]()
    text = function_of(module_text(net.layers, outputs=[net.layers[-1].output.name]), "main")
    assert "-> (tensor<1x1xi64>) {" in text


def test_names_are_legal_and_stay_on_their_line() -> None:
    [first, second, *_] = SMALL["codes"]().layers
    odd = 'x\n} "\\\u00e9'
    given, made = (replace(first.input, name=name) for name in (odd, "in_1"))
    layers = [
        replace(first, name="main", node=odd, inputs=(given,)),
        replace(second, name="in"),
        replace(first, name="in_1", inputs=(given,), output=replace(first.output, name=made.name)),
    ]
    text = module_text(layers)
    assert re.findall(r"func.func @([\w.]+)", text) == ["main.layer", "in", "in_1", "main"]
    escaped = r'"x\0A} \22\5C\C3\A9"'
    assert f"#at_main = loc({escaped})\n" in text
    assert f'// QuantizeLinear {escaped}: {escaped} -> "quantize_out"\n' in text
    assert re.findall(r"(%[\w.]+) = call", text) == ["%main.layer", "%in_1", "%in_1_1"]


def test_a_refusal_names_operator_node_and_reason() -> None:
    lowerings = dict(targets.find("iree:static").lowerings)
    net = SMALL["codes"]()
    del lowerings[QGemm]
    with pytest.raises(RequestError, match=r"node 'layer_0' \(QGemm\) cannot be converted: it has no form") as refused:
        module_text(net.layers, lowerings=lowerings)
    assert "ArgMax" in str(refused.value.hint)
    assert "QGemm" not in str(refused.value.hint)
