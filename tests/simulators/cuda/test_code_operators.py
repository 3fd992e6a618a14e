"""Operators on codes on a simulated GPU in all variants: bits as the reference has them, their proof, and mutants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from harness import targets
from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.qlinear_conv import QLinearConv
from harness.reference.specification import SpecificationReference
from harness.targets.cuda import build, ptx
from tests.simulators.cuda import interpreted
from tests.simulators.cuda.test_stages import calls_of, inlined
from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.interpreter import Module
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import codes, images
from tests.support.codes import node
from tests.support.programs.board_program import Patch, assert_same, references, uniform_vectors, with_flags
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Trial, Workshop

NETWORKS = {
    "codes": lambda dtype: codes.every_operator(dtype, 23),
    "images": images.every_operator,
    "convolutions": lambda dtype: random_convolutions(np.random.default_rng(2), 2, dtype, dtype, 3),
    "sequences": lambda dtype: random_convolutions(np.random.default_rng(1), 1, dtype, "int8", 2),
}
VARIANTS = ("layerwise", "fused", "tensor")
IN_TEST = {("codes", "uint8", "fused"), ("images", "int8", "layerwise"), ("convolutions", "uint8", "fused")}
EVERY = [
    pytest.param(*each, marks=() if each in IN_TEST else pytest.mark.campaign)
    for each in ((name, dtype, variant) for name in NETWORKS for dtype in ("uint8", "int8") for variant in VARIANTS)
]


def trial(net: Network, variant: str, host: Profile, objects: Path, folder: Path, wrong: Sequence[Patch] = ()) -> Trial:
    """A program in which the GPU computes all layers that it can."""
    target = targets.find(f"cuda:{variant}")
    owners = [f"{layer.name}={'prepost' if target.unsupported(layer) else 'network'}" for layer in net.layers]
    items = {
        name: item.model_copy(update={"target": name_of})
        for (name, item), name_of in zip(host.items.items(), ("c", f"cuda:{variant}"), strict=True)
    }
    board = with_flags(host.model_copy(update={"items": items}), *FLAGS)
    return Workshop(board, objects, folder).trial(net, wrong, block=7, split=owners)


@pytest.mark.parametrize(("name", "dtype", "variant"), EVERY)
def test_every_operator_has_the_bits_of_the_reference(
    name: str, dtype: str, variant: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = NETWORKS[name](dtype)
    made = trial(net, variant, host, objects, tmp_path)
    vectors = uniform_vectors(net, 50, seed=1)
    assert_same(made.program.activations(vectors, tmp_path / "run"), references(net, vectors))


PROVED = ("conv", "largest", "mean", "padded", "product")
WRONG_ROW = Patch("kernels/cuda/window.cuh", "i * DILATION_Y - TOP;", "i * DILATION_Y - TOP + (POSITIONS == 15);")


@pytest.mark.campaign
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_proof_holds_and_refutes_a_wrong_window(variant: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    net = images.every_operator("uint8", *PROVED)
    assert trial(net, variant, host, objects, tmp_path / "right").refuted() == {}
    assert trial(net, variant, host, objects, tmp_path / "wrong", [WRONG_ROW]).refuted("conv")


def image_operators(dtype: str) -> Network:
    """Convolutions that the fused kernel tiles in different ways, sums, poolings and a dense layer."""
    rng, shift = np.random.default_rng(3), 0 if dtype == "uint8" else -128

    def weights(*shape: int) -> Array:
        return rng.integers(-127, 128, shape).astype(np.int8)

    def bias(channels: int) -> Array:
        return rng.integers(-3000, 3000, channels).astype(np.int32)

    constants = {
        "image": np.array([-1, 3, 17, 31], np.int64),
        "sx": np.float32(0.9), "sy": np.float32(0.37), "sw": np.float32(0.01), "sc": np.float32(2.3),
        "zx": np.array(100 + shift, dtype), "zy": np.array(141 + shift, dtype),
        "zw": np.int8(0), "z3": np.int8(3),
        "wide_w": weights(16, 3, 3, 3), "narrow_w": weights(16, 3, 1, 1), "depth_w": weights(16, 1, 3, 3),
        "grouped_w": weights(6, 8, 2, 3), "dense_w": weights(6 * 9 * 16, 5),
        "b16": bias(16), "b6": bias(6),
    }  # fmt: skip
    x, y, w = ["sx", "zx"], ["sy", "zy"], ["sw", "zw"]

    def conv(source: list[str], name: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
        return node("QLinearConv", *source, f"{name}_w", "sw", *inputs, output=name, **attributes)

    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", *x, output="q"),
        conv(["q", *x], "wide", "zw", *y, "b16", pads=[1, 1, 1, 1]),
        conv(["q", *x], "narrow", "zw", *x, "b16"),
        node("QLinearAdd", "wide", *y, "narrow", *x, *y, output="sum"),
        conv(["sum", *y], "depth", "zw", "sc", "zy", "b16", group=16, strides=[2, 2], pads=[1, 1, 1, 1]),
        conv(["depth", "sc", "zy"], "grouped", "z3", *x, "b6", group=2, dilations=[2, 1], pads=[0, 1, 2, 1]),
        node("QLinearConcat", *y, "grouped", *x, "depth", "sc", "zy", output="joined", axis=1),
        node("MaxPool", "grouped", output="largest", kernel_shape=[3, 2], strides=[2, 1], pads=[0, 1, 1, 0]),
        node("QLinearGlobalAveragePool", "largest", *x, *y, output="mean"),
        node("Flatten", "grouped", output="flat"),
        node("QLinearMatMul", "flat", *x, "dense_w", *w, "sc", "zy", output="dense"),
        node("Unsqueeze", "dense", "axes", output="made"),
    ]
    constants["axes"] = np.array([2, 3], np.int64)
    return images.image_network(nodes, constants, dtype, 3 * 17 * 31)


def interpreted_activations(net: Network, host: Profile, changed: Mapping[str, str] | None = None) -> tuple[Array, ...]:
    """The compiler's output of the fused kernel, executed; the texts of headers may be `changed`."""
    code = interpreted.device_code(net, host, "cuda:fused")
    text = interpreted.translated(code, changed=changed)
    ptx.inspect(text, build.fusing([code]))
    [kernel] = code.kernels
    calls = dict(calls_of(text))
    assert set(calls[kernel.name]) == set(re.findall(r"^ONE_CODE .*?(\w+)\(", code.text, re.MULTILINE))
    assert inlined(text) == []
    return interpreted.activations(net, code, text, uniform_vectors(net, 2, seed=4), carried=code.carried)


