"""The bytes of activations: by hand for small networks, and the table of the documentation."""

from __future__ import annotations

import re

import pytest

from harness import model as networks
from harness.boards.profile import Profile
from harness.core.installation import ROOT
from harness.plan import memory, planner
from tests.support.conformance import plans

TABLE = re.compile(r"^\| `(\w+_int8)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]*) ?\|$", re.MULTILINE)


def test_a_chain_by_hand(host: Profile) -> None:
    """x: 3 floats, quantize: 3 codes, layers: 8, 8 and 4 codes, dequantize: 4 floats, advisory: 1 int64."""
    plan = planner.make(plans.chain((3, 8, 8, 4)), host)
    found = memory.of(plan)
    assert found.own == 12 + 3 + 8 + 8 + 4 + 16 + 8
    assert found.shared == 12 + 24, "dequantize with its source below and advisory above"
    assert found.tflm == 32, "two neighbours of 16 bytes each"
    assert found.acetone == 2 * 16


def test_a_network_with_branches_is_no_sequence(host: Profile) -> None:
    assert memory.of(planner.make(plans.branches(), host)).acetone is None


@pytest.mark.slow
def test_the_table_of_the_documentation_is_computed(host: Profile) -> None:
    rows = TABLE.findall((ROOT / "docs" / "reference" / "plans.md").read_text(encoding="utf-8"))
    assert len(rows) == 5
    for name, *figures in rows:
        net = networks.parse((ROOT / "models" / f"{name}.onnx").read_bytes(), name)
        found = memory.of(planner.make(net, host, block=1))
        printed = [f"{each:,}" if each else "" for each in (found.own, found.shared, found.tflm, found.acetone)]
        assert figures == printed, name
