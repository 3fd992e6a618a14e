"""Wrong operators on float32 on target c, which proofs refute."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from tests.support import float_terms
from tests.support.examples import first_of_each
from tests.support.programs.board_program import Patch, with_flags
from tests.support.proof.trials import Workshop

WRONG = {
    "Relu by fmax": (
        "network.c",
        "(in[n] < limit_0) ? limit_0 : in[n]",
        "(in[n] > limit_0) ? in[n] : limit_0",
        "rectified",
    ),
    "LeakyRelu with another bound": ("network.c", "(x) - 0x80000001u <", "(x) - 0xc0000001u <", "leaky"),
    "LeakyRelu by the next alpha": ("network.c", "alpha * x;", "alpha * 1.0000001f * x;", "leaky"),
    "Clip to a wrong bound": ("network.c", "(x < low) ? low", "(x < low) ? low * 1.0000001f", "clipped"),
    "Mul in double precision": ("network.c", "= A * B;", "= (float)((double)A * B * (1 + 0x1p-40));", "scaled"),
    "Sub with the terms exchanged": ("network.c", "= A - B;", "= B - A;", "from_row"),
    "Concat out of order": ("network.c", "out[i1 + 4] = in_1[i1]", "out[i1 + 8] = in_1[i1]", "joined"),
    "Reshape that forgets a value": ("network.c", "out[i0] = in[i0];", "out[i0] = in[i0 & 2];", "square"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("wrong", first_of_each(WRONG))
def test_a_wrong_operator_is_refuted(wrong: str, host: Profile, objects: Path, tmp_path: Path) -> None:
    file, old, new, layer = WRONG[wrong]
    path = file if file == "network.c" else f"kernels/c/{file}"
    workshop = Workshop(with_flags(host, "-O2"), objects, tmp_path)
    trial = workshop.trial(float_terms.every_operator(), [Patch(path, old, new)])
    assert trial.refuted(layer)
