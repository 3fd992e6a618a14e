"""The first step: the program's machine code is the code that the plan describes, decided without running it.

All other steps ask the program.  Their answers hold for its next executions only if nothing is kept from one to the
next, and if the stages that were asked are those that the schedule calls: that is what is read here from the file that
is deployed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from harness import targets
from harness.analysis.inspection import fixed, program
from harness.analysis.inspection.flow import (
    DEEPEST,
    END,
    ENTRY,
    FRAME,
    IMAGE,
    Analysis,
    Argument,
    Call,
    Constant,
    Difference,
    Facts,
    Frame,
    Loaded,
    Static,
    Touch,
    Unset,
    Value,
    addresses,
)
from harness.analysis.inspection.program import POINTER_BYTES, Program, Section, Symbol
from harness.analysis.proof.claims import Note, Question, Side
from harness.analysis.proof.descriptors import Descriptors
from harness.analysis.proof.rows import Rows
from harness.build import codegen
from harness.build.codegen import Forward
from harness.core.errors import ToolError
from harness.operators.obligations import ProofStep, StageKind
from harness.plan.plan import Plan
from harness.targets import LayerCode, Stage

NETWORK = "network.c"
LINKER_SECTIONS = (".got", ".got.plt")
WAIT, RAISE = "wait_for_flag", "raise_flag"
COPY = "copy_padded"
IMPURE = re.compile(
    r"syscall|sysenter|int\d*|rdtscp?|rdrand|rdseed|rdpmc|rdpid|cpuid|xgetbv|v?(ld|st)mxcsr|f(ld|n?st)(cw|env)|in|out"
    r"|svc|hvc|smc|msr|mrs|rndrr?s?"
)
"""Instructions whose results depend on more than registers and memory, or that change how others compute."""

ADDRESS_BITS = re.compile(
    r"(and|ands|test|tst|bt|shr|sar|shl|lsr|asr|lsl|ubfx|ubfiz|sbfx|xor|eor|mul|imul|crc32\w*|negs?) |"
    r"mov (e\w\w|r\d+d|w\d+), (e\w\w|r\d+d|w\d+)$"
)
"""Instructions that take bits of an address, half of it among them; pointers are compared, added to and subtracted."""

UNSET = -3
"""Beside the numbers of arguments, FRAME and IMAGE: a register that nobody has set."""

Find: TypeAlias = "Callable[[Inspected], str]"
"""Returns a counterexample in words, or nothing; notes code of the program that it does not understand."""

OTHER_FLAGS = "give the profile's toolchain other flags, for example -O2, and prove again"
HERE = "the deployed file's machine code and symbols, without running it"


@dataclass(frozen=True)
class Inspected:
    """A generated program and its compiled file, with the SHA-256 that is checked on the board."""

    generated: codegen.Program
    path: Path
    sha256: str
    not_understood: list[str] = field(default_factory=list)

    def answer(self, find: Find, others: Iterable[Find]) -> str:
        """Return a counterexample; ToolError if there is none in the program, but code that is not understood.

        A program with a counterexample to one of the `others` does not do what the plan says, whatever that code does.
        """
        self.not_understood.clear()
        counterexample = find(self)
        if counterexample or not self.not_understood:
            return counterexample
        message = f"the program's machine code is not understood: {self.not_understood[0]}"
        found = next(filter(None, (other(self) for other in others)), "")
        if found:
            return f"{message}; the program is wrong in any case: {found}"
        raise ToolError(message, OTHER_FLAGS)

    @cached_property
    def program(self) -> Program:
        """Return the program as it lies on this machine; ToolError if it is not the deployed one."""
        found = program.read(self.path)
        if found.sha256 != self.sha256:
            raise ToolError(f"{self.path} is not the deployed program: it has changed since", "run the command again")
        return found

    @cached_property
    def analysis(self) -> Analysis:
        """Return the analysis of its functions."""
        return Analysis(self.program)

    @cached_property
    def functions(self) -> Sequence[tuple[str, Facts]]:
        """Return all functions of the program, without what fills the space between them."""
        unnamed = [function for function in self.analysis.functions if function.name.startswith("code at")]
        filled = {each for each in unnamed if self.analysis.is_padding(each) or self.analysis.is_veneers(each)}
        names = [self.analysis.name(function) for function in self.analysis.functions if function not in filled]
        return [(name, self.analysis.facts(name)) for name in names]

    @cached_property
    def callers(self) -> Mapping[str, set[str]]:
        """Return the functions that call a function."""
        callers: dict[str, set[str]] = {}
        for name, facts in self.functions:
            for call in facts.calls:
                if call.name:
                    callers.setdefault(call.name, set()).add(name)
        return callers

    @property
    def plan(self) -> Plan:
        """Return the plan from which the program was generated."""
        return self.generated.plan

    @cached_property
    def storage(self) -> Mapping[str, codegen.Storage]:
        """Return buffers and tables of the plan by their names."""
        return {each.name: each for each in self.generated.storage}

    @cached_property
    def tables(self) -> Mapping[str, bytes]:
        """Return the contents of all tables by their names."""
        return {table.name: table.content for table in self.generated.tables}

    @cached_property
    def variables(self) -> Mapping[str, int]:
        """Return the bytes of everything in network.c that may be written."""
        others = {name: size for code in self.generated.items for name, size in code.objects.items()}
        return {name: each.size for name, each in self.storage.items()} | others

    @property
    def forwards(self) -> Sequence[Forward]:
        """Return the expected calls of the forward function of every task."""
        return self.generated.forwards

    @cached_property
    def arena(self) -> Symbol | None:
        """Return the object of the bytes that buffers share; None if the plan has none."""
        return _object(self, codegen.ARENA) if codegen.ARENA in self.storage else None

    @cached_property
    def own_objects(self) -> Mapping[int, str]:
        """Return the buffers and tables with bytes of their own by their addresses."""
        found = {name: _object(self, name) for name, each in self.storage.items() if each.offset is None}
        return {symbol.address: name for name, symbol in found.items() if symbol}

    def planned_at(self, address: int) -> Sequence[codegen.Storage]:
        """Return the buffers and tables of the plan that hold `address`: several where buffers share bytes.

        In the arena its offset decides; bytes of it that no buffer has belong to the arena, which nobody uses.
        """
        if self.arena is not None and self.arena.address <= address < self.arena.end:
            offset = address - self.arena.address
            placed = [each for each in self.storage.values() if each.offset is not None]
            found = [each for each in placed if each.offset <= offset < each.offset + each.size]  # type: ignore[operator]
            return found or [self.storage[codegen.ARENA]]
        holder = self.program.object_at(address)
        return [self.storage[self.own_objects[holder.address]]] if holder and holder.address in self.own_objects else []

    def name_of(self, symbol: Symbol) -> str:
        """Return an object's name as C has it."""
        return symbol.name.partition("@")[0]

    def describe(self, address: int) -> str:
        """Describe the object at an address."""
        found = self.program.object_at(address)
        section = self.program.section_at(address)
        where = f"{found.name} ({found.size} bytes)" if found else f"{address:#x}, which no symbol names,"
        return f"{where} in {section.name}" if section else f"{address:#x}"


