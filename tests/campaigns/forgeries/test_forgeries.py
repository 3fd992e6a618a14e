"""A part of the campaign, a forgery of each kind of quick runs; `python -m tests.campaigns.forgeries` tries all.

`make test` has forged runs, measurements and signatures in tests/integration/cli/test_verify*.py and test_sign.py, and
forged proofs in tests/unit/runs/verification/test_proved.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaigns.forgeries.bases import BASES, Bases
from tests.campaigns.forgeries.campaign import REJECTED, Seen, attempt, once, verified
from tests.campaigns.forgeries.forgeries import FORGERIES, KINDS
from tests.campaigns.forgeries.forgery import Forgery
from tests.campaigns.forgeries.of_limits import LIMITS
from tests.campaigns.forgeries.page import PAGE
from tests.support.cli.command import User
from tests.support.cli.history import History

QUICK = {"run", "stand_in", "decision", "bounds"}
OF_WRONG = {"`identical` over dumps that differ", "a wrong kernel under a revision that is right"}
MASKED = "the sets of one slab are masked"
OTHER_RUNS = {
    *("a chunk was computed by an emulated board", "the traces were observed on an emulated board"),
    "a proof in a run that was none",
}
OF_QUICK = [f for f in FORGERIES if f.base in QUICK and f.name not in OTHER_RUNS]
CHOSEN = [*{f.kind: f for f in OF_QUICK}.values(), *(f for f in FORGERIES if f.name in {*OF_WRONG, MASKED})]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory, cache: Path, history: History) -> Iterator[Bases]:
    user = User(tmp_path_factory.mktemp("forgeries"), cache)
    with once(tmp_path_factory.mktemp("built")):
        yield Bases(user, history.now, history.wrong)


@pytest.mark.campaign
def test_the_runs_stand_before_they_are_forged(bases: Bases) -> None:
    for name in (*sorted(QUICK), "wrong"):
        assert verified(bases, bases.folder(name)).code == 0, name


@pytest.mark.campaign
@pytest.mark.parametrize("forgery", CHOSEN, ids=lambda forgery: f"{forgery.kind}: {forgery.name}")
def test_a_forgery_is_rejected_by_verify_and_by_sign(bases: Bases, tmp_path: Path, forgery: Forgery) -> None:
    outcome = attempt(bases, forgery, tmp_path)
    assert outcome.seen.code in REJECTED, outcome.seen
    assert forgery.needs_key or not outcome.signed


@pytest.mark.campaign
@pytest.mark.parametrize("forgery", [f for f in LIMITS if f.base in QUICK], ids=lambda forgery: forgery.name)
def test_what_contradicts_nothing_lacks_the_signature_of_the_laboratory(
    bases: Bases, tmp_path: Path, forgery: Forgery
) -> None:
    folders = [tmp_path / "without", tmp_path / "with"]
    for folder in folders:
        folder.mkdir()
    assert attempt(bases, forgery, folders[0]).seen == Seen(0, (), "")
    with_key = attempt(bases, dataclasses.replace(forgery, needs_key=True), folders[1])
    assert (with_key.seen.code, with_key.seen.claims) == (1, ("signature",))


def test_the_page_tells_of_every_forgery() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert not [forgery.name for forgery in (*FORGERIES, *LIMITS) if f"| {forgery.name} | {forgery.base} |" not in page]
    assert {forgery.kind for forgery in FORGERIES} == set(KINDS)
    assert {forgery.base for forgery in FORGERIES} == set(BASES)


def test_no_name_stands_for_two_forgeries() -> None:
    names = [(forgery.kind, forgery.name) for forgery in FORGERIES]
    assert len(set(names)) == len(names)
