"""Wrong kernels: changed copies that the programs of this process are built from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.build import bundle
from harness.targets import KERNELS, c

HALF_AWAY = ("c/saturate.h", "rintf(v)", "roundf(v)")
HALF_AWAY_CAUSE = "rounding is half away from zero"


def change(kernels: Path, *changes: tuple[str, str, str]) -> None:
    """Change (file under kernels/, old text, new text) in a copy of them."""
    for file, old, new in changes:
        right = (kernels / file).read_text()
        (kernels / file).write_text(right.replace(old, new))
        assert (kernels / file).read_text() != right


def build_with(patch: pytest.MonkeyPatch, folder: Path, *changes: tuple[str, str, str]) -> None:
    """Let this process build its programs with kernels that are changed so, for processors, in a copy in `folder`."""
    kernels = shutil.copytree(KERNELS, folder / "kernels")
    change(kernels, *changes)
    for module in (bundle, c):
        patch.setattr(module, "KERNELS", kernels)
