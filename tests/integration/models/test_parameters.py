from __future__ import annotations

from dataclasses import replace

from models.acas.parameters import Parameters, recipe_sha256


def test_recipe_is_named_by_its_parameters() -> None:
    names = {recipe_sha256(p) for p in (Parameters(), replace(Parameters(), seed=2), replace(Parameters(), hidden=49))}
    assert len(names) == 3
