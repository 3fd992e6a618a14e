"""Instructions -> steps: functions that carry one out for some threads of a frame."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np

from harness.targets.cuda.ptx_syntax import (
    BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Name,
    Operand,
    Variable,
    Vector,
)
from tests.simulators.ptx.errors import PtxError
from tests.simulators.ptx.frame import Frame, Lanes, raw
from tests.simulators.ptx.memory import WINDOWS, AccessError, Layout, SharedMemory, Space
from tests.simulators.ptx.operations import OPERATIONS, Array, Operation, dtype_of
from tests.simulators.ptx.warps import PRODUCTS, TRANSFERS, WARP, Product, Transfer, whole_warps


class Machine(Protocol):
    """What steps need of a launch: its memory, and a way to run a function to its end."""

    memory: Space
    shared: SharedMemory
    local: Space
    per_block: int
    blocks: int

    def count(self) -> None: ...

    def run(self, code: Code, frame: Frame) -> None: ...


Step = Callable[[Machine, Frame, Lanes], None]
Reader = Callable[[Frame, Lanes], Array]


@dataclass(frozen=True)
class Branch:
    """To `target`, where `condition` is true; it is None where all threads go."""

    target: int
    condition: Reader | None


class Barrier:
    """All threads of a block meet here."""


class Return:
    """A thread ends."""


@dataclass(frozen=True)
class Slot:
    """`bits` at `offset` of the parameter `base`, kept in a register."""

    base: str
    offset: int
    bits: int
    register: int


@dataclass
class Code:
    """A function's steps, as many registers as they use, and the parts of parameters that it reads and writes.

    `executed` counts the steps of all threads.
    """

    function: Function
    steps: list[Step | Branch | Barrier | Return] = field(default_factory=list)
    registers: int = 0
    read: list[Slot] = field(default_factory=list)
    written: list[Slot] = field(default_factory=list)
    executed: int = 0


@dataclass(frozen=True)
class Access:
    """A load or a store of `count` elements; space "" is the generic one."""

    space: str
    count: int
    type: str


def _accesses(prefix: str, infixes: tuple[str, ...]) -> Iterator[tuple[str, Access]]:
    kinds = [f"{sign}{bits}" for sign in "bsu" for bits in (8, 16, 32, 64)] + ["f32"]
    for infix, count, kind in itertools.product(infixes, (1, 2, 4), kinds):
        vector = f".v{count}" if count > 1 else ""
        if count * BITS[kind] <= 128:
            yield f"{prefix}{infix}{vector}.{kind}", Access(infix.removesuffix(".nc")[1:], count, kind)


SPACES = (".global", ".shared", ".local", ".param", "")
LOADS = dict(_accesses("ld", (*SPACES, ".global.nc")))
STORES = dict(_accesses("st", SPACES))
CONTROL = {"bra", "bra.uni", "bar.sync", "call", "call.uni", "ret"}


def _window(space: str, sign: int) -> Operation:
    offset = np.uint64(sign * (0 if space == "global" else WINDOWS[space]) % (1 << 64))
    return Operation("u64", ("u64",), lambda address: address + offset)


ADDRESSES = {f"cvta.{space}.u64": _window(space, 1) for space in WINDOWS} | {
    f"cvta.to.{space}.u64": _window(space, -1) for space in WINDOWS
}
COMPUTING = OPERATIONS | ADDRESSES
WARP_OPCODES = PRODUCTS.keys() | TRANSFERS.keys()
KNOWN = COMPUTING.keys() | LOADS.keys() | STORES.keys() | WARP_OPCODES | CONTROL


def translate(function: Function, known: Mapping[str, Code], layouts: Mapping[str, Layout]) -> Code:
    """The steps of a function; PtxError for what is not known.

    `known` are the functions before it, which are all that it can call; `layouts` those of global, shared and local
    memory.
    """
    return _Translator(function, known, layouts).code


def key(function: Function, variable: Variable) -> str:
    """The name of a function's own variable, in a layout of all."""
    return f"{function.name}:{variable.name}"


