"""Machine code that is checked: the processor that IREE compiles for, and instructions that nobody can check."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.core.errors import ToolError
from harness.targets import machine_code
from harness.targets.iree import compiler

HASWELL = "cx16 lahf_lm popcnt ssse3 sse4_1 sse4_2 abm avx avx2 bmi1 bmi2 f16c fma movbe"
CASCADE_LAKE = f"{HASWELL} avx512bw avx512cd avx512dq avx512f avx512vl avx512_vnni"
SAPPHIRE_RAPIDS = f"{CASCADE_LAKE} avx512vbmi avx512_vbmi2 avx_vnni avx512_fp16 amx_tile amx_int8"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu sse sse2", ("x86-64", "")),
        (HASWELL.replace(" fma", ""), ("x86-64-v2", "")),
        (HASWELL, ("x86-64-v3", "")),
        (CASCADE_LAKE, ("x86-64-v4", "+avx512vnni")),
        (SAPPHIRE_RAPIDS, ("x86-64-v4", "+avx512vnni,+avx512vbmi,+avx512vbmi2")),
    ],
)
def test_iree_compiles_for_instructions_that_the_decoder_knows(
    flags: str, expected: tuple[str, str], host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"model name\t: a processor\nflags\t\t: {flags}\n")
    monkeypatch.setattr(compiler, "CPUINFO", cpuinfo)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    processor = compiler.processor_of(host)
    assert (processor.cpu, processor.features) == expected


def test_an_unknown_instruction_is_refused_with_its_bytes() -> None:
    returned = b"\xc3"
    assert list(machine_code.instructions("EM_X86_64", returned)) == ["ret"]
    vpdpwssd = bytes.fromhex("c4e25952c1")  # of AVX-VNNI
    with pytest.raises(ToolError, match="does not know, at byte 1: c4 e2 59 52 c1"):
        list(machine_code.instructions("EM_X86_64", returned + vpdpwssd))
