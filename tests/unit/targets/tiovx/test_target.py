"""What a TIOVX says of itself, against what the profile promises."""

from __future__ import annotations

import platform

import pytest

from harness.boards.profile import Address, Profile
from harness.targets import find
from harness.targets.tiovx import DOUBLE

TARGET = find("tiovx:mpu")
TIOVX = "tiovx, MPU-0, kernels 2 (0123456789abcdef)"


def test_the_double_is_where_stand_ins_are_and_nowhere_else(host: Profile) -> None:
    hardware = host.model_copy(update={"stand_ins": False, "local": False, "address": Address(host="board.lab")})
    assert TARGET.check_device(host, f"{DOUBLE}, MPU-0") is None
    assert TARGET.check_device(hardware, TIOVX) is None
    assert "but its double should be there" in (TARGET.check_device(host, TIOVX) or "")
    assert "but TI's should be there" in (TARGET.check_device(hardware, f"{DOUBLE}, MPU-0") or "")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_emulation_for_a_pc_is_no_board(machine: str, host: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    found = TARGET.check_device(host.model_copy(update={"stand_ins": False}), TIOVX)
    assert (found is None) == (machine == "aarch64")
    assert machine == "aarch64" or "TIOVX on x86_64 is TI's emulation for PCs" in (found or "")
