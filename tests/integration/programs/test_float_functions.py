"""Wrong functions of float32 on target c, which proofs refute; every float32 through the deployed code."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import model as networks
from harness.boards.profile import Profile
from harness.operators.softfloat import INFINITY_BITS
from tests.support.examples import first_of_each
from tests.support.functions import every_definition, every_function, layer_of
from tests.support.programs.board_program import Patch, with_flags
from tests.support.proof.trials import Workshop

WRONG = {
    "Exp with another coefficient": ("network.c", "0x1.555858p-5f", "0x1.55585ap-5f", "powers"),
    "Exp without the error of r": ("network.c", "v_12 - b_7;", "0.0f;", "powers"),
    "Exp that flushes subnormal results": ("network.c", "return v_36;", "return x < -87.4f ? 0.0f : v_36;", "powers"),
    "Exp of Softmax with another coefficient": ("network.c", "0x1.555858p-5f", "0x1.55585ap-5f", "soft"),
    "Tanh with another limit": ("network.c", "bits_of_float(0x1.4p-1f)", "bits_of_float(0x1.38p-1f)", "bent"),
    "Tanh without the sign of zero": ("network.c", "return v_59;", "return v_59 + 0.0f;", "bent"),
    "Sigmoid without the correction": ("network.c", "v_38 - v_43", "quotient_42", "logistic"),
    "Elu with a cancellation": ("network.c", "v_28 + v_29", "(v_28 + power_27) - 1.0f", "elu"),
    "Elu of -0": ("network.c", "(x) - 0x80000001u < 0x7f800000u", "(x) - 0x80000000u < 0x7f800001u", "elu"),
    "HardSigmoid with a wrong bound": ("network.c", "limit_1 = 0x0p+0f", "limit_1 = 0x1p-20f", "hard"),
    "HardSwish by a division": ("network.c", "x * 0x1.555556p-3f", "x / 6.0f", "swish"),
    "Softmax by a reciprocal": ("network.c", "out[k] / of_s[0]", "out[k] * (1.0f / of_s[0])", "soft"),
    "Softmax in the opposite order": ("network.c", "s_so_far + out[k]", "s_so_far + out[20 - k]", "soft"),
    "Softmax across rows": ("network.c", "s_so_far + out[i * 7 + k]", "s_so_far + out[k]", "soft_rows"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_function_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    file, old, new, layer = WRONG[wrong]
    path = file if file == "network.c" else f"kernels/c/{file}"
    trial = Workshop(with_flags(host, "-O2"), objects, tmp_path).trial(every_function(), [Patch(path, old, new)])
    assert trial.refuted(layer)


WRONG_DEFINITIONS = {
    "Floor toward zero": ("floorf(", "truncf(", "floor"),
    "Round half away from zero": ("rintf(", "roundf(", "round"),
    "Gelu with another factor": ("0x1.6a09e6p-1f", "0x1.6a09e8p-1f", "gelu"),
    "Sign of zero": ("(x) - 0x1u < 0x7f800000u", "(x) - 0x0u < 0x7f800001u", "sign"),
}


@pytest.mark.parametrize("wrong", WRONG_DEFINITIONS)
def test_a_wrong_operation_of_a_definition_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    old, new, layer = WRONG_DEFINITIONS[wrong]
    patches = [Patch("network.c", old, new)]
    trial = Workshop(with_flags(host, "-O2"), objects, tmp_path).trial(every_definition(), patches)
    assert trial.refuted(layer)


def test_contracted_operations_are_refuted(host: Profile, objects: Path, tmp_path: Path) -> None:
    contracting = Patch(
        "kernels/c/elementary.h", "#define EXP_BOUND", '#pragma GCC optimize("fp-contract=fast")\n#define EXP_BOUND'
    )
    trial = Workshop(with_flags(host, "-O3", "-march=native"), objects, tmp_path).trial(every_function(), [contracting])
    assert {layer for _, layer in trial.refuted()} >= {"powers", "bent", "logistic", "elu", "soft"}


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_every_float32_passes_through_the_deployed_code(host: Profile, objects: Path, tmp_path: Path) -> None:
    layer, content = layer_of("Tanh", width=3)
    net = networks.parse(content, "one")
    trial = Workshop(with_flags(host, "-O3", "-march=native"), objects, tmp_path).trial(net)
    claims = [question.ask() for question in trial.questions(all_floats=True)]
    assert [claim for claim in claims if not claim.holds] == []
    sweeps = [claim.question.cases for claim in claims if "bit patterns" in claim.question.method]
    assert sweeps == [3 * -(-(INFINITY_BITS + 1) // layer.size)] * 2


@pytest.mark.campaign
def test_the_first_wrong_float32_of_a_sweep_is_named(host: Profile, objects: Path, tmp_path: Path) -> None:
    """One input of 2^32 is wrong, of which samples know nothing."""
    _, content = layer_of("Tanh", width=1)
    wrong = Patch("network.c", "return v_59;", "return x == 0x1.234568p-140f ? 0.0f : v_59;")
    workshop = Workshop(with_flags(host, "-O3", "-march=native"), objects, tmp_path)
    trial = workshop.trial(networks.parse(content, "one"), [wrong])
    assert trial.refuted() == {}
    question = next(each for each in trial.questions(all_floats=True) if "bit patterns" in each.method)
    number = "8.169570047013684e-43"
    assert question.ask().counterexample == f"column 0: {number} becomes 0.0, expected {number}"