def questions(generated: codegen.Program, deployed: tuple[Path, str] | None) -> Iterator[Question]:
    """Return the queries of the program at a path, with its SHA-256; without a program the answers count as right.

    ToolError when a question is asked of a program that cannot be read, or whose code is not understood.
    """
    return iter(list(_questions(generated, deployed)))


def _questions(generated: codegen.Program, deployed: tuple[Path, str] | None) -> Iterator[Question]:
    finds: list[Find] = []
    inspected = Inspected(generated, *deployed) if deployed else None
    plan, codes, stored, forwards = generated.plan, generated.tasks, generated.storage, generated.forwards

    def question(layer: str | None, statement: str, cases: int, find: Find) -> Question:
        finds.append(find)

        def answer(note: Note) -> str:
            if inspected is None:
                return ""
            counterexample = inspected.answer(find, finds)
            if not counterexample:
                note(inspected.program.sha256)
            return counterexample

        return Question(ProofStep.STRUCTURE, Side.FILE, layer, statement, HERE, cases, complete=True, answer=answer)

    yield question(
        None,
        "every variable is a buffer or table of the plan with its size, or known state of the fixed board program",
        len(stored),
        _hidden_variable,
    )
    yield question(None, "no code of the network runs before main or after it", len(plan.items), _constructor)
    yield question(
        None,
        "every function, object, text and number in the descriptors of network.c is the one of the plan",
        len(plan.items) + len(plan.tasks) + sum(len(code.stages) for code in codes) + len(generated.launches),
        lambda found: Descriptors(found.generated, found.analysis).wrong_word(),
    )
    yield question(
        None,
        "no other data has the address of a function of network.c, and no function is in the place of a library's",
        1,
        lambda found: Descriptors(found.generated, found.analysis).stray_code(),
    )
    for index, item in enumerate(plan.items):
        yield question(
            None,
            f"the functions that open and close item {item.name} compute its tables from constants, or call its "
            "driver, alone: no option, library function or other state has an effect",
            1,
            lambda found, index=index: _wrong_init(found, index),  # type: ignore[misc]
        )
    yield question(
        None,
        "the address of each buffer and table is in its own functions and descriptors only",
        len(stored),
        _stray_reference,
    )
    yield question(
        None,
        "items share no variable but the buffers that one of them writes and others read",
        len(plan.items),
        _shared,
    )
    if plan.arena:
        yield question(
            None,
            "buffers that share bytes are at the offsets of the plan, where no two are needed at the same time",
            sum(each.offset is not None for each in stored),
            _misplaced,
        )
    yield from _of_devices(generated, question)
    if plan.sync == "flag":
        yield question(
            None, "flags are raised and awaited by instructions that order memory", len(plan.hand_overs), _flags
        )
    for task, code, forward in zip(plan.tasks, codes, forwards, strict=True):
        name = plan.part(task).name
        yield question(
            name,
            "the forward function calls the stages of the plan in their order, passes them the plan's buffers, and "
            "writes nothing itself",
            1 + len(code.stages),
            lambda found, forward=forward: _wrong_forward(found, forward),  # type: ignore[misc]
        )
        yield question(
            name,
            "for every number of vectors of a block the forward function passes each of their rows once, in order",
            plan.block,
            lambda found, forward=forward: _wrong_rows(found, forward),  # type: ignore[misc]
        )
        if forward.stages:
            yield question(
                name,
                "each stage has one copy of machine code, which its forward and the proof call",
                len(code.stages),
                lambda found, code=code, forward=forward: _wrong_callers(found, code, forward),  # type: ignore[misc]
            )
            yield question(
                name,
                "each stage computes from its inputs and its layer's tables alone, and writes its outputs alone",
                len(code.stages),
                lambda found, code=code, forward=forward: _impure(found, code, forward),  # type: ignore[misc]
            )


