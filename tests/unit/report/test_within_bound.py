"""The verdict `within bound` in the report, in JUnit XML and on the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report import html, junit
from tests.unit.report.test_html import Page, tables
from tests.unit.report.test_junit import parse, properties
from tests.unit.report.test_terminal import shown

OUTPUTS = [{"layer": "advisory", "values": 300_000, "unequal": 5, "largest": 0.25}]


@pytest.fixture
def within(identical: dict[str, Any]) -> dict[str, Any]:
    identical["layers"][1]["bounded"] = {"ratio": 0.125, "unequal": 1234}
    identical["layers"][2]["bounded"] = {"ratio": 0.5, "unequal": 6}
    return identical | {"verdict": "within bound", "network_outputs": OUTPUTS, "reason": "all hold"}


def test_the_page_says_what_holds_and_that_it_is_not_identical(within: dict[str, Any]) -> None:
    page = Page(html(within))
    assert page.within("strong")[0] == "Within bound"
    assert (
        "4,500,000 activations of 11 layers over 100,000 vectors were compared with the specification for the inputs "
        "that the board computed: 2 layers within a bound, the others bit for bit. All hold; the largest difference is "
        "50 % of its bound."
    ) in page.prose
    assert "Not accepted, exit code 1: --accept bound accepts" in page.prose
    assert "advisory: 5 of 300,000 values have other bits than the reference, at most 0.25 apart" in page.prose
    layers = next(table for table in tables(html(within)) if "Its own" in table[0])
    assert [row[0] for row in layers[1:5]] == ["=", "≈", "≈", "="]
    assert [row[-3:] for row in layers[1:4]] == [["", "", "none"], ["12.5 %", "1,234", "none"], ["50 %", "6", "none"]]
    assert layers[-1][-3:] == ["50 %", "1,240", ""]
    assert 'class="verdict within bound"' in html(within)
    assert "Accepted by --accept bound." in Page(html(within | {"accepted": "within bound"})).prose


@pytest.mark.parametrize(("accepted", "failures"), [({}, 2), ({"accepted": "within bound"}, 0)])
def test_a_bounded_layer_passes_only_if_it_is_accepted(
    within: dict[str, Any], accepted: dict[str, str], failures: int
) -> None:
    suite = parse(within | accepted)
    assert suite.attrib["failures"] == str(failures)
    failed = [case.attrib["name"] for case in suite.findall("testcase") if len(case)]
    assert failed == ["dense_1", "dense_2"][:failures]
    assert properties(suite)["bounded.0"] == (
        "dense_1 (c): largest difference 12.5 % of the bound; 1,234 of 400,000 values have other bits"
    )


def test_a_bounded_layer_is_skipped_in_a_run_that_differs(within: dict[str, Any]) -> None:
    within["layers"][5] |= {"differing": 3, "own": 3}
    suite = parse(within | {"verdict": "differs"})
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("1", "2")


def test_the_terminal_says_how_to_accept_it(within: dict[str, Any]) -> None:
    lines = shown(within)
    assert "within bound: all hold" in lines
    assert "dense_2 (c): largest difference 50 % of the bound; 6 of 400,000 values have other bits" in lines
    assert any(line.startswith("not accepted, exit code 1: --accept bound") for line in lines)


@pytest.mark.parametrize("ratio", [1.5, "Infinity"])
def test_a_ratio_above_1_is_a_share_of_over_100_percent(within: dict[str, Any], ratio: Any) -> None:
    within["layers"][1] |= {"bounded": {"ratio": ratio, "unequal": 9}, "differing": 9, "own": 9}
    lines = shown(within | {"verdict": "differs"})
    share = "150 %" if ratio == 1.5 else "infinite"
    assert f"dense_1 (c): largest difference {share} of the bound; 9 of 400,000 values have other bits" in lines


@pytest.mark.parametrize(
    ("verdict", "layer", "message"),
    [
        ("identical", {}, "the verdict is identical, but 2 layers are bounded"),
        ("within bound", {"differing": 1}, "the verdict is within bound, but 1 layers differ"),
    ],
)
def test_a_contradiction_makes_no_report(
    within: dict[str, Any], verdict: str, layer: dict[str, int], message: str
) -> None:
    within["layers"][1] |= layer
    with pytest.raises(ValueError, match=message):
        junit(within | {"verdict": verdict})


def test_without_a_bounded_layer_nothing_is_within_bound(identical: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the verdict is within bound, but 0 layers are bounded"):
        junit(identical | {"verdict": "within bound"})
