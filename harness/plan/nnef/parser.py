"""Text -> the graph of a network, or of an item in the paper's extension of NNEF (section IV.A).

A recursive descent with one cursor.  What it accepts is the part of NNEF that a description needs: one operation an
instruction, tensors by position, constants by name.  It looks at everything that can be said of one file alone: names
and their types, that a tensor has one value, given before it is used, and that the fragments say what the operations
of this harness are.  The first mistake is a RequestError that names file, line, column and what was expected.

A decimal is the float32 next to it, by way of the nearest double, as the Khronos parser reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np

from harness.operators.region import Region
from harness.plan.items.graphs import (
    External,
    Get,
    Graph,
    Instruction,
    ItemGraph,
    Join,
    Operand,
    Operation,
    Part,
    Send,
    Shared,
    Value,
    Variable,
)
from harness.plan.nnef.fragments import EXCHANGE, PARTS, known
from harness.plan.nnef.scanner import Cursor, Token, TokenKind

T = TypeVar("T")

VERSION = "1.0"
EXTENSIONS = ("KHR_enable_fragment_definitions", "KHR_enable_operator_expressions")

DIGITS = 18
"""Most digits of an integer: every number of this length fits into 64 bits."""

SCALAR = "scalar"
"""The kind of all activations; tables of constants can be integers."""
TENSORS = {"tensor<scalar>": SCALAR, "tensor<integer>": "integer"}


@dataclass(frozen=True)
class _Signature:
    """The types of an operation's arguments by name, first tensors, then constants, and the type of its result."""

    tensors: dict[str, str]
    constants: dict[str, str]
    result: str


def parse_graph(text: str, file: str) -> Graph:
    """Return the network of a `graph.nnef`; `file` is what messages call it."""
    return _Document(text, file, {}).graph()


def parse_item(text: str, file: str) -> ItemGraph:
    """Return the item of a `graphitem` file; `file` is what messages call it."""
    return _Document(text, file, EXCHANGE | PARTS).item()