def test_the_compilers_output_computes_images(host: Profile) -> None:
    net = image_operators("uint8")
    assert_same(interpreted_activations(net, host), SpecificationReference(net).activations(uniform_vectors(net, 2, 4)))


WRONG = {
    "a border of code 0": ("fused.cuh", "(uint8_t)za * 0x01010101u", "0u"),
    "no border": ("fused.cuh", "inside[r] ? word : outside", "word"),
    "another channel": ("fused.cuh", "weights = b[i * DEPTH + w];", "weights = b[i * DEPTH + (w + 1) % COUNT];"),
    "the words of the first group": ("fused.cuh", "first * W::IMAGE * STRIDE", "0 * first * W::IMAGE * STRIDE"),
    "the rows of the kernel are its columns": (
        "fused.cuh",
        "W::row(p, y) + r * (APART / W::OUTPUT_WIDTH * W::ROW_STRIDE) : W::row(position, y)",
        "W::row(p, x) + r * (APART / W::OUTPUT_WIDTH * W::ROW_STRIDE) : W::row(position, x)",
    ),
    "another stride": ("window.cuh", "% COLUMNS * STRIDE_X", "% COLUMNS * (STRIDE_X > 1 ? STRIDE_X - 1 : 1)"),
    "no dilation": ("window.cuh", "i * DILATION_Y - TOP;", "i - TOP;"),
    "padding on the wrong side": ("window.cuh", "j * DILATION_X - LEFT", "j * DILATION_X - LEFT + 1"),
    "no zero point of the weights": (
        "fused.cuh",
        "const uint32_t z = (uint32_t)zb;",
        "const uint32_t z = (uint32_t)(0 * zb);",
    ),
    "the positions of a thread side by side": (
        "fused.cuh",
        "const unsigned at = p + r * APART, position",
        "const unsigned at = p + r, position",
    ),
    "a mean without its zero point": ("fused.cuh", "0u - (uint32_t)za * IMAGE", "0u - (uint32_t)za * (IMAGE - 1)"),
    "terms exchanged": ("rounding.cuh", "__fmaf_rn(a, b, c)", "__fmaf_rn(a, c, b)"),
    "channels in the place of positions": (
        "fused.cuh",
        "(channel / 4 * POSITIONS + n % POSITIONS)",
        "(n / 4 % (POSITIONS * 2))",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_differs_from_the_right_one(wrong: str) -> None:
    """The campaign changes text that the headers have."""
    file, old, new = WRONG[wrong]
    assert old != new
    assert interpreted.header(file).count(old) == 1


@pytest.mark.campaign
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_computes_other_values(wrong: str, host: Profile) -> None:
    file, old, new = WRONG[wrong]
    text = interpreted.header(file)
    net = image_operators("uint8")
    expected = SpecificationReference(net).activations(uniform_vectors(net, 2, 4))
    try:
        found = interpreted_activations(net, host, {file: text.replace(old, new)})
    except PtxError:
        return
    assert any(a.tobytes() != b.tobytes() for a, b in zip(found, expected, strict=True))


FUSED = interpreted.header("fused.cuh")


def test_every_barrier_is_left_out_by_a_test() -> None:
    barriers = *interpreted.BARRIERS_OF_DENSE, interpreted.BARRIER_OF_CODES, *interpreted.BARRIERS_OF_IMAGES
    assert sorted(set(barriers)) == list(range(FUSED.count(interpreted.BARRIER)))


def sums_of_codes(host: Profile, changed: Mapping[str, str] | None = None) -> tuple[Array, Array]:
    """Sums of a convolution with a stride of 2 that reads an image of 3 channels: found, and by the specification."""
    rng = np.random.default_rng(8)
    constants = {
        "image": np.array([-1, 3, 32, 32], np.int64),
        "s": np.float32(0.9), "z": np.uint8(100), "zw": np.int8(0),
        "w": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8), "b": rng.integers(-3000, 3000, 8).astype(np.int32),
    }  # fmt: skip
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", "s", "z", output="q"),
        node("QLinearConv", "q", "s", "z", "w", "s", "zw", "s", "z", "b", output="made", strides=[2, 2], pads=[1] * 4),
    ]
    net = images.image_network(nodes, constants, "uint8", 3 * 32 * 32)
    item = interpreted.item_code(net, host, "cuda:fused")
    assert "Accumulators<1, 2>" in item.kernels.text  # two positions of a thread, one below the other
    module = Module(interpreted.translated(item.kernels, changed=changed))
    layer, stage = net.layers[-1], item.tasks[-1].stages[0]
    assert isinstance(layer, QLinearConv)
    given = rng.integers(0, 256, (3, stage.input_width)).astype(np.uint8)
    found = np.zeros((3, layer.size), np.int32)
    interpreted.ask(module, item.kernels, item.kernels.kernels[0], stage, given, found)
    return found, layer.accumulate()(given).astype(np.int32)


