"""`python -m tests.support.semantics` writes docs/reference/semantics.md: why the C code computes each formula.

Everything comes from the operators, the generated sources and the obligations of a proof.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

from harness import targets
from harness.analysis import proof
from harness.analysis.proof import Question, Subject
from harness.applications.trace.sources import Body, Sources
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.core.installation import BOARDS_FILE, ROOT, module_of
from harness.operators.base import Layer
from harness.operators.obligations import Extent
from harness.plan import planner
from harness.targets import LayerCode
from tests.campaigns.misra.check import NETWORKS, network
from tests.support.programs.c_variants import of_variant

PAGE = ROOT / "docs" / "reference" / "semantics.md"
START = "<!-- generated: python -m tests.support.semantics -->\n"


def sections() -> str:
    """The generated part of the page: a section for each operator of target c."""
    host = of_variant(targets.load_boards(ROOT / BOARDS_FILE).board("host"), "c")
    found: dict[tuple[str, str], str] = {}
    for name in NETWORKS:
        for key, text in _of_network(name, host):
            found.setdefault(key, text)
    return "\n".join(found[key] for key in sorted(found, key=lambda each: (each[0].lower(), each[1])))


def _of_network(name: str, host: Profile) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield for each operator and class of layers the first section."""
    generated = codegen.generate(planner.make(network(name), host))
    texts = {path: text.decode().splitlines() for path, text in bundle.sources_of(generated, host).items()}
    sources = Sources(sorted(path for path in texts if path.startswith("kernels/c/")), lambda file: texts.get(file, ()))
    claims: dict[str, list[Question]] = {}
    for question in proof.questions(Subject.of(generated, None), Extent(all_floats=True)):
        claims.setdefault(question.layer or "", []).append(question)
    seen: set[tuple[str, str]] = set()
    for task, code in zip(generated.plan.tasks, generated.tasks, strict=True):
        part = generated.plan.part(task)
        key = part.operator, type(part).__name__
        if key not in seen:
            seen.add(key)
            yield key, _section(part, code, sources, texts["network.c"], claims)


def _section(
    layer: Layer, code: LayerCode, sources: Sources, text: list[str], claims: Mapping[str, list[Question]]
) -> str:
    lowering = module_of(type(targets.find("c").lowering_of(layer)))
    lines = [
        f"## {layer.operator}{'' if _is_usual(layer) else f' ({type(layer).__name__})'}\n",
        f"`{module_of(type(layer))}`, `{lowering}`\n",
        f"```\n{layer.text.explain(layer.operator)}\n```\n",
        "Loops:\n",
        *(line for stage in code.stages for line in _loops(layer, stage.name, sources, text)),
        "\nConstants:\n",
        *_tables(layer, code),
        "\nShown by a proof:\n",
        *dict.fromkeys(f"- {each.statement} ({_extent(each)})" for each in claims.get(layer.name, ())),
        *(f"\nAssumed: {sentence}" for sentence in layer.assumptions()),
    ]
    return "\n".join(lines) + "\n"


def _is_usual(layer: Layer) -> bool:
    """Whether a node of this operator is mostly read as such a layer."""
    return any(name == layer.operator for _, name in type(layer).ONNX)


def _tables(layer: Layer, code: LayerCode) -> list[str]:
    found = [
        f"- `{_own(table.name, layer)}`, {table.values.dtype.name}{_origin(table.comment, layer)}"
        for table in code.tables
    ]
    return found or ["- none, or literals of the code"]


def _own(name: str, layer: Layer) -> str:
    return re.sub(rf"^{re.escape(layer.name)}(?=_)", "LAYER", name)


def _origin(comment: str, layer: Layer) -> str:
    return f": {comment.replace(layer.node, 'NODE').replace(layer.name, 'LAYER')}" if comment else ""


def _extent(question: Question) -> str:
    return f"{question.side.value}, {'every case' if question.complete else 'samples'}"


def _loops(layer: Layer, stage: str, sources: Sources, text: list[str]) -> Iterator[str]:
    """Yield the stage's function and those that it calls, with their loops."""
    network_c = Sources([], lambda file: text if file == "network.c" else ())
    start = next(number for number, line in enumerate(text, 1) if re.match(rf"static ONE_CODE void {stage}\(", line))
    body = network_c.body("network.c", start, stage)
    if body is None:
        raise ValueError(f"network.c has no text of {stage}")
    yield f"- `{_own(stage, layer)}` (network.c): {_heads(body)}"
    seen: set[str] = set()
    todo = _called(body)
    while todo:
        name = todo.pop(0)
        found = None if name in seen else sources.find(name)
        seen.add(name)
        if found is not None:
            yield f"- `{name}` (`{found.file}`): {_heads(found)}"
            todo = [*_called(found), *todo]


def _heads(body: Body) -> str:
    return ", ".join(f"`{head}`" for head in body.loops) or "no loop"


def _called(body: Body) -> list[str]:
    names = re.findall(r"\b([a-z]\w+)\(", "\n".join(body.lines[1:]))
    return list(dict.fromkeys(name for name in names if name not in {"for", "if", "while", "sizeof", "return"}))


def page() -> str:
    """The page with its generated part replaced."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n{sections()}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit()
