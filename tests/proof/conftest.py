from __future__ import annotations

import numpy as np
import pytest

from harness import plan
from harness.profile import Profile
from harness.proof import rounding
from tests import builders
from tests.kernels.board_program import compile_common, parse, with_flags
from tests.proof.trials import Workshop


@pytest.fixture(scope="session")
def workshop(host: Profile, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """This machine, with kernels/common compiled once; programs take longer to compile than to run."""
    board, folder = with_flags(host, "-O0"), tmp_path_factory.mktemp("workshop")
    made = plan.make(parse(builders.random_network(np.random.default_rng(0), (1, 1))), board)
    return Workshop(board, compile_common(made, board, folder / "common"), folder)


@pytest.fixture(autouse=True)
def _few_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the thresholds of QuantizeLinear, of which none is left out."""
    monkeypatch.setattr(rounding, "SPREAD_VALUES", 1 << 16)
