"""Comparison of an object with a linked application: each section is placed by its symbols and relocated again.

The linker may choose addresses, merge equal strings and constants, and put veneers between a call and a function.
Everything else must be the object's: each byte outside the fields that it relocates, each target, each initial value.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.applications.trace.image import Image, Symbol
from harness.applications.trace.linkable import Field, Object, Section
from harness.applications.trace.relocations import MASK_64
from harness.core.errors import RequestError

EXECUTABLE = 0x4
MOST_PLACES = 64
"""Combinations of places that are compared, where other symbols have the same names."""


@dataclass(frozen=True)
class Difference:
    """A difference: the symbol of the object, its kind, the address in the application (None if missing), and why."""

    object: str
    symbol: str
    kind: str
    address: int | None
    reason: str
    bytes: int = 0


@dataclass(frozen=True)
class Call:
    """A call of a function elsewhere: who calls it, its name, its address or None if imported, and its veneer."""

    caller: str
    function: str
    address: int | None
    veneer: int | None


@dataclass
class Entity:
    """A string, a constant or a section that is found by its references: the bits of its address that are known."""

    content: bytes
    address: int = 0
    known: int = 0
    conflicting: bool = False
    users: set[str] = field(default_factory=set)

    def learn(self, address: int, mask: int, user: str) -> None:
        """Add what one reference says."""
        self.conflicting |= bool((address ^ self.address) & mask & self.known)
        self.address |= address & mask & ~self.known
        self.known |= mask
        self.users.add(user)


Names: TypeAlias = Mapping[str, Sequence[str]]
"""Other names in an application of symbols of an object."""


def compare(of: Object, application: Image, others: Names = MappingProxyType({})) -> Comparison:
    """Compare an object with an application, at the places with the fewest differences.

    There are several only if the application has other symbols of the same names, such as those of another network.
    RequestError if the application is for another processor.
    """
    if of.machine != application.machine:
        raise RequestError(
            f"{application.path}: it is for {application.machine.removeprefix('EM_')}, and {of.name} for "
            f"{of.machine.removeprefix('EM_')}",
            "name the application for the board of the run",
        )
    candidates = {}
    for section in of.sections.values():
        if section.symbols and not section.is_merged:
            candidates[section.index] = _candidates(of, section, application, others)
    while math.prod(max(len(bases), 1) for bases in candidates.values()) > MOST_PLACES:
        most = max(candidates, key=lambda index: len(candidates[index]))
        candidates[most] = candidates[most][:-1]
    bases_of = {index: bases for index, bases in candidates.items() if bases}
    choices = (dict(zip(bases_of, bases, strict=True)) for bases in itertools.product(*bases_of.values()))
    comparisons = (Comparison(of, application, others, places) for places in choices)
    return min(comparisons, key=lambda one: len(one.differences))


def _candidates(of: Object, section: Section, application: Image, others: Names) -> list[int]:
    """Return the addresses of a section that most of its symbols agree on, that with the fewest other bytes first."""
    votes: Counter[int] = Counter()
    for symbol in section.symbols:
        for name in (symbol.name, *others.get(symbol.name, ())):
            for there in application.by_name.get(name, ()):
                votes[of.plain_address(there.value, there.kind) - symbol.value] += 1
    most = max(votes.values(), default=0)
    bases = [base for base, count in votes.items() if count == most and base >= 0]
    if len(bases) > 1:
        bases.sort(key=lambda base: _distance(section, application, base))
    return bases if most >= len(section.symbols) else bases[:1]  # a section that is not whole is nowhere else whole


def _distance(section: Section, application: Image, base: int) -> int:
    """Return the number of other bytes outside fields at a place."""
    there = application.bytes_at(base, len(section.content))
    return len(section.content) if there is None else len(_different(section.content, there, _mask(section)))


class Comparison:
    """The comparison of one object with an application, with the sections of the object at these places."""

    def __init__(self, of: Object, application: Image, others: Names, places: Mapping[int, int]) -> None:
        self.object = of
        self.image = application
        self._others = others
        self.places = dict(places)
        self.differences: list[Difference] = []
        self.calls: list[Call] = []
        self._entities: dict[tuple[int, int], Entity] = {}
        self._require_places()
        for index in self.places:
            self._compare(of.sections[index])
        self._compare_entities()

    @cached_property
    def compared_bytes(self) -> int:
        """The number of compared bytes, with those of strings and constants that references lead to."""
        placed = sum(len(self.object.sections[index].content) for index in self.places)
        return placed + sum(len(entity.content) for entity in self._entities.values())

    def address_of(self, symbol: str) -> int | None:
        """Return the address in the application of a symbol of the object; None if its section is not there."""
        own = next((s for s in self.object.placed_symbols() if s.name == symbol), None)
        if own is None or not isinstance(own.section, int) or own.section not in self.places:
            return None
        return self.places[own.section] + own.value

    def _differs(self, symbol: str, kind: str, address: int | None, reason: str, count: int = 0) -> None:
        self.differences.append(Difference(self.object.name, symbol, kind, address, reason, count))

    # Places ----------------------------------------------------------------------------------------------------------

    def _require_places(self) -> None:
        for section in self.object.sections.values():
            if section.index in self.places:
                self._require_symbols(section, self.places[section.index])
            elif section.symbols and not section.is_merged:
                names = ", ".join(symbol.name for symbol in section.symbols[:3])
                self._differs(section.symbols[0].name, "missing", None, f"no symbol of {section.name} ({names}, ...)")

    def _named_in_image(self, symbol: Symbol) -> Iterator[Symbol]:
        for name in (symbol.name, *self._others.get(symbol.name, ())):
            yield from self.image.by_name.get(name, ())

    def _require_symbols(self, section: Section, base: int) -> None:
        """Require every symbol at its place, with its size."""
        for symbol in section.symbols:
            there = {(self.object.plain_address(s.value, s.kind), s.size) for s in self._named_in_image(symbol)}
            if symbol.size and (base + symbol.value, symbol.size) not in there:
                reason = "no symbol of this name" if not there else "it is elsewhere, or has another size"
                self._differs(symbol.name, "missing", base + symbol.value if there else None, reason)

    # Bytes -----------------------------------------------------------------------------------------------------------

    def _compare(self, section: Section) -> None:
        base, size = self.places[section.index], len(section.content)
        there = self.image.bytes_at(base, size)
        if there is None:
            self._differs(section.name, "missing", base, f"{size:,} bytes at {base:#x} are in no section")
            return
        mask = _mask(section)
        wrong = _different(section.content, there, mask).tolist()
        kind = "code" if section.flags & EXECUTABLE else "constants or initial values" if section.has_bytes else "zero"
        for name, places in _by_symbol(section, wrong).items():
            reason = f"{len(places):,} other bytes, the first at {base + places[0]:#x}"
            self._differs(name, kind, base + places[0], reason, len(places))
        fields = {relocated.at: relocated for relocated in section.fields}
        for address in self.image.dynamic:
            if base - self.image.word_size < address < base + size and address - base not in fields:
                name = section.symbol_at(address - base)
                self._differs(name, "loader", address, "the loader changes bytes that the object does not relocate")
        for relocated in section.fields:
            self._compare_field(section, relocated, base + relocated.at)

    def _compare_field(self, section: Section, relocated: Field, place: int) -> None:
        name, relocation = section.symbol_at(relocated.at), relocated.relocation
        own = section.content[relocated.at : relocated.at + relocation.size]
        there = self.image.value_at(place, relocation.size)
        if there is None:
            self._differs(name, "reference", place, "the loader writes an address that is not the network's")
            return
        relaxed = self._relaxed(section, relocated, place)
        if relocated.section is not None and relocated.section not in self.places:
            self._learn(relocated, relaxed, there, place, name)
            if relaxed is None:
                self._require_form(section, relocated, there, place)
            return
        target = self._target(relocated)
        if relaxed is not None and relaxed == target:
            return
        if target is not None and relocation.write(own, target, place) == there:
            if relocated.section is None:
                self.calls.append(Call(name, relocated.symbol, self._code(target + relocation.bias), None))
            return
        if relocation.is_call and self._is_call_of(relocated, own, there, place, target, name):
            return
        if _is_short_page(own, there, place, target):
            return
        target_name = relocated.symbol
        if not target_name and relocated.section is not None:
            target_name = self.object.sections[relocated.section].symbol_at(
                relocated.value + relocated.addend + relocation.bias
            )
        reason = (
            f"it refers to {self._words(relocation.read(there, place) + relocation.bias)} in place of {target_name}"
        )
        self._differs(name, "call" if relocation.is_call else "reference", place, reason)

    def _code(self, address: int) -> int:
        """Return the address of code without the mark of Thumb."""
        return self.object.plain_address(address & MASK_64, "STT_FUNC")

    def _target(self, relocated: Field) -> int | None:
        """Return S + A in the application; None for a function that is no symbol of it."""
        if relocated.section is not None:
            return self.places[relocated.section] + relocated.value + relocated.addend & MASK_64
        there = [symbol for symbol in self.image.by_name.get(relocated.symbol, ()) if symbol.kind != "STT_GNU_IFUNC"]
        there = [symbol for symbol in there if not symbol.is_local] or there  # linkers make hidden symbols local
        return there[0].value + relocated.addend & MASK_64 if len({symbol.value for symbol in there}) == 1 else None

    def _is_call_of(
        self, relocated: Field, own: bytes, there: bytes, place: int, target: int | None, caller: str
    ) -> bool:
        """Return whether a call leads to its target by way of a veneer, or to an imported function of that name."""
        relocation = relocated.relocation
        first = relocation.read(there, place)
        if relocation.write(own, first, place) != there:  # other bits than the target
            return False
        veneer = first + relocation.bias & MASK_64
        end = self.image.destination(veneer)
        if target is None and end == relocated.symbol:
            self.calls.append(Call(caller, relocated.symbol, None, self._code(veneer)))
            return True
        if target is None or end != target + relocation.bias & MASK_64:
            return False
        self.calls.append(Call(caller, relocated.symbol, self._code(int(end)), self._code(veneer)))
        return True

    def _words(self, address: int) -> str:
        """Return an address with the symbol that is there."""
        end = self.image.destination(address)
        if isinstance(end, str):
            return f"{end}, imported"
        names = [s.name for s in self.image.symbols if s.value <= end < s.value + max(s.size, 1)]
        return f"{names[0]} ({address:#x})" if names else f"{address:#x}"

    # Strings, constants, and sections without symbols -----------------------------------------------------------------

    def _relaxed(self, section: Section, relocated: Field, place: int) -> int | None:
        """Return the address that an ADR computes, where a linker has put a NOP and the ADR for an ADRP and an ADD."""
        if self.object.machine != "EM_AARCH64":
            return None
        offset = 4 * (
            int.from_bytes(section.content[relocated.at : relocated.at + 4], "little") & 0x9F000000 != 0x90000000
        )
        pair = section.content[relocated.at - offset : relocated.at - offset + 8]
        page, add = int.from_bytes(pair[:4], "little"), int.from_bytes(pair[4:], "little")
        nop, adr = self.image.word(place - offset), self.image.word(place - offset + 4)
        if page & 0x9F000000 != 0x90000000 or add & 0xFFC00000 != 0x91000000:
            return None
        one_register = len({page & 31, add & 31, add >> 5 & 31, adr & 31}) == 1
        if nop != 0xD503201F or adr & 0x9F000000 != 0x10000000 or not one_register:
            return None
        return place - offset + 4 + _distance_of_adr(adr)

    def _learn(self, relocated: Field, relaxed: int | None, there: bytes, place: int, user: str) -> None:
        """Take from a reference where the linker has put what it refers to."""
        target = self.object.sections.get(relocated.section if relocated.section is not None else -1)
        if target is None:
            self._differs(user, "missing", place, "it refers to a section that is not in memory")
            return
        if target.symbols and not target.is_merged:
            return  # it is missing, which is a difference already
        bias = relocated.relocation.bias
        address = relaxed if relaxed is not None else relocated.relocation.read(there, place)
        mask = MASK_64 if relaxed is not None else relocated.relocation.mask
        if relocated.symbol and mask == MASK_64:  # the symbol names the string or constant, the addend a part of it
            offset, address = relocated.value, address - relocated.addend
        else:
            offset, address = relocated.value + relocated.addend + bias, address + bias
        start = offset if target.is_merged else 0
        content = target.entity(offset) if target.is_merged else target.content
        entity = self._entities.setdefault((target.index, start), Entity(content))
        entity.learn(address - (offset - start) & MASK_64, mask, user)

    def _require_form(self, section: Section, relocated: Field, there: bytes, place: int) -> None:
        """Require that the bytes of a field differ from the object's in the target alone."""
        own = section.content[relocated.at : relocated.at + relocated.relocation.size]
        again = relocated.relocation.write(own, relocated.relocation.read(there, place), place)
        if again != there:
            self._differs(
                section.symbol_at(relocated.at), "code", place, "other bits of an instruction than its target"
            )

    def _compare_entities(self) -> None:
        bits = (1 << self.image.elf.elfclass) - 1
        for (index, offset), entity in self._entities.items():
            section, users = self.object.sections[index], ", ".join(sorted(entity.users)[:3])
            where = f"{section.name}+{offset:#x}, which {users} reads"
            if entity.conflicting or entity.known & bits != bits:
                self._differs(section.name, "reference", None, f"{where}: its references lead to several places")
                continue
            if section.fields:
                raise RequestError(
                    f"{self.object.name}: section {section.name} has relocations and no symbols", "report this object"
                )
            if self.image.bytes_at(entity.address & bits, len(entity.content)) != entity.content:
                self._differs(section.name, "constants or initial values", entity.address, f"{where}: other bytes")


