"""docs/results/mutation.md is of the mutants that there are, and says what the cells say."""

from __future__ import annotations

import re

import pytest

from harness import targets
from harness.analysis.proof import ProofStep
from tests.campaigns.mutation.campaign import Guard, Named, Outcome
from tests.campaigns.mutation.faults import FAULTS
from tests.campaigns.mutation.mutants import MUTANTS, TARGETS
from tests.campaigns.mutation.networks import NETWORKS, networks_of
from tests.campaigns.mutation.page import DOUBLE, FABRIC, INTRODUCTION, PAGE, Cell, cell_text, page
from tests.campaigns.mutation.target_tiovx import C7X, MPU
from tests.campaigns.mutation.target_vitis import VITIS

SAME_KERNELS = (
    MPU,  # those of C7X, registered by the program itself
    "c:generic",
    "c:inlined",
    *(f"vitis:fold{fold}" for fold in (2, 4, 8, 16)),  # products that share a multiplier in time
    "c:unrolled",  # the formulas of c in other shapes, see tests/integration/programs/test_c_variants.py
    "cuda:tensor",  # its own wrong kernels are in tests/simulators/cuda/test_tensor.py
    "iree:static",  # code of a compiler, from formulas as text; tests/integration/targets/iree changes constants
    "litert:builtin",  # a library computes, in which nothing can be changed; its files have wrong constants in
    "litert:xnnpack",  # tests/integration/targets/litert
)
NAMES = [mutant.name for mutant in MUTANTS]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of all tables, row by row, heads included."""
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[row.removeprefix("| ").removesuffix(" |").split(" | ") for row in block.splitlines()] for block in blocks]


def test_every_target_has_its_column_and_every_mutant_of_code_in_it() -> None:
    assert {*TARGETS, *SAME_KERNELS} == set(targets.names())
    assert len(set(NAMES)) == len(NAMES)
    for injections in TARGETS.values():
        assert list(injections) == [mutant.name for mutant in MUTANTS if mutant.change is None]


def test_the_page_lists_exactly_the_mutants_networks_and_faults_that_there_are() -> None:
    text = PAGE.read_text()
    assert INTRODUCTION.partition("\n\n")[2] in text
    *of_targets, around = tables(text)
    assert len(of_targets) == 2 * len(TARGETS)
    for table in of_targets:
        assert [row[0] for row in table[2:]] == NAMES
    assert [table[0] for table in of_targets[1::2]] == [["mutant", *networks_of(target)] for target in TARGETS]
    assert [row[0] for row in around[2:]] == [fault.name for fault in FAULTS]


def test_what_the_page_says_is_good_enough() -> None:
    text = PAGE.read_text()
    assert "MISSED" not in text
    assert Named.WRONG.value not in text
    assert text.count("found by the run alone: 0\n") == len(TARGETS)
    shares = [float(share) for share in re.findall(r"diagnosed in the run: .*\((.*) %\)", text)]
    assert len(shares) == len(TARGETS)
    assert min(shares) >= 90


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (None, "="),
        (Outcome(0, (), None), "equal"),
        (Outcome(0, (), None, complete=False), "holds"),
        (Outcome(1234, (ProofStep.CONSTANTS, ProofStep.REQUANTIZATION), Named.AMONG), "1,234 / 1 4 / among others"),
        (Outcome(0, (ProofStep.QUANTIZATION,), None), "0 / 2 / -"),
        (Outcome(7, (), Named.NOT), "7 / MISSED / not"),
        (Outcome(0, (), None, refused=(Guard.BUILD,)), "B equal"),
        (Outcome(5, (ProofStep.OTHERS,), Named.ALONE, refused=(Guard.BUILD, Guard.START)), "BS 5 / 5 / alone"),
        (Outcome(0, (ProofStep.COMPOSITION,), None, refused=(Guard.RUN,)), "E 0 / 7 / -"),
        (Outcome(0, (), None, refused=(Guard.RUN,)), "E 0 / MISSED / -"),
    ],
)
def test_a_cell_says_what_became_of_the_mutant(outcome: Outcome | None, text: str) -> None:
    assert cell_text(Cell("c", "clamp after round", "int8", outcome)) == text


def test_a_cell_says_that_a_mutant_has_no_meaning() -> None:
    assert cell_text(Cell("c", "GPU: inputs not copied", "int8", None)) == "-"
    assert cell_text(Cell("cuda:fused", "GPU: inputs not copied", "int8", None)) == "="
    assert cell_text(Cell("cuda:fused", "TIOVX: inputs not copied", "int8", None)) == "-"
    assert cell_text(Cell(C7X, "TIOVX: inputs not copied", "int8", None)) == "="
    assert cell_text(Cell(C7X, "FPGA: inputs not copied", "int8", None)) == "-"
    assert cell_text(Cell(VITIS, "FPGA: inputs not copied", "int8", None)) == "="


def test_the_totals_of_a_gpu_say_what_was_refused() -> None:
    outcomes = [
        Outcome(0, (), None, refused=(Guard.BUILD,)),
        Outcome(9, (ProofStep.REQUANTIZATION,), Named.ALONE, refused=(Guard.BUILD, Guard.START)),
        Outcome(9, (ProofStep.REQUANTIZATION,), Named.ALONE, refused=(Guard.START,)),
        Outcome(0, (ProofStep.COMPOSITION,), None, refused=(Guard.RUN,)),
        Outcome(0, (), None),
    ]
    cells = [
        Cell("cuda:fused", name, net, outcomes[index % 5] if index < 5 and net == "uint8" else None)
        for index, name in enumerate(NAMES)
        for net in networks_of("cuda:fused")
    ]
    text = page(cells, {}, "here")
    assert "found by the proof: 3, 0 of them by it alone; found by the run alone: 0\n" in text  # an error is found
    assert "refused by the build: 2; by the self-test: 2; by neither: 2, of which the proof finds 1\n" in text
    assert tables(text)[0][2 + 1][:6] == [NAMES[1], "1", "1", "1", "1", "1"]
    assert tables(text)[0][2 + 3][:6] == [NAMES[3], "1", "", "", "1", "1"]


def test_a_target_says_why_a_mutant_has_no_meaning() -> None:
    text = page([Cell("c", name, net, None) for name in NAMES for net in NETWORKS], {}, "here")
    assert "- GPU: inputs not copied: its code is called, not launched" in text


def test_a_target_under_tiovx_has_no_guards_but_a_word_on_what_it_ran_on() -> None:
    ended = Outcome(0, (ProofStep.CONSTANTS,), None, refused=(Guard.RUN,))
    cells = [Cell(C7X, name, net, ended if name == NAMES[0] else None) for name in NAMES for net in networks_of(C7X)]
    text = page(cells, {}, "here")
    assert DOUBLE in text
    assert "refused by the build" not in text
    count = str(len(networks_of(C7X)))
    assert tables(text)[0][2] == [NAMES[0], count, count, count, "", "", "", ""]
    assert "- Add: product and sum fused: the core hands over products" in text
    assert DOUBLE not in page([Cell("c", name, net, None) for name in NAMES for net in NETWORKS], {}, "here")


def test_a_target_in_a_fabric_has_no_guards_but_a_word_on_what_it_ran_on() -> None:
    text = page([Cell(VITIS, name, net, None) for name in NAMES for net in networks_of(VITIS)], {}, "here")
    assert FABRIC in text
    assert "refused by the build" not in text
    assert "- GPU: nobody waits for the launch: here it is called FPGA: nobody waits for the kernel" in text
    of_core = page([Cell(C7X, name, net, None) for name in NAMES for net in networks_of(C7X)], {}, "here")
    assert FABRIC not in of_core
    assert "- FPGA: thresholds compared by <: here it is called TIOVX: thresholds compared by <" in of_core


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_called_otherwise_elsewhere_is_a_mutant_there(target: str) -> None:
    """Of this target under that name."""
    reasons = [reason for reason in TARGETS[target].values() if isinstance(reason, str)]
    called = [reason.removeprefix("here it is called ") for reason in reasons if reason.startswith("here it is called")]
    assert all(callable(TARGETS[target][name]) for name in called)


def test_the_totals_count_programs() -> None:
    outcomes = {
        NAMES[0]: Outcome(5, (ProofStep.REQUANTIZATION,), Named.ALONE),
        NAMES[1]: Outcome(5, (ProofStep.REQUANTIZATION,), Named.NOT),
        NAMES[2]: Outcome(0, (ProofStep.REQUANTIZATION,), Named.AMONG),
        NAMES[3]: Outcome(0, (), None),
        NAMES[4]: Outcome(3, (), Named.WRONG),
    }
    first = next(iter(NETWORKS))
    cells = [Cell("c", name, net, outcomes.get(name) if net == first else None) for name in NAMES for net in NETWORKS]
    text = page(cells, {"fault": "found"}, "here")
    assert "5 programs that are not the right one" in text
    assert "found by the proof: 3, 1 of them by it alone; found by the run alone: 1\n" in text
    assert "1 shown to be equal, 0 tried on samples" in text
    assert "in the run: 3, 2 of a cause that has a name; named rightly 1 (50.0 %), 1 of them alone; " in text
    assert "alone; not named 1; only by wrong names 1\n" in text
    assert "in the proof alone: 1, 1 of a cause that has a name; named rightly 1 (100.0 %), 0 of them alone" in text
    assert tables(text)[0][2] == [NAMES[0], "1", "1", "1", "", "1", "", ""]
    assert tables(text)[-1][-1] == ["fault", "found"]
