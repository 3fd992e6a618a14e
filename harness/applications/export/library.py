"""The description of a library, shared by all its forms: its interface, its files, its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from harness import targets
from harness.applications.export import objects, vectors
from harness.applications.export.vectors import SelfTest
from harness.build.bundle import CALLED, NETWORK, Bundle, object_of, stack_bytes
from harness.build.codegen import Program
from harness.core.errors import RequestError
from harness.runs.programs import Subject
from harness.targets.generated import C_TYPES
from harness.targets.toolchain import EXACTNESS_FLAGS

TARGET = "c"
SYMBOL = "network"
"""The only global symbol of network.c."""
FREESTANDING = ("board.h", "math.c", "math.h", "memory.c", "string.h")
"""Files of kernels/bare for a compiler without a C library."""
FP_ENVIRONMENT = "kernels/program/fp_environment.h"
_KEYWORDS = {
    *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern"),
    *("float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed"),
    *("sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool"),
    *("class", "delete", "new", "private", "protected", "public", "this", "true", "false", "template", "operator"),
    *("network", "main", "layer", "task"),
}


@dataclass(frozen=True)
class Value:
    """An input or output of the network in C: the parameter, its type and width; `layer` is that of an output."""

    name: str
    c_type: str
    width: int
    layer: int | None = None


@dataclass(frozen=True)
class LayerFacts:
    """A layer in C: its name as dumps have it, its constant, type, width, and bytes; 0 bytes if it is overwritten."""

    name: str
    constant: str
    operator: str
    c_type: str
    width: int
    bytes: int


@dataclass(frozen=True, eq=False)
class Library:
    """A network as a library called `name`: the program of which it is a part, its bundle, and its self-test."""

    name: str
    subject: Subject
    program: Program
    bundle: Bundle
    test: SelfTest

    @property
    def upper(self) -> str:
        """The prefix of macros."""
        return self.name.upper()

    @cached_property
    def inputs(self) -> list[Value]:
        """The inputs in their order."""
        network = self.subject.plan.network
        names = unique((tensor.name for tensor in network.inputs), ())
        return [Value(n, C_TYPES[t.dtype.name], t.size) for n, t in zip(names, network.inputs, strict=True)]

    @cached_property
    def outputs(self) -> list[Value]:
        """The results in their order."""
        layers = self.subject.plan.network.layers
        indices = list(self.test.outputs)
        names = unique((layers[index].output.name for index in indices), [value.name for value in self.inputs])
        return [
            Value(name, C_TYPES[layers[index].dtype.name], layers[index].size, index)
            for name, index in zip(names, indices, strict=True)
        ]

    @cached_property
    def layers(self) -> list[LayerFacts]:
        """The layers in their order."""
        plan = self.subject.plan
        names = unique((layer.name for layer in plan.network.layers), ())
        return [
            LayerFacts(
                layer.name,
                f"{self.upper}_LAYER_{name.upper()}",
                layer.operator,
                C_TYPES[layer.dtype.name],
                layer.size,
                layer.size * layer.dtype.itemsize * plan.kept[index],
            )
            for index, (name, layer) in enumerate(zip(names, plan.network.layers, strict=True))
        ]

    @cached_property
    def proved(self) -> dict[str, bytes]:
        """The objects of the bundle by their names, as the program is linked with them."""
        sources = [NETWORK, *(path for path in CALLED if path in self.bundle.files)]
        paths = [object_of(path) for path in sources]
        return {PurePosixPath(path).name: (self.bundle.folder / path).read_bytes() for path in paths}

    @cached_property
    def sizes(self) -> objects.Sizes:
        """The bytes of the network's object."""
        return objects.sizes(self.proved["network.o"])

    @property
    def stack(self) -> int | None:
        """A sufficient size of the stack in bytes: that with which the board's program runs, behind a guard."""
        board = self.subject.board
        return stack_bytes(self.subject.plan, board.bare_metal) if board.bare_metal else None

    @property
    def compile_flags(self) -> list[str]:
        """The flags with which any compiler keeps the bits."""
        return list(EXACTNESS_FLAGS)

    def archive(self, api: bytes) -> bytes:
        """Return the static library; `api` is the object of the functions that the application calls."""
        members = dict(self.proved)
        network = objects.renamed(members.pop("network.o"), SYMBOL, f"{self.name}_{SYMBOL}")
        return objects.archive({"api.o": api, "network.o": network, **members})

    def sources(self) -> dict[str, bytes]:
        """Return network.c, its constants, and the headers that it needs, by their paths in the export."""
        constants = {f"src/{path}": self._read(path) for path in self.program.files if path != NETWORK}
        needed = self._headers([NETWORK, FP_ENVIRONMENT])
        headers = {f"src/{PurePosixPath(path).name}": self._read(path) for path in needed}
        bare = {f"freestanding/{name}": f"kernels/bare/{name}" for name in FREESTANDING}
        freestanding = {path: self._read(source) for path, source in bare.items() if source in self.bundle.files}
        if b"copy_padded" in self.proved["network.o"]:
            headers["src/copy_padded.c"] = self._read("kernels/program/copy_padded.c")
        return constants | headers | freestanding

    def network(self) -> str:
        """Return the text of network.c as the bundle has it."""
        return self._read(NETWORK).decode()

    def _read(self, path: str) -> bytes:
        return (self.bundle.folder / path).read_bytes()

    def _headers(self, sources: Sequence[str]) -> list[str]:
        """Return the headers of the bundle that sources include, directly or not; those of a C library are not."""
        places = {PurePosixPath(path).name: path for path in self.bundle.files if path.endswith(".h")}
        headers: dict[str, None] = {}
        waiting = list(sources)
        while waiting:
            path = waiting.pop()
            if path.endswith(".h"):
                headers[path] = None
            names = re.findall(r'(?m)^[ \t]*#[ \t]*include[ \t]*"(.+?)"', self._read(path).decode())
            waiting += [places[name] for name in names if name in places and places[name] not in headers]
        return sorted(headers)


def require_exportable(of: Subject) -> None:
    """Raise RequestError if an item needs more than C code for the processor of the board."""
    others = [item for item in of.plan.items if item.target.partition(":")[0] != TARGET]
    if not others:
        return
    known = (name for name in targets.names() if name.partition(":")[0] == TARGET)
    choices = ", ".join(sorted(known))
    listed = ", ".join(f"{item.name} ({item.target})" for item in others)
    alternatives = ",".join([TARGET] * len(of.plan.items))
    raise RequestError(
        f"board {of.board.name}: cannot export item {listed}: a library has C code for the processor alone, and these "
        "need the board program, its libraries or its device",
        f"give --items {alternatives}; each item can be one of: {choices}",
    )


def identifier(text: str) -> str:
    """Return a text as an identifier of C, in small letters."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "n"
    return f"n_{name}" if name[0].isdigit() or name in _KEYWORDS else name


def unique(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return identifiers for names, each once."""
    identifiers: list[str] = []
    used = set(taken)
    for name in names:
        plain = candidate = identifier(name)
        number = 2
        while candidate in used:
            candidate = f"{plain}_{number}"
            number += 1
        used.add(candidate)
        identifiers.append(candidate)
    return identifiers


def described(name: str | None, of: Subject, program: Program, bundle: Bundle, count: int) -> Library:
    """Return the library of a program; RequestError if `name` is no identifier of C."""
    chosen = identifier(of.plan.network.name) if name is None else name
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", chosen) or chosen in _KEYWORDS:
        raise RequestError(f"--name {name}: not a name of C", "use letters, digits and _, at most 63")
    return Library(chosen, of, program, bundle, vectors.self_test(of.plan, count))
