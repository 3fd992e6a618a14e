"""cuda:tensor: wide layers on tensor cores, whose instructions are simulated and whose compiled code is interpreted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.boards.profile import Profile
from harness.build import bundle
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.contraction import Contraction
from harness.plan import planner
from harness.reference.specification import SpecificationReference
from harness.targets.cuda import build, ptx
from harness.targets.cuda.code import DeviceCode
from tests.integration.programs.test_operators import COMPILED, half_way_vectors
from tests.simulators.cuda import interpreted
from tests.simulators.cuda.test_stages import inlined
from tests.simulators.ptx.errors import PtxError
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import builders, images
from tests.support.codes import node, require_exact_products
from tests.support.programs.board_program import (
    Patch,
    assert_same,
    build_patched,
    parse,
    references,
    uniform_vectors,
    with_flags,
)
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Workshop

TARGET = "cuda:tensor"
ARCHS = ("sm_72", "sm_75", "sm_87")
"""One for each instruction; sm_90 has that of sm_87."""
INSTRUCTIONS = {
    "sm_72": "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
    "sm_75": "mma.sync.aligned.m8n8k16.row.col.s32.{}.s8.s32",
    "sm_87": "mma.sync.aligned.m16n8k32.row.col.s32.{}.s8.s32",
}


def for_gpu(host: Profile, *archs: str) -> Profile:
    """The profile of a board with other GPUs."""
    return type(host).model_validate(host.model_dump() | {"cuda": {"archs": list(archs)}})


def wide_images(dtype: str) -> Network:
    """Convolutions of one and of many channels at a place, and dense layers; their sizes are whole tiles nowhere."""
    rng, shift = np.random.default_rng(6), 0 if dtype == "uint8" else -128

    def weights(*shape: int) -> Array:
        return rng.integers(-128, 128, shape).astype(np.int8)

    def bias(channels: int) -> Array:
        return rng.integers(-3000, 3000, channels).astype(np.int32)

    constants = {
        "image": np.array([-1, 3, 9, 7], np.int64), "places": np.array([2, 3], np.int64),
        "sx": np.float32(0.9), "sy": np.float32(0.37), "sw": np.float32(0.01), "sc": np.float32(2.3),
        "zx": np.array(100 + shift, dtype), "zy": np.array(141 + shift, dtype), "z0": np.int8(0), "z3": np.int8(3),
        "few_w": weights(16, 3, 3, 3), "many_w": weights(40, 16, 3, 2), "point_w": weights(70, 40, 1, 1),
        "deep_w": weights(70 * 20, 19), "flat_w": weights(19, 130), "z130": rng.integers(-9, 10, 130).astype(np.int8),
        "s130": rng.uniform(0.004, 0.02, 130).astype(np.float32),
        "s70": rng.uniform(0.004, 0.02, 70).astype(np.float32), "z70": np.zeros(70, np.int8),
        "b16": bias(16), "b40": bias(40), "b70": bias(70),
    }  # fmt: skip
    x, y, w = ["sx", "zx"], ["sy", "zy"], ["sw", "z0"]
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", *x, output="q"),
        node("QLinearConv", "q", *x, "few_w", "sw", "z3", *y, "b16", output="few", pads=[1, 1, 1, 1]),
        node("QLinearConv", "few", *y, "many_w", *w, *x, "b40", output="many", strides=[2, 1], dilations=[1, 3],
             pads=[1, 0, 1, 0]),
        node("QLinearConv", "many", *x, "point_w", "s70", "z70", "sc", "zy", "b70", output="point"),
        node("Flatten", "point", output="flat"),
        node("QLinearMatMul", "flat", "sc", "zy", "deep_w", *w, *x, output="deep"),
        node("QLinearMatMul", "deep", *x, "flat_w", "s130", "z130", "sc", "zy", output="made"),
        node("Unsqueeze", "made", "places", output="made_image"),
    ]  # fmt: skip
    return images.image_network(nodes, constants, dtype, 3 * 9 * 7)


def interpreted_activations(
    net: Network, host: Profile, arch: str, vectors: Array, changed: Mapping[str, str] | None = None
) -> tuple[tuple[Array, ...], str]:
    """What the compiler's output computes, and that; the texts of headers may be `changed`."""
    code = interpreted.device_code(net, host, TARGET)
    text = interpreted.translated(code, arch, changed)
    ptx.inspect(text, build.fusing([code]))
    return interpreted.activations(net, code, text, vectors), text


KINDS = ("uint8", "int8", "int8")
IN_TEST = {("sm_72", "uint8"), ("sm_87", "int8")}
EVERY = [
    pytest.param(*each, marks=() if each in IN_TEST else pytest.mark.campaign)
    for each in ((arch, dtype) for arch in ARCHS for dtype in ("uint8", "int8"))
]


