"""The changes between two cases: model, leaves, elements and the states of goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.applications.case.entries import CaseDocument
from harness.core.document import Entries


class Change(NamedTuple):
    """A change: its topic, and the text before and after; empty for something that is not there."""

    topic: str
    before: str
    after: str


def changes(before: CaseDocument, after: CaseDocument) -> list[Change]:
    """Return all changes; the time of the build and the hashes of the pages are no change."""
    found = [*_changed("", _plain(before), _plain(after))]
    found += _each("leaf", before.leaves, after.leaves)
    found += _each("element", before.elements, after.elements)
    states = (dict(each.states()) for each in (before, after))
    return found + list(_changed("state ", *states))


def _plain(document: CaseDocument) -> dict[str, Any]:
    """Return model, request, template and version as texts by their topics."""
    parts = {"model": document.model, "request": document.request, "template": document.template}
    found = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.to_json().items()}
    return found | {"harness revision": document.harness.revision}


def _each(kind: str, before: Mapping[str, Entries], after: Mapping[str, Entries]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        if name not in after or name not in before:
            yield Change(f"{kind} {name}", *("there" if name in side else "" for side in (before, after)))
            continue
        sides = (
            {key: value for key, value in each[name].to_json().items() if key != "files"} for each in (before, after)
        )
        yield from _changed(f"{kind} {name}: ", *sides)


def _changed(topic: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*before, *after]):
        one, other = before.get(key), after.get(key)
        if one != other:
            yield Change(f"{topic}{key}", _text(one), _text(other))


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
