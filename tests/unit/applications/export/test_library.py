"""The parts of an export that need no compiler: names of C, archives, the number of vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.applications.export import forms
from harness.applications.export.library import identifier, unique
from harness.applications.export.objects import MAGIC, archive
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "expected"),
    [("acas_coc", "acas_coc"), ("9-lives", "n_9_lives"), ("Layer.1/x", "layer_1_x"), ("float", "n_float"), ("é", "n")],
)
def test_a_name_of_c(text: str, expected: str) -> None:
    assert identifier(text) == expected


@given(st.lists(st.text("aA-_1", max_size=3), max_size=8))
@examples(100)
def test_names_are_unique(names: list[str]) -> None:
    found = unique(names, ["input"])
    assert len({*found, "input"}) == len(names) + 1


def test_an_archive_without_members_is_an_index() -> None:
    assert archive({}).startswith(MAGIC + b"/" + b" " * 15)


def test_the_forms_name_only_known_templates() -> None:
    from jinja2 import PackageLoader

    known = set(PackageLoader("harness.applications.export").list_templates())
    used = {template for form in forms.FORMS.values() for template in (*form.files.values(), *forms.COMMON.values())}
    assert used == known