def _of_devices(generated: codegen.Program, question: Callable[[None, str, int, Find], Question]) -> Iterator[Question]:
    """Yield the questions about items whose tasks leave work to a device."""
    for item, end in zip(generated.plan.items, generated.ends, strict=True):
        if end:
            statement = f"the function that ends an execution of item {item.name} calls its driver alone"
            yield question(None, statement, 1, lambda found, end=end: _wrong_forward(found, end))  # type: ignore[misc]
    exchanges = _exchanges(generated)
    if any(exchanges.values()):
        yield question(
            None,
            "on its device each launch waits for those of other items that write what it reads there, and for those "
            "that read what it writes there",
            sum(map(len, exchanges.values())),
            _unordered,
        )


# Variables.


def _hidden_variable(found: Inspected) -> str:
    for section in found.program.sections:
        if section.writable:
            counterexample = _in_section(found, section)
            if counterexample:
                return counterexample
    missing = [name for name, size in found.variables.items() if size and not _object(found, name)]
    if missing:
        return f"{missing[0]} of the plan is not in the program's symbols"
    return ""


def _object(found: Inspected, name: str) -> Symbol | None:
    return next((each for each in found.program.objects if each.file == NETWORK and each.name == name), None)


def _in_section(found: Inspected, section: Section) -> str:
    """Describe the first unexpected variable of a section."""
    if section.name in LINKER_SECTIONS or not section.size:
        return ""
    symbols = found.program.thread_locals if section.thread_local else found.program.objects
    inside = sorted((each for each in symbols if each.section == section.name and each.size), key=lambda s: s.address)
    start = 0 if section.thread_local else section.address
    edge = start + fixed.START_BYTES.get(section.name, 0)
    for symbol in inside:
        reason = _reason_against(found, symbol)
        if reason:
            users = _users(found, symbol)
            what = f"{symbol.name} of {symbol.file or 'the program'}, {symbol.size} bytes in {section.name}"
            return f"{what}: {reason}{users}"
        if symbol.address - edge > 63:
            return f"{symbol.address - edge} bytes in {section.name} before {symbol.name} that no symbol names"
        edge = max(edge, symbol.end)
    return "" if start + section.size - edge <= 63 else f"{section.size} bytes in {section.name} have no symbol"


def _reason_against(found: Inspected, symbol: Symbol) -> str:
    name = found.name_of(symbol)
    if symbol.file == NETWORK:
        size = found.variables.get(symbol.name)
        if size is None:
            return "the plan has no such variable"
        return "" if size == symbol.size else f"the plan gives it {size} bytes"
    if name in found.program.copied:
        return ""  # of the C library
    known = fixed.OBJECTS.get(symbol.file, {}) if symbol.file else fixed.GLOBALS
    parts = {name, *name.split(".")}
    size = next((known[part] for part in parts if part in known), None)
    if size is None:
        return "it is not in the list of harness/analysis/inspection/fixed.py"
    return "" if symbol.size <= size else f"it has {size} bytes in the list of harness/analysis/inspection/fixed.py"


def _users(found: Inspected, symbol: Symbol) -> str:
    inside = range(symbol.address, symbol.end)
    names = [name for name, facts in found.functions if any(a in inside for a in _addresses(found, facts))]
    return f" (used by {', '.join(names[:3])})" if names else ""


def _addresses(found: Inspected, facts: Facts) -> Iterator[int]:
    values = [touch.value for touch in facts.touches]
    for call in facts.calls:
        values += call.arguments[: found.analysis.arity(call.name)]
    for value in values:
        if isinstance(value, Static):
            yield from value.addresses


# What runs before main.


def _constructor(found: Inspected) -> str:
    for section in found.program.sections:
        if not section.name.endswith("_array"):
            continue
        for _, to in found.program.pointers_in(section.address, section.end):
            function = found.program.function_starts.get(to) if isinstance(to, int) else None
            if function and function.file not in fixed.CONSTRUCTORS and function.name not in fixed.START_CODE:
                return f"{function.name} of {function.file or 'the program'} is called by {section.name}"
            if function is None and not (isinstance(to, int) and to in found.program.marks):
                return f"{section.name} calls {to}, which is no function"
    return ""


# References.


def _stray_reference(found: Inspected) -> str:
    for name, facts in found.functions:
        if facts.gaps:
            found.not_understood.append(f"function {name}: {facts.gaps[0]}")
        for address in _addresses(found, facts):
            planned = found.planned_at(address)
            if not planned or any(name in each.users for each in planned):
                continue
            if not any(_serves(found, name, each.users) for each in planned):
                owners = ", ".join(sorted(planned[0].users)) or "no function"
                return f"function {name} uses {planned[0].name}, which belongs to {owners}"
    for place, to in found.program.pointers.items():
        held = found.planned_at(to) if isinstance(to, int) else ()
        if held and not _may_hold(found, place):
            return f"{found.describe(place)} holds the address of {held[0].name}"
    return ""


