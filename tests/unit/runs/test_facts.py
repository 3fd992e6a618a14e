from __future__ import annotations

import json
import math
from typing import Any

import pytest

from harness.analysis.compare import Difference
from harness.runs.entries import RunDocument, WholeOutputEntry
from harness.runs.facts import clean, gather, place, value_text, whole_text


def test_sums_of_a_run_that_differs(differing: dict[str, Any]) -> None:
    facts = gather(RunDocument.view(differing))
    assert (facts.compared, facts.differing) == (4_500_000, 12 + 1234 + 31_415 + 2)
    assert [layer.name for layer in facts.differing_layers] == ["dense_1", "dense_2", "scores", "advisory"]


def test_an_emulated_board_is_not_hardware_whatever_its_items_say(identical: dict[str, Any]) -> None:
    for item in identical["plan"]["items"]:
        item["ran_on"] = "hardware"
    facts = gather(RunDocument.view(identical))
    assert (facts.where, facts.on_hardware, facts.stand_ins) == ("on an emulated board", False, ())


def test_one_stand_in_is_enough(identical: dict[str, Any]) -> None:
    identical["board"]["kind"] = "hardware"
    identical["plan"]["items"][0]["ran_on"] = "hardware"
    identical["plan"]["items"][1]["ran_on"] = "host-simulation of CUDA"
    facts = gather(RunDocument.view(identical))
    assert (facts.where, facts.on_hardware) == ("on hardware, in part by stand-ins", False)
    assert [item.name for item in facts.stand_ins] == ["network"]


@pytest.mark.parametrize("kind", ["hardware", "this machine"])
def test_all_on_hardware(identical: dict[str, Any], kind: str) -> None:
    identical["board"]["kind"] = kind
    for item in identical["plan"]["items"]:
        item["ran_on"] = "hardware"
    facts = gather(RunDocument.view(identical))
    assert (facts.where, facts.on_hardware) == (f"on {kind}", True)


def test_a_virtual_machine_is_not_called_hardware(identical: dict[str, Any]) -> None:
    identical["board"]["kind"] = "virtual machine"
    for item in identical["plan"]["items"]:
        item["ran_on"] = "virtual machine"
    facts = gather(RunDocument.view(identical))
    assert (facts.where, facts.on_hardware) == ("on a virtual machine", False)


def test_identical_is_refused_for_a_layer_that_differs(identical: dict[str, Any]) -> None:
    identical["layers"][3]["differing"] = 1
    with pytest.raises(ValueError, match="the verdict is identical, but 1 layers differ"):
        gather(RunDocument.view(identical))


def test_differs_is_refused_if_nothing_differs(identical: dict[str, Any]) -> None:
    identical["verdict"] = "differs"
    with pytest.raises(ValueError, match="the verdict is differs, but 0 layers differ"):
        gather(RunDocument.view(identical))


def test_identical_is_refused_for_what_was_not_compared(identical: dict[str, Any]) -> None:
    identical["layers"][3]["compared"] = 0
    with pytest.raises(ValueError, match="nothing was compared of: dense_3"):
        gather(RunDocument.view(identical))
    with pytest.raises(ValueError, match="nothing was compared of: any layer"):
        gather(RunDocument.view(identical | {"layers": []}))


def test_inconclusive_is_shown_as_neither(identical: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not 'inconclusive'"):
        gather(RunDocument.view(identical | {"verdict": "inconclusive"}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12, "12"),
        (-128, "-128"),
        (0.0, "0.0 (0x00000000)"),
        (-0.0, "-0.0 (0x80000000)"),
        (0.10000000149011612, "0.1 (0x3dcccccd)"),
        (math.inf, "inf (0x7f800000)"),
        ("-Infinity", "-inf (0xff800000)"),
        (math.nan, "NaN"),
        ("NaN", "NaN"),
    ],
)
def test_a_float32_shows_its_bits(value: float | str, text: str) -> None:
    assert value_text(value) == text


def test_place_counts_with_separators() -> None:
    assert place(Difference(17_041, 3, 0, 1)) == "vector 17,041, unit 3"


def test_clean_removes_what_no_file_holds_and_keeps_the_rest() -> None:
    dirty = {"a\x00\x1b": ["x\x7f\x85\ud800y", ("\ufffe", "ä→\U0001f600\t\n")], "n": 1, "none": None, "f": 0.5}
    assert clean(dirty) == {"a": ["xy", ["", "ä→\U0001f600\t\n"]], "n": 1, "none": None, "f": 0.5}


def test_clean_removes_marks_that_reorder_a_line() -> None:
    assert clean("not \u202eidentical\u2069") == "not identical"


def test_clean_leaves_a_document_as_it_is(differing: dict[str, Any]) -> None:
    assert clean(differing) == json.loads(json.dumps(differing))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({}, "logits within 0.3 % of the propagated bound (at most 0.00012), 4 vectors"),
        ({"vectors": 1, "ratio": 0.0}, "logits within 0 % of the propagated bound (at most 0.00012), 1 vector"),
        ({"compared": 30}, "logits within 0.3 % of the propagated bound (at most 0.00012), 30 of 40 values"),
        (
            {"compared": 0, "bound": 0.0, "ratio": 0.0},
            "logits has no bound: codes before it can differ, or the errors of all layers exceed its values",
        ),
    ],
)
def test_an_output_of_the_whole_network(entry: dict[str, Any], text: str) -> None:
    whole = {"output": "logits", "vectors": 4, "values": 40, "compared": 40, "bound": 1.2e-4, "ratio": 0.003}
    assert whole_text(WholeOutputEntry.view(whole | entry)) == text
