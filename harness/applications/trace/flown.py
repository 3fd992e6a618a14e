"""An application against the objects of a bundle: the network, and every function that it calls."""

from __future__ import annotations

import hashlib
import io
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from harness.applications.trace.contained import Call, Comparison, Difference, compare
from harness.applications.trace.contained_document import CalledEntry, DifferenceEntry, PlaceEntry
from harness.applications.trace.image import Image, Symbol, symbols_of
from harness.applications.trace.linkable import Object
from harness.build.bundle import CALLED, NETWORK, PROGRAM, Bundle, object_of
from harness.core.errors import RequestError

SYMBOL = "network"
SUFFIX = f"_{SYMBOL}"
"""The end of the name that an export gives to the network's symbol."""
ARCHIVE = b"!<arch>\n"
HEADER = 60  # bytes of the header of a member
SYSTEM = "the system, when the application is loaded"
ASSUMPTIONS = (
    "The application calls the network as its interface says: init before infer, one call at a time.",
    "The start-up code copies initialised data to where they are linked, and sets other variables to zero.",
    "The application writes to no table, buffer or code of the network.",
    "The file is the one that is loaded: no tool changes it after this comparison, except by removing symbols.",
    "The processor is one for which the object was compiled, and rounds to nearest even with subnormal numbers.",
)


@dataclass(frozen=True, eq=False)
class Member:
    """An object that can provide functions: its name, its bytes, and whether it belongs to the bundle."""

    name: str
    content: bytes
    is_proved: bool


@dataclass
class Flown:
    """The comparison of an application with a bundle and its result."""

    application: Image
    bundle: Bundle
    libraries: Sequence[Path]
    main: Comparison = field(init=False)
    called: list[CalledEntry] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    _compared: dict[str, Comparison] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path = self.bundle.folder / object_of(NETWORK)
        entries = [name for name in self.application.by_name if name.endswith(SUFFIX)]
        self.main = compare(Object(path.read_bytes(), path.name), self.application, {SYMBOL: entries})
        self.differences += self.main.differences
        self._follow(self.main.calls)

    @property
    def entry(self) -> str | None:
        """The symbol of the network in the application."""
        address = self.main.address_of(SYMBOL)
        candidates = (symbol for symbol in self._entries() if symbol.value == address)
        return next((symbol.name for symbol in candidates), None)

    @property
    def other_networks(self) -> list[str]:
        """The symbols of further networks in the application, which may have functions and tables of equal names."""
        return sorted({symbol.name for symbol in self._entries()} - {self.entry or ""})

    def _entries(self) -> list[Symbol]:
        return [
            symbol
            for symbol in self.application.symbols
            if symbol.kind == "STT_OBJECT" and (symbol.name == SYMBOL or symbol.name.endswith(SUFFIX))
        ]

    @property
    def compared_bytes(self) -> int:
        """The number of compared bytes of all objects."""
        return self.main.compared_bytes + sum(comparison.compared_bytes for comparison in self._compared.values())

    def places(self) -> Iterator[PlaceEntry]:
        """Yield the sections of all compared objects, by their addresses."""
        for comparison in (self.main, *self._compared.values()):
            for index, address in sorted(comparison.places.items(), key=lambda place: place[1]):
                section = comparison.object.sections[index]
                yield PlaceEntry(
                    object=comparison.object.name, section=section.name, address=address, size=len(section.content)
                )

    def difference_entries(self) -> list[DifferenceEntry]:
        """Return the differences of all objects."""
        return [
            DifferenceEntry(
                object=difference.object,
                symbol=difference.symbol,
                kind=difference.kind,
                address=difference.address,
                reason=difference.reason,
                bytes=difference.bytes,
            )
            for difference in self.differences
        ]

    def assumptions(self) -> list[str]:
        """Return the assumptions, with the functions that are taken on trust."""
        trusted = [f"{function.name} ({function.provided_by})" for function in self.called if not function.is_proved]
        if not trusted:
            return list(ASSUMPTIONS)
        return [*ASSUMPTIONS, f"Functions that no object of the bundle has are correct: {', '.join(trusted)}."]

    def _of_bundle(self) -> Iterator[Member]:
        for source in CALLED:
            path = self.bundle.folder / object_of(source)
            if path.is_file():
                yield Member(path.name, path.read_bytes(), is_proved=True)

    def _of_libraries(self) -> Iterator[Member]:
        linked = set(self.bundle.inputs.get("tools", {}).values())
        for path in self.libraries:
            yield from members(path, linked)

    def _follow(self, calls: Sequence[Call]) -> None:
        """Compare every called function, and those that it calls."""
        waiting, done = list(calls), set[str]()
        while waiting:
            name = waiting[0].function
            own = [call for call in waiting if call.function == name]
            waiting = [call for call in waiting if call.function != name]
            if name not in done:
                done.add(name)
                waiting += self._provided(name, own)

    def _provided(self, name: str, calls: Sequence[Call]) -> Sequence[Call]:
        """Find the object that provides a function, and return the calls that it makes."""
        addresses = {call.address for call in calls}
        if addresses == {None}:
            self._import(name, calls)
            return ()
        if len(addresses) > 1:
            self._differs(name, None, "calls of it lead to several functions")
            return ()
        [address] = addresses
        wrong: list[Difference] = []
        for member in itertools.chain(self._of_bundle(), self._of_libraries()):
            compared = self._comparison(member, name)
            if compared is None or {compared.address_of(name)} != addresses:
                continue
            if not compared.differences:
                self._compared[member.name] = compared
                self.called.append(_called(name, address, member, calls))
                return compared.calls
            wrong = wrong or compared.differences
        if wrong:
            self.differences += wrong
        else:
            self._differs(name, address, "it is no function of the bundle, nor of a --library")
        return ()

    def _differs(self, name: str, address: int | None, reason: str) -> None:
        self.differences.append(Difference("application", name, "called function", address, reason))

    def _comparison(self, member: Member, name: str) -> Comparison | None:
        """Return the comparison of an object that defines a function; None for another object."""
        known = self._compared.get(member.name)
        if known is not None and known.address_of(name) is not None:
            return known
        if name.encode() not in member.content:
            return None
        defined = symbols_of(ELFFile(io.BytesIO(member.content)))
        if name not in {symbol.name for symbol in defined if isinstance(symbol.section, int)}:
            return None
        return compare(Object(member.content, member.name), self.application)

    def _import(self, name: str, calls: Sequence[Call]) -> None:
        """Require that the program of the run imports the function, too."""
        if name in _imported(self.bundle.folder / PROGRAM):
            self.called.append(_called(name, None, Member(SYSTEM, b"", is_proved=False), calls))
            return
        self._differs(name, None, "the application imports it, and the program of the bundle has its code")


