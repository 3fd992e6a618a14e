"""Abstract execution of a function: how often each edge of its control-flow graph is taken at most.

Registers and memory hold numbers, linear forms of loop counters, or data of which nothing is known.  A branch that
data decide is taken both ways.  A loop is executed one iteration after the other.  Where two iterations took the same
way, the next ones are executed at once: an iteration is executed with linear forms of the number of iterations before
it; if it ends with the forms that it began with, one step further, then by induction all iterations are as this one,
as long as the decisions about the forms stay the same.

The method is that of Gustafsson, Ermedahl, Sandberg and Lisper, "Automatic derivation of loop bounds and infeasible
paths for WCET analysis using abstract execution", RTSS 2006; the loops that are executed at once are new.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from harness.analysis.inspection.fixed import PURE
from harness.analysis.inspection.program import Program
from harness.applications.wcet.graph import COPY, Block, Function, Functions, Loop
from harness.applications.wcet.machine import Step
from harness.applications.wcet.state import LONGEST_COPY, RETURN, STACK_BYTES, STACK_TOP, Memory, RefusedError, State
from harness.applications.wcet.values import (
    DATA,
    UNLIMITED,
    VARIES,
    Counter,
    Linear,
    NotAffineError,
    Unknown,
    Value,
    counter,
    fit,
    linear,
    subtract,
    unknown,
)

ENTRY = -2
"""The block before the first of a function."""
BUDGET = 5_000_000
"""Blocks that may be executed for one function of the schedule."""
WORTHWHILE = 2
"""Iterations that are executed at once, at least."""
MOST_ATTEMPTS = 8
"""Times that an iteration is executed with forms of a counter, each time with fewer values that are followed."""
LONGEST_WAIT = 64
"""Iterations after which a loop that could not be executed at once is tried again, at most."""

Edge: TypeAlias = tuple[int, int]


class Context(NamedTuple):
    """A function as it is called from a chain of call sites."""

    function: int
    calls: tuple[int, ...]

    def called(self, site: int, function: int) -> Context:
        """Return the context of a function that is called from here."""
        return Context(function, (*self.calls, site))


class LibraryCall(NamedTuple):
    """Calls of a function of a library with so many bytes, from one place, through `linker` instructions."""

    name: str
    site: int
    size: int
    linker: int


class Accessed(NamedTuple):
    """Bytes that are read or written by an instruction."""

    site: int
    write: bool
    start: Value
    size: int


@dataclass
class Recorded:
    """Upper bounds of the events of an execution, each multiplied by the iterations of the loops around it."""

    edges: Counts[tuple[Context, Edge]] = field(default_factory=Counts)
    library: Counts[LibraryCall] = field(default_factory=Counts)
    accessed: set[Accessed] = field(default_factory=set)
    iterations: dict[tuple[Context, int], int] = field(default_factory=dict)
    decided_by_data: set[tuple[int, int]] = field(default_factory=set)
    addressed_by_data: set[int] = field(default_factory=set)
    lowest_stack: int = STACK_TOP

    def add(self, other: Recorded, times: int = 1) -> None:
        """Add what was done `times` times."""
        for key, count in other.edges.items():
            self.edges[key] += times * count
        for call, count in other.library.items():
            self.library[call] += times * count
        for loop, count in other.iterations.items():
            self.iterations[loop] = max(count, self.iterations.get(loop, 0))
        self.accessed |= other.accessed
        self.decided_by_data |= other.decided_by_data
        self.addressed_by_data |= other.addressed_by_data
        self.lowest_stack = min(self.lowest_stack, other.lowest_stack)

    def limited(self, of: Counter) -> None:
        """Replace the accesses of all iterations by the first and the last of them; the limit is known now."""
        found = set()
        for each in self.accessed:
            if isinstance(each.start, Linear) and of in each.start.factors:
                ends = (each.start.at(of, end) for end in (0, of.limit - 1))
                found |= {Accessed(each.site, each.write, fit(end, 64), each.size) for end in ends}
            else:
                found.add(each)
        self.accessed = found


@dataclass
class _Deferred:
    """Stores to addresses that are forms of a counter without a limit yet, and loads of known bytes."""

    stores: set[tuple[Linear, int]] = field(default_factory=set)
    loads: set[tuple[int, int]] = field(default_factory=set)


Leaving: TypeAlias = dict[Edge, State]
"""The states with which a region is left, by the edges."""


@dataclass(frozen=True)
class Execution:
    """The result for one function of the schedule."""

    root: Context
    recorded: Recorded
    functions: Mapping[int, Function]

    @property
    def stack(self) -> int:
        """Return the bytes of the stack that the function needs, with all that it calls in the program."""
        return STACK_TOP - self.recorded.lowest_stack


class Executor:
    """Executes the functions of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions = Functions(program)

    def execute(self, address: int, arguments: tuple[int, ...]) -> Execution:
        """Execute the function at an address with numbers as arguments; RefusedError if it cannot be followed."""
        slow: set[tuple[int, int]] = set()
        while True:
            run = _Run(self, address, slow)
            try:
                return run.whole(address, arguments)
            except RefusedError as error:
                if error.address is None:
                    error.address = run.address
                raise
            except NotAffineError as error:
                if run.hurried is None:
                    raise RefusedError(
                        f"{run.where}: a decision depends on numbers that are not followed", ADVICE, run.address
                    ) from error
                slow.add(run.hurried)


