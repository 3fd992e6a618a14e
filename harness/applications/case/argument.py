"""The argument of a case: the template of the objectives, filled from the leaves."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import StrictUndefined, UndefinedError
from jinja2.sandbox import SandboxedEnvironment

from harness.applications.case import gsn
from harness.applications.case.entries import (
    CaseDocument,
    ElementEntry,
    ModelEntry,
    ObjectiveEntry,
    RequestEntry,
    TemplateEntry,
)
from harness.applications.case.leaves import Leaf, evidence_of
from harness.core.errors import RequestError
from harness.core.text import plural

TEMPLATE = Path(__file__).with_name("ed324.yaml")


@dataclass(frozen=True)
class Template:
    """The elements and objectives of a standard, as read from a file."""

    entry: TemplateEntry
    elements: Mapping[str, Mapping[str, Any]]
    objectives: Sequence[Mapping[str, str]]


@functools.cache
def template() -> Template:
    """Return the installed template."""
    content = TEMPLATE.read_bytes()
    found = yaml.safe_load(content)
    entry = TemplateEntry(name=TEMPLATE.stem, sha256=hashlib.sha256(content).hexdigest(), standard=found["standard"])
    return Template(entry, found["elements"], found["objectives"])


def argue(
    request: RequestEntry, model: ModelEntry, leaves: Mapping[str, Leaf]
) -> tuple[dict[str, ElementEntry], list[ObjectiveEntry]]:
    """Return the elements and objectives that follow from the leaves; RequestError for a leaf that lacks an entry.

    A goal whose solutions are not all there is undeveloped.
    """
    filled = _Filled(request, model, leaves)
    elements: dict[str, ElementEntry] = {}
    for name, stated in template().elements.items():
        if gsn.kind_of(name) == gsn.SOLUTION:
            if solution := filled.solution(name, stated):
                elements[name] = solution
            continue
        elements[name] = filled.element(name, stated)
        assumptions = filled.assumptions(name, stated)
        elements[name] = elements[name].model_copy(
            update={"in_context_of": [*elements[name].in_context_of, *assumptions]}
        )
        elements |= assumptions
    objectives = [ObjectiveEntry(**objective) for objective in template().objectives]
    used = gsn.reached(
        {name: [*one.supported_by, *one.in_context_of] for name, one in elements.items()}, [next(iter(elements))]
    )
    return {name: one for name, one in elements.items() if name in used}, objectives


class _Filled:
    """The texts of a template with the facts of the leaves."""

    def __init__(self, request: RequestEntry, model: ModelEntry, leaves: Mapping[str, Leaf]) -> None:
        self._leaves, self._jinja = leaves, SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
        self._jinja.filters |= {"count": "{:,}".format, "plural": plural, "percent": "{:.2%}".format}
        options = "".join(f" {option}" for option in request.options)
        self._common = {"board": request.board, "model": model, "asked": request.model, "options": options}

    def element(self, name: str, stated: Mapping[str, Any]) -> ElementEntry:
        """Return an element other than a solution; a goal without one of its solutions is undeveloped."""
        supports = list(stated.get(gsn.SUPPORTED_BY, ()))
        solutions = [each for each in supports if gsn.kind_of(each) == gsn.SOLUTION]
        missing = [solution for solution in solutions if self._found(solution) is None]
        developed = gsn.kind_of(name) not in {gsn.GOAL, gsn.STRATEGY} or (supports and not missing)
        more: dict[str, Any] = {"supported_by": supports}
        if not developed:
            needed = {key: self._text(stated[key]) for key in ("command", "needs") if stated.get(key)}
            more = {"undeveloped": True} | needed
        context = list(stated.get(gsn.IN_CONTEXT_OF, ()))
        return ElementEntry(
            text=self._text(stated["text"]), label=self._text(stated["label"]), in_context_of=context, **more
        )

    def solution(self, name: str, stated: Mapping[str, Any]) -> ElementEntry | None:
        """Return a solution with the facts of its leaf; None without such a leaf."""
        if (found := self._found(name)) is None:
            return None
        leaf, shown = found
        text, label = (self._text(stated[key], doc=leaf.document, leaf=leaf.entry) for key in ("text", "label"))
        if not shown:
            reason = getattr(leaf.document, "reason", "")
            text, label = f"REFUTED: {leaf.name} shows the opposite: {reason}", "REFUTED"
        return ElementEntry(text=text, label=label, leaf=leaf.name, refuted=not shown)

    def assumptions(self, name: str, stated: Mapping[str, Any]) -> dict[str, ElementEntry]:
        """Return the assumptions of the evidence of a goal, word by word."""
        found: dict[str, ElementEntry] = {}
        for solution in stated.get("assumptions_of", ()):
            if (evidence := self._found(solution)) is None:
                continue
            document = evidence[0].document
            is_proof = template().elements[solution]["evidence"] == "proof"
            texts = document.proof.assumptions if is_proof else getattr(document, "assumptions", ())
            start = f"A-{name.partition('-')[2]}"
            found |= {f"{start}-{index}": ElementEntry(text=text, label=text) for index, text in enumerate(texts, 1)}
        return found

    def _found(self, solution: str) -> tuple[Leaf, bool] | None:
        roles = template().elements[solution]["evidence"]
        for role in [roles] if isinstance(roles, str) else roles:
            if found := evidence_of(role, self._leaves):
                return found
        return None

    def _text(self, text: str, **facts: Any) -> str:
        try:
            return " ".join(self._jinja.from_string(text).render(self._common, **facts).split())
        except (UndefinedError, TypeError, ValueError) as error:
            raise RequestError(
                f"evidence lacks an entry of the argument: {error}", "it was written by another version: run it again"
            ) from error


def used_leaves(elements: Mapping[str, ElementEntry]) -> list[str]:
    """Return the names of the leaves of all solutions, each once."""
    return list(dict.fromkeys(one.leaf for one in elements.values() if one.leaf))


def same_argument(document: CaseDocument, leaves: Mapping[str, Leaf]) -> str:
    """Return the first element or objective that does not follow from the leaves; empty if all do."""
    elements, objectives = argue(document.request, document.model, leaves)
    for name in dict.fromkeys([*document.elements, *elements]):
        stated, found = document.elements.get(name), elements.get(name)
        if stated is None or found is None or stated.to_json() != found.to_json():
            return f"element {name} is not what the leaves and the template give"
    if [objective.to_json() for objective in document.objectives] != [objective.to_json() for objective in objectives]:
        return "the objectives are not those of the template"
    return "" if list(document.elements) == list(elements) else "the elements have another order"