class _Translator:
    def __init__(self, function: Function, known: Mapping[str, Code], layouts: Mapping[str, Layout]) -> None:
        self.code = Code(function)
        self._known = known
        self._layouts = layouts
        self._registers = {name: number for number, name in enumerate(function.registers)}
        self._dtypes = {name: raw(BITS[kind]) for name, kind in function.registers.items()}
        self._parameters = {variable.name: variable for variable in (*function.parameters, *function.results)}
        self._parameters |= {variable.name: variable for variable in function.variables if variable.space == "param"}
        self._memory = {v.name: v for v in function.variables if v.space != "param"}
        self._finish: list[Callable[[], None]] = []
        self.code.registers = len(self._registers)
        for self._now in function.body:
            self.code.steps.append(self._step(self._now))
        for finish in self._finish:
            finish()

    def _refuse(self, what: str) -> NoReturn:
        raise PtxError(f"{self.code.function.name}, PTX line {self._now.line}: {self._now.text!r} {what}")

    def _step(self, instruction: Instruction) -> Step | Branch | Barrier | Return:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode not in KNOWN:
            self._refuse("is not known")
        if opcode in {"bra", "bra.uni"}:
            return self._branch(instruction)
        if instruction.guard is not None:
            self._refuse("stands under a predicate, which is known of branches only")
        if opcode in COMPUTING:
            return self._compute(COMPUTING[opcode], *operands)
        if opcode in LOADS:
            return self._load(LOADS[opcode], *operands)
        if opcode in STORES:
            return self._store(STORES[opcode], *operands)
        return self._of_warp(opcode, operands) if opcode in WARP_OPCODES else self._control(opcode, operands)

    def _of_warp(self, opcode: str, operands: tuple[Operand, ...]) -> Step:
        if opcode in PRODUCTS:
            return self._multiply(PRODUCTS[opcode], *operands)
        return self._transfer(TRANSFERS[opcode], *operands)

    def _control(self, opcode: str, operands: tuple[Operand, ...]) -> Step | Barrier | Return:
        if opcode in {"call", "call.uni"}:
            return self._call(operands)
        if opcode == "ret":
            return Return()
        if operands != (Immediate(0),):
            self._refuse("is another barrier than 0")
        return Barrier()

    def _branch(self, instruction: Instruction) -> Branch:
        (target,) = instruction.operands
        assert isinstance(target, Name)
        condition = None if instruction.guard is None else self._value(instruction.guard, "pred")
        return Branch(self.code.function.labels[target.text], condition)

    def _compute(self, operation: Operation, *operands: Operand) -> Step:
        if len(operands) != 1 + len(operation.sources):
            self._refuse("has not as many operands as its operation")
        number, dtype = self._destination(operands[0], operation.result, operation.narrows)
        sources = [
            self._value(operand, kind, operation.narrows)
            for operand, kind in zip(operands[1:], operation.sources, strict=True)
        ]
        compute, result = operation.compute, dtype_of(operation.result)

        def step(_: Machine, frame: Frame, lanes: Lanes) -> None:
            value = np.asarray(compute(*[source(frame, lanes) for source in sources]))
            assert value.dtype.itemsize == result.itemsize, (value.dtype, result)
            frame.write(number, lanes, _extensible(value, result, dtype), dtype)

        return step

    def _multiply(self, product: Product, *operands: Operand) -> Step:
        """Registers of d, a, b and c."""
        counts = (product.registers[2], *product.registers)
        if [len(_each(operand)) for operand in operands] != list(counts):
            self._refuse(f"has not {counts} registers")
        targets = [self._destination(operand, "u32", wider=False) for operand in _each(operands[0])]
        a, b, c = ([self._value(each, "u32") for each in _each(operand)] for operand in operands[1:])

        def step(_: Machine, frame: Frame, lanes: Lanes) -> None:
            threads = frame.chosen(lanes)
            whole_warps(threads.block, threads.number)
            made = product.compute(*(_of_warps(readers, frame, lanes) for readers in (a, b, c)))
            for number, (register, dtype) in enumerate(targets):
                frame.write(register, lanes, np.ascontiguousarray(made[..., number]).reshape(-1), dtype)

        return step

    def _transfer(self, transfer: Transfer, *operands: Operand) -> Step:
        """A matrix between memory and the registers of a warp: each thread accesses its own elements."""
        registers, address = operands[:2] if not transfer.stores else operands[1::-1]
        if len(operands) != 3 or len(_each(registers)) != transfer.registers:
            self._refuse(f"has not {transfer.registers} registers")
        base, stride = self._address(address), self._value(operands[2], "u32")
        parts = [_each(registers)[begin : begin + 4] for begin in range(0, transfer.registers, 4)]
        accesses = [Access("", len(part), "b32") for part in parts]
        offsets = [np.uint64(16 * number) for number in range(len(parts))]
        targets = [] if transfer.stores else [self._destination(each, "u32", wider=False) for each in _each(registers)]
        sources = [[self._value(each, "u32") for each in part] for part in parts] if transfer.stores else []

        def step(machine: Machine, frame: Frame, lanes: Lanes) -> None:
            threads = frame.chosen(lanes)
            whole_warps(threads.block, threads.number)
            strides = np.broadcast_to(stride(frame, lanes), len(threads.number))
            first = transfer.addresses(base(frame, lanes), strides)
            for access, offset, readers in zip(accesses, offsets, sources, strict=False):
                values = np.stack([reader(frame, lanes) for reader in readers])
                _store(machine, frame, lanes, access, first + offset, values)
            if not transfer.stores:
                loaded = _load(machine, frame, lanes, accesses[0], first)
                for values, (register, dtype) in zip(loaded, targets, strict=True):
                    frame.write(register, lanes, np.ascontiguousarray(values), dtype)

        return step

    def _destination(self, operand: Operand, kind: str, wider: bool) -> tuple[int, np.dtype[Any]]:
        """A register for values of a type, which may be wider where this is allowed."""
        if not isinstance(operand, Name) or operand.negated or operand.text not in self._registers:
            self._refuse("writes something that is no register")
        dtype = self._dtypes[operand.text]
        self._check_width(dtype, kind, wider)
        return self._registers[operand.text], dtype

    def _check_width(self, dtype: np.dtype[Any], kind: str, wider: bool) -> None:
        width = dtype_of(kind)
        if (dtype == np.bool_) != (kind == "pred") or dtype.itemsize < width.itemsize:
            self._refuse(f"has a register too small for {kind}")
        if dtype.itemsize > width.itemsize and not wider:
            self._refuse(f"has a register too large for {kind}")

    def _value(self, operand: Operand, kind: str, wider: bool = False) -> Reader:
        """How to read an operand as a type."""
        dtype = dtype_of(kind)
        if isinstance(operand, Immediate):
            return self._constant(operand.value, operand.floating, kind)
        if not isinstance(operand, Name):
            self._refuse("reads something that is no register")
        if operand.text in self._registers:
            return self._register(operand, dtype, self._dtypes[operand.text], kind, wider)
        if operand.text.startswith("%") and kind == "u32" and not operand.negated:
            return self._special(operand.text)
        if kind == "u64" and not operand.negated:
            address = np.array(self._address_of(operand.text), np.uint64)
            return lambda _frame, _lanes: address
        return self._refuse(f"reads {operand.text}, which is unknown")

    def _constant(self, value: int, floating: bool, kind: str) -> Reader:
        bits = BITS[kind]
        if bits == 1 or floating != (kind == "f32") or not -(1 << bits - 1) <= value < 1 << bits:
            self._refuse(f"has a constant that is no {kind}")
        constant = np.array(value % (1 << bits), raw(bits)).view(dtype_of(kind))
        return lambda _frame, _lanes: constant

    def _register(self, name: Name, dtype: np.dtype[Any], own: np.dtype[Any], kind: str, wider: bool) -> Reader:
        self._check_width(own, kind, wider)
        number, bits = self._registers[name.text], raw(BITS[kind])
        if kind == "pred":
            return lambda frame, lanes: frame.read(number, lanes) ^ name.negated
        if name.negated:
            self._refuse("negates what is no predicate")
        if own == bits:
            return lambda frame, lanes: frame.read(number, lanes).view(dtype)
        return lambda frame, lanes: frame.read(number, lanes).astype(bits).view(dtype)

    def _special(self, name: str) -> Reader:
        if name not in {f"%{n}{part}.{axis}" for n in ("", "n") for part in ("tid", "ctaid") for axis in "xyz"}:
            self._refuse(f"reads {name}, which is unknown")
        return lambda frame, lanes: frame.special[name] if lanes is None else frame.special[name][lanes]

    def _address_of(self, name: str) -> int:
        """The address of a variable in its own space, which of global memory is the generic one."""
        if name in self._memory:
            variable = self._memory[name]
            return self._layouts[variable.space].begin(key(self.code.function, variable))
        if name in self._layouts["shared"].names:
            return self._layouts["shared"].begin(name)
        if name not in self._layouts["global"].names:
            self._refuse(f"names {name}, which is unknown")
        return WINDOWS["global"] + self._layouts["global"].begin(name)

    def _address(self, operand: Operand) -> Reader:
        """The addresses of an access: uint64, one for each thread."""
        if not isinstance(operand, Address):
            self._refuse("accesses something that is no address")
        if operand.base in self._registers:
            base = self._value(Name(operand.base), "u64")
        else:
            known = np.array(self._address_of(operand.base), np.uint64)

            def base(frame: Frame, lanes: Lanes) -> Array:
                return np.full(frame.count if lanes is None else len(lanes), known)

        offset = np.uint64(operand.offset % (1 << 64))
        return lambda frame, lanes: base(frame, lanes) + offset

    def _load(self, access: Access, *operands: Operand) -> Step:
        if len(operands) != 2:
            self._refuse("is no load of one address")
        targets = [self._destination(operand, access.type, wider=True) for operand in _each(operands[0])]
        if len(targets) != access.count:
            self._refuse(f"does not load {access.count} registers")
        if access.space == "param":
            return self._load_parameters(access, operands[1], targets)
        address, dtype = self._address(operands[1]), dtype_of(access.type)

        def step(machine: Machine, frame: Frame, lanes: Lanes) -> None:
            loaded = _load(machine, frame, lanes, access, address(frame, lanes))
            for values, (number, register) in zip(loaded, targets, strict=True):
                frame.write(number, lanes, _extensible(np.ascontiguousarray(values), dtype, register), register)

        return step

    def _store(self, access: Access, *operands: Operand) -> Step:
        if len(operands) != 2:
            self._refuse("is no store to one address")
        sources = [self._value(operand, access.type, wider=True) for operand in _each(operands[1])]
        if len(sources) != access.count:
            self._refuse(f"does not store {access.count} registers")
        if access.space == "param":
            return self._store_parameters(access, operands[0], sources)
        address, dtype = self._address(operands[0]), raw(BITS[access.type])

        def step(machine: Machine, frame: Frame, lanes: Lanes) -> None:
            where = address(frame, lanes)
            values = np.empty((len(sources), len(where)), dtype)
            for row, source in zip(values, sources, strict=True):
                row[:] = source(frame, lanes).view(dtype)
            _store(machine, frame, lanes, access, where, values)

        return step

    def _slots(self, access: Access, operand: Operand, slots: list[Slot]) -> list[Slot]:
        """The parts of a parameter that an access touches; a part has one register, however often it is touched."""
        if not isinstance(operand, Address) or operand.base not in self._parameters:
            self._refuse("accesses something that is no parameter")
        size = BITS[access.type] // 8
        if not 0 <= operand.offset <= self._parameters[operand.base].size - size * access.count:
            self._refuse("reaches out of its parameter")
        return [
            self._slot(operand.base, operand.offset + number * size, 8 * size, slots) for number in range(access.count)
        ]

    def _slot(self, base: str, offset: int, bits: int, slots: list[Slot]) -> Slot:
        for slot in slots:
            if (slot.base, slot.offset, slot.bits) == (base, offset, bits):
                return slot
        slots.append(Slot(base, offset, bits, self.code.registers))
        self.code.registers += 1
        return slots[-1]

    def _load_parameters(self, access: Access, operand: Operand, targets: list[tuple[int, np.dtype[Any]]]) -> Step:
        slots, dtype = self._slots(access, operand, self.code.read), dtype_of(access.type)

        def step(_: Machine, frame: Frame, lanes: Lanes) -> None:
            for slot, (number, register) in zip(slots, targets, strict=True):
                values = frame.read(slot.register, lanes)
                frame.write(number, lanes, _extensible(values, dtype, register), register)

        return step

    def _store_parameters(self, access: Access, operand: Operand, sources: list[Reader]) -> Step:
        slots, dtype = self._slots(access, operand, self.code.written), raw(BITS[access.type])

        def step(_: Machine, frame: Frame, lanes: Lanes) -> None:
            for slot, source in zip(slots, sources, strict=True):
                frame.write(slot.register, lanes, source(frame, lanes).view(dtype), dtype)

        return step

    def _call(self, operands: tuple[Operand, ...]) -> Step:
        """`(result), function, (argument, ...)`."""
        at = next(number for number, operand in enumerate(operands) if isinstance(operand, Name))
        name, before, behind = operands[at], operands[:at], operands[at + 1 :]
        if not isinstance(name, Name) or name.text not in self._known:
            self._refuse("calls what is not defined before it")
        callee, line = self._known[name.text], self._now
        into: list[tuple[Slot, Slot]] = []
        back: list[tuple[Slot, Slot]] = []

        def finish() -> None:
            self._now = line
            arguments, results = _names(behind), _names(before)
            into.extend(self._pairs(callee.function.parameters, arguments, self.code.written, callee.read))
            back.extend(self._pairs(callee.function.results, results, callee.written, self.code.read, outwards=True))

        self._finish.append(finish)

        def step(machine: Machine, frame: Frame, lanes: Lanes) -> None:
            inner = frame.part(lanes, callee.registers)
            for own, slot in into:
                inner.write(slot.register, None, frame.read(own.register, lanes), raw(slot.bits))
            machine.run(callee, inner)
            for slot, own in back:
                frame.write(own.register, lanes, inner.read(slot.register, None), raw(own.bits))

        return step

    def _pairs(
        self,
        formal: tuple[Variable, ...],
        actual: list[str],
        written: list[Slot],
        read: list[Slot],
        outwards: bool = False,
    ) -> Iterator[tuple[Slot, Slot]]:
        """Each part that one side reads, with that which the other wrote and which it is the low bits of."""
        if [self._parameters[name].size for name in actual] != [variable.size for variable in formal]:
            self._refuse("passes other parameters than the function has")
        for variable, name in zip(formal, actual, strict=True):
            source, target = (variable.name, name) if outwards else (name, variable.name)
            for slot in read:
                if slot.base == target:
                    yield self._source(slot, source, written), slot

    def _source(self, slot: Slot, base: str, written: list[Slot]) -> Slot:
        found = [other for other in written if other.base == base and other.offset == slot.offset]
        if len(found) != 1 or found[0].bits < slot.bits:
            self._refuse(f"reads {slot.bits} bits at {slot.offset} of {slot.base}, which were not written as such")
        return found[0]