ADVICE = "build with other flags, for example -O1, or choose another variant of the target with --items"


class _Run:
    """One execution of a function of the schedule."""

    def __init__(self, executor: Executor, address: int, slow: set[tuple[int, int]]) -> None:
        self._functions, self._slow = executor.functions, slow
        self._processor = executor.functions.processor
        self._memory = Memory(executor.program)
        self._recorded = Recorded()
        self._left = BUDGET
        self._active: list[int] = []
        self._returns = [RETURN]
        self._deferred: list[_Deferred] = []
        self._step = Step(address, 0, "the first instruction", None, "", None, None, None)
        self.hurried: tuple[int, int] | None = None

    @property
    def address(self) -> int:
        """Return the address of the instruction that was executed last."""
        return self._step.address

    @property
    def where(self) -> str:
        """Return the instruction that was executed last."""
        return f"{self._step.text} at {self._step.address:#x}"

    def whole(self, address: int, arguments: tuple[int, ...]) -> Execution:
        """Execute the function; see `Executor.execute`."""
        state = self._processor.state(STACK_TOP)
        state.registers[self._processor.link] = RETURN
        for register, value in zip(self._processor.arguments, arguments, strict=False):
            state.registers[register] = value
        root = Context(address, ())
        self.call(root, state)
        used = {context.function for context, _ in self._recorded.edges}
        return Execution(root, self._recorded, {each: self._function(each) for each in used})

    def _function(self, address: int) -> Function:
        found = self._functions.at(address)
        if found is None:
            raise RefusedError(f"{self.where}: there is no function at {address:#x}", ADVICE)
        return found

    # Calls

    def call(self, context: Context, state: State) -> State | None:
        """Execute a function; return the state after its return, or None if it never returns."""
        function = self._function(context.function)
        if context.function in self._active:
            raise RefusedError(f"{self.where}: {function.name} calls itself", "remove the recursion")
        self._active.append(context.function)
        stack = state.registers[self._processor.stack]
        self._recorded.edges[context, (ENTRY, function.symbol.address)] += 1
        left = self._region(context, function, function.whole, state)
        self._active.pop()
        ended: State | None = None
        for found in left.values():
            if ended is None:
                ended = found
            else:
                ended.merge(found)
        if ended is not None and ended.registers[self._processor.stack] != stack:
            raise RefusedError(f"{function.name} does not restore the stack pointer", ADVICE)
        return ended

    def _to(self, context: Context, step: Step, target: Value, state: State) -> State | None:
        """Execute the function that a call or jump leads to."""
        if not isinstance(target, int):
            raise RefusedError(f"{self.where}: the function that is called is not known", ADVICE)
        name = self._memory.imported(target)
        if name is not None:
            return self._library(name, step, state, 0)
        if self._functions.at(target) is not None:
            return self.call(context.called(step.address, target), state)
        stub = self._functions.stub(target)
        if not stub or stub[-1].flow != "jump" or stub[-1].register is None:
            raise RefusedError(f"{self.where}: there is no function at {target:#x}", ADVICE)
        for each in stub[:-1]:
            if each.action:
                each.action(state, self)
        found = state.registers[stub[-1].register]
        name = self._memory.imported(found) if isinstance(found, int) else None
        if name is None:
            raise RefusedError(f"{self.where}: the function that is called is not known", ADVICE)
        return self._library(name, step, state, len(stub))

    def _library(self, name: str, step: Step, state: State, linker: int) -> State:
        """Follow a call of the C library: what it writes, and what its caller may not rely on."""
        if name not in PURE or name == "memcmp":
            raise RefusedError(f"{self.where}: calls {name} of a library, of whose time nothing is known", ADVICE)
        result: Value = DATA
        if PURE[name]:
            result = self._copied(name, step, state, linker)
        else:
            self._recorded.library[LibraryCall(name, step.address, 0, linker)] += 1
        for register in self._processor.changed_by_calls:
            state.registers[register] = DATA
        state.registers[self._processor.result], state.flags = result, DATA
        return state

    def _copied(self, name: str, step: Step, state: State, linker: int) -> Value:
        """Follow memcpy, memmove or memset; return where it wrote."""
        to, source, size = (fit(state.registers[number], 64) for number in self._processor.arguments[:3])
        if not isinstance(size, int):
            raise self._unknown(size, "the number of bytes")
        self._recorded.library[LibraryCall(name, step.address, size, linker)] += 1
        content: dict[int, tuple[int, Value]] = {}
        if name != "memset":
            self._record(source, size, write=False)
            if isinstance(source, int) and isinstance(to, int) and size <= LONGEST_COPY:
                content = self._content(state, source, to, size)
        elif source == 0 and isinstance(to, int) and size <= LONGEST_COPY:
            content = {to + 8 * index: (8, 0) for index in range(size // 8)}
        if size:
            self.store(state, to, size, DATA)
        state.memory |= content
        return to

    def _content(self, state: State, source: int, to: int, size: int) -> dict[int, tuple[int, Value]]:
        """Return what is known of copied memory, in words."""
        found: dict[int, tuple[int, Value]] = {}
        for start in range(0, size, 4):
            length = min(4, size - start)
            value = state.load(source + start, length, self._memory)
            if isinstance(value, int):
                found[to + start] = (length, value)
        return found

    # Regions

    def _region(self, context: Context, function: Function, region: Loop, state: State) -> Leaving:
        """Execute a region once, from its header; edges back to the header of a loop leave it too."""
        part_of = region.part_of
        pending: dict[int, State] = {region.header: state}
        leaving: Leaving = {}
        is_loop = region is not function.whole
        for part in region.parts:
            header = part.header if isinstance(part, Loop) else part
            entered = pending.pop(header, None)
            if entered is None:
                continue
            out = (
                self._loop(context, function, part, entered)
                if isinstance(part, Loop)
                else self._block(context, function.blocks[part], entered)
            )
            for (start, to), found in out:
                inside = to in part_of and not (is_loop and to == region.header)
                if inside:
                    _into(pending, to, found)
                else:
                    _into(leaving, (start, to), found)
        return leaving

    def _block(self, context: Context, block: Block, state: State) -> list[tuple[Edge, State]]:
        """Execute a block; return the edges that may be taken, with their states."""
        self._left -= 1
        if self._left < 0:
            raise RefusedError(f"{self.where}: the analysis takes more than {BUDGET:,} blocks", ADVICE)
        registers, lowest = state.registers, self._recorded.lowest_stack
        for step in block.steps:
            self._step = step
            if step.action:
                step.action(state, self)
                stack = registers[self._processor.stack]
                if not isinstance(stack, int):
                    raise RefusedError(f"{self.where}: the stack pointer is not known", ADVICE)
                lowest = min(lowest, stack)
        self._recorded.lowest_stack = lowest
        return self._flow(context, block, state)

    def _flow(self, context: Context, block: Block, state: State) -> list[tuple[Edge, State]]:
        """Return the edges that may be taken behind a block; execute the function that it calls."""
        last, following = block.last, block.following
        if last.flow == "stop" or not following:
            raise RefusedError(f"{self.where}: ends the program", ADVICE)
        if last.address in self._functions_calls(context):
            return self._after(context, block, self._call_from(context, last, state))
        if last.flow == "return" and state.registers[self._processor.link] != self._returns[-1]:
            raise RefusedError(f"{self.where}: the return address is not known", ADVICE)
        if last.condition is None or len(following) == 1:
            return self._after(context, block, state)
        taken = last.condition(state)
        fall, target = following
        if taken is None:
            self._recorded.decided_by_data.add((context.function, last.address))
            other = self._edge(context, block, fall, state.copy())
            return [other, self._edge(context, block, target, self._taken(last, state))]
        return [self._edge(context, block, target if taken else fall, self._taken(last, state) if taken else state)]

    def _taken(self, last: Step, state: State) -> State:
        """Return the state behind a branch that is taken; a branch without a target returns."""
        if last.taken:
            last.taken(state, self)
        if last.target is None and state.registers[self._processor.link] != self._returns[-1]:
            raise RefusedError(f"{self.where}: the return address is not known", ADVICE)
        return state

    def _functions_calls(self, context: Context) -> Mapping[int, Sequence[Block]]:
        return self._function(context.function).calls

    def _call_from(self, context: Context, step: Step, state: State) -> State | None:
        after = step.address + step.size
        target: Value = state.registers[step.register] if step.register is not None else step.target or 0
        if isinstance(target, int):
            target &= self._processor.code_mask
        if step.flow == "jump":  # its return is this function's
            return self._to(context, step, target, state)
        state.registers[self._processor.link] = after
        self._returns.append(after)
        returned = self._to(context, step, target, state)
        self._returns.pop()
        return returned

    def _after(self, context: Context, block: Block, state: State | None) -> list[tuple[Edge, State]]:
        return [] if state is None else [self._edge(context, block, block.following[0], state)]

    def _edge(self, context: Context, block: Block, to: int, state: State) -> tuple[Edge, State]:
        edge = block.key, to
        self._recorded.edges[context, edge] += 1
        return edge, state

    # Loops

    def _loop(self, context: Context, function: Function, loop: Loop, state: State) -> list[tuple[Edge, State]]:
        """Execute a loop to its end; return the edges that leave it."""
        leaving: Leaving = {}
        current: State | None = state
        completed, wait, failures = 0, 1, 0
        key = (context.function, loop.header)
        while current is not None:
            before = current.copy()
            outer, self._recorded = self._recorded, Recorded()
            try:
                current = self._iteration(context, function, loop, current, leaving)
            finally:
                once, self._recorded = self._recorded, outer
                outer.add(once)
            if current is None:
                break
            completed += 1
            wait -= 1
            if wait <= 0 and key not in self._slow:
                jumped = self._hurry(context, function, loop, before, current, leaving)
                completed += jumped
                if jumped:
                    self.hurried = key
                    wait, failures = 1, 0
                else:
                    failures += 1
                    wait = min(1 << failures, LONGEST_WAIT)
            if before.registers == current.registers and before.memory == current.memory:
                raise RefusedError(
                    f"{function.name}: the loop at {loop.header % COPY:#x} has no bound that follows from the "
                    "program's constants: data decide when it ends",
                    "bound its iterations by a constant",
                    loop.header % COPY,
                )
        iterations = self._recorded.iterations
        iterations[context, loop.header] = max(completed, iterations.get((context, loop.header), 0))
        return list(leaving.items())

    def _iteration(
        self, context: Context, function: Function, loop: Loop, state: State, leaving: Leaving
    ) -> State | None:
        """Execute one iteration; add the states that leave the loop, return the one for the next."""
        back: State | None = None
        for edge, found in self._region(context, function, loop, state).items():
            if edge[1] != loop.header:
                _into(leaving, edge, found)
            elif back is None:
                back = found
            else:
                back.merge(found)
        return back

    def _hurry(
        self, context: Context, function: Function, loop: Loop, before: State, state: State, leaving: Leaving
    ) -> int:
        """Execute the next iterations at once, all but the last of those that are alike; return how many.

        `before` is the state one iteration ago.  The state is changed to that after the iterations.
        """
        of = counter()
        header = _stepped(before, state, of)
        outer, left, active, returns = self._recorded, self._left, len(self._active), len(self._returns)
        try:
            for _ in range(MOST_ATTEMPTS):
                self._recorded, of.limit, of.is_open = Recorded(), UNLIMITED, True
                leaves: Leaving = {}
                back, deferred = self._symbolically(context, function, loop, header, leaves)
                if back is None or of.limit >= UNLIMITED:
                    return 0
                of.is_open = False
                outer_stores = {
                    store for store in deferred.stores if any(factor.is_open for factor in store[0].factors)
                }
                deferred.stores -= outer_stores
                weaker = self._overwritten(header, [back, *leaves.values()], deferred) or _unstable(header, back, of)
                if weaker is None:
                    break
                header = weaker
            else:
                return 0
            times = of.limit - 1
        except NotAffineError:
            self._left = left
            del self._active[active:]
            del self._returns[returns:]
            return 0
        else:
            if times < WORTHWHILE:
                return 0
            of.limit = times
            self._recorded.limited(of)
            if self._deferred:
                self._deferred[-1].stores |= outer_stores
                self._deferred[-1].loads |= deferred.loads
            for edge, each in leaves.items():
                each.forget(of)
                _into(leaving, edge, each)
            outer.add(self._recorded, times)
            header.at(of, times)
            state.registers, state.flags, state.memory = header.registers, header.flags, header.memory
            return times
        finally:
            self._recorded, of.is_open = outer, False

    def _symbolically(
        self, context: Context, function: Function, loop: Loop, header: State, leaves: Leaving
    ) -> tuple[State | None, _Deferred]:
        """Execute one iteration for all values of a counter."""
        self._deferred.append(_Deferred())
        try:
            return self._iteration(context, function, loop, header.copy(), leaves), self._deferred[-1]
        finally:
            self._deferred.pop()

    def _overwritten(self, header: State, after: Sequence[State], deferred: _Deferred) -> State | None:
        """Return a weaker header if stores of other iterations change what it says; None if they do not.

        In the states `after` an iteration nothing is known of what they wrote.  NotAffineError if a load may be of it.
        """
        weaker = None
        for form, size in deferred.stores:
            low, high = form.range
            end = high + size
            if header.known_in(low, end):
                header.kill(low, end)
                weaker = header
            elif any(low < at + length and at < end for at, length in deferred.loads):
                raise NotAffineError
            for state in after:
                state.kill(low, end)
        return weaker

    # Memory

    def load(self, state: State, address: Value, size: int) -> Value:
        """Return the bytes at an address: unknown data where data decide the address."""
        if address is DATA:
            self._recorded.addressed_by_data.add(self._step.address)
            return DATA
        if address is VARIES:
            raise NotAffineError
        self._record(address, size, write=False)
        if isinstance(address, int):
            value = state.load(address, size, self._memory)
            if self._deferred and value is not DATA:
                self._deferred[-1].loads.add((address, size))
            return value
        return VARIES

    def store(self, state: State, address: Value, size: int, value: Value) -> None:
        """Store a value; RefusedError if data decide where."""
        if isinstance(address, Unknown):
            raise self._unknown(address, "the address of a store")
        self._record(address, size, write=True)
        if isinstance(address, int):
            state.store(address, size, fit(value, 8 * size) if size < 8 or isinstance(value, int) else value)
            return
        low, high = address.range
        if any(factor.is_open for factor in address.factors):
            self._deferred[-1].stores.add((address, size))
        else:
            state.kill(low, high + size)

    def _unknown(self, value: Value, what: str) -> Exception:
        """Return the error for a value that has to be known."""
        if value is not DATA:
            return NotAffineError()
        return RefusedError(f"{self.where}: {what} depends on data", "choose another lowering")

    def _record(self, address: Value, size: int, *, write: bool) -> None:
        if isinstance(address, int) and STACK_TOP - STACK_BYTES <= address < STACK_TOP:
            return
        self._recorded.accessed.add(Accessed(self._step.address, write, address, size))


def _into(states: dict, key: object, state: State) -> None:  # type: ignore[type-arg]
    """Add a state to those that come to a block or edge."""
    if key in states:
        states[key].merge(state)
    else:
        states[key] = state


def _stepped(before: State, state: State, of: Counter) -> State:
    """Return the state as forms of the iterations after it, from the difference of two iterations."""

    def form(old: Value, new: Value) -> Value:
        if old == new:
            return new
        if isinstance(old, Unknown) or isinstance(new, Unknown):
            return unknown(old, new) or VARIES
        step = subtract(new, old)
        if not isinstance(step, int):
            return VARIES
        constant, factors = (new, {}) if isinstance(new, int) else (new.constant, dict(new.factors))
        return linear(constant, factors | {of: step - (1 << 64) if step >> 63 else step})

    registers = [b if a is b else form(a, b) for a, b in zip(before.registers, state.registers, strict=True)]
    memory = {
        place: (size, form(before.memory[place][1], value))
        for place, (size, value) in state.memory.items()
        if place in before.memory and before.memory[place][0] == size
    }
    flags = state.flags if before.flags == state.flags else VARIES
    return State(registers, flags, memory)


def _unstable(header: State, back: State, of: Counter) -> State | None:
    """Return a weaker header if an iteration does not lead from it to its next value; None if it does."""

    def next_of(value: Value) -> Value:
        if not isinstance(value, Linear) or of not in value.factors:
            return value
        return linear(value.constant + value.factors[of], dict(value.factors))

    def weaker(a: Value, b: Value) -> Value:
        if isinstance(a, Unknown) or next_of(a) == b:
            return a
        return DATA if b is DATA else VARIES

    registers = [
        a if isinstance(a, Unknown) else weaker(a, b) for a, b in zip(header.registers, back.registers, strict=True)
    ]
    memory = {
        place: (size, weaker(value, back.memory[place][1]))
        for place, (size, value) in header.memory.items()
        if place in back.memory and back.memory[place][0] == size
    }
    flags = header.flags if header.flags == back.flags or isinstance(header.flags, Unknown) else VARIES
    if registers == header.registers and memory == header.memory and flags == header.flags:
        return None
    return State(registers, flags, memory)
