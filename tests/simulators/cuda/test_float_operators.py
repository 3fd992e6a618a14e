"""Operators of float32 and moves on the GPU's kernels: the bits of the specification, their proof, wrong kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.core.errors import ToolError
from harness.model import parse as parse_model
from harness.model.network import Network
from harness.operators import float_contraction, obligations
from harness.reference.specification import SpecificationReference
from harness.targets import KERNELS
from harness.targets.cuda import build, ptx
from harness.targets.cuda.code import DeviceCode
from harness.targets.cuda.ptx_syntax import parse
from tests.campaigns.mutation.target_cuda import past_the_inspection
from tests.integration.programs import test_float_operators as terms
from tests.simulators.cuda import interpreted
from tests.simulators.cuda.test_stages import calls_of, inlined
from tests.simulators.test_accelerator_programs import FLAGS
from tests.support import float_images, functions, images, integers
from tests.support.builders import make_model
from tests.support.programs.board_program import Patch, assert_same, with_flags
from tests.support.programs.c_variants import of_variant
from tests.support.proof.trials import Workshop

LAYERWISE, FUSED = "cuda:layerwise", "cuda:fused"
MOVES = ("largest", "transposed", "part", "framed")


def masked() -> Network:
    """Return a network that adds a causal mask, 0 and minus infinity, before a Softmax."""
    mask = np.where(np.tri(4) > 0, 0, -np.inf).astype(np.float32)
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["rows"], name="rows"),
        helper.make_node("Add", ["rows", "mask"], ["kept"], name="kept"),
        helper.make_node("Softmax", ["kept"], ["soft"], name="soft", axis=-1),
        helper.make_node("Flatten", ["soft"], ["y"], name="y"),
    ]
    constants = {"shape": np.array([-1, 4, 4]), "mask": mask}
    return parse_model(make_model(nodes, constants, {"y": ("float32", 16)}, width=16).SerializeToString(), "masked")


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "images": float_images.every_operator,
    "functions": functions.every_function,
    "definitions": functions.every_definition,
    "terms": terms.every_operator,
    "masked": masked,
    "uint8": lambda: images.every_operator("uint8", *MOVES),
    "int8": lambda: images.every_operator("int8", *MOVES),
    **integers.NETWORKS,
    "windows": lambda: float_images.every_operator("windows", "groups", "unbounded", "wider", "voxels"),
}
IN_BOTH = ("images", "functions", "definitions", "terms", "masked", "int8", *integers.NETWORKS)
CASES = [(target, name) for target in (LAYERWISE, FUSED) for name in IN_BOTH]
PARTS = {f"part of {name}": partial(network, (0, 5)) for name, network in integers.NETWORKS.items()}
# The kernels of (LAYERWISE, "images") are also those that wrong kernels are compared with below.
ALTERNATING = [
    ((FUSED, LAYERWISE)[number % 2], name)
    for number, name in enumerate([*(name for name in IN_BOTH if name not in integers.NETWORKS), *PARTS])
]
"""The kernels that are compiled in `make test`; those of all networks are in `make campaigns`."""
OTHERS = [case for case in CASES if case not in ALTERNATING]
IN_TEST = [pytest.param(*case, marks=() if case == (FUSED, "images") else pytest.mark.campaign) for case in CASES]
"""The interpreter, which takes less time, has the others in `make test`."""


def vectors_of(net: Network, count: int) -> Array:
    """Vectors of several magnitudes, a third of them with equal values and zeros of both signs."""
    rng, shape = np.random.default_rng(1), (count, net.vector.size)
    numbers = rng.normal(0, 3, shape) * rng.choice([1, 30], (count, 1))
    numbers[::3] = rng.choice([0, -0.0, -1, 1e-39], numbers[::3].shape)
    numbers[::6] = rng.choice([0, -0.0], numbers[::6].shape)
    return numbers.astype(np.float32)


@pytest.mark.parametrize(("target", "name"), IN_TEST)
def test_the_simulation_has_the_bits_of_the_specification(
    target: str, name: str, host: Profile, objects: Path, tmp_path: Path
) -> None:
    net = NETWORKS[name]()
    trial = Workshop(with_flags(of_variant(host, target), *FLAGS), objects, tmp_path).trial(net, block=7)
    vectors = vectors_of(net, 60)
    assert_same(trial.program.activations(vectors, tmp_path / "run"), SpecificationReference(net).activations(vectors))


@pytest.mark.parametrize(
    ("target", "name"), [*ALTERNATING, *(pytest.param(*case, marks=pytest.mark.campaign) for case in OTHERS)]
)
def test_the_compilers_output_has_the_bits_of_the_specification(target: str, name: str, host: Profile) -> None:
    net = (NETWORKS | PARTS)[name]()
    code, vectors = interpreted.device_code(net, host, target), vectors_of(net, 12)
    text = interpreted.compiled(code)
    functions = [name for name, _ in calls_of(text) if name.endswith("_compute")]
    made = re.findall(r"^ONE_CODE \w+ (\w+_compute)\(", code.text, re.MULTILINE)
    assert (sorted(functions), inlined(text)) == (sorted(made), [])
    found = interpreted.activations(net, code, text, vectors)
    assert_same(found, SpecificationReference(net).activations(vectors))


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 times fewer than in a proof."""
    monkeypatch.setattr(obligations, "VALUES", obligations.VALUES >> 6)
    monkeypatch.setattr(float_contraction, "WORK_OF_A_PROOF", float_contraction.WORK_OF_A_PROOF >> 6)