def test_an_image_of_codes_is_read_by_words(host: Profile) -> None:
    found, expected = sums_of_codes(host)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.campaign
@pytest.mark.parametrize(
    "wrong",
    [
        FUSED.replace("return c + j < CHANNELS ? of(", "return true ? of("),
        FUSED.replace("APART / W::OUTPUT_WIDTH * W::ROW_STRIDE", "APART / W::OUTPUT_WIDTH"),
        interpreted.without_barrier(FUSED, interpreted.BARRIER_OF_CODES),
    ],
    ids=["behind the last channel", "another stride", "no barrier"],
)
def test_an_image_of_codes_that_is_read_wrongly_is_found(wrong: str, host: Profile) -> None:
    assert wrong != FUSED
    try:
        found, expected = sums_of_codes(host, {"fused.cuh": wrong})
    except PtxError:
        return
    assert found.tobytes() != expected.tobytes()


@pytest.mark.campaign
@pytest.mark.parametrize("barrier", interpreted.BARRIERS_OF_IMAGES)
def test_each_missing_barrier_is_a_race(barrier: int, host: Profile) -> None:
    """Those after words of a tile, after a copy to memory, and after the sums; test_kernels.py has those of QGemm."""
    broken = interpreted.without_barrier(FUSED, barrier)
    with pytest.raises(PtxError, match=r"races with|nothing wrote"):
        interpreted_activations(image_operators("uint8"), host, {"fused.cuh": broken})