def _called(name: str, address: int | None, member: Member, calls: Sequence[Call]) -> CalledEntry:
    return CalledEntry(
        name=name,
        address=address,
        provided_by=member.name,
        is_proved=member.is_proved,
        callers=sorted({call.caller for call in calls}),
        veneers=sorted({call.veneer for call in calls if call.veneer is not None}),
    )


def _imported(program: Path) -> set[str]:
    """Return the functions that a program imports."""
    tables = ELFFile(io.BytesIO(program.read_bytes())).iter_sections()
    return {
        symbol.name
        for table in tables
        if isinstance(table, SymbolTableSection)
        for symbol in table.iter_symbols()
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["type"] in {"STT_FUNC", "STT_NOTYPE"}
    }


def members(path: Path, linked: Collection[str] = ()) -> Iterator[Member]:
    """Yield the objects of a static library, or an object file; RequestError for another file.

    Members are proved if the SHA-256 of the file is one of `linked`, the libraries that the bundle's program has.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}", "name a static library or an object") from error
    is_proved = hashlib.sha256(content).hexdigest() in linked
    if not content.startswith(ARCHIVE):
        if not content.startswith(b"\x7fELF"):
            raise RequestError(f"cannot read {path}: neither a static library nor an object", "name a .a or .o file")
        yield Member(path.name, content, is_proved)
        return
    at, names = len(ARCHIVE), b""
    while at + HEADER <= len(content):
        field_name, size = content[at : at + 16].rstrip(), int(content[at + 48 : at + 58])
        body = content[at + HEADER : at + HEADER + size]
        at += HEADER + size + size % 2
        if field_name == b"//":
            names = body
        elif field_name not in {b"/", b"/SYM64/"} and body.startswith(b"\x7fELF"):
            yield Member(f"{path.name}({_name(field_name, names)})", body, is_proved)


def _name(field_name: bytes, names: bytes) -> str:
    """Return the name of a member: its own, or one in the table of long names."""
    if field_name[:1] == b"/" and field_name[1:].isdigit():
        start = int(field_name[1:])
        return names[start : names.index(b"/", start)].decode(errors="replace")
    return field_name.rstrip(b"/").decode(errors="replace")


def object_sha256(bundle: Bundle) -> str:
    """Return the SHA-256 of the network's object."""
    return hashlib.sha256((bundle.folder / object_of(NETWORK)).read_bytes()).hexdigest()
