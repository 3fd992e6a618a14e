"""Bounds of small functions of aarch64, counted by hand."""

from __future__ import annotations

import pytest

from harness.analysis.inspection.program import Program, Section, Symbol
from harness.applications.wcet.bounds import size
from harness.applications.wcet.execution import Execution, Executor, _Run
from harness.applications.wcet.paths import costliest
from harness.applications.wcet.state import RefusedError

CODE = bytes.fromhex(
    "000080d2000400911f1c00f1c1ffff54c0035fd6000080d2010080d23f0000eb6200005421040091fdffff17000400911fa000f1"
    "21ffff54c0035fd6004888d2e001a0f2000400f1e1ffff54c0035fd6ff8300d1ff0700f9e00740f91f8c01f18800005400040091"
    "e00700f9fbffff17ff830091c0035fd6210140b9400180526100003421040011210800110004007181ffff54c0035fd6400180d2"
    "210140b9410000341f2003d51f2003d51f2003d5000400f181ffff54c0035fd6000080d21f0c00f101209f9a620080d21f5000f1"
    "43000054220080d2420400d1e2ffffb5000400911f6000f1cbfeff54c0035fd6210140b921040051e1ffff35c0035fd6fd7bbfa9"
    "ffffff97fd7bc1a8c0035fd6fd7bbfa9a00080d205000094200180d203000094fd7bc1a8c0035fd6000400f1e1ffff54c0035fd6"
    "ff0301d1000080d2420180d2e21700f9e21740f9e07b20f8000400911f0002eb83ffff54ff030191c0035fd6"
    "e00080d204000014000400f1c1ffff54c0035fd621040091fcffff17"
)
STARTS = {
    "counted": 0x0,  # mov x0, 0; 1: add x0, x0, 1; cmp x0, 7; b.ne 1b; ret
    "triangle": 0x14,  # for x0 in 0..39: for x1 in 0..x0-1, tested first
    "million": 0x3C,  # mov x0, 1000000; 1: subs x0, x0, 1; b.ne 1b; ret
    "on_stack": 0x50,  # a counter in memory from 0 to 99, tested first
    "by_data": 0x78,  # ten iterations, in each of which data decide about two instructions
    "two_entries": 0x98,  # data decide where the loop is entered: at its first or at its second instruction
    "padded": 0xBC,  # 24 iterations with an inner loop: three iterations below 20, then one
    "endless": 0xF0,  # data decide when it ends
    "recursive": 0x100,
    "called": 0x110,  # calls repeat with 5 and with 9
    "repeat": 0x12C,  # 1: subs x0, x0, 1; b.ne 1b; ret
    "overwritten": 0x138,  # a loop whose sixth store overwrites its own limit
    "moved": 0x164,  # mov x0, 7; 1: b veneer; 2: subs x0, x0, 1; b.ne 1b; ret
    "veneer": 0x178,  # the linker's: add x1, x1, 1; b 2b
    "end": 0x180,
}
FUNCTIONS = tuple(
    Symbol(name, start, end - start, ".text", "")
    for (name, start), end in zip(STARTS.items(), list(STARTS.values())[1:], strict=False)
)
PROGRAM = Program(
    "aarch64", True, "", (Section(".text", 0, len(CODE), False, True, False, 4, CODE),),
    FUNCTIONS, (), (), {}, frozenset(), frozenset(),
)  # fmt: skip
INSTRUCTIONS = {
    "counted": 1 + 7 * 3 + 1,
    "triangle": 1 + sum(1 + 4 * index + 2 + 3 for index in range(40)) + 1,
    "million": 2 + 2 * 1_000_000 + 1,
    "on_stack": 2 + 100 * 6 + 3 + 2,
    "by_data": 2 + 10 * 5 + 1,
    "two_entries": 3 + 10 * 5 + 1,
    "padded": 1 + 20 * (5 + 3 * 2 + 3) + 4 * (6 + 2 + 3) + 1,
    "called": 7 + (5 * 2 + 1) + (9 * 2 + 1),
    "overwritten": 4 + 7 * 5 + 2,
    "moved": 1 + 7 * 5 + 1,
}


def executed(name: str) -> Execution:
    return Executor(PROGRAM).execute(STARTS[name], ())


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_the_bound_is_the_longest_path(name: str) -> None:
    assert costliest(executed(name), size).cost == INSTRUCTIONS[name]


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if name != "million"])
def test_iterations_at_once_are_as_one_after_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = executed(name).recorded
    monkeypatch.setattr(_Run, "_hurry", lambda *_: 0)
    slow = executed(name).recorded
    assert (at_once.edges, at_once.iterations, at_once.lowest_stack) == (slow.edges, slow.iterations, slow.lowest_stack)


def test_a_million_iterations_take_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.applications.wcet.execution.BUDGET", 50)
    assert sum(executed("million").recorded.edges.values()) > 1_000_000


@pytest.mark.parametrize(("name", "stack"), [("counted", 0), ("on_stack", 32), ("called", 16), ("overwritten", 64)])
def test_the_stack_is_what_the_machine_code_takes(name: str, stack: int) -> None:
    assert executed(name).stack == stack


def test_branches_that_data_decide_are_listed() -> None:
    assert executed("by_data").recorded.decided_by_data == {(STARTS["by_data"], STARTS["by_data"] + 8)}
    assert executed("padded").recorded.decided_by_data == set()


@pytest.mark.parametrize(
    ("name", "reason", "address"),
    [
        ("endless", "endless: the loop at 0xf4 has no bound that follows from the program's constants", 0xF4),
        ("recursive", "bl #0x100 at 0x104: recursive calls itself", 0x104),
    ],
)
def test_code_without_a_bound_is_refused(name: str, reason: str, address: int) -> None:
    with pytest.raises(RefusedError) as error:
        executed(name)
    assert error.value.reason.startswith(reason)
    assert error.value.address == address