def _extensible(value: Array, dtype: np.dtype[Any], register: np.dtype[Any]) -> Array:
    """The bits of a value as what the register extends rightly: of its own type where the register is wider."""
    return value.view(dtype if register.itemsize > dtype.itemsize else register)


def _of_warps(readers: list[Reader], frame: Frame, lanes: Lanes) -> Array:
    """Registers as (warps, 32, registers)."""
    values = np.stack([reader(frame, lanes) for reader in readers], axis=-1)
    return values.reshape(-1, WARP, len(readers))


def _each(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _names(operands: tuple[Operand, ...]) -> list[str]:
    return [name.text for operand in operands for name in _each(operand) if isinstance(name, Name)]


def _load(machine: Machine, frame: Frame, lanes: Lanes, access: Access, address: Array) -> Array:
    """What stands there: (count, threads), unsigned."""
    size, threads = BITS[access.type] // 8, frame.chosen(lanes)
    if access.space == "shared":
        return machine.shared.read(address, threads, size, access.count)
    if access.space == "local":
        return machine.local.load(address, frame.everywhere(lanes), size, access.count)
    if access.space == "global":
        return machine.memory.load(address - np.uint64(WINDOWS["global"]), 0, size, access.count)
    loaded = np.empty((access.count, len(address)), raw(8 * size))
    for space, places, offsets in _by_space(address):
        part = Access(space, access.count, access.type)
        loaded[:, places] = _load(machine, frame, _of(lanes, places), part, offsets)
    return loaded


def _store(machine: Machine, frame: Frame, lanes: Lanes, access: Access, address: Array, values: Array) -> None:
    """The inverse."""
    if access.space == "shared":
        machine.shared.write(address, frame.chosen(lanes), values)
    elif access.space == "local":
        machine.local.store(address, frame.everywhere(lanes), values)
    elif access.space == "global":
        machine.memory.store(address - np.uint64(WINDOWS["global"]), 0, values)
    else:
        for space, places, offsets in _by_space(address):
            part = Access(space, access.count, access.type)
            _store(machine, frame, _of(lanes, places), part, offsets, values[:, places])


def _of(lanes: Lanes, places: Array) -> Array:
    return places if lanes is None else lanes[places]


def _by_space(address: Array) -> Iterator[tuple[str, Array, Array]]:
    """Generic addresses, sorted by the space that they lie in, as addresses of that."""
    bounds = sorted((begin, space) for space, begin in WINDOWS.items())
    if address.min() < bounds[0][0]:
        raise AccessError(int(address.argmin()), "a null pointer, or an address of no space")
    which = np.searchsorted(np.array([begin for begin, _ in bounds], np.uint64), address, side="right") - 1
    for number, (begin, space) in enumerate(bounds):
        places = np.flatnonzero(which == number)
        if len(places):
            yield space, places, address[places] - np.uint64(0 if space == "global" else begin)