class _Document:
    """One file, from its first word to its last."""

    def __init__(self, text: str, file: str, exchange: Mapping[str, str]) -> None:
        self.cursor = Cursor(text, file)
        self.exchange = exchange
        self.fragments = {name: fragment.text for name, fragment in known().items()}
        self.forms: dict[str, Callable[[Token], Instruction | None]] = {
            "external": self._external,
            "variable": self._variable,
        }
        if exchange:
            self.forms |= {"variablesync": self._variablesync, "send_var": self._send, "get_var": self._get}
        self.signatures: dict[str, _Signature] = {}
        self.types: dict[str, str] = {}
        self.shared: dict[str, Shared] = {}
        self.sent: set[str] = set()

    def graph(self) -> Graph:
        self._head()
        self.cursor.expect("graph")
        name = self.cursor.take(TokenKind.NAME).text
        inputs, outputs = self._interface()
        instructions = tuple(self._body())
        self._finish(inputs, outputs)
        return Graph(name, _names(inputs), _names(outputs), instructions)

    def item(self) -> ItemGraph:
        self._head()
        self.cursor.expect("graphitem")
        item, name = (self.cursor.take(TokenKind.NAME).text for _ in range(2))
        inputs, outputs = self._interface()
        instructions = tuple(self._body())
        self._finish(inputs, outputs)
        return ItemGraph(name, _names(inputs), _names(outputs), instructions, item, tuple(self.shared.values()))

    def _head(self) -> None:
        """Read version, extensions and fragments; compare the fragments with the known ones."""
        cursor = self.cursor
        cursor.expect("version")
        cursor.match(TokenKind.SCALAR, VERSION, ", the version of NNEF")
        cursor.expect(";")
        for extension in EXTENSIONS:
            cursor.expect("extension", extension, ";")
        while cursor.at("fragment"):
            self._fragment(self.fragments | dict(self.exchange))

    def _fragment(self, known: Mapping[str, str]) -> None:
        cursor = self.cursor
        cursor.expect("fragment")
        name = cursor.token
        if name.text not in known or name.text in self.signatures:
            again = " a second time" if name.text in self.signatures else ""
            cursor.refuse_at(name, f"a fragment of this harness, found {name}{again}", _choices(known))
        for fragment_word in _fragment_words(known[name.text]):
            cursor.match(
                fragment_word.kind,
                fragment_word.text,
                f" in fragment {name.text}",
                "the operations' formulas are fixed",
            )
        self.signatures[name.text] = _signature(known[name.text])

    def _interface(self) -> tuple[list[Token], list[Token]]:
        """Return the names in `(inputs) -> (outputs)`."""
        inputs = self._list("(", ")", lambda: self.cursor.take(TokenKind.NAME))
        self.cursor.expect("->")
        return inputs, self._list("(", ")", lambda: self.cursor.take(TokenKind.NAME))

    def _list(self, opening: str, closing: str, element: Callable[[], T]) -> list[T]:
        """Return elements between brackets, with commas."""
        self.cursor.expect(opening)
        found = [element()]
        while self.cursor.skip(","):
            found.append(element())
        self.cursor.expect(closing)
        return found

    def _body(self) -> Iterator[Instruction]:
        self.cursor.expect("{")
        while not self.cursor.skip("}"):
            target = self.cursor.take(TokenKind.NAME, "an instruction, or '}'")
            self.cursor.expect("=")
            instruction = self._instruction(target)
            self.cursor.expect(";")
            if instruction is not None:
                yield instruction
        if self.cursor.token.kind is not TokenKind.END:
            self.cursor.refuse("the end of the file")

    def _instruction(self, target: Token) -> Instruction | None:
        """Return the instruction after `target =`; None for a shared variable's declaration, which assigns no value."""
        operation = self.cursor.take(TokenKind.NAME, "an operation")
        form = self.forms.get(operation.text)
        if form is None:
            return self._operation(target, operation)
        if operation.text in self.exchange and operation.text not in self.signatures:
            self._refuse_undefined(operation)
        return form(target)

    def _refuse_undefined(self, operation: Token) -> NoReturn:
        found = f"an operation that this file defines, found {operation}"
        self.cursor.refuse_at(operation, found, f"copy the fragment {operation.text} from another file, or rewrite it")

    def _external(self, target: Token) -> External:
        kind = self._data_type()
        self.cursor.expect("(", "shape", "=")
        shape = self._shape()
        self.cursor.expect(")")
        self._give(target, kind)
        return External(target.text, shape)

    def _variable(self, target: Token) -> Variable:
        kind = self._data_type()
        self.cursor.expect("(", "shape", "=")
        shape = self._shape()
        self.cursor.expect(",", "label", "=")
        label = self.cursor.take(TokenKind.TEXT).text
        self.cursor.expect(")")
        self._give(target, kind)
        return Variable(target.text, shape, label)

    def _variablesync(self, target: Token) -> None:
        kind = self._data_type()
        if kind != SCALAR:
            self.cursor.refuse_at(target, f"a variablesync<{SCALAR}>, found {target}, a variablesync<{kind}>")
        self.cursor.expect("(", "shape", "=")
        shape = self._shape()
        self.cursor.expect(")")
        if target.text in self.types or target.text in self.shared:
            self.cursor.refuse_at(target, f"a name that is not in use, found {target}")
        self.shared[target.text] = Shared(target.text, shape)

    def _send(self, target: Token) -> Send:
        self._require_shared(target)
        if target.text in self.sent:
            self.cursor.refuse_at(target, f"a shared variable that is not sent yet, found {target}")
        self.cursor.expect("(")
        destinations = self._list("[", "]", lambda: self.cursor.take(TokenKind.NAME, "the name of an item").text)
        self.cursor.expect(",")
        data = self._tensor(SCALAR, "data")
        self.cursor.expect(")")
        self.sent.add(target.text)
        return Send(target.text, tuple(destinations), data)

    def _get(self, target: Token) -> Get:
        self.cursor.expect("(")
        source = self.cursor.take(TokenKind.NAME, "the name of an item").text
        self.cursor.expect(",")
        shared = self.cursor.take(TokenKind.NAME, "a shared variable")
        self._require_shared(shared)
        self.cursor.expect(")")
        self._give(target, SCALAR)
        return Get(target.text, source, shared.text)

    def _require_shared(self, name: Token) -> None:
        if name.text not in self.shared:
            self.cursor.refuse_at(
                name,
                f"a shared variable, found {name}",
                f"declare it: {name.text} = variablesync<scalar>(shape = ...);",
            )

    def _operation(self, target: Token, operation: Token) -> Operation:
        signature = self.signatures.get(operation.text)
        if signature is None:
            if operation.text in self.fragments:
                self._refuse_undefined(operation)
            choices = _choices([*self.forms, *self.signatures])
            self.cursor.refuse_at(operation, f"an operation of this harness, found {operation}", choices)
        self.cursor.expect("(")
        inputs = []
        for number, (name, kind) in enumerate(signature.tensors.items()):
            if number:
                self.cursor.expect(",")
            inputs.append(self._argument(kind, name))
        constants = self._constants(operation, signature)
        self.cursor.expect(")")
        self._give(target, signature.result)
        return Operation(target.text, operation.text, tuple(inputs), tuple(constants.items()))

    def _argument(self, kind: str, name: str) -> Operand:
        """Return a tensor, `concat([...], axis = 1)` or `join([...], ...)` of several, or `part(...)` of these."""
        word = self.cursor.token
        if word.text in PARTS and self.exchange:
            if word.text not in self.signatures:
                self._refuse_undefined(word)
            return self._part(kind, name) if word.text == "part" else self._join(kind, name)
        if not self.cursor.at("concat"):
            return self._tensor(kind, name)
        self.cursor.expect("concat", "(")
        parts = self._list("[", "]", lambda: self._argument(kind, name))
        self.cursor.expect(",", "axis", "=")
        self.cursor.match(TokenKind.INTEGER, "1", ", the axis of the columns")
        self.cursor.expect(")")
        return tuple(parts) if len(parts) > 1 else parts[0]

    def _join(self, kind: str, name: str) -> Join:
        self.cursor.expect("join", "(")
        tensors = self._list("[", "]", lambda: self._tensor(kind, name))
        runs = self._number("runs", 1)
        self.cursor.expect(")")
        return Join(tuple(tensors), runs)

    def _part(self, kind: str, name: str) -> Part:
        self.cursor.expect("part", "(")
        whole = self._argument(kind, name)
        runs, begin, end = self._number("runs", 1), self._number("begin", 0), self._number("end", 1)
        self.cursor.expect(")")
        return Part(whole, Region(begin, end, runs))

    def _number(self, name: str, least: int) -> int:
        """Read `, name = integer`."""
        self.cursor.expect(",", name, "=")
        word = self.cursor.token
        value = self._integer(name)
        if value < least:
            self.cursor.refuse_at(word, f"{least} or more for {name}, found {value}")
        return value

    def _tensor(self, kind: str, what: str) -> str:
        name = self.cursor.take(TokenKind.NAME, f"a tensor for {what}")
        if name.text not in self.types:
            found = f"a tensor that has a value here for {what}, found {name}"
            self.cursor.refuse_at(name, found, "every line reads what lines above it declare, compute or get")
        if self.types[name.text] != kind:
            expected = f"a tensor<{kind}> for {what}, found {name}, a tensor<{self.types[name.text]}>"
            self.cursor.refuse_at(name, expected)
        return name.text

    def _constants(self, operation: Token, signature: _Signature) -> dict[str, Value]:
        """Read `, name = value` for every constant of the operation; return them in the order of its fragment."""
        found: dict[str, Value] = {}
        while self.cursor.skip(","):
            name = self.cursor.take(TokenKind.NAME, "the name of a constant")
            if name.text in found or name.text not in signature.constants:
                open_ones = [constant for constant in signature.constants if constant not in found]
                self.cursor.refuse_at(name, f"a constant of {operation.text}, found {name}", _choices(open_ones))
            self.cursor.expect("=")
            found[name.text] = self._value(signature.constants[name.text], name.text)
        missing = [name for name in signature.constants if name not in found]
        if missing:
            self.cursor.refuse(f"', {missing[0]} = ', a constant of {operation.text}")
        return {name: found[name] for name in signature.constants}

    def _value(self, kind: str, what: str) -> Value:
        match kind:
            case "scalar":
                return self._float32(what)
            case "integer":
                return self._integer(what)
            case "integer[]":
                return tuple(self._list("[", "]", lambda: self._integer(what)))
            case "logical":
                if not self.cursor.at("true") and not self.cursor.at("false"):
                    self.cursor.refuse(f"true or false for {what}")
                return self.cursor.next().text == "true"
        return self.cursor.take(TokenKind.TEXT, f"a text in quotes for {what}").text

    def _float32(self, what: str) -> float:
        sign = self._sign()
        word = self.cursor.take(TokenKind.SCALAR, f"a decimal fraction for {what}")
        with np.errstate(over="ignore"):
            value = float(np.float32(sign * float(word.text)))
        if not math.isfinite(value):
            self.cursor.refuse_at(word, f"a float32 for {what}, found {word}", "its magnitude is at most 3.4028235e+38")
        return value

    def _integer(self, what: str) -> int:
        sign = self._sign()
        word = self.cursor.take(TokenKind.INTEGER, f"an integer for {what}")
        if len(word.text) > DIGITS:
            self.cursor.refuse_at(word, f"an integer for {what}, found {len(word.text)} digits", f"at most {DIGITS}")
        return sign * int(word.text)

    def _sign(self) -> int:
        return -1 if self.cursor.skip("-") else 1

    def _shape(self) -> tuple[int, ...]:
        return tuple(self._list("[", "]", lambda: self._integer("shape")))

    def _data_type(self) -> str:
        """Return the type in `<...>`; scalar without one."""
        if not self.cursor.skip("<"):
            return "scalar"
        if self.cursor.token.text not in TENSORS.values():
            self.cursor.refuse(" or ".join(TENSORS.values()))
        kind = self.cursor.next().text
        self.cursor.expect(">")
        return kind

    def _give(self, target: Token, kind: str) -> None:
        """Note that a tensor has its value; refuse a second one."""
        if target.text in self.types or target.text in self.shared:
            self.cursor.refuse_at(target, f"a name that is not in use, found {target}", "a tensor has one value")
        self.types[target.text] = kind

    def _finish(self, inputs: list[Token], outputs: list[Token]) -> None:
        """Require that every name of the interface is defined and occurs once."""
        for names in (inputs, outputs):
            listed: set[str] = set()
            for name in names:
                if name.text in listed:
                    self.cursor.refuse_at(name, f"a name that is not listed yet, found {name}")
                listed.add(name.text)
        for name in inputs:
            if name.text not in self.types and name.text not in self.shared:
                self.cursor.refuse_at(name, f"an input that is declared below, found {name}")
        for name in outputs:
            if name.text not in self.types and name.text not in self.sent:
                self.cursor.refuse_at(name, f"an output that has a value in the end, found {name}")