def _misplaced(found: Inspected) -> str:
    """Describe a buffer that is not at its offset in the arena."""
    if found.arena is None:
        return f"the program has no {codegen.ARENA}"
    for name, planned in found.storage.items():
        symbol = _object(found, name)
        if planned.offset is not None and symbol and symbol.address - found.arena.address != planned.offset:
            offset = symbol.address - found.arena.address
            return f"{name} is at byte {offset} of the {codegen.ARENA}, the plan says {planned.offset}"
    return ""


def _serves(found: Inspected, name: str, users: Iterable[str]) -> bool:
    """Return whether only these functions call the function."""
    callers = found.callers.get(name, set())
    return bool(callers) and callers <= set(users)


def _may_hold(found: Inspected, place: int) -> bool:
    """Return whether an address at `place` is the network's or the linker's, or is a constant that looks like one.

    Without relocations each word of a program at a fixed place may be an address: a part of a table that is what the
    model's constants say is none.
    """
    section, holder = found.program.section_at(place), found.program.object_at(place)
    if section is not None and section.name in LINKER_SECTIONS:
        return True
    if holder is None or holder.file not in {NETWORK, ""}:
        return False
    if holder.name not in found.storage:
        return True
    if found.program.position_independent:
        return False
    constants = found.tables.get(holder.name, b"")[place - holder.address :][:POINTER_BYTES]
    return len(constants) > 0 and found.program.content(place, len(constants)) == constants


# What items share.


def _shared(found: Inspected) -> str:
    used: dict[str, int] = {}
    of_tasks = [(task.item, forward) for task, forward in zip(found.plan.tasks, found.forwards, strict=True)]
    ends = [(item, end) for item, end in enumerate(found.generated.ends) if end]
    for item, forward in (*of_tasks, *ends):
        for name, facts in found.analysis.reachable([forward.name], forward.driver).items():
            is_driver = name in forward.driver  # of fixed source: its items share a device, its memory and its library
            for address in _addresses(found, facts) if facts and not is_driver else ():
                holder, section = found.program.object_at(address), found.program.section_at(address)
                if section is None or not section.writable or section.name in LINKER_SECTIONS:
                    continue
                variable = holder.name if holder else hex(address)
                if any({forward.name, name} & planned.users for planned in found.planned_at(address)):
                    continue
                if used.setdefault(variable, item) != item:
                    first, second = (found.plan.items[each].name for each in (used[variable], item))
                    return f"items {first} and {second} both use {variable}, the second in {name}"
    return ""


# Events.


def _exchanges(generated: codegen.Program) -> Mapping[str, set[str]]:
    """Return by the variable of each launch those of launches of other items that it meets in their device's memory.

    Derived from the plan: all values of a source stay there if all their writers are items with the reader's memory.
    """
    plan, variables = generated.plan, [iter(code.awaited) for code in generated.items]
    memories = [targets.find(item.target).device_memory for item in plan.items]
    launches = [launch for launch in generated.launches if memories[launch.item]]
    variable = {task: name for launch in launches for name in [next(variables[launch.item])] for task in launch.tasks}
    found: dict[str, set[str]] = {name: set() for name in variable.values()}
    for reader in plan.tasks if plan.depth == 1 else ():
        for source in plan.sources(reader):
            if reader in variable and {memories[writer.item] for writer in source.writers} == {memories[reader.item]}:
                for writer in source.writers:
                    if writer.item != reader.item:
                        found[variable[reader]].add(variable[writer])
                        found[variable[writer]].add(variable[reader])
    return found


def _unordered(found: Inspected) -> str:
    """Describe a launch that does not wait for what the plan says, by the list to which its variable points."""
    for name, wanted in _exchanges(found.generated).items():
        launch, listed = _object(found, name), _object(found, f"{name}_awaited")
        if launch is None:
            return f"the program has no {name}"
        held = {to for _, to in found.program.pointers_in(launch.address, launch.end)}
        pointed = [to for _, to in found.program.pointers_in(listed.address, listed.end)] if listed else []
        if listed and listed.address not in held:
            return f"{name} does not point to {listed.name}"
        others = {other: _object(found, other) for other in wanted}
        missing = [other for other, symbol in others.items() if symbol is None or symbol.address not in pointed]
        if missing:
            return f"{name} does not wait for {missing[0]}, which uses the same memory of the device"
    return ""


# Flags.


def _flags(found: Inspected) -> str:
    functions = found.analysis.by_name
    missing = [name for name in (WAIT, RAISE) if name not in functions]
    if missing:
        return f"the program has no function {missing[0]}"
    if found.program.machine == "x86-64":
        return ""  # every load acquires and every store releases
    wait, raised = (found.analysis.facts(name).instructions for name in (WAIT, RAISE))
    if not any(text.startswith(("ldar ", "ldapr ")) for text in wait) and not _fenced(wait, "ldr", ("ish", "ishld")):
        return f"{WAIT} reads the flag without an acquire instruction: {'; '.join(wait)}"
    if not any(text.startswith("stlr ") for text in raised) and not _fenced(raised, "dmb", ("ish",)):
        return f"{RAISE} writes the flag without a release instruction: {'; '.join(raised)}"
    return ""


def _fenced(instructions: Sequence[str], first: str, kinds: Sequence[str]) -> bool:
    """Return whether a barrier of one of these kinds is after a load, or before a store."""
    texts = [text.replace(" #", " ") for text in instructions]
    fences = [index for index, text in enumerate(texts) if text in {f"dmb {kind}" for kind in kinds}]
    wanted = "ldr " if first == "ldr" else "str "
    others = [index for index, text in enumerate(texts) if text.startswith(wanted)]
    if not fences or not others:
        return False
    return min(others) < max(fences) if first == "ldr" else min(fences) < max(others)


