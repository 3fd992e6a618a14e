"""The instructions of Thumb-2 (Armv7E-M, Armv8-M) as steps of an abstract execution.

Integer instructions are followed exactly, with the conditions of IT blocks.  Floating-point registers are followed
through loads, stores and copies only: what is computed in them is data.  Of any other instruction the registers that it
writes are data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import capstone
from capstone import arm

from harness.applications.wcet.machine import Action, Condition, Machine, Processor, Step
from harness.applications.wcet.operations import (
    attempt,
    bit_and,
    bit_or,
    bit_xor,
    decision,
    inverted,
    of_number,
    of_numbers,
    rotated,
    shift_right,
    shift_right_arithmetic,
)
from harness.applications.wcet.state import Flags, RefusedError, State
from harness.applications.wcet.values import (
    DATA,
    VARIES,
    NotAffineError,
    Unknown,
    Value,
    add,
    as_signed,
    extend,
    fit,
    is_zero,
    multiply,
    signed,
    subtract,
    unknown,
)

WORD, WORD_BYTES = 32, 4
STACK, LINK, PC, FLOATS, ZERO = 13, 14, 15, 16, 48
"""Numbers of registers: r0 to r15, then s0 to s31, which d0 to d15 consist of, then one that is always 0."""
ADVICE = "report the compiler and the flags"

Get = Callable[[State], Value]


def steps(content: bytes, address: int) -> Iterator[Step]:
    """Yield the instructions; RefusedError at bytes that are none."""
    decoder = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
    decoder.detail = True
    end = address
    for raw in decoder.disasm(content, address):
        yield _step(raw)
        end = raw.address + raw.size
    if end != address + len(content):
        raise RefusedError(f"the bytes at {end:#x} are no instruction that is known", ADVICE)


def _step(raw: Any) -> Step:
    name, text = raw.insn_name(), f"{raw.mnemonic} {raw.op_str}".strip()
    always = raw.cc in {arm.ARM_CC_AL, arm.ARM_CC_INVALID} or name == "it"
    condition = None if always else _condition(_CODES[raw.cc])
    if name in _FLOW:
        return _flow(raw, name, text, condition)
    action = _action(raw, name)
    if PC in _loaded(raw, name):
        return _return(raw, text, action, condition)
    if action is not None and condition is not None:
        action = _on_condition(condition, action)
    return Step(raw.address, raw.size, text, action, "", None, None, None)


def _flow(raw: Any, name: str, text: str, condition: Condition | None) -> Step:
    """Return the step of a branch, a call, or a return by a register; the targets of a table are not followed."""
    flow, target, register = _FLOW[name], None, None
    if name in {"bx", "blx"}:
        register = _number(raw.reg_name(raw.operands[0].reg))
        if name == "bx" and register == LINK:
            return _return(raw, text, None, condition)
    elif name in {"b", "bl", "cbz", "cbnz"}:
        target = raw.operands[-1].imm
    if name in {"cbz", "cbnz"}:
        condition = _tested(raw)
    elif condition is not None and name != "b":
        raise RefusedError(f"{text} calls under a condition", "build with other flags, for example -O1")
    flow = "branch" if flow == "jump" and condition else flow
    return Step(raw.address, raw.size, text, None, flow, target, register, condition)


def _return(raw: Any, text: str, action: Action | None, condition: Condition | None) -> Step:
    if condition is None:
        return Step(raw.address, raw.size, text, action, "return", None, LINK, None)
    return Step(raw.address, raw.size, text, None, "branch", None, LINK, condition, action)


def _on_condition(condition: Condition, action: Action) -> Action:
    """Return the action of an instruction in an IT block; both ways are joined where data decide."""

    def act(state: State, machine: Machine) -> None:
        holds = condition(state)
        if holds is None:
            other = state.copy()
            action(other, machine)
            state.merge(other)
        elif holds:
            action(state, machine)

    return act


def _condition(code: str) -> Condition:
    """Return the decision about flags; those of logic have no overflow, and a carry that is not followed."""
    decide = decision(code)

    def act(state: State) -> bool | None:
        flags = state.flags
        if isinstance(flags, Flags) and flags.kind == "logic" and code not in {"eq", "ne", "mi", "pl"}:
            raise NotAffineError
        return decide(state)

    return act


def _tested(raw: Any) -> Condition:
    """Return the condition of cbz and cbnz."""
    register, when_zero = _number(raw.reg_name(raw.operands[0].reg)), raw.insn_name() == "cbz"

    def decide(state: State) -> bool | None:
        value = state.registers[register]
        if value is DATA:
            return None
        if isinstance(value, Unknown):
            raise NotAffineError
        return is_zero(signed(value, WORD)) is when_zero

    return decide


# Registers and operands


def _number(name: str) -> int:
    """Return the number of a register of one word by its name."""
    if name in _NAMES:
        return _NAMES[name]
    raise RefusedError(f"register {name} is not known", ADVICE)


def _words(name: str) -> list[int]:
    """Return the numbers of the words of a register; none for flags and states of the processor."""
    if name in _NAMES:
        return [_NAMES[name]]
    kind, digits = name[:1], name[1:]
    if not digits.isdigit() or kind not in _WORDS:
        return []
    count = _WORDS[kind]
    first = FLOATS + count * int(digits)
    return [number for number in range(first, first + count) if number < ZERO]


def _set(state: State, register: int, value: Value) -> None:
    """Set a register to the value modulo 2^32; a value that is not followed is VARIES."""
    state.registers[register] = attempt(lambda: fit(value, WORD))


def _get(raw: Any, index: int) -> Get:
    """Return the function that reads an operand, shifted as it says."""
    operand = raw.operands[index]
    if operand.type == arm.ARM_OP_IMM:
        number = operand.imm & 0xFFFFFFFF
        return lambda _: number
    register = _number(raw.reg_name(operand.reg))
    if register == PC:
        here = (raw.address + 4) & ~3
        return lambda _: here
    if not operand.shift.type:
        return lambda state: state.registers[register]
    if operand.shift.type not in _SHIFTS:
        return lambda state: unknown(state.registers[register]) or VARIES
    shift, by = _SHIFTS[operand.shift.type], operand.shift.value
    return lambda state: attempt(lambda: shift(state.registers[register], by))


def _left(value: Value, by: int) -> Value:
    return fit(multiply(value, 1 << by), WORD)


def _right(value: Value, by: int) -> Value:
    return shift_right(value, by, WORD)


def _arithmetic(value: Value, by: int) -> Value:
    return attempt(lambda: fit(shift_right_arithmetic(value, by, WORD), WORD))


def _rotate(value: Value, by: int) -> Value:
    return of_number(value, lambda number: rotated(number, by % WORD, WORD))


_SHIFTS: dict[int, Callable[[Value, int], Value]] = {
    arm.ARM_SFT_LSL: _left,
    arm.ARM_SFT_LSR: _right,
    arm.ARM_SFT_ASR: _arithmetic,
    arm.ARM_SFT_ROR: _rotate,
}


# Arithmetic


def _action(raw: Any, name: str) -> Action | None:
    if name in _NOTHING or raw.mnemonic.startswith(("pld", "pli")):
        return None
    if name in _TRANSFERS:
        return _transfer(raw, name)
    if any(operand.type == arm.ARM_OP_MEM for operand in raw.operands):
        return _access(raw, name)
    make = _INTEGER.get(name)
    return make(raw) if make else _copied(raw, name) or _written(raw)


def _written(raw: Any) -> Action:
    """Return the action of an instruction that is not followed: what it writes is data."""
    names = [str(raw.reg_name(register)) for register in raw.regs_access()[1]]
    operands = [operand for operand in raw.operands if operand.type == arm.ARM_OP_REG]
    names += [raw.reg_name(operand.reg) for operand in operands[: _DESTINATIONS.get(raw.insn_name(), 1)]]
    numbers = {number for name in names for number in _words(name)}
    if numbers & {STACK, PC}:
        raise RefusedError(f"{raw.mnemonic} {raw.op_str} is not known", "build with other flags")
    flags = raw.update_flags or any("psr" in name for name in names)

    def act(state: State, _: Machine) -> None:
        for number in numbers:
            state.registers[number] = DATA
        if flags:
            state.flags = DATA

    return act


def _binary(raw: Any, compute: Callable[[Value, Value], Value], kind: str, *, reverse: bool = False) -> Action:
    """Return the action of an instruction with two sources; with two operands the first is a source, too."""
    to = _number(raw.reg_name(raw.operands[0].reg))
    count = len(raw.operands)
    first, second = _get(raw, count - 2), _get(raw, count - 1)
    if reverse:
        first, second = second, first
    sets_flags = raw.update_flags

    def act(state: State, _: Machine) -> None:
        a, b = first(state), second(state)
        result = attempt(lambda: fit(compute(a, b), WORD))
        _set(state, to, result)
        if sets_flags:
            state.flags = _logic(result) if kind == "logic" else Flags(kind, a, b, WORD)

    return act


def _logic(result: Value) -> Flags:
    return Flags("logic", result, 0, WORD)


def _unary(raw: Any, compute: Callable[[Value], Value]) -> Action:
    to, get, sets_flags = _number(raw.reg_name(raw.operands[0].reg)), _get(raw, len(raw.operands) - 1), raw.update_flags

    def act(state: State, _: Machine) -> None:
        result = attempt(lambda: fit(compute(get(state)), WORD))
        _set(state, to, result)
        if sets_flags:
            state.flags = _logic(result)

    return act


def _comparison(raw: Any, kind: str, compute: Callable[[Value, Value], Value] | None) -> Action:
    first, second = _get(raw, 0), _get(raw, 1)

    def act(state: State, _: Machine) -> None:
        a, b = first(state), second(state)
        state.flags = Flags(kind, a, b, WORD) if compute is None else _logic(compute(a, b))

    return act


def _shift(raw: Any, shift: Callable[[Value, int], Value]) -> Action:
    """Return the action of a shift by a number or by a register, of which the low byte counts."""
    to, count = _number(raw.reg_name(raw.operands[0].reg)), len(raw.operands)
    value_of, by_of, sets_flags = _get(raw, count - 2), _get(raw, count - 1), raw.update_flags

    def act(state: State, _: Machine) -> None:
        value, by = value_of(state), by_of(state)
        result: Value = unknown(value, by) or VARIES
        if isinstance(by, int):
            result = attempt(lambda: shift(value, by & 0xFF))
        _set(state, to, result)
        if sets_flags:
            state.flags = _logic(state.registers[to])

    return act


def _with_carry(raw: Any) -> Action:
    """Return the action of adc and sbc, whose flags are not followed."""
    to, count, subtracts = _number(raw.reg_name(raw.operands[0].reg)), len(raw.operands), raw.insn_name() == "sbc"
    first, second, sets_flags = _get(raw, count - 2), _get(raw, count - 1), raw.update_flags
    carry = _condition("hs")

    def act(state: State, _: Machine) -> None:
        a, b = first(state), second(state)
        try:
            is_set = carry(state)
        except NotAffineError:
            result: Value = VARIES
        else:
            if is_set is None:
                result = DATA
            else:
                result = subtract(subtract(a, b), 1 - is_set) if subtracts else add(add(a, b), int(is_set))
        _set(state, to, result)
        if sets_flags:
            state.flags = unknown(a, b) or VARIES

    return act


def _product(raw: Any) -> Action:
    """Return the action of mul, mla and mls."""
    to, name = _number(raw.reg_name(raw.operands[0].reg)), raw.insn_name()
    count = len(raw.operands)
    gets = [_get(raw, index) for index in range(1 if count > 2 else 0, count)]
    sets_flags = raw.update_flags

    def act(state: State, _: Machine) -> None:
        a, b = gets[0](state), gets[1](state)
        result = attempt(lambda: fit(multiply(a, b), WORD))
        if name == "mla":
            result = add(gets[2](state), result)
        elif name == "mls":
            result = subtract(gets[2](state), result)
        _set(state, to, result)
        if sets_flags:
            state.flags = _logic(state.registers[to])

    return act


def _long_product(raw: Any) -> Action:
    """Return the action of umull, smull, umlal and smlal: the lower and the upper word."""
    low, high, *factors = (_number(raw.reg_name(operand.reg)) for operand in raw.operands)
    is_signed, adds = raw.insn_name().startswith("s"), raw.insn_name().endswith("lal")

    def act(state: State, _: Machine) -> None:
        values = [state.registers[number] for number in (*factors, low, high)]
        if not all(isinstance(value, int) for value in values[: 4 if adds else 2]):
            nothing = unknown(*values[: 4 if adds else 2]) or VARIES
            state.registers[low] = state.registers[high] = nothing
            return
        a, b, old_low, old_high = (value if isinstance(value, int) else 0 for value in values)
        product = as_signed(a, WORD) * as_signed(b, WORD) if is_signed else a * b
        product += (old_high << WORD | old_low) if adds else 0
        state.registers[low] = product & 0xFFFFFFFF
        state.registers[high] = product >> WORD & 0xFFFFFFFF

    return act


def _quotient(raw: Any) -> Action:
    is_signed = raw.insn_name() == "sdiv"

    def divided(a: int, b: int) -> int:
        if is_signed:
            a, b = as_signed(a, WORD), as_signed(b, WORD)
        if b == 0:
            return 0
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    return _binary(raw, lambda a, b: of_numbers(a, b, divided), "logic")


def _field(raw: Any) -> Action:
    """Return the action of ubfx and sbfx."""
    to, get = _number(raw.reg_name(raw.operands[0].reg)), _get(raw, 1)
    low, count = raw.operands[2].imm, raw.operands[3].imm
    is_signed = raw.insn_name() == "sbfx"

    def act(state: State, _: Machine) -> None:
        moved = _right(get(state), low)
        result = attempt(lambda: extend(moved, count, WORD) if is_signed else fit(moved, count))
        _set(state, to, result)

    return act


def _inserted(raw: Any) -> Action:
    """Return the action of bfi and bfc."""
    to = _number(raw.reg_name(raw.operands[0].reg))
    clears = raw.insn_name() == "bfc"
    low, count = raw.operands[-2].imm, raw.operands[-1].imm
    bits = (1 << count) - 1
    source: Get = (lambda _: 0) if clears else _get(raw, 1)

    def act(state: State, _: Machine) -> None:
        old, new = state.registers[to], source(state)
        _set(state, to, of_numbers(old, new, lambda x, y: x & ~(bits << low) | (y & bits) << low))

    return act


def _moved_high(raw: Any) -> Action:
    to, number = _number(raw.reg_name(raw.operands[0].reg)), raw.operands[1].imm
    return lambda state, _: _set(state, to, of_number(state.registers[to], lambda old: old & 0xFFFF | number << 16))


def _address(raw: Any) -> Action:
    to, offset = _number(raw.reg_name(raw.operands[0].reg)), raw.operands[-1].imm
    here = (raw.address + 4) & ~3
    return lambda state, _: _set(state, to, here + offset)


def _copied(raw: Any, name: str) -> Action | None:
    """Return the action of an instruction that copies words between registers."""
    if name not in {"vmov", "fcpys", "fmrs", "fmsr"} or any(operand.type != arm.ARM_OP_REG for operand in raw.operands):
        return None
    words = [number for operand in raw.operands for number in _words(raw.reg_name(operand.reg))]
    if len(words) % 2 or any(operand.vector_index >= 0 for operand in raw.operands):
        return None
    half = len(words) // 2

    def act(state: State, _: Machine) -> None:
        values = [state.registers[number] for number in words[half:]]
        for number, value in zip(words[:half], values, strict=True):
            state.registers[number] = value

    return act


def _extended(width: int, *, is_signed: bool) -> Callable[[Value], Value]:
    return lambda value: extend(value, width, WORD) if is_signed else fit(value, width)


def _bits_of(compute: Callable[[int], int]) -> Callable[[Value], Value]:
    return lambda value: of_number(value, compute)


# Memory


def _loaded(raw: Any, name: str) -> Sequence[int]:
    """Return the registers that an instruction loads from memory."""
    if name in {"pop", "ldm", "ldmdb"}:
        registers = raw.operands if name == "pop" else raw.operands[1:]
        return [_number(raw.reg_name(operand.reg)) for operand in registers]
    if name == "ldr":
        return [_number(raw.reg_name(raw.operands[0].reg))]
    return []


def _transfer(raw: Any, name: str) -> Action:
    """Return the action of an instruction that loads or stores several registers one behind the other."""
    kind, descends = _TRANSFERS[name]
    on_stack = name in {"push", "pop", "vpush", "vpop"}
    base = STACK if on_stack else _number(raw.reg_name(raw.operands[0].reg))
    listed = raw.operands if on_stack else raw.operands[1:]
    words = [number for operand in listed for number in _words(raw.reg_name(operand.reg))]
    size = WORD_BYTES * len(words)
    writes_back = on_stack or raw.writeback

    def act(state: State, machine: Machine) -> None:
        start = state.registers[base]
        if descends:
            start = attempt(lambda: fit(subtract(start, size), WORD))
        values = [state.registers[number] for number in words]
        for index, number in enumerate(words):
            place = attempt(lambda index=index: fit(add(start, WORD_BYTES * index), WORD))  # type: ignore[misc]
            if kind == "store":
                machine.store(state, place, WORD_BYTES, values[index])
            else:
                _set(state, LINK if number == PC else number, machine.load(state, place, WORD_BYTES))
        if writes_back and (kind == "store" or base not in words):
            _set(state, base, start if descends else add(start, size))

    return act


def _access(raw: Any, name: str) -> Action:
    """Return the action of a load or store, with the change of its base register."""
    if name not in _ACCESSES:
        raise RefusedError(f"{raw.mnemonic} {raw.op_str} is not known", "build with other flags")
    size, is_signed = _ACCESSES[name]
    store = "st" in name
    position = next(index for index, operand in enumerate(raw.operands) if operand.type == arm.ARM_OP_MEM)
    words = [number for operand in raw.operands[:position] for number in _words(raw.reg_name(operand.reg))]
    base = _number(raw.reg_name(raw.operands[position].mem.base))
    place = _place(raw, raw.operands[position])
    later = _get(raw, position + 1) if position + 1 < len(raw.operands) else None
    subtracts = later is not None and raw.operands[position + 1].subtracted

    def act(state: State, machine: Machine) -> None:
        at = state.registers[base] if later else place(state)
        for index, number in enumerate(words):
            where = attempt(lambda index=index: fit(add(at, size * index), WORD))  # type: ignore[misc]
            if store:
                machine.store(state, where, size, state.registers[number])
                continue
            value = machine.load(state, where, size)
            if is_signed:
                value = attempt(lambda value=value: extend(value, 8 * size, WORD))  # type: ignore[misc]
            _set(state, LINK if number == PC else number, value)
        if later:
            _set(state, base, subtract(at, later(state)) if subtracts else add(at, later(state)))
        elif writes_back:
            _set(state, base, at)

    writes_back = bool(raw.writeback)
    return act


def _place(raw: Any, operand: Any) -> Get:
    """Return the function that computes the address of an access."""
    memory = operand.mem
    base = _number(raw.reg_name(memory.base))
    if base == PC:
        here = ((raw.address + 4) & ~3) + memory.disp
        return lambda _: here
    if not memory.index:
        return lambda state: attempt(lambda: fit(add(state.registers[base], memory.disp), WORD))
    index, by = _number(raw.reg_name(memory.index)), operand.shift.value if operand.shift.type else memory.lshift

    def place(state: State) -> Value:
        offset = multiply(state.registers[index], 1 << by)
        return attempt(lambda: fit(add(state.registers[base], offset), WORD))

    return place


_NAMES = {f"r{number}": number for number in range(16)} | {f"s{number}": FLOATS + number for number in range(32)}
_NAMES |= {"sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": STACK, "lr": LINK, "pc": PC}
_WORDS = {"d": 2, "q": 4}
_DESTINATIONS = {
    "smlald": 2,
    "smlsld": 2,
    "smlalbb": 2,
    "smlalbt": 2,
    "smlaltb": 2,
    "smlaltt": 2,
    "umaal": 2,
    "vmov": 2,
}
"""Registers that instructions write at most, of those that write more than one."""
_CODES = {
    arm.ARM_CC_EQ: "eq", arm.ARM_CC_NE: "ne", arm.ARM_CC_HS: "hs", arm.ARM_CC_LO: "lo", arm.ARM_CC_MI: "mi",
    arm.ARM_CC_PL: "pl", arm.ARM_CC_VS: "vs", arm.ARM_CC_VC: "vc", arm.ARM_CC_HI: "hi", arm.ARM_CC_LS: "ls",
    arm.ARM_CC_GE: "ge", arm.ARM_CC_LT: "lt", arm.ARM_CC_GT: "gt", arm.ARM_CC_LE: "le",
}  # fmt: skip
_NOTHING = {"it", "nop", "hint", "dmb", "dsb", "isb", "sev", "wfe", "wfi", "yield"}
_and: Callable[[Value, Value], Value] = bit_and(WORD)
_BINARY: dict[str, tuple[Callable[[Value, Value], Value], str]] = {
    "add": (add, "add"),
    "addw": (add, "add"),
    "sub": (subtract, "sub"),
    "subw": (subtract, "sub"),
    "and": (_and, "logic"),
    "bic": (lambda a, b: _and(a, fit(inverted(b), WORD)), "logic"),
    "orr": (bit_or, "logic"),
    "orn": (lambda a, b: bit_or(a, fit(inverted(b), WORD)), "logic"),
    "eor": (bit_xor, "logic"),
}
_UNARY: dict[str, Callable[[Value], Value]] = {
    "mov": lambda value: value,
    "movw": lambda value: value,
    "mvn": inverted,
    "uxtb": _extended(8, is_signed=False),
    "uxth": _extended(16, is_signed=False),
    "sxtb": _extended(8, is_signed=True),
    "sxth": _extended(16, is_signed=True),
    "clz": _bits_of(lambda number: WORD - number.bit_length()),
    "rev": _bits_of(lambda number: int.from_bytes(number.to_bytes(WORD_BYTES, "little"), "big")),
    "rbit": _bits_of(lambda number: int(f"{number:032b}"[::-1], 2)),
}
_COMPARISONS: dict[str, tuple[str, Callable[[Value, Value], Value] | None]] = {
    "cmp": ("sub", None), "cmn": ("add", None), "tst": ("logic", _and), "teq": ("logic", bit_xor),
}  # fmt: skip
_SHIFT_NAMES = {"lsl": _left, "lsr": _right, "asr": _arithmetic, "ror": _rotate}
_INTEGER: dict[str, Callable[[Any], Action]] = {
    **{name: partial(_binary, compute=compute, kind=kind) for name, (compute, kind) in _BINARY.items()},
    **{name: partial(_unary, compute=compute) for name, compute in _UNARY.items()},
    **{name: partial(_comparison, kind=kind, compute=compute) for name, (kind, compute) in _COMPARISONS.items()},
    **{name: partial(_shift, shift=shift) for name, shift in _SHIFT_NAMES.items()},
    "rsb": partial(_binary, compute=subtract, kind="sub", reverse=True),
    "adc": _with_carry, "sbc": _with_carry, "mul": _product, "mla": _product, "mls": _product,
    "umull": _long_product, "smull": _long_product, "umlal": _long_product, "smlal": _long_product,
    "udiv": _quotient, "sdiv": _quotient, "ubfx": _field, "sbfx": _field, "bfi": _inserted, "bfc": _inserted,
    "movt": _moved_high, "adr": _address,
}  # fmt: skip
_FLOW = {
    "b": "jump", "cbz": "jump", "cbnz": "jump", "bx": "jump", "tbb": "jump", "tbh": "jump", "bl": "call", "blx": "call",
    "udf": "stop", "bkpt": "stop", "svc": "stop",
}  # fmt: skip
_TRANSFERS = {
    "push": ("store", True), "vpush": ("store", True), "stmdb": ("store", True), "vstmdb": ("store", True),
    "stm": ("store", False), "vstmia": ("store", False),
    "pop": ("load", False), "vpop": ("load", False), "ldm": ("load", False), "vldmia": ("load", False),
    "ldmdb": ("load", True), "vldmdb": ("load", True),
}  # fmt: skip
_ACCESSES = {
    "ldr": (4, False), "ldrb": (1, False), "ldrh": (2, False), "ldrsb": (1, True), "ldrsh": (2, True),
    "ldrd": (4, False), "str": (4, False), "strb": (1, False), "strh": (2, False), "strd": (4, False),
    "vldr": (4, False), "vstr": (4, False),
}  # fmt: skip
"""The bytes of each register in memory, and whether a load extends their sign."""

PROCESSOR = Processor(
    steps,
    registers=ZERO + 1,
    stack=STACK,
    link=LINK,
    zero=ZERO,
    arguments=(0, 1, 2, 3),
    result=0,
    changed_by_calls=(0, 1, 2, 3, 12, LINK, *range(FLOATS, FLOATS + 16)),
    first_vector=(1, 0, 0, 0),  # a number of 64 bits is in a pair of registers
    code_mask=0xFFFFFFFE,
    thread=("schedule_run_tick", ""),
)