@pytest.mark.parametrize(("arch", "dtype"), EVERY)
def test_the_compilers_output_has_the_bits_of_the_reference(arch: str, dtype: str, host: Profile) -> None:
    net = wide_images(dtype)
    vectors = uniform_vectors(net, 5, seed=4)
    found, text = interpreted_activations(net, host, arch, vectors)
    device_text = interpreted.device_code(net, host, TARGET).text
    assert_same(found, SpecificationReference(net).activations(vectors))
    wide = re.findall(r"^ONE_CODE void (\w+)_accumulate", device_text, re.MULTILINE)
    assert wide == ["few", "many", "point", "deep", "made"]
    assert {opcode for opcode in re.findall(r"\bw?mma\.(?:mma\.)?sync\S+", text) if "store" not in opcode} == {
        INSTRUCTIONS[arch].format({"uint8": "u8", "int8": "s8"}[dtype])
    }
    assert inlined(text) == []


def patch(header: str, old: str, new: str) -> Patch:
    return Patch(f"kernels/cuda/{header}.cuh", old, new)


def simulated_activations(net: Network, board: Profile, folder: Path, vectors: Array, *wrong: Patch) -> list[Array]:
    """What the program computes with the simulation in which each thread of a warp has its registers.

    What is not a sum has another kind of kernels, whose headers are beside those of tensor cores.
    """
    owners = [f"{layer.name}={'network' if isinstance(layer, Contraction) else 'prepost'}" for layer in net.layers]
    plan = planner.make(net, board, ["cuda:fused", TARGET], block=7, split=owners)
    program = build_patched(plan, board, folder / "bundle", wrong, flags=FLAGS)
    return list(program.activations(vectors, folder / "out"))


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [("sm_87", "uint8"), *(pytest.param(*each, marks=pytest.mark.campaign) for each in zip(ARCHS, KINDS, strict=True))],
)
def test_the_simulation_has_the_bits_of_the_reference(arch: str, dtype: str, host: Profile, tmp_path: Path) -> None:
    if dtype == "uint8":
        require_exact_products()
    net = wide_images(dtype)
    vectors = uniform_vectors(net, 30, seed=1)
    found = simulated_activations(net, for_gpu(host, arch), tmp_path, vectors)
    assert_same(found, references(net, vectors))