# Forwards.


def _wrong_forward(found: Inspected, forward: Forward) -> str:
    if forward.name not in found.analysis.by_name:
        return f"the program has no function {forward.name}"
    facts = found.analysis.facts(forward.name)
    counterexample = _forbidden(found, forward.name, facts) or _forward_touches(found, forward, facts)
    if counterexample:
        return counterexample
    if forward.driver:
        allowed = {*forward.driver, *(name for name, _ in forward.merges)}
        wrong = [call for call in facts.calls if call.name not in allowed and not _is_unknown(found, call.name)]
        return f"{forward.name} calls {wrong[0].name or 'a computed address'}" if wrong else ""
    if any(_is_unknown(found, call.name) for call in facts.calls):
        return ""  # it may be a call of a stage
    return _wrong_calls(found, forward, facts)


def _forbidden(found: Inspected, name: str, facts: Facts, *, given_data: bool = False) -> str:
    """Return an instruction that no function of the network may have; note what is not understood.

    Where a function is `given_data`, its arguments point to numbers, and never to pointers.
    """
    for instruction in facts.strange:
        if IMPURE.fullmatch(instruction.text.split()[0]):
            return f"function {name} has the instruction {instruction.words}"
        found.not_understood.append(f"function {name} has the instruction {instruction.words}")
    gaps = facts.gaps if given_data else (*facts.gaps, *facts.kept)
    found.not_understood.extend(f"function {name}: {gap}" for gap in gaps)
    found.not_understood.extend(
        f"function {name} calls {call.name or 'a computed address'} at {call.at:#x}"
        for call in facts.calls
        if _is_unknown(found, call.name)
    )
    return ""


def _is_unknown(found: Inspected, name: str | None) -> bool:
    """Return whether a callee is computed, or a function of the compiler's own library."""
    return name is None or (name.startswith("__") and name not in found.analysis.by_name)


def _forward_touches(found: Inspected, forward: Forward, facts: Facts) -> str:
    for touch in facts.touches:
        value = touch.value
        if isinstance(value, Frame):
            continue
        if isinstance(value, Argument) and touch.write is None and (value.numbers == {0} or forward.uses_execution):
            continue
        if _is_constant_read(found, touch):
            continue
        if isinstance(value, Static) and touch.write is None:
            continue  # which objects it may have addresses of is a claim of its own
        counterexample = _wrong_touch(found, forward.name, touch, value)
        if counterexample:
            return counterexample
    return ""


def _wrong_touch(found: Inspected, name: str, touch: Touch, value: Value) -> str:
    """Describe a forbidden effect of a function; only note it if the address is not known exactly."""
    does = {True: "writes", False: "reads", None: "uses"}[touch.write]
    words = f"{name} {does} {_words(found, value)}: {touch.text} at {touch.at:#x}"
    if isinstance(value, Argument) or (isinstance(value, Static) and value.alone):
        return words
    found.not_understood.append(words)
    return ""


def _is_constant_read(found: Inspected, touch: Touch) -> bool:
    value = touch.value
    return (
        isinstance(value, Static) and touch.write is not True and all(_is_constant(found, a) for a in value.addresses)
    )


def _is_constant(found: Inspected, address: int) -> bool:
    """Return whether only constants without a name, or the linker's table of addresses, are there."""
    section = found.program.section_at(address)
    if section is None or section.executable:
        return False
    return found.program.object_at(address) is None and (not section.writable or section.name in LINKER_SECTIONS)


def _words(found: Inspected, value: Value) -> str:
    if isinstance(value, Static):
        return found.describe(value.addresses[0])
    if isinstance(value, Argument):
        return f"its argument {max(value.numbers) + 1}"
    return "through a pointer of unknown origin"


def _wrong_calls(found: Inspected, forward: Forward, facts: Facts) -> str:
    planned = dict([*forward.merges, *forward.stages])
    by_place = {call.at: call for call in facts.calls}
    for call in facts.calls:
        # A jump to a stage is its call, as of a block of one vector, if no argument lies in the frame that it releases.
        if call.name not in planned or (call.tail and any(isinstance(value, Frame) for value in call.arguments)):
            return f"{forward.name} calls {call.name}, the plan says {', '.join(planned)}"
        used = found.analysis.used(call.name)
        for number, (value, wanted) in enumerate(zip(call.arguments, planned[str(call.name)], strict=False)):
            if number not in used:
                continue
            if value is None or isinstance(value, Loaded) or (isinstance(value, Static) and not value.alone):
                found.not_understood.append(
                    f"{forward.name} calls {call.name} at {call.at:#x} with argument {number + 1} of unknown origin"
                )
            elif not _points_to(found, value, wanted):
                there = wanted or "the forward's own frame"
                return f"{forward.name} calls {call.name} with argument {number + 1} that does not point to {there}"
    called = {call.name for call in facts.calls}
    if called != set(planned):
        return f"{forward.name} does not call {', '.join(sorted(set(planned) - called))}"
    return _wrong_order(forward, facts, by_place) or _wrong_frames(found, forward, facts, by_place)


