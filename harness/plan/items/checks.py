"""Checks that the descriptions of items are consistent; a finding names item and variable.

Each check is independent and lists every counterexample.  No check counts markings: the net of a
sound description is conflict-free (see `harness.plan.petri.structure`), and one run of such a net shows how all runs
end. Where the markings are few they are all counted besides, and must say the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.plan.items.behaviour import Check, conflict_free, final_marking
from harness.plan.items.graphs import External, Get, Instruction, ItemGraph, Operation, Send, Variable
from harness.plan.items.translation import Origins, by_item, final_outputs, translate_items
from harness.plan.petri.reachability import LIMIT, explore

Items = Mapping[str, ItemGraph]


@dataclass(frozen=True)
class Examination:
    """All checks of a description; `markings` is how many its net reaches, None if more than were counted."""

    checks: tuple[Check, ...]
    markings: int | None

    @property
    def holds(self) -> bool:
        """Nothing speaks against any of them."""
        return all(check.holds for check in self.checks)

    @property
    def counterexamples(self) -> tuple[str, ...]:
        """All counterexamples, causes before their consequences."""
        return tuple(text for check in self.checks for text in check.counterexamples)


def examine(items: Sequence[ItemGraph], limit: int = LIMIT) -> Examination:
    """Run all checks; at most `limit` markings are counted (0: none).  RequestError if two items have one name."""
    named = by_item(items)
    net = translate_items(items)
    reachable = explore(net, limit)
    checks = (
        Check("single assignment", "every name stands for one tensor", tuple(_assigned_twice(named))),
        Check("one writer", "every shared variable is sent by one item", tuple(_written_twice(named))),
        Check(
            "sends and gets", "every get_var has its send_var, and every send_var its readers", tuple(_unpaired(named))
        ),
        Check("memory", "no item reads what it neither computed, declared nor got", tuple(_foreign(named))),
        Check("order of the text", "all items can follow the order of their texts to the end", tuple(_late(named))),
        conflict_free(net),
        final_marking(net, reachable),
    )
    return Examination(checks, len(reachable) if reachable.complete else None)


def _assigned_twice(items: Items) -> Iterator[str]:
    """Yield names with two values within an item, and names of different tensors in different items."""
    meanings: dict[str, dict[object, str]] = defaultdict(dict)
    origins = Origins(items)
    for item, graph in items.items():
        names: set[str] = set()
        for instruction in graph.instructions:
            name = _assigns(instruction)
            if name in names:
                yield f"{name}: {item} gives it a value twice"
            names.add(name)
            meanings[name].setdefault(_meaning(origins, item, instruction), _told(item, instruction))
    for name, meaning in meanings.items():
        if len(meaning) > 1:
            yield f"{name} denotes different tensors: {'; '.join(meaning.values())}"


def _assigns(instruction: Instruction) -> str:
    return instruction.shared if isinstance(instruction, Send) else instruction.output


def _meaning(origins: Origins, item: str, instruction: Instruction) -> object:
    """Return the meaning of the name that an instruction defines: equal for equal declarations or origins."""
    if isinstance(instruction, Send):
        return "shared"
    origin = origins.origin(item, instruction.output)
    declared = origins.declared.get(origin)
    return origin if declared is None else declared


def _told(item: str, instruction: Instruction) -> str:
    match instruction:
        case External():
            return f"in {item} an input of shape {list(instruction.shape)}"
        case Variable():
            return f"in {item} the parameter '{instruction.label}' of shape {list(instruction.shape)}"
        case Operation():
            return f"{item} computes it ({instruction.operation})"
        case Send():
            return f"in {item} a shared variable"
        case Get():
            return f"in {item} what {instruction.source} sends as {instruction.shared}"


def _written_twice(items: Items) -> Iterator[str]:
    writers: dict[str, list[str]] = defaultdict(list)
    for item, graph in items.items():
        for instruction in graph.instructions:
            if isinstance(instruction, Send):
                writers[instruction.shared].append(f"{item} (of {instruction.data})")
    for shared, found in writers.items():
        if len(found) > 1:
            yield f"{shared} is sent {len(found)} times: by {' and by '.join(found)}"


def _unpaired(items: Items) -> Iterator[str]:
    sends: dict[tuple[str, str], Send] = {}
    gets: set[tuple[str, str, str]] = set()
    for item, graph in items.items():
        for instruction in graph.instructions:
            if isinstance(instruction, Send):
                sends[item, instruction.shared] = instruction
            if isinstance(instruction, Get):
                gets.add((instruction.source, instruction.shared, item))
    yield from _unsent(sends, gets)
    for (writer, shared), send in sends.items():
        for reader in dict.fromkeys(send.destinations):
            if (writer, shared, reader) not in gets:
                missing = "" if reader in items else f"; there is no such item, only {', '.join(items)}"
                yield f"{shared}: {writer} sends it to {reader}, which does not get it{missing}"
    yield from _undeclared(items)


def _unsent(sends: Mapping[tuple[str, str], Send], gets: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield what is received, but not sent to the reader by that item."""
    for source, shared, reader in sorted(gets):
        if (source, shared) not in sends:
            others = " and ".join(item for item, name in sends if name == shared)
            yield f"{shared}: {reader} gets it from {source}, which does not send it; {others or 'no item'} does"
        elif reader not in sends[source, shared].destinations:
            yield f"{shared}: {reader} gets it from {source}, which sends it to {_listed(sends[source, shared])} only"


