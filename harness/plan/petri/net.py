"""A coloured Petri net as a value: places, transitions, the marking that it begins with and the one that it ends with.

A token lies in a place and has a colour.  A transition is enabled while every place that it takes from holds enough
tokens of the right colour; firing it takes these and puts others (Peterson, "Petri nets", ACM Computing Surveys, 1977;
Jensen and Kristensen, "Coloured Petri Nets", 2009, of which this is the part where colours are a finite set and arcs
are constant).

A marking is one whole number: FIELD_BITS bits for each pair of place and colour, whose highest bit, the guard, is
always set.  Taking tokens is one subtraction that clears the guard where too few are there, so that thousands of
markings are explored in a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NewType, TypeAlias

FIELD_BITS = 32

Kind: TypeAlias = tuple[str, str]
"""A place and a colour; tokens of one kind cannot be distinguished."""

Marking = NewType("Marking", int)
"""The number of tokens of every kind, in the bit fields of one net: see `Net.tokens`."""


@dataclass(frozen=True)
class Tokens:
    """`count` tokens of one colour in one place, or on an arc to or from it; "" means uncoloured."""

    place: str
    colour: str = ""
    count: int = 1

    @property
    def kind(self) -> Kind:
        """Its place and colour."""
        return self.place, self.colour


@dataclass(frozen=True)
class Transition:
    """An event that takes the tokens `consumes` and puts `produces`.

    `label` is shown to people together with the name; a transition with `sync` only hands tokens on, from one colour to
    others, and is no event of its own when the firing orders of nets are compared.
    """

    name: str
    consumes: tuple[Tokens, ...]
    produces: tuple[Tokens, ...]
    colour: str = ""
    label: str = ""
    sync: bool = False


@dataclass(frozen=True)
class Net:
    """Places and transitions by name, with the marking `initial` and the one that is wanted in the end, `final`."""

    name: str
    places: tuple[str, ...]
    transitions: tuple[Transition, ...]
    initial: tuple[Tokens, ...]
    final: tuple[Tokens, ...] = ()

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Every kind of token that can be there, in the order of the net."""
        arcs = (tokens for t in self.transitions for tokens in (*t.consumes, *t.produces))
        return tuple(dict.fromkeys(tokens.kind for tokens in (*self.initial, *arcs, *self.final)))

    @cached_property
    def colours(self) -> tuple[str, ...]:
        """Every colour of a transition or token, in the order of the net."""
        used = (*(t.colour for t in self.transitions), *(colour for _, colour in self.kinds))
        return tuple(dict.fromkeys(used))

    @cached_property
    def start(self) -> Marking:
        """The initial marking."""
        return self.marking(self.initial)

    @cached_property
    def end(self) -> Marking:
        """The final marking."""
        return self.marking(self.final)

    def marking(self, tokens: Iterable[Tokens]) -> Marking:
        """Return the marking with exactly these tokens; raise KeyError for a kind that the net does not have."""
        return Marking(self._guards + self._packed(tokens))

    def tokens(self, marking: Marking) -> tuple[Tokens, ...]:
        """Return the tokens of a marking, in the order of the net; kinds without a token are left out."""
        counts = ((kind, self.count(marking, kind)) for kind in self.kinds)
        return tuple(Tokens(*kind, count) for kind, count in counts if count)

    def count(self, marking: Marking, kind: Kind) -> int:
        """Return the number of tokens of a kind; raise KeyError for a kind that the net does not have."""
        return (marking >> self._shifts[kind]) & ~(-1 << (FIELD_BITS - 1))

    def is_enabled(self, marking: Marking, transition: int) -> bool:
        """Return whether the transition with this index can fire."""
        need, guards = self._needs[transition]
        return (marking - need) & guards == guards

    def enabled(self, marking: Marking) -> tuple[int, ...]:
        """Return the indices of all transitions that can fire."""
        return tuple(index for index in range(len(self.transitions)) if self.is_enabled(marking, index))

    def fire(self, marking: Marking, transition: int) -> Marking:
        """Return the marking after the transition with this index; raise ValueError if it cannot fire."""
        if not self.is_enabled(marking, transition):
            raise ValueError(f"transition {self.transitions[transition].name} of net {self.name} is not enabled")
        return Marking(marking + self.changes[transition])

    @cached_property
    def changes(self) -> tuple[int, ...]:
        """The number that the firing of each transition adds to a marking."""
        return tuple(self._packed(t.produces) - self._packed(t.consumes) for t in self.transitions)

    @cached_property
    def consumers(self) -> Mapping[Kind, tuple[int, ...]]:
        """The transitions that take tokens of each kind."""
        return _by_kind(self.kinds, [t.consumes for t in self.transitions])

    @cached_property
    def producers(self) -> Mapping[Kind, tuple[int, ...]]:
        """The transitions that put tokens of each kind."""
        return _by_kind(self.kinds, [t.produces for t in self.transitions])

    @cached_property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """The transitions that take tokens of each transition: all that its firing can enable."""
        return tuple(
            tuple(dict.fromkeys(index for tokens in t.produces for index in self.consumers[tokens.kind]))
            for t in self.transitions
        )

    @cached_property
    def _shifts(self) -> dict[Kind, int]:
        return {kind: FIELD_BITS * index for index, kind in enumerate(self.kinds)}

    @cached_property
    def _guards(self) -> int:
        return sum(self._guard(kind) for kind in self.kinds)

    @cached_property
    def _needs(self) -> tuple[tuple[int, int], ...]:
        """The tokens that each transition takes, and the guards of these kinds."""
        return tuple(
            (self._packed(t.consumes), sum({self._guard(tokens.kind) for tokens in t.consumes}))
            for t in self.transitions
        )

    def _guard(self, kind: Kind) -> int:
        return 1 << (self._shifts[kind] + FIELD_BITS - 1)

    def _packed(self, tokens: Iterable[Tokens]) -> int:
        return sum(token.count << self._shifts[token.kind] for token in tokens)


def _by_kind(kinds: Iterable[Kind], arcs: Iterable[Iterable[Tokens]]) -> Mapping[Kind, tuple[int, ...]]:
    found: dict[Kind, dict[int, None]] = {kind: {} for kind in kinds}
    for index, of_transition in enumerate(arcs):
        for tokens in of_transition:
            found[tokens.kind][index] = None
    return {kind: tuple(indices) for kind, indices in found.items()}