def _points_to(found: Inspected, value: Value, wanted: str | None) -> bool:
    if wanted is None:
        return isinstance(value, Frame)
    if not isinstance(value, Static):
        return False
    holder = _object(found, wanted)
    return holder is not None and all(holder.address <= address < holder.end for address in value.addresses)


def _wrong_rows(found: Inspected, forward: Forward) -> str:
    if forward.name not in found.analysis.by_name:
        return f"the program has no function {forward.name}"
    copies = {f"{task.name}_copies": task.buffers for task in found.plan.tasks}
    objects = {}
    for name, planned in found.storage.items():
        symbol, copy = _object(found, name), planned.size // copies.get(name, 1)
        if symbol and copy:
            objects[name] = symbol, copy // found.plan.block, copy
    return Rows(found.analysis, forward, found.plan.block, objects, found.not_understood).wrong()


def _wrong_order(forward: Forward, facts: Facts, calls: Mapping[int, Call]) -> str:
    """Describe a call in the wrong order; each merge, then the stages, are loops that may have no iteration."""
    loops = [*([name] for name, _ in forward.merges), [name for name, _ in forward.stages]]
    for place, following in facts.order.items():
        at = str(calls[place].name) if place != ENTRY else ""
        loop = next((index for index, names in enumerate(loops) if at in names), -1)
        last = loop < 0 or loops[loop][-1] == at
        allowed: set[str | None] = {names[0] for names in loops[max(loop, 0) :]} if last else set()
        if not last:
            allowed = {loops[loop][loops[loop].index(at) + 1]}
        for other in following:
            if (other == END and not last) or (other != END and calls[other].name not in allowed):
                after = f"after {at}" if at else "first"
                return f"{forward.name} {after} calls {'nothing' if other == END else calls[other].name}"
    return ""


def _wrong_frames(found: Inspected, forward: Forward, facts: Facts, calls: Mapping[int, Call]) -> str:
    """Check that each stage reads from the forward's frame the values that the stage before left there."""
    for place, following in facts.order.items():
        if place == ENTRY or calls[place].name != forward.stages[0][0] or len(forward.stages) == 1:
            continue
        made = calls[place].arguments[len(forward.stages[0][1]) - 1]
        for other in following:
            if other == END:
                continue
            taken = calls[other].arguments[0]
            if not (isinstance(made, Frame) and isinstance(taken, Frame)) or None in {made.offset, taken.offset}:
                found.not_understood.append(f"{forward.name} calls {calls[other].name} with an array of unknown place")
            elif taken != made:
                return (
                    f"{forward.name} calls {calls[other].name} with another array than {calls[place].name} has filled"
                )
    return ""


# Items.


def _wrong_init(found: Inspected, index: int) -> str:
    """Describe what the functions of an item, its forwards excepted, do beyond what the generated code says.

    What init computes follows from constants: it is the same in every mode of the program, whenever it runs.
    """
    item, code = found.plan.items[index], found.generated.items[index]
    own = [of_task for task, of_task in zip(found.plan.tasks, found.generated.tasks, strict=True) if task.item == index]
    tables = {table.name: table.computed for of_task in own for table in of_task.tables}
    name = f"{item.name}_init"
    if name not in found.analysis.by_name:
        return f"the program has no function {name}"
    driver = _called_outside(found, code.initialise)
    reached = found.analysis.reachable([name], driver)
    for other, facts in reached.items():
        if other in driver or found.analysis.is_pure(other) or _is_unknown(found, other):
            continue
        counterexample = f"{name} calls {other}" if facts is None else ""
        if facts is not None:
            calls = tuple(call for call in facts.calls if call.name not in driver)
            own_facts = dataclasses.replace(facts, calls=calls)
            counterexample = _forbidden(found, other, own_facts, given_data=True) or _init_touches(
                found, other, own_facts, tables, is_helper=other != name
            )
        if counterexample:
            return counterexample
    bodies = {each: re.search(rf"{each}\(void\)\n\{{\n(.*?)\n\}}", code.definitions, re.DOTALL)
              for each in (code.reread, code.device)}  # fmt: skip
    texts = {f"{item.name}_close": code.close} | {each: body[1] for each, body in bodies.items() if body}
    return next(filter(None, (_wrong_service(found, *each) for each in texts.items())), "")


def _called_outside(found: Inspected, text: str) -> set[str]:
    """Return the functions of other files than network.c that generated statements call."""
    functions = found.analysis.by_name
    return {name for name in re.findall(r"\w+(?=\()", text) if name in functions and functions[name].file != NETWORK}


def _init_touches(found: Inspected, name: str, facts: Facts, tables: Mapping[str, bool], *, is_helper: bool) -> str:
    """Return a forbidden access of init, or of a function that it calls and that is given tables."""
    computed = {table for table, is_computed in tables.items() if is_computed}
    for touch in (*facts.touches, *_through_calls(found, facts)):
        value, allowed = touch.value, computed if touch.write else set(tables)
        if isinstance(value, Frame) or (isinstance(value, Argument) and is_helper):
            continue
        if isinstance(value, Static) and not (touch.write is None and ADDRESS_BITS.match(touch.text)):
            foreign = _foreign(found, touch, value, allowed)
            if foreign is None:
                continue
            value = foreign
        counterexample = _wrong_touch(found, name, touch, value)
        if counterexample:
            return counterexample
    return ""


