"""PTX text -> its parts: variables, functions, and every instruction with its full opcode.

Small and strict: it reads what NVRTC writes for the kernels, and whatever else it meets is an error that names the
line.  Nothing is skipped but comments and .pragma "nounroll".  The grammar is that of NVIDIA's "Parallel Thread
Execution ISA", chapters 4 (syntax), 5 (variables), 6 (operands) and 11 (directives).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from harness.targets.cuda.ptx_tokens import Cursor, Token, refuse

BITS = {"pred": 1} | {f"{kind}{bits}": bits for kind in "bsuf" for bits in (8, 16, 32, 64) if (kind, bits) != ("f", 8)}
LINKAGE = (".visible", ".weak")
LAUNCH_BOUNDS = (".maxntid", ".minnctapersm", ".maxnreg")
MEMORY = (".global", ".shared", ".local", ".param")


@dataclass(frozen=True)
class Name:
    """A register, special register, variable, label or function; `negated` if a predicate is written as !%p."""

    text: str
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A constant; of a floating-point one, the bits."""

    value: int
    floating: bool = False


@dataclass(frozen=True)
class Address:
    """[base + offset], offset in bytes; the base is a register or a variable."""

    base: str
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """{a, b, ...}, or the list of results or arguments of a call."""

    elements: tuple[Operand, ...]


Operand = Name | Immediate | Address | Vector


