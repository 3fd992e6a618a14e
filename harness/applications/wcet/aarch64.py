"""The instructions of aarch64 as steps of an abstract execution.

Integer instructions are followed exactly.  Vector registers are followed through loads, stores and copies only: what
is computed in them is data.  Of any other instruction the registers that it writes are data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import capstone
from capstone import arm64

from harness.applications.wcet.machine import Action, Condition, Machine, Processor, Step
from harness.applications.wcet.operations import (
    Binary,
    attempt,
    bit_and,
    bit_or,
    bit_xor,
    decision,
    high_of_form,
    inverted,
    of_number,
    of_numbers,
    rotated,
    shift_right,
    shift_right_arithmetic,
    truncated,
)
from harness.applications.wcet.state import Flags, RefusedError, State
from harness.applications.wcet.values import (
    DATA,
    MASK,
    VARIES,
    WORD,
    Linear,
    NotAffineError,
    Unknown,
    Value,
    add,
    as_signed,
    divide,
    extend,
    fit,
    is_negative,
    is_zero,
    multiply,
    signed,
    subtract,
    unknown,
    unsigned,
)

STACK, LINK, FRAME, VECTORS, ZERO = 31, 30, 29, 32, 64
ATOMIC = re.compile(r"ldap?[rx]|ldax|ldx|stl?x|stlr|cas|swp|(ld|st)(add|clr|eor|set|[su](min|max))")
"""Accesses with synchronisation, of at most 16 bytes."""

Get = Callable[[State], Value]


def steps(content: bytes, address: int) -> Iterator[Step]:
    """Yield the instructions; RefusedError at bytes that are none."""
    end = address
    for raw in _capstone().disasm(content, address):
        yield _step(raw)
        end = raw.address + raw.size
    if end != address + len(content):
        raise RefusedError(f"the bytes at {end:#x} are no instruction", "report the compiler and the flags")


def _capstone() -> Any:
    found = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    found.detail = True
    return found


def _name(raw: Any, register: int) -> str:
    return str(raw.reg_name(register))


def _number(name: str) -> int:
    """Return the number of a register by its name."""
    fixed = {"sp": STACK, "wsp": STACK, "xzr": ZERO, "wzr": ZERO, "fp": FRAME, "lr": LINK}
    if name in fixed:
        return fixed[name]
    number = int(name[1:]) if name[1:].isdigit() else -1
    if number < 0:
        raise RefusedError(f"register {name} is not known", "report the compiler and the flags")
    return number if name[0] in "xw" else VECTORS + number


def _bits(name: str) -> int:
    """Return the bits of a register by its name."""
    return {"w": 32, "s": 32, "q": 128, "v": 128, "h": 16, "b": 8}.get(name[0], 64) if name != "sp" else 64


def _step(raw: Any) -> Step:
    name, text = raw.mnemonic, f"{raw.mnemonic} {raw.op_str}".strip()
    operands = raw.operands
    flow, target, condition, register = "", None, None, None
    action: Action | None = None
    if name in {"b", "bl"}:
        flow, target = "jump" if name == "b" else "call", operands[0].imm
    elif name.startswith("b."):
        flow, target, condition = "branch", operands[0].imm, decision(name[2:])
    elif name in {"cbz", "cbnz", "tbz", "tbnz"}:
        flow, target, condition = "branch", operands[-1].imm, _tested(raw)
    elif name in {"br", "blr"}:
        flow, register = "jump" if name == "br" else "call", _number(_name(raw, operands[0].reg))
    elif name in {"ret", "retaa", "retab"}:
        flow, register = "return", LINK
    elif name in {"udf", "brk", "svc", "hlt"}:
        flow = "stop"
    else:
        action = _action(raw)
    return Step(raw.address, raw.size, text, action, flow, target, register, condition)


def _action(raw: Any) -> Action | None:
    name = raw.mnemonic
    if name in _NOTHING or name.startswith("prf"):
        return None
    if any(operand.type == arm64.ARM64_OP_MEM for operand in raw.operands):
        return _access(raw)
    registers = [_name(raw, operand.reg) for operand in raw.operands if operand.type == arm64.ARM64_OP_REG]
    integer = all(re.fullmatch(r"[xw](\d+|zr)|w?sp|fp|lr", register) for register in registers)
    if integer and name in _INTEGER:
        return _INTEGER[name](raw)
    return _vector_copy(raw, registers) or _written(raw)


def _vector_copy(raw: Any, registers: list[str]) -> Action | None:
    """Return the action of an instruction that copies a whole vector or clears it."""
    name = raw.mnemonic
    if name == "mov" and len(registers) == 2 and all(register[0] in "qv" for register in registers) and _is_whole(raw):
        to, source = map(_number, registers)
        return lambda state, _: _set(state, to, state.registers[source])
    if name == "movi" and raw.operands[1].type == arm64.ARM64_OP_IMM and raw.operands[1].imm == 0:
        cleared = _number(registers[0])
        return lambda state, _: _set(state, cleared, 0)
    return None


def _is_whole(raw: Any) -> bool:
    return all(operand.vector_index < 0 for operand in raw.operands) and ".8b" not in raw.op_str


def _written(raw: Any) -> Action:
    """Return the action of an instruction that is not followed: what it writes is data."""
    names = [_name(raw, each) for each in raw.regs_access()[1]]
    names += [_name(raw, operand.reg) for operand in raw.operands[:1] if operand.type == arm64.ARM64_OP_REG]
    numbers = {_number(name) for name in names if name not in _STATUS}
    if STACK in numbers:
        raise RefusedError(f"{raw.mnemonic} {raw.op_str} changes the stack pointer", "build with other flags")
    flags = raw.update_flags or bool(set(names) & _STATUS) or raw.mnemonic in {"fcmp", "fcmpe", "fccmp", "fccmpe"}

    def act(state: State, _: Machine) -> None:
        for number in numbers:
            state.registers[number] = DATA
        if flags:
            state.flags = DATA

    return act


def _set(state: State, register: int, value: Value) -> None:
    if register != ZERO:
        state.registers[register] = value


# Operands


def _get(raw: Any, index: int, width: int) -> Get:
    """Return what reads an operand as a value of `width` bits, shifted or extended as it says."""
    operand = raw.operands[index]
    if operand.type == arm64.ARM64_OP_IMM:
        number = (operand.imm << operand.shift.value if operand.shift.type else operand.imm) & ((1 << width) - 1)
        return lambda _: number
    name = _name(raw, operand.reg)
    register, narrow = _number(name), _bits(name)
    plain: Get = lambda state: state.registers[register]  # noqa: E731
    if operand.ext:
        return _shifted(_extended(plain, operand.ext), arm64.ARM64_SFT_LSL, operand.shift.value, width)
    if operand.shift.type:
        return _shifted(plain, operand.shift.type, operand.shift.value, width)
    if width < narrow or narrow < 64:
        return lambda state: fit(state.registers[register], min(width, narrow))
    return plain


def _extended(value: Get, kind: int) -> Get:
    width, sign = _EXTENSIONS[kind]
    if sign:
        return lambda state: extend(value(state), width)
    return lambda state: fit(value(state), width)


def _shifted(value: Get, kind: int, by: int, width: int) -> Get:
    if by == 0:
        return lambda state: fit(value(state), width)
    if kind == arm64.ARM64_SFT_LSL:
        return lambda state: fit(multiply(value(state), 1 << by), width)
    if kind == arm64.ARM64_SFT_LSR:
        return lambda state: shift_right(value(state), by, width)
    if kind == arm64.ARM64_SFT_ASR:
        return lambda state: shift_right_arithmetic(value(state), by, width)
    return lambda state: of_number(value(state), lambda number: rotated(number, by, width))


def _width(raw: Any) -> int:
    return _bits(_name(raw, raw.operands[0].reg))


def _compute(raw: Any, operation: Callable[..., Value], sources: range | None = None) -> Action:
    """Return the action that computes the first operand from others."""
    width, to = _width(raw), _number(_name(raw, raw.operands[0].reg))
    gets = [_get(raw, index, width) for index in sources or range(1, len(raw.operands))]

    def act(state: State, _: Machine) -> None:
        try:
            value = operation(*(get(state) for get in gets))
            _set(state, to, fit(value, width) if width < WORD else value)
        except NotAffineError:
            _set(state, to, VARIES)

    return act


# Arithmetic


def _two(make: Callable[[int], Binary]) -> Callable[[Any], Action]:
    return lambda raw: _compute(raw, make(_width(raw)))


def _setting(kind: str, operation: Binary) -> Callable[[Any], Action]:
    """Return the action of an instruction that computes and sets the flags: adds, subs, ands, bics."""

    def make(raw: Any) -> Action:
        width, to = _width(raw), _number(_name(raw, raw.operands[0].reg))
        count = len(raw.operands)
        first: Get = _get(raw, 1, width) if count > 2 else lambda _: 0
        second = _get(raw, count - 1, width)

        def act(state: State, _: Machine) -> None:
            a, b = first(state), second(state)
            result = fit(operation(a, b), width)
            _set(state, to, result)
            state.flags = Flags(kind, result, 0, width) if kind == "logic" else Flags(kind, a, b, width)

        return act

    return make


def _comparing(kind: str) -> Callable[[Any], Action]:
    def make(raw: Any) -> Action:
        width = _width(raw)
        first, second, both = _get(raw, 0, width), _get(raw, 1, width), bit_and(width)

        def act(state: State, _: Machine) -> None:
            a, b = first(state), second(state)
            state.flags = Flags(kind, both(a, b), 0, width) if kind == "logic" else Flags(kind, a, b, width)

        return act

    return make


def _conditional_compare(kind: str) -> Callable[[Any], Action]:
    def make(raw: Any) -> Action:
        width = _width(raw)
        first, second, otherwise = _get(raw, 0, width), _get(raw, 1, width), raw.operands[2].imm
        condition = decision(_CODES[raw.cc])

        def act(state: State, _: Machine) -> None:
            holds = condition(state)
            if holds is None:
                state.flags = DATA
            elif holds:
                state.flags = Flags(kind, first(state), second(state), width)
            else:
                state.flags = Flags("nzcv", otherwise, 0, width)

        return act

    return make


def _shift(make: Callable[[Value, int, int], Value]) -> Callable[[Any], Action]:
    def compiled(raw: Any) -> Action:
        width = _width(raw)

        def compute(value: Value, by: Value) -> Value:
            if isinstance(by, int):
                return make(value, by % width, width)
            return unknown(value, by) or VARIES

        return _compute(raw, compute)

    return compiled


def _field(raw: Any) -> Action:
    """Return the action of ubfx, sbfx, ubfiz and sbfiz."""
    width, name = _width(raw), raw.mnemonic
    low, count = raw.operands[2].imm, raw.operands[3].imm

    def compute(value: Value) -> Value:
        moved = shift_right(value, low, width) if name.endswith("x") else value
        result = attempt(lambda: extend(moved, count) if name[0] == "s" else fit(moved, count))
        return result if name.endswith("x") else multiply(result, 1 << low)

    return _compute(raw, compute, range(1, 2))


def _inserted(raw: Any) -> Action:
    """Return the action of bfi and bfxil."""
    width, name = _width(raw), raw.mnemonic
    low, count = (operand.imm for operand in raw.operands[2:4])
    bits = (1 << count) - 1

    def compute(old: Value, new: Value) -> Value:
        if name == "bfi":
            return of_numbers(old, new, lambda x, y: x & ~(bits << low) | (y & bits) << low)
        return of_numbers(old, new, lambda x, y: x & ~bits | y >> low & bits)

    def make() -> Action:
        to = _number(_name(raw, raw.operands[0].reg))
        first, second = _get(raw, 0, width), _get(raw, 1, width)
        return lambda state, _: _set(state, to, compute(first(state), second(state)))

    return make()


def _product(sign: int, *, added: bool, narrow: str = "") -> Callable[[Any], Action]:
    """Return the action of mul, madd, msub, mneg and their forms with factors of 32 bits."""

    def make(raw: Any) -> Action:
        def factor(value: Value) -> Value:
            return attempt(lambda: extend(value, 32) if narrow == "s" else fit(value, 32)) if narrow else value

        def compute(a: Value, b: Value, to: Value = 0) -> Value:
            product = multiply(factor(a), factor(b))
            return add(to, product) if sign > 0 else subtract(to, product)

        return _compute(raw, compute, range(1, 4 if added else 3))

    return make


def _high(sign: bool) -> Callable[[Any], Action]:
    def compute(a: Value, b: Value) -> Value:
        if a == 0 or b == 0:
            return 0
        if sign:
            return of_numbers(a, b, lambda x, y: (as_signed(x, 64) * as_signed(y, 64) >> 64) & MASK)
        if isinstance(a, Linear) or isinstance(b, Linear):
            return attempt(lambda: high_of_form(a, b))
        return of_numbers(a, b, lambda x, y: x * y >> 64)

    return lambda raw: _compute(raw, compute)


def _division(sign: bool) -> Callable[[Any], Action]:
    def make(raw: Any) -> Action:
        width = _width(raw)

        def compute(a: Value, b: Value) -> Value:
            if b == 0 or a == 0:
                return 0
            if isinstance(a, Linear) and isinstance(b, int):
                return attempt(lambda: _quotient(a, as_signed(b, width) if sign else b))
            if sign:
                return of_numbers(a, b, lambda x, y: truncated(as_signed(x, width), as_signed(y, width)) & MASK)
            return of_numbers(a, b, lambda x, y: x // y)

        def _quotient(form: Linear, divisor: int) -> Value:
            value = signed(form, width) if sign else unsigned(form)
            if divisor < 0 or is_negative(value):
                raise NotAffineError
            return divide(value, divisor)

        return _compute(raw, compute)

    return make


def _move(raw: Any) -> Action:
    return _compute(raw, lambda value: value)


def _move_keep(raw: Any) -> Action:
    shift, number = raw.operands[1].shift.value, raw.operands[1].imm
    width, to = _width(raw), _number(_name(raw, raw.operands[0].reg))
    get = _get(raw, 0, width)

    def act(state: State, _: Machine) -> None:
        _set(state, to, of_number(get(state), lambda old: old & ~(0xFFFF << shift) | number << shift))

    return act


def _address(raw: Any) -> Action:
    to, value = _number(_name(raw, raw.operands[0].reg)), raw.operands[1].imm & MASK
    return lambda state, _: _set(state, to, value)


def _on_condition(raw: Any, choices: Callable[[State], tuple[Value, Value]]) -> Action:
    """Return the action that takes the first choice where the condition holds, and the second where it does not."""
    to, condition = _number(_name(raw, raw.operands[0].reg)), decision(_CODES[raw.cc])

    def act(state: State, _: Machine) -> None:
        try:
            holds = condition(state)
        except NotAffineError:
            _set(state, to, VARIES)
            return
        first, second = choices(state)
        if holds is None:
            _set(state, to, first if first == second else DATA)
        else:
            _set(state, to, first if holds else second)

    return act


def _select(change: Callable[[Value], Value], *, one_source: bool = False) -> Callable[[Any], Action]:
    """Return the action of csel and its relatives; the second value is changed where the condition does not hold."""

    def make(raw: Any) -> Action:
        width = _width(raw)
        first, second = _get(raw, 1, width), _get(raw, 1 if one_source else 2, width)

        def choices(state: State) -> tuple[Value, Value]:
            kept, changed = first(state), fit(change(second(state)), width)
            return (changed, kept) if one_source else (kept, changed)

        return _on_condition(raw, choices)

    return make


def _set_on(mask: bool) -> Callable[[Any], Action]:
    def make(raw: Any) -> Action:
        value = (1 << _width(raw)) - 1 if mask else 1
        return _on_condition(raw, lambda _: (value, 0))

    return make


def _bits_of(compute: Callable[[int, int], int]) -> Callable[[Any], Action]:
    def make(raw: Any) -> Action:
        width = _width(raw)
        return _compute(raw, lambda value: of_number(value, lambda number: compute(number, width)))

    return make


# Conditions


def _tested(raw: Any) -> Condition:
    """Return the condition of cbz, cbnz, tbz and tbnz."""
    name, width = raw.mnemonic, _bits(_name(raw, raw.operands[0].reg))
    get, bit = _get(raw, 0, width), raw.operands[1].imm if name.startswith("t") else 0
    when = name.endswith("nz")

    def decide(state: State) -> bool | None:
        value = get(state)
        if isinstance(value, Unknown):
            if value is DATA:
                return None
            raise NotAffineError
        if name.startswith("c"):
            return is_zero(signed(value, width)) is not when
        if isinstance(value, int):
            return bool(value >> bit & 1) is when
        if bit != width - 1:
            raise NotAffineError
        return is_negative(signed(value, width)) is when

    return decide


# Memory


def _access(raw: Any) -> Action:
    """Return the action of a load or store, with the change of its base register."""
    name, operands = raw.mnemonic, raw.operands
    position = next(index for index, each in enumerate(operands) if each.type == arm64.ARM64_OP_MEM)
    memory = operands[position]
    base = _number(_name(raw, memory.mem.base))
    data = [_name(raw, operand.reg) for operand in operands[:position] if operand.type == arm64.ARM64_OP_REG]
    place = _place(raw, memory)
    followed = operands[position + 1] if position + 1 < len(operands) else None
    if followed is not None and followed.type != arm64.ARM64_OP_IMM:
        raise RefusedError(f"{name} {raw.op_str} is not known", "build with other flags")
    post = followed.imm if followed is not None else None
    size, sign, simple = _size(name, data)
    store = name.startswith("st")
    if not simple:
        return _other_access(raw, base, store=store)
    numbers = [_number(each) for each in data]
    widths = [_bits(each) for each in data]
    offset = memory.mem.disp if raw.writeback and post is None else 0

    def act(state: State, machine: Machine) -> None:
        at = state.registers[base] if post is not None else place(state)
        for index, number in enumerate(numbers):
            where = add(at, index * size)
            if store:
                value = 0 if number == ZERO else state.registers[number]
                machine.store(state, where, size, value)
            else:
                value = machine.load(state, where, size)
                if sign and not isinstance(value, Unknown):
                    value = attempt(lambda value=value, index=index: extend(value, 8 * size, widths[index]))  # type: ignore[misc]
                _set(state, number, value)
        if post is not None:
            state.registers[base] = add(state.registers[base], post)
        elif raw_writeback:
            state.registers[base] = add(state.registers[base], offset)

    raw_writeback = bool(raw.writeback)
    return act


def _place(raw: Any, operand: Any) -> Get:
    base, offset = _number(_name(raw, operand.mem.base)), operand.mem.disp
    if not operand.mem.index:
        return lambda state: add(state.registers[base], offset)
    name = _name(raw, operand.mem.index)
    index = _number(name)
    plain: Get = lambda state: state.registers[index]  # noqa: E731
    extended = _extended(plain, operand.ext) if operand.ext else plain if _bits(name) == 64 else _fitted(plain)
    shift = operand.shift.value if operand.shift.type else 0
    return lambda state: add(state.registers[base], multiply(extended(state), 1 << shift))


def _fitted(value: Get) -> Get:
    return lambda state: fit(value(state), 32)


def _size(name: str, data: list[str]) -> tuple[int, bool, bool]:
    """Return the bytes of each register in memory, whether a load extends their sign, and whether it is simple."""
    match = re.fullmatch(r"(ld|st)(u?r|n?p)(s?)([bhw]?)", name)
    if not match:
        return 0, False, False
    size = {"b": 1, "h": 2, "w": 4}.get(match[4]) or _bits(data[0]) // 8
    return size, bool(match[3]), True


def _other_access(raw: Any, base: int, *, store: bool) -> Action:
    """Return the action of an access to whole vectors or with synchronisation."""
    if ATOMIC.match(raw.mnemonic) and raw.op_str.endswith("]") and "," not in raw.op_str.rpartition("[")[2]:
        return _atomic(raw, base)
    if not re.match(r"(ld|st)[1-4]", raw.mnemonic):
        raise RefusedError(f"{raw.mnemonic} {raw.op_str} is not known", "build with other flags")
    numbers = [VECTORS + int(each) for each in re.findall(r"v(\d+)", raw.op_str.partition("[")[0])]
    lane = re.search(r"\]\s*,\s*\[", raw.op_str) is not None or raw.mnemonic.endswith("r")
    elements = {"b": 1, "h": 2, "s": 4, "d": 8}
    arrangement = re.search(r"\.(\d*)([bhsd])", raw.op_str)
    if arrangement is None:
        raise RefusedError(f"{raw.mnemonic} {raw.op_str} is not known", "build with other flags")
    element = elements[arrangement[2]]
    each = element if lane or not arrangement[1] else element * int(arrangement[1])
    size = each * len(numbers)
    post = re.search(r"\], #(-?\w+)$", raw.op_str)
    by_register = re.search(r"\], (x\d+)$", raw.op_str)

    def act(state: State, machine: Machine) -> None:
        at = state.registers[base]
        if store:
            for offset in range(0, size, 16):
                machine.store(state, add(at, offset), min(16, size - offset), DATA)
        else:
            machine.load(state, at, size)
            for number in numbers:
                state.registers[number] = DATA
        if post:
            state.registers[base] = add(at, int(post[1], 0))
        elif by_register:
            state.registers[base] = add(at, state.registers[_number(by_register[1])])

    return act


def _atomic(raw: Any, base: int) -> Action:
    """Return the action of an access with synchronisation: of what it reads and writes nothing is known."""
    written = _written(raw)

    def act(state: State, machine: Machine) -> None:
        machine.store(state, state.registers[base], 16, DATA)
        written(state, machine)

    return act


_EXTENSIONS = {
    arm64.ARM64_EXT_UXTB: (8, False), arm64.ARM64_EXT_UXTH: (16, False), arm64.ARM64_EXT_UXTW: (32, False),
    arm64.ARM64_EXT_UXTX: (64, False), arm64.ARM64_EXT_SXTB: (8, True), arm64.ARM64_EXT_SXTH: (16, True),
    arm64.ARM64_EXT_SXTW: (32, True), arm64.ARM64_EXT_SXTX: (64, True),
}  # fmt: skip
_CODES = {
    arm64.ARM64_CC_EQ: "eq", arm64.ARM64_CC_NE: "ne", arm64.ARM64_CC_HS: "hs", arm64.ARM64_CC_LO: "lo",
    arm64.ARM64_CC_MI: "mi", arm64.ARM64_CC_PL: "pl", arm64.ARM64_CC_VS: "vs", arm64.ARM64_CC_VC: "vc",
    arm64.ARM64_CC_HI: "hi", arm64.ARM64_CC_LS: "ls", arm64.ARM64_CC_GE: "ge", arm64.ARM64_CC_LT: "lt",
    arm64.ARM64_CC_GT: "gt", arm64.ARM64_CC_LE: "le",
}  # fmt: skip
_NOTHING = {"nop", "hint", "bti", "paciasp", "autiasp", "dmb", "dsb", "isb", "yield"}
_STATUS = {"nzcv"}
_INTEGER: dict[str, Callable[[Any], Action]] = {
    "mov": _move, "movz": _move, "movk": _move_keep, "adr": _address, "adrp": _address,
    "movn": lambda raw: _compute(raw, inverted),
    "mvn": lambda raw: _compute(raw, inverted),
    "add": lambda raw: _compute(raw, add),
    "sub": lambda raw: _compute(raw, subtract),
    "neg": lambda raw: _compute(raw, lambda value: subtract(0, value)),
    "adds": _setting("add", add), "subs": _setting("sub", subtract), "negs": _setting("sub", subtract),
    "ands": _setting("logic", bit_and(64)), "bics": _setting("logic", lambda a, b: bit_and(64)(a, inverted(b))),
    "cmp": _comparing("sub"), "cmn": _comparing("add"), "tst": _comparing("logic"),
    "ccmp": _conditional_compare("sub"), "ccmn": _conditional_compare("add"),
    "and": _two(bit_and), "bic": _two(lambda width: lambda a, b: bit_and(width)(a, fit(inverted(b), width))),
    "orr": lambda raw: _compute(raw, bit_or),
    "orn": lambda raw: _compute(raw, lambda a, b: bit_or(a, inverted(b))),
    "eor": lambda raw: _compute(raw, bit_xor),
    "eon": lambda raw: _compute(raw, lambda a, b: bit_xor(a, inverted(b))),
    "lsl": _shift(lambda value, by, _: multiply(value, 1 << by)),
    "lsr": _shift(shift_right), "asr": _shift(shift_right_arithmetic),
    "ror": _shift(lambda value, by, width: of_number(value, lambda number: rotated(number, by, width))),
    "ubfx": _field, "sbfx": _field, "ubfiz": _field, "sbfiz": _field, "bfi": _inserted, "bfxil": _inserted,
    "sxtb": lambda raw: _compute(raw, lambda value: attempt(lambda: extend(value, 8))),
    "sxth": lambda raw: _compute(raw, lambda value: attempt(lambda: extend(value, 16))),
    "sxtw": lambda raw: _compute(raw, lambda value: attempt(lambda: extend(value, 32))),
    "uxtb": lambda raw: _compute(raw, lambda value: attempt(lambda: fit(value, 8))),
    "uxth": lambda raw: _compute(raw, lambda value: attempt(lambda: fit(value, 16))),
    "uxtw": lambda raw: _compute(raw, lambda value: attempt(lambda: fit(value, 32))),
    "mul": _product(1, added=False), "mneg": _product(-1, added=False),
    "madd": _product(1, added=True), "msub": _product(-1, added=True),
    "umull": _product(1, added=False, narrow="u"), "smull": _product(1, added=False, narrow="s"),
    "umnegl": _product(-1, added=False, narrow="u"), "smnegl": _product(-1, added=False, narrow="s"),
    "umaddl": _product(1, added=True, narrow="u"), "smaddl": _product(1, added=True, narrow="s"),
    "umsubl": _product(-1, added=True, narrow="u"), "smsubl": _product(-1, added=True, narrow="s"),
    "umulh": _high(False), "smulh": _high(True), "udiv": _division(False), "sdiv": _division(True),
    "csel": _select(lambda value: value), "csinc": _select(lambda value: add(value, 1)),
    "csinv": _select(inverted), "csneg": _select(lambda value: subtract(0, value)),
    "cinc": _select(lambda value: add(value, 1), one_source=True),
    "cinv": _select(inverted, one_source=True),
    "cneg": _select(lambda value: subtract(0, value), one_source=True),
    "cset": _set_on(False), "csetm": _set_on(True),
    "clz": _bits_of(lambda number, width: width - number.bit_length()),
    "rev": _bits_of(lambda number, width: int.from_bytes(number.to_bytes(width // 8, "little"), "big")),
    "rbit": _bits_of(lambda number, width: int(f"{number:0{width}b}"[::-1], 2)),
}  # fmt: skip

PROCESSOR = Processor(
    steps,
    registers=ZERO + 1,
    stack=STACK,
    link=LINK,
    zero=ZERO,
    arguments=tuple(range(8)),
    result=0,
    changed_by_calls=(*range(19), LINK, *range(VECTORS, ZERO)),  # of v8 to v15 only the lower halves are kept
)