def _wrong_service(found: Inspected, name: str, text: str) -> str:
    """Return what a function of an item does beyond the calls of fixed functions that its text has."""
    if name not in found.analysis.by_name:
        return f"the program has no function {name}"
    facts, driver = found.analysis.facts(name), _called_outside(found, text)
    wrong = [call.name for call in facts.calls if call.name not in driver]
    if wrong:
        return f"{name} calls {wrong[0] or 'a computed address'}"
    service = Forward(name, (), (), tuple(driver), uses_execution=False)
    return _forbidden(found, name, facts) or _forward_touches(found, service, facts)


# Stages.


def _wrong_callers(found: Inspected, code: LayerCode, forward: Forward) -> str:
    callers = found.callers
    of_init = {f"{item.name}_init" for item in found.plan.items if item.target == "c:unrolled"}
    for stage in code.stages:
        copies = [function.name for function in found.analysis.functions if function.name.split(".")[0] == stage.name]
        copies = [name for name in copies if not name.endswith(".cold")]  # a separate part of the function
        parts = [name for name in copies if name != stage.name]
        if copies.count(stage.name) != 1 or parts:
            return f"{stage.name} has {len(copies)} copies: {', '.join(copies) or 'none'}"
        wanted, allowed = (
            {f"{stage.name}_stage", forward.name},
            of_init if stage.part is StageKind.ACCUMULATE else set(),
        )
        actual = callers.get(stage.name, set())
        if not wanted <= actual <= wanted | allowed:
            return f"{stage.name} is called by {', '.join(sorted(actual))}"
        held = [p for p, to in found.program.pointers.items() if to == found.analysis.by_name[stage.name].address]
        if held:
            return f"{found.describe(held[0])} holds the address of {stage.name}"
        counterexample = _wrong_wrapper(found, f"{stage.name}_stage", stage.name)
        if counterexample:
            return counterexample
    return ""


def _wrong_wrapper(found: Inspected, name: str, stage: str) -> str:
    """Return how the function by which the proof calls a stage does more than calls: it could change the answers."""
    facts = found.analysis.facts(name)
    counterexample = _forbidden(found, name, facts)
    if counterexample:
        return counterexample
    others = [call.name for call in facts.calls if call.name not in {stage, COPY}]
    others = [other for other in others if not _is_unknown(found, other)]
    if others:
        return f"{name} calls {', '.join(map(str, others))}"
    copies = [call.arguments for call in facts.calls if call.name == COPY]
    arrays = [pair for to, source, read, written, *_ in copies for pair in ((to, written), (source, read))]
    for touch in facts.touches:
        value = touch.value
        inside = isinstance(value, Frame) and any(_inside(value, *array) for array in arrays)
        passed = isinstance(value, Argument) and touch.write is None
        if (isinstance(value, Frame) and not inside) or passed or _is_constant_read(found, touch):
            continue
        if isinstance(value, Frame) and value.offset is not None:
            return f"{name} touches the array that it copies: {touch.text} at {touch.at:#x}"
        counterexample = _wrong_touch(found, name, touch, value)
        if counterexample:
            return counterexample
    return ""


def _inside(place: Frame, array: Value, size: Value) -> bool:
    """Return whether a place of the frame may be in an array of the frame."""
    if not isinstance(array, Frame) or place.origin != array.origin:
        return isinstance(array, Frame)
    if place.offset is None or array.offset is None or not isinstance(size, Constant):
        return True
    return array.offset <= place.offset < array.offset + size.value


def _impure(found: Inspected, code: LayerCode, forward: Forward) -> str:
    tables, planned = {table.name for table in code.tables}, dict([*forward.merges, *forward.stages])
    for stage in code.stages:
        reached = found.analysis.reachable([stage.name], ())
        unknown = [name for name, facts in reached.items() if facts is None and not found.analysis.is_pure(name)]
        unknown = [name for name in unknown if not _is_unknown(found, name)]
        if unknown:
            return f"{stage.name} calls {', '.join(unknown)}, not known to compute from arguments alone"
        for name, facts in reached.items():
            if facts is None:
                continue
            given_data = stage.part is not StageKind.MERGE
            follows = code.indirect and name != stage.name
            counterexample = _forbidden(found, name, facts, given_data=given_data) or _impure_touch(
                found, name, facts, tables, may_follow=not given_data, indirect=follows
            )
            if counterexample:
                return counterexample if name == stage.name else f"{counterexample}, called by {stage.name}"
        if found.not_understood:
            continue  # values that are not followed could be mistaken for others
        counterexample = _dependent(found, stage, len(planned[stage.name])) or _early(found, stage)
        if counterexample:
            return counterexample
    return ""


def _dependent(found: Inspected, stage: Stage, arguments: int) -> str:
    """Return how a stage, or a function that it calls, depends on addresses or on registers that nobody has set.

    An address may be compared with, and subtracted from, another one that is derived from the same argument.
    """
    todo = [(stage.name, tuple((number, frozenset({number})) for number in range(arguments)))]
    seen = set()
    while todo:
        name, origins = todo.pop()
        if (name, origins) in seen:
            continue
        seen.add((name, origins))
        facts, origin = found.analysis.facts(name), dict(origins)
        words = name if name == stage.name else f"{name}, called by {stage.name},"
        counterexample = _dependence(words, facts, origin, called=name != stage.name)
        if counterexample:
            return counterexample
        for call in facts.calls:
            values = [_origins(value, origin) for value in call.arguments]
            if call.name in found.analysis.by_name:
                todo.append((str(call.name), tuple(enumerate(values))))
            elif any(values[fixed.POINTERS.get(str(call.name), 0) : fixed.PURE.get(str(call.name), 0)]):
                return f"{words} passes an address as a number: call of {call.name} at {call.at:#x}"
    return ""


