"""A bundle is a function of its recipe alone: built elsewhere, by others, at another time, it has the same bytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import BoardProfiles
from harness.build import bundle, codegen
from harness.plan import planner
from tests.support import builders
from tests.support.programs.board_program import parse, with_flags


@pytest.mark.parametrize("name", ["host", "xavier"])  # by GNU's compiler, and by LLVM's of zig, which always adds -g
def test_a_bundle_has_the_same_bytes_wherever_whenever_and_by_whomever_it_is_built(
    laboratory: BoardProfiles, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = laboratory.board(name)
    board = with_flags(shipped, "-O0", "-g") if name == "host" else shipped
    net = parse(builders.random_network(np.random.default_rng(5), (3, 4, 2)))
    plan = planner.make(net, board, ("c", "c"), block=10)
    here = bundle.build(codegen.generate(plan), board, tmp_path / "here")
    others = {"LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1", "USER": "nobody", "LOGNAME": "nobody"}
    for variable, value in others.items():
        monkeypatch.setenv(variable, value)
    elsewhere = tmp_path / ("elsewhere, " * 8)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = os.umask(0o077)
    try:
        there = bundle.build(codegen.generate(plan), board, elsewhere / "cache")
    finally:
        os.umask(before)
    assert not there.reused
    assert (there.sha256, there.files) == (here.sha256, here.files)
    program = (here.folder / "inference").read_bytes()
    assert b"debug_info" not in program
    assert str(tmp_path).encode() not in program
