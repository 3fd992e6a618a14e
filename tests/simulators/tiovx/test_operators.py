"""Every operator of the core: activations, what a proof says of them, and kernels that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import targets
from harness.boards.profile import Profile
from harness.model.network import Network
from harness.plan import planner
from harness.targets.tiovx import windows
from tests.simulators.test_accelerator_programs import FLAGS
from tests.simulators.tiovx.boards import with_dsp
from tests.support import codes, images
from tests.support.programs.board_program import (
    BoardProgram,
    Patch,
    assert_same,
    build_patched,
    references,
    run_sanitized,
    uniform_vectors,
)
from tests.support.programs.convolutions import random_convolutions
from tests.support.proof.trials import Workshop

TYPES = {"u8u8": ("uint8", "uint8"), "u8s8": ("uint8", "int8"), "s8s8": ("int8", "int8")}
VECTORS = 40


def convolutions(seed: int, types: str, axes: int = 2, layers: int = 3) -> Network:
    return random_convolutions(np.random.default_rng(seed), axes, *TYPES[types], layers)


NETWORKS = {
    "convolutions of uint8": lambda: convolutions(14, "u8u8"),
    "convolutions of uint8 by int8": lambda: convolutions(24, "u8s8"),
    "convolutions of int8": lambda: convolutions(7, "s8s8"),
    "convolutions of sequences": lambda: convolutions(2, "u8s8", 1),
    "images of uint8": lambda: images.every_operator("uint8"),
    "images of int8": lambda: images.every_operator("int8"),
    "codes of uint8": lambda: codes.every_operator("uint8", 37),
    "codes of int8": lambda: codes.every_operator("int8", 37),
    "images joined": lambda: images.image_network(
        [
            codes.node("Reshape", "x", "image", output="images"),
            codes.node("QuantizeLinear", "images", "one", "zero", output="q"),
            codes.node("MaxPool", "q", output="largest", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            codes.node("Concat", "q", "largest", "q", output="y", axis=1),
        ],
        {"image": np.array([-1, 2, 5, 4]), "one": np.float32(1), "zero": np.array(-7, np.int8)},
        "int8",
        2 * 5 * 4,
    ),
    "a stride of 3": lambda: images.image_network(
        [
            codes.node("Reshape", "x", "image", output="images"),
            codes.node("QuantizeLinear", "images", "one", "zero", output="q"),
            codes.node("MaxPool", "q", output="y", kernel_shape=[1, 2], strides=[1, 3]),
        ],
        {"image": np.array([-1, 1, 1, 17]), "one": np.float32(1), "zero": np.array(128, np.uint8)},
        "uint8",
        17,
    ),
}


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tile have few rows, so that small images have several."""
    monkeypatch.setattr(windows, "TILE_BYTES", 90)


def built(net: Network, host: Profile, folder: Path, *patches: Patch, **choices: object) -> BoardProgram:
    board = with_dsp(host)
    plan = planner.make(net, board, block=16)
    assert {type(layer) for layer in net.layers} & set(targets.find("tiovx:c7x").lowerings)
    return build_patched(plan, board, folder, patches, **({"flags": FLAGS} | choices))  # type: ignore[arg-type]