def _dependence(words: str, facts: Facts, origin: Mapping[int, frozenset[int]], *, called: bool) -> str:
    by_caller = {f"{kind}{number}" for kind in ("xmm", "v") for number in range(8)} if called else set()
    unset = [at for at, names in facts.unset.items() if names - by_caller]
    places = [touch for touch in facts.touches if UNSET in _origins(touch.value, origin)]
    unset += [f"{touch.text} at {touch.at:#x}" for touch in places if touch.write is not None]
    for use in facts.uses:
        plus, minus = (_origins(Difference(side, frozenset()), origin) for side in (use.plus, use.minus))
        if UNSET in plus | minus:
            unset.append(use.words)
        elif not (plus == minus and len(plus) == 1) and len(plus | minus) > use.most and plus | minus != {FRAME}:
            if len(plus | minus) == 1:
                return f"{words} computes with bits of the address in {_named(plus | minus)}: {use.words}"
            return f"{words} compares or combines the addresses of {_named(plus | minus)}: {use.words}"
    if unset:
        return f"{words} reads a register that neither it nor its caller has set: {unset[0]}"
    return f"{words} does not wait for its non-temporal stores: {facts.unfenced[0]}" if facts.unfenced else ""


def _origins(value: Value, origin: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Return the addresses that a value contains: the stage's arguments, FRAME, IMAGE or UNSET."""
    numbers = frozenset({UNSET}) if isinstance(value, Unset) else frozenset().union(*addresses(value))
    return frozenset().union(*(origin.get(n, {UNSET}) if n >= 0 else {n} for n in numbers))


def _named(numbers: Iterable[int]) -> str:
    names = {FRAME: "its frame", IMAGE: "the program"}
    return " and ".join(names.get(number, f"its argument {number + 1}") for number in sorted(numbers, reverse=True))


def _early(found: Inspected, stage: Stage) -> str:
    """Return how a stage reads what it writes before it has written it: values of an earlier vector."""
    written = _written_arguments(found, stage.name, frozenset())
    whole = ((1 << stage.output_width * stage.output_dtype.itemsize) - 1) << 1
    for load in found.analysis.facts(stage.name).stores[0].early:
        if load.number in written and not (load.bytes_ == 1 and whole & ~load.stored == 0):
            return f"{stage.name} reads its argument {load.number + 1} where it has not written it: {load.words}"
    return ""


def _impure_touch(
    found: Inspected, name: str, facts: Facts, tables: set[str], *, may_follow: bool, indirect: bool
) -> str:
    """Return a forbidden access; `indirect` functions read pointers from arrays, and write through these pointers."""
    touches = [*facts.touches, *_through_calls(found, facts)]
    for touch in touches:
        value = touch.value
        if isinstance(value, Frame | Argument):
            continue
        if isinstance(value, Loaded) and (
            (indirect and (not touch.write or value.depth == DEEPEST))
            or (may_follow and not touch.write and value.depth == 1)
        ):
            continue
        if isinstance(value, Static) and not touch.write:
            foreign = _foreign(found, touch, value, tables)
            if foreign is None:
                continue
            value = foreign
        counterexample = _wrong_touch(found, name, touch, value)
        if counterexample:
            return counterexample
    return ""


def _foreign(found: Inspected, touch: Touch, value: Static, objects: set[str]) -> Static | None:
    """Return the addresses of a touch that are outside these objects; None if it touches nothing else."""
    foreign = tuple(address for address in value.addresses if not _is_own(found, address, objects))
    if foreign:
        return Static(foreign, exact=True)
    return None if value.alone or touch.write is None else value


def _through_calls(found: Inspected, facts: Facts) -> Iterator[Touch]:
    """Yield the writes and reads of functions through the arguments of calls."""
    for call in facts.calls:
        written = _written_arguments(found, str(call.name), frozenset())
        for number, value in enumerate(call.arguments[: found.analysis.arity(call.name)]):
            if number in written:
                yield Touch(call.at, f"call of {call.name}", value, write=True)
            elif isinstance(value, Static):
                yield Touch(call.at, f"call of {call.name}", value, write=None)


def _written_arguments(found: Inspected, name: str, seen: frozenset[str]) -> set[int]:
    if name in fixed.WRITTEN_BY_LIBRARY and found.analysis.is_pure(name):
        return {fixed.WRITTEN_BY_LIBRARY[name]}
    if name in seen or name not in found.analysis.by_name:
        return set()
    facts = found.analysis.facts(name)
    written = {n for t in facts.touches if t.write and isinstance(t.value, Argument) for n in t.value.numbers}
    for call in facts.calls:
        inner = _written_arguments(found, str(call.name), seen | {name})
        values = (value for number, value in enumerate(call.arguments) if number in inner)
        written |= {n for value in values if isinstance(value, Argument) for n in value.numbers}
    return written


def _is_own(found: Inspected, address: int, tables: set[str]) -> bool:
    holder = found.program.object_at(address)
    if holder is None:
        return _is_constant(found, address)
    return holder.file == NETWORK and holder.name in tables