@pytest.mark.parametrize(
    ("target", "name"),
    [pytest.param(*case, marks=() if case == (LAYERWISE, "terms") else pytest.mark.campaign) for case in CASES],
)
@pytest.mark.usefixtures("few_samples")
def test_the_proof_holds(target: str, name: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    workshop = Workshop(with_flags(of_variant(host, target), "-O2"), objects, tmp_path)
    assert workshop.trial(NETWORKS[name](), block=7).refuted() == {}


FLOATS, WINDOW = "floats.cuh", "window.cuh"
GENERATED = "network.cu"
Wrong = tuple[str, str, str, str]
"""A file with a text in it, what stands there instead, and the layers that are wrong for it."""

OF_VALUES: Sequence[Wrong] = (
    (GENERATED, "= A - B;", "= B - A;", "difference relative"),
    (GENERATED, "= A / B;", "= A * (1.0f / B);", "halved quotient ratio"),
    (GENERATED, "y_3_1 / 0x1.8p+1f", "y_3_1 * (1.0f / 0x1.8p+1f)", "mean_of_terms"),
    (GENERATED, "(operand_3 > y_2_0)", "(operand_3 >= y_2_0)", "upper"),
    (GENERATED, "(operand_3 < y_2_0)", "(operand_3 > y_2_0)", "lower"),
    (GENERATED, "(x < low) ? low : x", "(x < low) ? high : x", "positive"),
    (GENERATED, "v_1 = slope * x", "v_1 = (x < -2.0f) ? slope * x : x", "sloped"),
    (GENERATED, "v_0 / deviation", "v_0 * (1.0f / deviation)", "normalised"),
    (GENERATED, "x_0[k_1] * rows_weights[k_1 *", "x_0[8 - k_1] * rows_weights[(8 - k_1) *", "rows"),
    (GENERATED, "x_0[k_5 * 42 + i] - total_1", "x_0[(8 - k_5) * 42 + i] - total_1", "of_channels"),
    (GENERATED, "c + j_1 - 2", "c + 4 - j_1 - 2", "responses"),
    (GENERATED, "linear_rows[1][i1]", "linear_rows[0][i1]", "linear"),
    (GENERATED, "aligned_rows[1][i1]", "aligned_rows[0][i1]", "aligned"),
    (GENERATED, " - 1] > total_1)", " - 1] >= total_1)", "largest"),
    (GENERATED, "total_1 / padded_count[p * 3 + q]", "total_1 * (1.0f / padded_count[p * 3 + q])", "padded"),
    (GENERATED, "x_0[g * 126 + c_1", "x_0[c_1", "groups"),
    (WINDOW, "above % STRIDE_Y == 0 && ", "", "wider"),
    (GENERATED, "gathered_places[n]", "gathered_places[n ? n - 1 : 0]", "gathered"),
    (GENERATED, "83 - i1 * 6", "77 - i1 * 6", "reflected"),
)  # fmt: skip
VALUE = "x_0[c_1 * 42 + (p * 2 + i_1 - 1) * 6 + q + j_1]"
WEIGHT = "windows_weights[m * 54 + c_1 * 6 + i_1 * 2 + j_1]"
CONTRACTED: Sequence[Wrong] = (
    (GENERATED, f"v_0 = {VALUE} * {WEIGHT};\n            const float v_1 = total_1 + v_0;",
     f"v_1 = fmaf({VALUE}, {WEIGHT}, total_1);", "windows"),
    (FLOATS, "__fadd_rn(acc, __fmul_rn(x[at], weights[m * INPUTS * W::SIZE + k]))",
     "fmaf(x[at], weights[m * INPUTS * W::SIZE + k], acc)", "wider"),
    (GENERATED, "v_0 = x_0[k_1] * rows_weights[k_1 * 19 + m];\n            const float v_1 = total_1 + v_0;",
     "v_1 = fmaf(x_0[k_1], rows_weights[k_1 * 19 + m], total_1);", "rows"),
    (GENERATED, "v_3 = v_2 + offset", "v_3 = fmaf(v_1, scale, offset)", "normalised"),
    (GENERATED, "responses_bias[0] + v_0", "fmaf(responses_factor[0], total_1, responses_bias[0])", "responses"),
    (GENERATED, "v_8 = v_3 + v_7", "v_8 = fmaf(v_6, bottom, v_3)", "linear aligned"),
)  # fmt: skip
# With the factors of `aligned`, multiples of a half, few products are rounded.
MISTAKES: Mapping[str, tuple[str, Sequence[Wrong]]] = {
    "values and orders": ("images", OF_VALUES),
    "rows and columns swapped": (
        "windows",
        [(GENERATED, VALUE, "x_0[c_1 * 42 + (q + j_1) * 7 + p * 2 + i_1 - 1]", "windows")],
    ),
    "the last column cut off": ("windows", [(GENERATED, "< 7u && q + j_1 < 6u", "< 7u && q + j_1 < 5u", "windows")]),
    "contracted sums": ("images", [(*change, names.replace(" aligned", "")) for *change, names in CONTRACTED]),
    "no bias": (
        "windows",
        [(FLOATS, "__fadd_rn(bias[m], 0.0f)", "0.0f", "wider"), (GENERATED, "windows_bias[m] + ", "", "windows")],
    ),
    "functions": (
        "functions",
        [
            (GENERATED, "0x1.fffffcp-2f", "0x1.fffff8p-2f", "powers logistic elu soft soft_rows"),
            (GENERATED, "-0x1.555532p-2f", "-0x1.5555p-2f", "bent"),
            (GENERATED, "(w_2 < 0x0p+0f)", "(w_2 < 0x1p-3f)", "hard swish"),
        ],
    ),
    "terms": (
        "terms",
        [
            (GENERATED, "(x < 0x0p+0f)", "(x < -1.0f)", "rectified"),
            (GENERATED, "= A * B;", "= A * (B * 1.0000001f);", "scaled product"),
            (GENERATED, "return x_1[i1", "return x_2[i1", "joined"),
        ],
    ),
}


def wrong_text(net: Network, host: Profile, mistakes: Sequence[Wrong]) -> tuple[DeviceCode, str]:
    """The device code of a network, and its PTX where the kernels have these mistakes."""
    code, changed = interpreted.device_code(net, host, LAYERWISE), {}
    for file, old, new, _ in mistakes:
        text = code.text if file == GENERATED else changed.get(file) or (KERNELS / "cuda" / file).read_text()
        assert old in text
        changed[file] = text.replace(old, new)
        if file == GENERATED:
            code = replace(code, text=changed.pop(file))
    return code, interpreted.translated(code, changed=changed)


def layers_of(mistakes: Sequence[Wrong]) -> set[str]:
    return {name for *_, names in mistakes for name in names.split()}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_kernels_compute_wrong_layers_and_no_others(name: str, host: Profile) -> None:
    """A layer is wrong if its output is not that of its own inputs."""
    net, mistakes = NETWORKS[MISTAKES[name][0]](), MISTAKES[name][1]
    vectors = vectors_of(net, 30)
    made = interpreted.activations(net, *wrong_text(net, host, mistakes), vectors)
    found = {net.vector.name: vectors} | {layer.output.name: each for layer, each in zip(net.layers, made, strict=True)}
    with np.errstate(all="ignore"):
        right = [layer.prepare()(*(found[source] for source in layer.sources)) for layer in net.layers]
    wrong = {
        layer.name
        for layer, *each in zip(net.layers, made, right, strict=True)
        if each[0].tobytes() != each[1].tobytes()
    }
    assert wrong == layers_of(mistakes)


def test_the_build_refuses_every_contracted_sum(host: Profile) -> None:
    code, text = wrong_text(NETWORKS["images"](), host, CONTRACTED)
    fused = {each.name for each in parse(text).functions if any(i.opcode == "fma.rn.f32" for i in each.body)}
    assert fused - {"self_test"} == {f"{layer}_compute" for layer in layers_of(CONTRACTED)}
    with pytest.raises(ToolError, match="rounds a product and a sum once"):
        ptx.inspect(text, build.fusing([code]))


@pytest.mark.campaign
@pytest.mark.usefixtures("few_samples")
def test_the_proof_finds_every_contracted_sum(host: Profile, objects: Path, tmp_path: Path) -> None:
    """Sums that the build would refuse are refuted."""
    patches = [Patch(f"kernels/cuda/{file}", old, new) for file, old, new, _ in CONTRACTED]
    with past_the_inspection() as refusals:
        workshop = Workshop(with_flags(of_variant(host, LAYERWISE), "-O2"), objects, tmp_path)
        trial = workshop.trial(NETWORKS["images"](), patches)
    assert "rounds a product and a sum once" in refusals[0].message
    assert {layer for _, layer in trial.refuted()} == layers_of(CONTRACTED)