@pytest.mark.half_of_cases
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_activation_is_that_of_the_specification(name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    net = NETWORKS[name]()
    vectors = uniform_vectors(net, VECTORS, seed=8)
    assert_same(
        built(net, host, tmp_path, objects=objects).activations(vectors, tmp_path / "out"), references(net, vectors)
    )


@pytest.mark.campaign
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("seed", range(100, 140))
def test_random_convolutions(seed: int, host: Profile, objects: Path, tmp_path: Path) -> None:
    net = convolutions(seed, list(TYPES)[seed % 3], 2 - seed % 4 // 3)
    vectors = uniform_vectors(net, VECTORS, seed)
    assert_same(
        built(net, host, tmp_path, objects=objects).activations(vectors, tmp_path / "out"), references(net, vectors)
    )


@pytest.mark.campaign
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("name", ["convolutions of uint8", "images of int8", "codes of int8"])
def test_nothing_is_read_or_written_beyond_a_buffer(name: str, host: Profile, tmp_path: Path) -> None:
    net = NETWORKS[name]()
    vectors = uniform_vectors(net, VECTORS, seed=8)
    flags = ["-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = built(net, host, tmp_path / "bundle", flags=flags)
    done = run_sanitized(program, vectors, tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same(program.read_dumps(tmp_path), references(net, vectors))


@pytest.mark.campaign
@pytest.mark.parametrize("name", NETWORKS)
def test_the_proof_holds(name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    """Constants in their layout, sums, roundings, tables of codes."""
    assert Workshop(with_dsp(host), objects, tmp_path).trial(NETWORKS[name](), block=7).refuted() == {}


TILES, CONV, MAX, MEAN, WHOLE, PAIRS, CODES, CALLBACKS = (
    f"kernels/tiovx/target/{name}"
    for name in (
        "windows.h",
        "qlinear_conv.c",
        "max_pool.c",
        "qlinear_average_pool.c",
        "qlinear_global_average_pool.c",
        "code_pairs.c",
        "codes.c",
        "callbacks.c",
    )
)
IMAGES, SUMS, GROUPS, STRIDE_3 = "images of int8", "codes of int8", "convolutions of uint8", "a stride of 3"
MUTANTS = {
    "rows of the border are 0": (IMAGES, TILES, "memset(tile, (int)w->outside, width)", "memset(tile, 0, width)"),
    "the border's left is the image's": (IMAGES, TILES, "x < w->left && x < width", "x < w->left && x + 1 < w->left"),
    "the border's right is left out": (IMAGES, TILES, "end > w->left ? end : w->left", "end + 1"),
    "the first channel for all": (IMAGES, TILES, "(c * w->height + row", "(0 * c + row"),
    "the first group for all": (IMAGES, TILES, "panel.group * w->inputs * w->height", "0 * w->inputs * w->height"),
    "codes not flipped": (IMAGES, TILES, "image[x - w->left] ^ flip", "image[x - w->left] ^ (0 & flip)"),
    "stride of columns forgotten": (GROUPS, TILES, "window % w->columns * w->stride_x", "window % w->columns"),
    "stride of rows forgotten": (IMAGES, TILES, "window / w->columns * w->stride_y", "window / w->columns"),
    "stride between tiles forgotten": (IMAGES, TILES, "y * w->stride_y + r", "y + r"),
    "dilation of rows forgotten": ("convolutions of int8", TILES, "i * w->dilation_y)", "i)"),
    "dilation of columns forgotten": (IMAGES, TILES, "+ j * w->dilation_x;", "+ j;"),
    "the last tile as high as others": (IMAGES, TILES, "w->rows - y < w->band ? w->rows - y : w->band", "w->band"),
    "the first tile for all": (IMAGES, TILES, "panel.position = y * w->columns + p", "panel.position = p"),
    "windows side by side where some are missing": (STRIDE_3, TILES, "panel->lanes == LANES &&", ""),
    "weights of the first channel": (IMAGES, CONV, "&weights[(first + n) *", "&weights[(first + 0 * n) *"),
    "offsets of the first group": (IMAGES, CONV, "(offset[first + n] +", "(offset[n] +"),
    "the weights' zero point left out": (GROUPS, CONV, "zb ? (uint32_t)zb[first + n]", "0 && zb ? (uint32_t)zb[0]"),
    "a value further": (IMAGES, CONV, "values_of(panel, k + i, room", "values_of(panel, k + i / 3, room"),
    "a table of thresholds for all": (IMAGES, CONV, "&table[n * THRESHOLDS]", "&table[0 * n]"),
    "thresholds of the first group": (IMAGES, CONV, "panel->group * w->outputs * THRESHOLDS", "0 * THRESHOLDS"),
    "a threshold further": (IMAGES, CONV, "&table[n * THRESHOLDS]", "&table[n * THRESHOLDS + (n == 0)]"),
    "the smallest value": (IMAGES, MAX, "codes[lane] > largest[lane]", "k == 0 || codes[lane] < largest[lane]"),
    "the largest value not flipped back": (IMAGES, MAX, "largest[lane] ^ (uint8_t)constants->flip", "largest[lane]"),
    "the last value of a window left out": (IMAGES, MAX, "k < size;", "k + 1 < size;"),
    "the count of the first window": (IMAGES, MEAN, "rows[panel->position + lane]", "rows[0]"),
    "the unit of the terms": (IMAGES, MEAN, "panel->windows->exponent)", "panel->windows->exponent + 1)"),
    "the offset of a mean left out": (IMAGES, WHOLE, "sum = offset[c]", "sum = 0 * offset[c]"),
    "the terms of a pair exchanged": (SUMS, PAIRS, "*a, const uint8_t *b,", "*b, const uint8_t *a,"),
    "the second term is the first": (SUMS, PAIRS, "row(&work->sources[1], v)", "a"),
    "the constant term a place further": (SUMS, PAIRS, "+ (b[n] ^ flip)", "+ (b[n ? n - 1 : 0] ^ flip)"),
    "the first input's codes for all": (SUMS, CODES, "codes[source * CODE_COUNT", "codes[0 * source"),
    "an input in the place of the next": (SUMS, CODES, "row(&work->sources[i], v), y", "row(&work->sources[0], v), y"),
    "the first source for all": (SUMS, CALLBACKS, "mapped[first_of(parameters, which)]", "mapped[SOURCE]"),
}  # fmt: skip
IN_THE_SUITE = {
    "rows of the border are 0",
    "the first group for all",
    "stride between tiles forgotten",
    "a threshold further",
    "the count of the first window",
    "the terms of a pair exchanged",
}


@pytest.mark.half_of_cases
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    "mutant", [pytest.param(name, marks=() if name in IN_THE_SUITE else pytest.mark.campaign) for name in MUTANTS]
)
def test_a_mutant_is_found(mutant: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    name, *patch = MUTANTS[mutant]
    net = NETWORKS[name]()
    vectors = uniform_vectors(net, VECTORS, seed=8)
    program = built(net, host, tmp_path, Patch(*patch), flags=[*FLAGS, "-w"], objects=objects)
    np.save(tmp_path / "vectors.npy", vectors)
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path)
    assert done.returncode != 0 or any(
        a.tobytes() != b.tobytes() for a, b in zip(program.read_dumps(tmp_path), references(net, vectors), strict=True)
    )
