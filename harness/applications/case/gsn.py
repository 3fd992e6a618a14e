"""The Goal Structuring Notation (GSN) as YAML of gsn2x, and the rules that gsn2x checks in such a file.

The identifiers of the rules are those of gsn2x: V01 to V06 are about one element, C01 to C08 about all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

GOAL, STRATEGY, SOLUTION = "goal", "strategy", "solution"
CONTEXT, ASSUMPTION, JUSTIFICATION = "context", "assumption", "justification"
KINDS = {"Sn": SOLUTION, "G": GOAL, "S": STRATEGY, "A": ASSUMPTION, "J": JUSTIFICATION, "C": CONTEXT}
"""The kinds of elements by the start of an identifier; Sn comes before S."""
MODULE = "module"
SUPPORTED_BY, IN_CONTEXT_OF, UNDEVELOPED = "supportedBy", "inContextOf", "undeveloped"
RELATIONS = {
    SUPPORTED_BY: {GOAL: {GOAL, STRATEGY, SOLUTION}, STRATEGY: {GOAL, STRATEGY, SOLUTION}},
    IN_CONTEXT_OF: {kind: {CONTEXT, ASSUMPTION, JUSTIFICATION} for kind in (GOAL, STRATEGY)},
}
"""The kinds that an element of a kind may refer to."""


def kind_of(identifier: str) -> str | None:
    """Return the kind of an element; None for an identifier with an unknown start."""
    return next((kind for start, kind in KINDS.items() if identifier.startswith(start)), None)


def text(name: str, brief: str, elements: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the YAML of a module; every attribute besides those of gsn2x is a text."""
    content = {MODULE: {"name": name, "brief": brief}} | {key: dict(element) for key, element in elements.items()}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def problems(module: Mapping[str, Any]) -> Iterator[str]:
    """Yield each rule that a parsed file breaks: its identifier, the element and the reason."""
    elements = {str(key): value for key, value in module.items() if key != MODULE}
    for name, element in elements.items():
        if not isinstance(element, Mapping):
            yield f"V01 {name}: not a mapping"
            return
        yield from _of_element(name, element)
        for relation in RELATIONS:
            yield from (
                f"C03 {name}: {each} does not exist" for each in _refs(element, relation) if each not in elements
            )
    yield from _of_all(elements)


def _refs(element: Mapping[str, Any], relation: str) -> Sequence[str]:
    found = element.get(relation) or ()
    return (found,) if isinstance(found, str) else found


def _of_element(name: str, element: Mapping[str, Any]) -> Iterator[str]:
    kind = kind_of(name)
    if kind is None:
        yield f"V01 {name}: the identifier starts with none of {', '.join(KINDS)}"
    if not isinstance(element.get("text"), str) or not element["text"].strip():
        yield f"V01 {name}: there is no text"
    argued, undeveloped = kind in {GOAL, STRATEGY}, element.get(UNDEVELOPED, False)
    if argued and not undeveloped and not element.get(SUPPORTED_BY):
        yield f"V02 {name}: neither supported nor undeveloped"
    if undeveloped and (element.get(SUPPORTED_BY) or not argued):
        yield f"V03 {name}: undeveloped, and supported or no goal or strategy"
    for relation, allowed in RELATIONS.items():
        if isinstance(element.get(relation), str):
            yield f"C11 {name}: {relation} is a text, not a list"
        refs = _refs(element, relation)
        yield from (
            f"V04 {name}: {each} cannot be in {relation}"
            for each in refs
            if kind_of(each) not in allowed.get(str(kind), set())
        )
        yield from (f"V05 {name}: {each} is repeated in {relation}" for each, many in Counter(refs).items() if many > 1)
        if name in refs:
            yield f"V06 {name}: refers to itself"


def _of_all(elements: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    below = {name: [*_refs(each, SUPPORTED_BY), *_refs(each, IN_CONTEXT_OF)] for name, each in elements.items()}
    referred = {each for refs in below.values() for each in refs}
    tops = [name for name in elements if name not in referred]
    if len(tops) != 1:
        yield f"C01: {len(tops)} elements are referred to by no other: {', '.join(tops)}"
    yield from (f"C02 {name}: a top-level element must be a goal" for name in tops if kind_of(name) != GOAL)
    supports = {name: _refs(each, SUPPORTED_BY) for name, each in elements.items()}
    yield from (f"C04 {name}: supports itself" for name in supports if name in reached(supports, supports[name]))
    unreached = elements.keys() - reached(below, tops)
    yield from (f"C08 {name}: cannot be reached from the top" for name in sorted(unreached))


def reached(below: Mapping[str, Sequence[str]], start: Sequence[str]) -> set[str]:
    """Return the elements of `start` and all that can be reached from them."""
    found: set[str] = set()
    todo = list(start)
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += below.get(name, ())
    return found


def above(below: Mapping[str, Sequence[str]], start: Sequence[str]) -> set[str]:
    """Return the elements of `start` and all from which one of them can be reached."""
    return {name for name in below if reached(below, [name]) & set(start)} | set(start)


def parsed(text: str) -> dict[str, Any]:
    """Return the module in a text; ValueError for an element that is repeated, which YAML would hide, or no mapping."""
    keys = [line.partition(":")[0].strip("'\"") for line in text.splitlines() if re.match(r"[A-Za-z'\"]", line)]
    if repeated := [key for key, many in Counter(keys).items() if many > 1]:
        raise ValueError(f"C07: repeated: {', '.join(repeated)}")
    found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise ValueError("no mapping of elements")  # noqa: TRY004 - about the text, not about an argument
    return found