@dataclass(frozen=True)
class Instruction:
    """One instruction: `guard` is its predicate, `text` the source.

    Those of a call are its results, its function and its arguments.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: Name | None
    line: int
    text: str


@dataclass(frozen=True)
class Variable:
    """Memory of `count` elements of `type` in `space`, with its first values where it has some."""

    space: str
    type: str
    name: str
    alignment: int
    count: int
    line: int
    initial: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * BITS[self.type] // 8


@dataclass(frozen=True)
class Function:
    """An .entry or a .func: its registers by name with their types, its labels as places in the body.

    `bounds` are those of its launch: .maxntid and others.

    A name declared in an inner block has the number of the block added, so that all are different.
    """

    name: str
    is_entry: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    registers: Mapping[str, str]
    variables: tuple[Variable, ...]
    labels: Mapping[str, int]
    bounds: Mapping[str, tuple[int, ...]]
    body: tuple[Instruction, ...]
    line: int


@dataclass(frozen=True)
class Module:
    """A whole text; `variables` are in global memory, or of no size: the shared memory that a launch asks for."""

    version: str
    version_line: int
    target: str
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]


def parse(ptx: str) -> Module:
    """Return the parts of a PTX text; ToolError, with the line, for anything that is not understood."""
    cursor = Cursor(ptx)
    version, target = _word(cursor, ".version"), _word(cursor, ".target")
    size = _word(cursor, ".address_size")
    if size.text != "64":
        refuse(size.line, f"addresses of {size.text} bits, not 64")
    variables: list[Variable] = []
    functions: list[Function] = []
    while cursor.now.kind != "end":
        linkage = [token.text for token in cursor.every(LINKAGE)]
        if cursor.now.text in {".func", ".entry"}:
            functions += _function(cursor)
        elif cursor.now.text == ".global":
            variables.append(_variable(cursor))
            cursor.expect(";")
        elif not linkage and cursor.accept(".extern"):
            variables.append(_of_launch(cursor))
        else:
            refuse(cursor.now.line, f"{' '.join([*linkage, cursor.now.text])!r} outside of functions")
    return Module(version.text, version.line, target.text, tuple(variables), tuple(functions))


def _word(cursor: Cursor, directive: str) -> Token:
    cursor.expect(directive)
    return cursor.kind("word", "version", "integer")


def _type(cursor: Cursor) -> str:
    token = cursor.kind("directive")
    if token.text[1:] not in BITS:
        refuse(token.line, f"unknown type {token.text}")
    return token.text[1:]


def _variable(cursor: Cursor) -> Variable:
    """Read `.space .align N .type name[count] = {values}`, where space, type and name are required."""
    space = cursor.kind("directive")
    if space.text not in MEMORY:
        refuse(space.line, f"unknown state space {space.text}")
    alignment = cursor.integer() if cursor.accept(".align") else 0
    kind, name = _type(cursor), cursor.kind("word").text
    count = _count(cursor) if cursor.accept("[") else 1
    initial = _values(cursor) if cursor.accept("=") else ()
    return Variable(space.text[1:], kind, name, alignment or max(BITS[kind] // 8, 1), count, space.line, initial)


def _of_launch(cursor: Cursor) -> Variable:
    """Read the shared memory whose size a launch gives: `.shared .align N .type name[]`."""
    space = cursor.expect(".shared")
    alignment = cursor.integer() if cursor.accept(".align") else 0
    kind, name = _type(cursor), cursor.kind("word").text
    for mark in ("[", "]", ";"):
        cursor.expect(mark)
    return Variable("shared", kind, name, alignment or max(BITS[kind] // 8, 1), 0, space.line)


def _count(cursor: Cursor) -> int:
    count = cursor.integer()
    cursor.expect("]")
    return count


def _values(cursor: Cursor) -> tuple[int, ...]:
    return cursor.elements(cursor.constant, "}") if cursor.accept("{") else (cursor.constant(),)


def _function(cursor: Cursor) -> Iterator[Function]:
    """Yield a definition; of a mere declaration, nothing: what is called must be defined all the same."""

    def variable() -> Variable:
        return _variable(cursor)

    is_entry = cursor.take().text == ".entry"
    results = cursor.elements(variable, ")") if cursor.accept("(") else ()
    name = cursor.kind("word")
    parameters = cursor.elements(variable, ")") if cursor.accept("(") else ()
    bounds = {bound.text: _bound(cursor) for bound in cursor.every(LAUNCH_BOUNDS)}
    if not cursor.accept(";"):
        body = _Body(cursor)
        yield Function(
            name=name.text,
            is_entry=is_entry,
            results=results,
            parameters=parameters,
            registers=body.registers,
            variables=tuple(body.variables),
            labels=body.labels,
            bounds=bounds,
            body=tuple(body.instructions),
            line=name.line,
        )


def _bound(cursor: Cursor) -> tuple[int, ...]:
    numbers = [cursor.integer()]
    while cursor.accept(","):
        numbers.append(cursor.integer())
    return tuple(numbers)


class _Body:
    """The reader of one function: its declarations and instructions, block in block."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._scopes: list[dict[str, str]] = [{}]
        self._blocks = 0
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.labels: dict[str, int] = {}
        self.instructions: list[Instruction] = []
        cursor.expect("{")
        self._block()
        for instruction in self.instructions:
            self._check_target(instruction)

    def _check_target(self, instruction: Instruction) -> None:
        if instruction.opcode.split(".")[0] != "bra":
            return
        target = instruction.operands[0] if len(instruction.operands) == 1 else None
        if not isinstance(target, Name) or target.text not in self.labels:
            refuse(instruction.line, f"{instruction.text!r} goes nowhere")

    def _block(self) -> None:
        """Read statements up to the closing brace, and that."""
        while not self._cursor.accept("}"):
            if self._cursor.accept("{"):
                self._inner()
            else:
                self._statement()

    def _inner(self) -> None:
        self._blocks += 1
        self._scopes.append({})
        self._block()
        self._scopes.pop()

    def _statement(self) -> None:
        now = self._cursor.now
        if now.text == ".reg":
            self._declare_registers()
        elif now.text in MEMORY:
            variable = _variable(self._cursor)
            self._cursor.expect(";")
            self.variables.append(self._renamed(variable))
        elif now.text == ".pragma":
            self._cursor.take()
            self._cursor.expect('"nounroll"')
            self._cursor.expect(";")
        elif now.kind == "word" and self._cursor.following.text == ":":
            self._label()
        else:
            self._instruction()

    def _declare_registers(self) -> None:
        self._cursor.take()
        kind = _type(self._cursor)
        name = self._cursor.kind("word")
        names = [name.text]
        if self._cursor.accept("<"):
            names = [f"{name.text}{number}" for number in range(self._cursor.integer())]
            self._cursor.expect(">")
        self._cursor.expect(";")
        for declared in names:
            self.registers[self._declare(declared, name.line)] = kind

    def _renamed(self, variable: Variable) -> Variable:
        name = self._declare(variable.name, variable.line)
        return replace(variable, name=name)

    def _declare(self, name: str, line: int) -> str:
        if name in self._scopes[-1]:
            refuse(line, f"{name} is declared twice")
        unique = f"{name}'{self._blocks}" if len(self._scopes) > 1 else name
        self._scopes[-1][name] = unique
        return unique

    def _resolve(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), name)

    def _label(self) -> None:
        label = self._cursor.take()
        self._cursor.expect(":")
        if label.text in self.labels or len(self._scopes) > 1:
            refuse(label.line, f"label {label.text} stands twice, or in an inner block")
        self.labels[label.text] = len(self.instructions)

    def _instruction(self) -> None:
        first = self._cursor.now
        guard = self._guard() if self._cursor.accept("@") else None
        opcode = self._cursor.kind("word").text
        if "%" in opcode or "$" in opcode:
            refuse(first.line, f"{opcode!r} is no instruction")
        operands = self._cursor.elements(self._operand, ";")
        text = self._cursor.since(first)
        self.instructions.append(Instruction(opcode, operands, guard, first.line, text))

    def _guard(self) -> Name:
        negated = self._cursor.accept("!")
        return Name(self._resolve(self._cursor.kind("word").text), negated)

    def _operand(self) -> Operand:
        if self._cursor.accept("["):
            return self._address()
        if self._cursor.accept("{"):
            return Vector(self._cursor.elements(self._operand, "}"))
        if self._cursor.accept("("):
            return Vector(self._cursor.elements(self._operand, ")"))
        if self._cursor.now.kind in {"integer", "float"}:
            return Immediate(floating=self._cursor.now.kind == "float", value=self._cursor.constant())
        return self._guard()

    def _address(self) -> Address:
        base = self._resolve(self._cursor.kind("word").text)
        offset = self._cursor.integer() if self._cursor.accept("+") else 0
        self._cursor.expect("]")
        return Address(base, offset)
