"""The check finds violations, and accepts only those that are listed and occur."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.targets import KERNELS
from tests.campaigns.misra.__main__ import main
from tests.campaigns.misra.check import Deviation, Violation, counts, deviations, unlisted, violations

PLANTED = """#include "saturate.h"

static int32_t planted(int32_t value)
{
    if (value > 3)
        goto end;
    value = round_saturated(1.0f, 0, 3, value);
end:
    return value;
}

int32_t called(void) { return planted(4); }
"""


def test_a_planted_violation_is_not_listed(tmp_path: Path) -> None:
    shutil.copytree(KERNELS / "c", tmp_path / "kernels" / "c")
    (tmp_path / "network.c").write_text(PLANTED)
    found = violations(tmp_path)
    assert any(one.rule == "12.1" and one.text == "v = v > low ? v : low;" for one in found)
    wrong = unlisted(found, deviations())
    assert ("15.1", "network.c", 6, "goto end;") in {(one.rule, one.file, one.line, one.text) for one in wrong}


def test_a_deviation_covers_its_rule_in_its_files_and_lines_only() -> None:
    listed = [Deviation("12.1", "kernels/c/*", r"\? v", "why"), Deviation("15.1", "network.c", ".", "why")]
    covered = Violation("12.1", "kernels/c/saturate.h", 30, "v = v > low ? v : low;")
    others = [
        Violation("12.2", covered.file, 30, covered.text),
        Violation("12.1", "network.c", 30, covered.text),
        Violation("12.1", covered.file, 31, "v = low;"),
    ]
    assert unlisted([covered, *others], listed) == others
    assert counts([covered, *others], listed) == {listed[0]: 1, listed[1]: 0}


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_every_program_has_listed_violations_only() -> None:
    assert main() == 0
