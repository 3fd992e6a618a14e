"""A part of the campaign of hidden programs; `python -m tests.campaigns.mutation --hidden` tries all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import model
from harness.analysis.proof import ProofStep
from harness.boards.profile import BoardProfiles
from harness.build import bundle, codegen
from harness.plan import planner
from tests.campaigns.mutation import hidden_page
from tests.campaigns.mutation.hidden import NETS, REFUSED, RUN, Excluded, Kind, Outcome, Rewritten, Wrong, prove
from tests.campaigns.mutation.hidden_page import page
from tests.campaigns.mutation.hidden_programs import PROGRAMS, declared, last, parse
from tests.campaigns.mutation.test_page import tables
from tests.support.programs.board_program import Patch

BY_NAME = {wrong.name: wrong for wrong in PROGRAMS}
SLICE = ["generator: multipliers one unit in the last place too large", "two items share a scratch array"]
RIGHT = Wrong("the right program", Kind.STATE, (), RUN)


@pytest.mark.campaign
def test_the_right_program_is_identical(objects: Path, tmp_path: Path) -> None:
    outcome = prove(RIGHT, tmp_path, objects)
    assert outcome.unnoticed, outcome.text
    assert outcome.found == ()


@pytest.mark.campaign
@pytest.mark.parametrize("name", SLICE)
def test_a_program_is_found_by_what_should_find_it(name: str, objects: Path, tmp_path: Path) -> None:
    outcome = prove(BY_NAME[name], tmp_path, objects)
    assert outcome.meets(BY_NAME[name].found), outcome


def test_every_program_is_one_of_its_own_and_says_what_finds_it() -> None:
    assert len(BY_NAME) == len(PROGRAMS) >= 60
    assert len({(wrong.patches, wrong.generator, wrong.board) for wrong in PROGRAMS}) == len(PROGRAMS)
    finders = {RUN, REFUSED, "structure", *(step.name.lower() for step in ProofStep)}
    assert all(isinstance(wrong.found, Excluded) or wrong.found in finders for wrong in PROGRAMS)
    assert {wrong.kind for wrong in PROGRAMS} == set(Kind)


def test_a_program_whose_place_is_gone_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"network\.c has changed: .* matches 0 places"):
        last("layer_1_accumulate", "out[0] = 0;").apply({"network.c": b"void other(void)\n{\n}\n"})
    with pytest.raises(AssertionError, match="matches 2 places"):
        Rewritten("network.c", "a", "b").apply({"network.c": b"aa"})
    with pytest.raises(AssertionError, match=r"network\.c has changed"):
        declared("int x;").apply({"network.c": b""})


@pytest.mark.campaign
@pytest.mark.parametrize("wrong", PROGRAMS, ids=lambda wrong: wrong.name)
def test_every_program_changes_the_sources_as_they_are(wrong: Wrong, laboratory: BoardProfiles, tmp_path: Path) -> None:
    NETS[wrong.net].write(tmp_path / "model.onnx")
    asked = dict(zip(wrong.options[::2], wrong.options[1::2], strict=True))
    split = [asked["--split"]] if "--split" in asked else []
    board = laboratory.board(wrong.board)
    plan = planner.make(
        model.load(tmp_path / "model.onnx"), board, asked["--items"].split(","), split=split, sync=asked.get("--sync")
    )  # fmt: skip
    sources = bundle.recipe_of(codegen.generate(plan), board).sources
    for patch in wrong.patches:
        changed = patch.apply(sources)
        assert changed != sources
        sources = changed


TEXT = r"""== one
kind: STATE
found: run
before: found
-- first f
if (in[0]) {
    out[0] = '\n';
}
-- replace network.c
a[i]
-- by
b[i];
c
== two
kind: TABLES
excluded: three
options: --items c,c --sync flag
net: plain
"""


def test_programs_are_read_from_text() -> None:
    one, two = parse(TEXT)
    assert (one.name, one.kind, one.found, one.before) == ("one", Kind.STATE, "run", True)
    source = {"network.c": b"void f(const int *in, int *out)\n{\n    g(a[i]);\n}\n"}
    for patch in one.patches:
        source = patch.apply(source)
    expected = (
        "void f(const int *in, int *out)\n{\n    if (in[0]) {\n        out[0] = '\\n';\n    }\n    g(b[i];\nc);\n}\n"
    )
    assert source["network.c"].decode() == expected
    assert (two.found, two.options, two.net) == (Excluded("three"), ("--items", "c,c", "--sync", "flag"), "plain")
    assert (two.patches, two.before) == ((), False)


def test_an_excluded_program_needs_a_stated_assumption() -> None:
    held = Outcome(0, (), "", ("Sums of three codes were sampled.",))
    assert held.meets(Excluded("three codes"))
    assert not held.meets(Excluded("a date"))
    assert not held.meets("structure")
    found = Outcome(1, ("run", "structure"), "")
    assert found.meets("structure")
    assert not found.meets("composition")
    assert not found.meets(Excluded("three codes"))


def test_the_page_says_what_became_of_each_program() -> None:
    wrong = Wrong("w", Kind.STATE, (Patch("a", "b", "c"),), "structure", before=True)
    rare = Wrong("r", Kind.STATE, (), Excluded("three"))
    tried = {"w": Outcome(1, ("run", "structure"), ""), "r": Outcome(0, (), "", ("Of three codes.",))}
    totals, states, *others = tables(page(tried, [wrong, rare], "here"))
    assert totals[2] == ["state", "2", "1", "1", "1", "0"]
    assert totals[-1] == ["all", "2", "1", "1", "1", "0"]
    assert states[2:] == [
        ["w", "host, `--items c,c`", "found", "run, structure"],
        ["r", "host, `--items c,c`", "**unnoticed**", "excluded: Of three codes."],
    ]
    assert all(len(table) == 2 for table in others)
    lost = page(tried | {"r": Outcome(0, (), "")}, [wrong, rare], "here")
    assert f"excluded: {hidden_page.UNNOTICED}" in lost


def test_the_published_page_tells_of_every_program_and_of_none_unnoticed() -> None:
    totals, *kinds = tables(hidden_page.PAGE.read_text(encoding="utf-8"))
    assert [row[0] for table in kinds for row in table[2:]] == [
        wrong.name for kind in Kind for wrong in PROGRAMS if wrong.kind is kind
    ]
    assert totals[-1][0] == "all"
    assert totals[-1][-1] == "0"
    assert hidden_page.UNNOTICED not in [row[-1] for table in kinds for row in table]
