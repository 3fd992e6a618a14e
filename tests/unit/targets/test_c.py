"""The variants of target c: their names, what they refuse, what they put where."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from harness import model, targets
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.operators.exact.expression import argument, larger, select
from harness.operators.qgemm import QGemm
from harness.plan import planner
from harness.targets.c import expression
from harness.targets.c.code import TERM_LIMIT
from harness.targets.c.qgemm import offsets
from harness.targets.c.qgemm import packed as pack
from harness.targets.contraction import DEPTH_LIMIT, signed_weights
from tests.support import builders
from tests.support.programs.board_program import parse
from tests.support.programs.c_variants import VARIANTS, VECTOR, of_variant


def test_a_limit_that_no_number_reaches_is_left_out_unless_it_is_the_result_for_nan() -> None:
    x = argument("x")
    kept, _ = expression.statements(larger(abs(x), -1), {"x": "x"})
    left_out, _ = expression.statements(select(abs(x) < -1, -1.0, abs(x)), {"x": "x"})
    assert ["?" in "".join(lines) for lines in (kept, left_out)] == [True, False]


@pytest.fixture(scope="module")
def net() -> Network:
    options = {"zero_points": True, "per_column": True, "weights": "uint8", "argmax": True, "dequantize": True}
    return parse(builders.random_network(np.random.default_rng(2), (6, 19, 3), **options))


def qgemm_of(net: Network) -> QGemm:
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    return layer


def source(net: Network, host: Profile, target: str) -> str:
    return codegen.generate(planner.make(net, of_variant(host, target), block=1)).source


def test_the_bare_name_is_that_of_the_reference_and_the_others_are_its_variants() -> None:
    assert {"c", *VARIANTS} == {name for name in targets.names() if name.partition(":")[0] == "c"}
    assert targets.find("c").variant == ""
    assert targets.find(VECTOR).variant == "vector"


@pytest.mark.parametrize("name", ["c:", "c:fast", "cuda", "cuda:"])
def test_a_name_of_no_variant_is_answered_with_the_choices(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        targets.find(name)
    assert caught.value.message == f"unknown target {name!r}"
    assert ", ".join(targets.names()) in caught.value.hint


def resized(layer: QGemm, depth: int, width: int) -> QGemm:
    """The layer with these sizes; its weights are repeated, its other constants are as they are."""
    read, made = dataclasses.replace(layer.input, shape=(depth,)), dataclasses.replace(layer.output, shape=(width,))
    return dataclasses.replace(layer, inputs=(read,), output=made, weights=np.resize(layer.weights, (depth, width)))


@pytest.mark.parametrize("name", ["c", *VARIANTS])
def test_a_sum_that_could_leave_int32_is_refused(name: str, net: Network) -> None:
    deep = resized(qgemm_of(net), DEPTH_LIMIT + 1, 1)
    assert f"{DEPTH_LIMIT + 1} inputs" in (targets.find(name).unsupported(deep) or "")
    assert targets.find(name).unsupported(qgemm_of(net)) is None


def test_code_without_loops_is_refused_where_it_would_be_absurd(net: Network) -> None:
    most = resized(qgemm_of(net), 400, TERM_LIMIT // 400)
    assert targets.find("c:unrolled").unsupported(most) is None
    reason = targets.find("c:unrolled").unsupported(resized(most, 400, most.size + 1))
    assert reason == "100,400 products, but code without loops is limited to 100,000 a layer; take c:inlined"


@pytest.mark.parametrize(("depth", "width"), [(1, 1), (4, 16), (5, 17), (50, 50), (7, 33)])
def test_every_weight_is_at_its_documented_place_and_zeros_are_elsewhere(depth: int, width: int) -> None:
    weights = np.random.default_rng(3).integers(1, 128, (depth, width)).astype(np.int8)
    groups, panels = -(-depth // 4), -(-width // 16)
    packed = pack(weights)
    assert packed.shape == (panels * groups, 64)
    flat = packed.reshape(-1)
    for k in range(depth):
        for n in range(width):
            assert flat[((n // 16 * groups + k // 4) * 16 + n % 16) * 4 + k % 4] == weights[k, n]
    assert np.count_nonzero(flat) == depth * width


@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_both_offsets_give_the_same_accumulator(activations: str) -> None:
    options = {"activations": activations, "zero_points": True}
    layer = qgemm_of(parse(builders.random_network(np.random.default_rng(5), (9, 20), **options)))
    limits = np.iinfo(layer.input.dtype)
    codes = np.random.default_rng(6).integers(limits.min, limits.max + 1, 9)
    weights, zero_points = signed_weights(layer)
    flipped = codes - 128 if activations == "uint8" else codes + 128
    corrections = zero_points.astype(np.int64) * codes.sum()
    plain, other = (
        (start + given @ weights.astype(np.int64) - corrections).astype(np.uint32).view(np.int32)
        for start, given in zip(offsets(layer).astype(np.int64), (codes, flipped), strict=True)
    )
    centered = weights.astype(np.int64) - zero_points
    assert plain.tolist() == (layer.bias + (codes - layer.a_zero_point) @ centered).tolist()
    assert other.tolist() == plain.tolist()


def test_the_shapes_are_what_their_names_say(net: Network, host: Profile) -> None:
    bodies = {name: stage_bodies(source(net, host, name)) for name in VARIANTS}
    assert not re.search(r"\bfor\b|\bwhile\b|\[[a-z]\]", "".join(bodies["c:unrolled"].values()))
    assert "_weights[" not in source(net, host, "c:unrolled")
    generic = [body for stage, body in bodies["c:generic"].items() if not stage.startswith("generic_")]
    assert all(re.fullmatch(r"\s*(out\[0\] = )?generic_\w+\(.*\);\s*", body) for body in generic)
    assert "for (size_t k = 0; k < 6u; ++k)" in bodies["c:inlined"]["layer_0_accumulate"]
    assert bodies["c:unrolled"]["layer_0_accumulate"].count("in[5]") == 19


def test_layers_of_one_operator_share_a_function_without_their_sizes(host: Profile) -> None:
    bodies = stage_bodies(source(model.load(ROOT / "models" / "lenet5.onnx"), host, "c:generic"))
    shared = {name: body for name, body in bodies.items() if name.startswith("generic_")}
    operators = sorted(name.split("_")[1] for name in shared)
    assert operators == ["averagepool", "conv", "gemm", "softmax", "tanh"]
    assert not re.search(r"; \w+ < \d|\[[^]]*\* \d", "".join(shared.values()))


def stage_bodies(text: str) -> dict[str, str]:
    """The bodies of the functions that are one code for the schedule and the proof."""
    found = re.findall(r"^static ONE_CODE void (\w+)\([^)]*\)\n\{\n(.*?)\n\}\n", text, re.MULTILINE | re.DOTALL)
    return dict(found)