@st.composite
def wide_models(draw: st.DrawFn) -> Network:
    """Convolutions of all forms, or dense layers of all types."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]))
    if draw(st.booleans()):
        return random_convolutions(rng, draw(st.sampled_from([1, 2])), *kinds, 3)
    widths = draw(st.lists(st.integers(14, 260), min_size=2, max_size=3))
    choices = {name: draw(st.booleans()) for name in ("per_column", "zero_points", "power_of_two", "float_output")}
    model: onnx.ModelProto = builders.random_network(rng, widths, activations=kinds[0], weights=kinds[1], **choices)  # type: ignore[arg-type]
    return parse(model)


@pytest.mark.campaign
@settings(COMPILED, max_examples=25)
@given(net=wide_models(), arch=st.sampled_from(ARCHS), count=st.sampled_from([1, 63, 130]), seed=st.integers(0, 99))
def test_the_compilers_output_computes_random_networks(
    net: Network, arch: str, count: int, seed: int, host: Profile
) -> None:
    vectors = half_way_vectors(net, count, seed)
    assert_same(interpreted_activations(net, host, arch, vectors)[0], SpecificationReference(net).activations(vectors))


@pytest.mark.campaign
@settings(COMPILED, max_examples=8)
@given(net=wide_models(), arch=st.sampled_from(ARCHS), seed=st.integers(0, 99))
def test_the_simulation_computes_random_networks(
    net: Network, arch: str, seed: int, host: Profile, tmp_path_factory: pytest.TempPathFactory
) -> None:
    vectors, folder = half_way_vectors(net, 130, seed), tmp_path_factory.mktemp("random")
    assert_same(simulated_activations(net, for_gpu(host, arch), folder, vectors), references(net, vectors))


FIRST = "mma_16_8_32<A>(sums[n], low.x, high.x, low.y, high.y, column.x, column.y);"
SECOND = "mma_16_8_32<A>(sums[n], low.z, high.z, low.w, high.w, column.z, column.w);"
PLACE = "action(g + i / 2 * 8, 8 * n + 2 * t + i % 2, sums[n][i]);"
GROUP = "const uint4 low = a[t * a_pitch + g], high = a[t * a_pitch + g + 8];"
COLUMN = "const uint4 column = b[t * b_pitch + 8 * n + g];"
CHUNK = "row.position, step * STEP + c * CHUNK, za);"
WRONG: Mapping[str, tuple[str, str, str, str]] = {
    "halves of the rows exchanged": ("sm_87", "mma", FIRST, FIRST.replace("low.x, high.x", "high.x, low.x")),
    "registers of a by products, then by rows": (
        "sm_87",
        "mma",
        FIRST,
        FIRST.replace("low.x, high.x, low.y, high.y", "low.x, low.y, high.x, high.y"),
    ),
    "words of b exchanged": ("sm_87", "mma", SECOND, SECOND.replace("column.z, column.w", "column.w, column.z")),
    "half of the products": ("sm_87", "mma", SECOND, ""),
    "rows of a by threads of a group": ("sm_87", "mma", GROUP, GROUP.replace("+ g]", "+ g / 2 * 2]")),
    "columns of b in the order of threads": ("sm_87", "mma", COLUMN, COLUMN.replace("+ g]", "+ 7 - g]")),
    "sums at rows and columns exchanged": (
        "sm_87",
        "mma",
        PLACE,
        "action(2 * t + i % 2 + i / 2 * 8, 8 * n + g, sums[n][i]);",
    ),
    "sums of neighbouring columns exchanged": ("sm_87", "mma", PLACE, PLACE.replace("+ i % 2,", "+ 1 - i % 2,")),
    "sums of both halves exchanged": ("sm_87", "mma", PLACE, PLACE.replace("i / 2 * 8", "(1 - i / 2) * 8")),
    "signed codes of unsigned ones": ("sm_87", "mma", 'DEFINE_MMA(uint8_t, "u8")', 'DEFINE_MMA(uint8_t, "s8")'),
    "rows of the upper half twice": ("sm_75", "mma", "sums[n][3], high.w, column.w);", "sums[n][3], low.w, column.w);"),
    "128 not subtracted of the codes": ("sm_72", "tensor", "return codes ^ LESS * 0x01010101u;", "return codes;"),
    "128 not added to the sums": ("sm_72", "tensor", "if (Multiplicand<A>::LESS != 0)", "if (false)"),
    "columns read as rows": (
        "sm_72",
        "mma",
        "wmma_load_b(columns, &b[c * b_pitch + 16 * n]);",
        "wmma_load_b(columns, &b[c * b_pitch]);",
    ),
    "the first chunk only": ("sm_72", "mma", "&a[c * a_pitch]", "&a[0 * c * a_pitch]"),
    "no zero point of the weights": ("sm_87", "tensor", "acc -= (uint32_t)zb[n] *", "acc -= 0 *"),
    "zero point of another column": ("sm_87", "tensor", "(uint32_t)zb[n] *", "(uint32_t)zb[n ^ 1] *"),
    "the codes of one step in the sum of codes": (
        "sm_87",
        "tensor",
        "codes = dot4<C, int8_t>(chunk.x, 0x01010101u, codes);",
        "codes = dot4<C, int8_t>(chunk.x, 0x01010101u, 0);",
    ),
    "no offset": ("sm_87", "tensor", "(uint32_t)sum + offset[n];", "(uint32_t)sum;"),
    "a border of code 0": ("sm_87", "tensor", "words[w] = (uint8_t)za * 0x01010101u;", "words[w] = 0;"),
    "a border of code 0 at single channels": (
        "sm_87",
        "tensor",
        "vector[channel * W::IMAGE + from] : za;",
        "vector[channel * W::IMAGE + from] : 0;",
    ),
    "no tail of the products": (
        "sm_87",
        "tensor",
        "STEPS = (DEPTH + STEP - 1) / STEP",
        "STEPS = DEPTH < STEP ? 1 : DEPTH / STEP",
    ),
    "codes behind the last product": ("sm_87", "tensor", "if (first + i < DEPTH)", "if (true)"),
    "the products of the first step": ("sm_87", "tensor", CHUNK, CHUNK.replace("step * STEP + ", "")),
    "weights of the first tile": ("sm_87", "tensor", "&weights[(tile.first_column + n) *", "&weights[n *"),
    "the first tile alone": ("sm_87", "tensor", "number += gridDim.x", "number += Of::count(vectors)"),
    "the rows of the first warp": ("sm_87", "tensor", "sums.add(&staged_a[first],", "sums.add(&staged_a[0],"),
    "rows and columns of the kernel exchanged": (
        "sm_87",
        "tensor",
        "W::row(position, place / W::KERNEL_WIDTH)",
        "W::row(position, place % W::KERNEL_WIDTH)",
    ),
    "the first place of a chunk for all": ("sm_87", "tensor", "at(position, ++place);", "at(position, place);"),
    "the multiplier of the first output": ("sm_87", "tensor", "finish(acc, DENSE ? n / 4 : n);", "finish(acc, 0);"),
    "vectors behind the last": (
        "sm_87",
        "tensor",
        "return row.vector < vectors && column < WIDTH;",
        "return column < WIDTH;",
    ),
}
"""By what is wrong: the architecture where it shows, the header, what stands there, and what does then."""
OF_FRAGMENTS = [name for name, (_, header, *_) in WRONG.items() if header == "mma" and "signed" not in name]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_differs_from_the_right_one(wrong: str) -> None:
    """The campaign changes text that the headers have."""
    _, header, old, new = WRONG[wrong]
    assert old != new
    assert old in interpreted.header(f"{header}.cuh")


@pytest.mark.campaign
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_kernel_computes_other_values(wrong: str, host: Profile) -> None:
    arch, header, old, new = WRONG[wrong]
    text = interpreted.header(f"{header}.cuh")
    net = wide_images("uint8")
    vectors = uniform_vectors(net, 5, seed=4)
    try:
        found, _ = interpreted_activations(net, host, arch, vectors, {f"{header}.cuh": text.replace(old, new)})
    except PtxError:
        return
    expected = SpecificationReference(net).activations(vectors)
    assert any(a.tobytes() != b.tobytes() for a, b in zip(found, expected, strict=True))


@pytest.mark.campaign
@pytest.mark.parametrize("wrong", OF_FRAGMENTS)
def test_the_simulation_finds_wrong_registers(wrong: str, host: Profile, tmp_path: Path) -> None:
    arch, *change = WRONG[wrong]
    net = wide_images("uint8")
    vectors = uniform_vectors(net, 9, seed=4)
    found = simulated_activations(net, for_gpu(host, arch), tmp_path, vectors, patch(*change))
    expected = SpecificationReference(net).activations(vectors)
    assert any(a.tobytes() != b.tobytes() for a, b in zip(found, expected, strict=True))


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("arch", "file", "barrier"),
    [*(("sm_87", "tensor.cuh", number) for number in range(4)), *(("sm_72", "mma.cuh", number) for number in range(2))],
)
def test_each_missing_barrier_is_a_race(arch: str, file: str, barrier: int, host: Profile) -> None:
    broken = interpreted.without_barrier(interpreted.header(file), barrier)
    net = wide_images("uint8")
    with pytest.raises(PtxError, match=r"races with|nothing wrote"):
        interpreted_activations(net, host, arch, uniform_vectors(net, 5, seed=4), {file: broken})


@pytest.mark.campaign
def test_the_proof_holds_and_refutes_wrong_sums(host: Profile, objects: Path, tmp_path: Path) -> None:
    """The last layer has outputs that do not fill words."""
    net = parse(builders.random_network(np.random.default_rng(3), (16, 20, 17), zero_points=True, per_column=True))
    items = {name: item.model_copy(update={"target": TARGET}) for name, item in host.items.items()}
    workshop = Workshop(with_flags(host.model_copy(update={"items": items}), "-O2"), objects, tmp_path)
    assert workshop.trial(net, block=7).refuted() == {}
    wrong = patch(*WRONG["no zero point of the weights"][1:])
    assert workshop.trial(net, [wrong], block=7).refuted("layer_0")


def test_a_gpu_without_tensor_cores_is_refused(host: Profile) -> None:
    net = wide_images("int8")
    old = for_gpu(host, "sm_61", "sm_62")
    plan = planner.make(net, old, [TARGET, TARGET])
    with pytest.raises(RequestError) as caught:
        bundle.check_targets(plan, old)
    assert caught.value.message == (
        "board host: cuda:tensor needs tensor cores for int8, which sm_72 and later have, and the board's GPU is "
        "sm_61, sm_62"
    )
    assert caught.value.hint == "choose cuda:layerwise or cuda:fused with --items, or in boards.yaml"
    bundle.check_targets(planner.make(net, old, ["cuda:layerwise"] * 2), old)


def test_code_is_for_the_gpus_with_tensor_cores(host: Profile) -> None:
    both = for_gpu(host, "sm_61", "sm_75")
    codes: dict[str, DeviceCode] = {
        target: interpreted.device_code(wide_images("int8"), both, target) for target in (TARGET, "cuda:layerwise")
    }
    images_of = {target: build.COMPILER.sources([code], both)[build.IMAGES].decode() for target, code in codes.items()}
    assert re.findall(r"network_(sm_\d+)\.cubin", images_of[TARGET]) == ["sm_75"]
    assert re.findall(r"network_(sm_\d+)\.cubin", images_of["cuda:layerwise"]) == ["sm_61", "sm_75"]