def _listed(send: Send) -> str:
    return ", ".join(send.destinations) or "no item"


def _undeclared(items: Items) -> Iterator[str]:
    for item, graph in items.items():
        declared = {each.name for each in graph.shared}
        used = dict.fromkeys(
            instruction.shared for instruction in graph.instructions if isinstance(instruction, Send | Get)
        )
        for shared in used:
            if shared not in declared:
                yield f"{shared}: {item} uses it without declaring it a variablesync"


def _foreign(items: Items) -> Iterator[str]:
    for item, graph in items.items():
        known = {_assigns(instruction) for instruction in graph.instructions}
        shared = {each.name for each in graph.shared}
        reads = {name: _assigns(instruction) for instruction in graph.instructions for name in _reads(instruction)}
        reads |= dict.fromkeys(final_outputs(graph), f"the outputs of {graph.name}")
        for name, reader in reads.items():
            if name in shared:
                yield f"{name}: {item} reads a shared variable for {reader} without get_var"
            elif name not in known:
                yield f"{name}: {item} reads it for {reader}, but {_owner(items, name)}"


def _owner(items: Items, name: str) -> str:
    owners = [
        item
        for item, graph in items.items()
        if any(_assigns(instruction) == name for instruction in graph.instructions)
    ]
    return f"it is {' and '.join(owners)} that has it" if owners else "no item has it"


def _reads(instruction: Instruction) -> tuple[str, ...]:
    if isinstance(instruction, Operation):
        return instruction.tensors
    return (instruction.data,) if isinstance(instruction, Send) else ()


def _late(items: Items) -> Iterator[str]:
    """Execute the instructions of all items in order, and yield the items that still wait for a send_var."""
    done = dict.fromkeys(items, 0)
    known: dict[str, set[str]] = {item: set() for item in items}
    sent: set[tuple[str, str]] = set()
    moved = True
    while moved:
        moved = False
        for item, graph in items.items():
            for instruction in graph.instructions[done[item] :]:
                if _lacks(instruction, known[item], sent):
                    break
                known[item].add(_assigns(instruction))
                sent |= {(item, instruction.shared)} if isinstance(instruction, Send) else set()
                done[item] += 1
                moved = True
    for item, graph in items.items():
        for instruction in graph.instructions[done[item] : done[item] + 1]:
            yield f"{item} stops before {_assigns(instruction)} and waits for {_lacks(instruction, known[item], sent)}"


def _lacks(instruction: Instruction, known: set[str], sent: set[tuple[str, str]]) -> str:
    """Describe the condition that an instruction waits for; empty without one."""
    if isinstance(instruction, Get):
        there = (instruction.source, instruction.shared) in sent
        return "" if there else f"{instruction.shared} of {instruction.source}"
    return ", ".join(dict.fromkeys(name for name in _reads(instruction) if name not in known))
