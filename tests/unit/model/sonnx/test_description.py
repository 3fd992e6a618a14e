"""The description of a model in the structure of the safety-related profile."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx
import pytest

from harness import model as networks
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.model.sonnx import describe
from harness.operators.node import domain_of
from tests.support.every_operator import NETWORKS

HEADINGS = [
    "Signature", "Restrictions", "Definition", "Inputs, attributes and outputs", "Constraints", "Error conditions",
    "Accuracy",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_every_operator_has_all_sections_in_one_order(network: Callable[[], Network]) -> None:
    built = network()
    nodes = onnx.ModelProto.FromString(built.onnx_bytes).graph.node
    head, *sections = re.split(r"^## ", "".join(describe(built)), flags=re.MULTILINE)
    assert head.startswith(f"# {built.name}: description")
    names = list(dict.fromkeys(".".join(filter(None, (domain_of(node), node.op_type))) for node in nodes))
    assert [section.partition("\n")[0] for section in sections] == names
    for section in sections:
        title, *parts = re.split(r"^### ", section, flags=re.MULTILINE)
        assert [part.partition("\n")[0] for part in parts] == HEADINGS, title
        assert all(part.partition("\n")[2].strip() for part in parts), title


def test_a_shipped_network_states_restrictions_constraints_and_accuracy() -> None:
    text = "".join(describe(networks.load(ROOT / "models" / "lenet5.onnx")))
    for line in (
        "`Y = Conv(X, W, [B])`",
        "| R3 | attribute group is 1 or the number of channels of X | transient |",
        "| conv_1_tanh | input: float32 [vectors, 6, 24, 24] |  | output: float32 [vectors, 6, 24, 24] |",
        "- C5: `X.shape[1] = W.shape[1]`",
        "ONNX states real numbers: ONNX Runtime is within the a-priori bound of any order of the operations.",
        "- `hyperbolic_tangent` is within 1.35 ulp of the real function.",
    ):
        assert line in text.splitlines()


def test_sums_of_codes_state_their_limits() -> None:
    text = "".join(describe(networks.load(ROOT / "models" / "acas_coc.onnx")))
    assert "- dense_1: sums are in int32, from -71311 to 66334" in text
    assert "The operator is not in the list of the profile (REQ OP 000)." in text