def _names(tokens: list[Token]) -> tuple[str, ...]:
    return tuple(token.text for token in tokens)


def _choices(names: Iterable[str]) -> str:
    return f"valid choices: {', '.join(names)}"


def _fragment_words(text: str) -> list[Token]:
    """Return the words of a fragment from its name on."""
    cursor = Cursor(text, "")
    cursor.expect("fragment")
    words = []
    while cursor.token.kind is not TokenKind.END:
        words.append(cursor.next())
    return words


def _signature(text: str) -> _Signature:
    """Return the signature in the head of a fragment."""
    cursor = Cursor(text, "")
    cursor.expect("fragment")
    cursor.next()
    while not cursor.at("("):
        cursor.next()
    parameters = _typed_names(cursor)
    cursor.expect("->")
    (result,) = _typed_names(cursor).values()
    tensors = {name: TENSORS[kind] for name, kind in parameters.items() if kind in TENSORS}
    constants = {name: kind for name, kind in parameters.items() if kind not in TENSORS}
    return _Signature(tensors, constants, TENSORS.get(result, result))


def _typed_names(cursor: Cursor) -> dict[str, str]:
    """Read `(name: type, ...)`."""
    found = {}
    cursor.expect("(")
    while not cursor.skip(")"):
        name = cursor.take(TokenKind.NAME).text
        cursor.expect(":")
        kind = ""
        while not cursor.at(",") and not cursor.at(")"):
            kind += cursor.next().text
        cursor.skip(",")
        found[name] = kind
    return found
