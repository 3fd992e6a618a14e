"""The sizes of LiteRT's structs, by which `harness trace` attributes their bytes."""

import subprocess
from pathlib import Path

from harness.targets.litert import code

KERNELS = Path(__file__).parents[3] / "kernels"


def test_struct_sizes_are_those_of_the_compiler(tmp_path: Path) -> None:
    sizes = {"array": code.ARRAY, "launch": code.LAUNCH, "item": code.ITEM}
    checks = [f'_Static_assert(sizeof(struct litert_{name}) == {size}, "{name}");' for name, size in sizes.items()]
    source = tmp_path / "sizes.c"
    source.write_text("\n".join(['#include "litert.h"', *checks, ""]))
    folders = [f"-I{KERNELS / name}" for name in ("litert", "program")]
    command = ["gcc", "-fsyntax-only", "-DTIME_SOURCE=CLOCK_MONOTONIC", *folders, str(source)]
    subprocess.run(command, check=True)