def _mask(section: Section) -> bytearray:
    """Return 1 for each byte of a relocated field."""
    mask = bytearray(len(section.content))
    for relocated in section.fields:
        mask[relocated.at : relocated.at + relocated.relocation.size] = b"\1" * relocated.relocation.size
    return mask


def _different(one: bytes, other: bytes, mask: bytearray) -> npt.NDArray[np.intp]:
    """Return the places of other bytes where the mask is 0."""
    own, there, hidden = (np.frombuffer(content, np.uint8) for content in (one, other, mask))
    return np.flatnonzero((own != there) & (hidden == 0))


def _by_symbol(section: Section, places: Sequence[int]) -> dict[str, list[int]]:
    places_of: dict[str, list[int]] = defaultdict(list)
    for at in places:
        places_of[section.symbol_at(at)].append(at)
    return places_of


def _is_short_page(own: bytes, there: bytes, place: int, target: int | None) -> bool:
    """Return whether an ADRP became an ADR with the same result, as linkers do against erratum 843419 of Cortex-A53."""
    if target is None or len(own) != 4:
        return False
    was, now = int.from_bytes(own, "little"), int.from_bytes(there, "little")
    if was & 0x9F000000 != 0x90000000 or now & 0x9F000000 != 0x10000000 or (was ^ now) & 0x1F:
        return False
    return place + _distance_of_adr(now) == target & ~0xFFF


def _distance_of_adr(word: int) -> int:
    distance = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    return distance - (distance >> 20 << 21)
