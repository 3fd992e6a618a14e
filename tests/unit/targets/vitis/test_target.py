"""What a kernel is called, and what an FPGA says of itself against what the profile promises."""

from __future__ import annotations

import re

import pytest

from harness.boards.profile import Address, Profile
from harness.targets import find
from harness.targets.vitis import SIMULATION
from harness.targets.vitis.signature import LONGEST_NAME, kernel_name

TARGET = find("vitis")
KRIA = "edge, kernels 0123456789abcdef, xclbin 00112233-4455-6677-8899-aabbccddeeff"
DOUBLE = f"{SIMULATION}, kernels 0123456789abcdef"


@pytest.fixture
def hardware(host: Profile) -> Profile:
    return host.model_copy(update={"stand_ins": False, "local": False, "address": Address(host="board.lab")})


def test_the_double_is_where_stand_ins_are_and_nowhere_else(host: Profile, hardware: Profile) -> None:
    assert TARGET.check_device(host, DOUBLE) is None
    assert TARGET.check_device(hardware, KRIA) is None
    assert "but its double should be there" in (TARGET.check_device(host, KRIA) or "")
    assert "but a Kria's should be there" in (TARGET.check_device(hardware, DOUBLE) or "")
    assert (TARGET.environment(host), TARGET.environment(hardware)) == (SIMULATION, "hardware")


def test_a_device_that_xrt_plays_is_no_hardware(host: Profile, hardware: Profile) -> None:
    played = ", XCL_EMULATION_MODE=sw_emu, kernels 0123456789abcdef"
    assert "but a Kria's should be there" in (TARGET.check_device(hardware, f"edge{played}") or "")
    assert TARGET.check_device(host, f"{SIMULATION}{played}") is None


def test_a_name_is_the_first_layers_while_an_xclbin_has_room_for_it() -> None:
    """64 bytes for `<kernel>:<kernel>_1` and its zero."""
    assert kernel_name("dense_1") == "dense_1_kernel"
    assert kernel_name(23 * "x") == f"{23 * 'x'}_kernel"
    assert len(f"{23 * 'x'}_kernel") == LONGEST_NAME
    found = [kernel_name(f"{stem}{end}") for stem in (24 * "x", 14 * "x" + 20 * "_y", 64 * "z") for end in ("", "_1")]
    assert len(set(found)) == len(found)
    for name in found:
        assert len(f"{name}:{name}_1") < 64
        assert re.fullmatch(r"[xyz](_?[a-z0-9])*_[0-9a-f]{8}_kernel", name), name
