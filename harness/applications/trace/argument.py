"""The argument that a task computes its node: formula, loops, constants, machine code, and what shows each step.

All of it is read from the operator's formula, the generated sources, the program file and the obligations of a proof,
so that it cannot differ from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness import targets
from harness.analysis import proof
from harness.analysis.proof import Question, Subject, structure
from harness.analysis.proof_document import ProofDocument
from harness.applications.trace.document import (
    ArgumentEntry,
    ConstantEntry,
    EvidenceEntry,
    FunctionEntry,
    StepEntry,
    TaskEntry,
)
from harness.applications.trace.sources import Sources
from harness.build import codegen
from harness.core.errors import RequestError
from harness.core.text import plural
from harness.operators.base import Layer
from harness.operators.obligations import Extent
from harness.targets.toolchain import EXACTNESS_FLAGS

OF_STAGES = (
    "a proof reads all instructions: each stage has one copy, reads its inputs and tables only, and writes its "
    "outputs only"
)
OF_FORWARD = (
    "a proof reads the calls and their arguments in the machine code, and executes each launch, and the whole network "
    "with delays"
)


def entries(
    generated: codegen.Program,
    tasks: Sequence[TaskEntry],
    functions: Sequence[FunctionEntry],
    constants: Sequence[ConstantEntry],
    flags: Sequence[str],
    sources: Sources,
    shown: ProofDocument | None,
) -> tuple[list[ArgumentEntry], list[str]]:
    """Return the argument of each task, and the assumptions of all; `shown` is the proof of a run."""
    evidence = dict(_evidence(generated, shown))
    plan = generated.plan
    found = []
    for task, entry in zip(plan.tasks, tasks, strict=True):
        part = plan.part(task)
        own = [
            function
            for function in functions
            if list(function.owner.tasks) == [task.name] and function.kind in {"stage", "kernel"}
        ]
        shared = [
            function for function in functions if task.name in function.owner.tasks and len(function.owner.tasks) > 1
        ]
        tables = [constant for constant in constants if constant.kind == "table" and task.name in constant.owner.tasks]
        steps = [
            _node(part, entry),
            _formula(part),
            _loops([*own, *shared], sources, entry),
            _constants(tables, constants, task.name),
            _code([*own, *shared], flags),
            _schedule(task.name, functions),
        ]
        found.append(ArgumentEntry(task=task.name, steps=steps, evidence=evidence.get(part.name, [])))
    ran_on = [targets.HARDWARE] * len(plan.items)
    assumed = list(shown.assumptions) if shown else proof.of_plan(plan, ran_on, all_floats=True)
    return found, assumed


def _evidence(generated: codegen.Program, shown: ProofDocument | None) -> Iterator[tuple[str, list[EvidenceEntry]]]:
    """Yield the claims about each layer by its name: those of a run, or else those that a proof would ask."""
    found: dict[str, list[EvidenceEntry]] = {}
    if shown is not None:
        for claim in shown.claims:
            if claim.layer is not None:
                entry = EvidenceEntry(
                    step=claim.step,
                    statement=claim.statement,
                    method=claim.method,
                    answered_by=claim.answered_by,
                    cases=claim.cases,
                    complete=claim.complete,
                    shown=claim.holds,
                )
                found.setdefault(claim.layer, []).append(entry)
    else:
        for question in _questions(generated):
            if question.layer is not None:
                found.setdefault(question.layer, []).append(_asked(question))
    yield from found.items()


def _questions(generated: codegen.Program) -> Iterator[Question]:
    yield from structure.questions(generated, None)
    try:
        yield from proof.questions(Subject.of(generated, None), Extent(all_floats=True))
    except RequestError:  # of an operator that nothing is proven of
        return


def _asked(question: Question) -> EvidenceEntry:
    return EvidenceEntry(
        step=question.step.name.lower(),
        statement=question.statement,
        method=question.method,
        answered_by=question.side.value,
        cases=question.cases,
        complete=question.complete,
        shown=None,
    )


def _node(part: Layer, task: TaskEntry) -> StepEntry:
    columns = f", {task.columns}" if task.columns else ""
    return StepEntry(
        step="ONNX node to layer",
        statement=f"Node {part.node} ({part.operator}) is layer {part.name}: it reads {', '.join(part.sources)}, "
        f"{' and '.join(tensor.shape_text for tensor in part.inputs)}, and writes {part.output.name}, "
        f"{part.output.shape_text} {part.dtype.name}{columns}.",
        shown_by=[
            "the reader refuses attributes and types that the formula does not have",
            "each run compares this layer with ONNX Runtime, which reads the file itself",
        ],
    )


def _formula(part: Layer) -> StepEntry:
    return StepEntry(
        step="layer to formula",
        statement=part.text.explain(part.operator),
        shown_by=[
            "the specification computes this formula in integers, and decides every rounding",
            "ONNX Runtime agrees with it: on every bit for quantised values, for float sums within a bound",
        ],
    )


def _loops(functions: Sequence[FunctionEntry], sources: Sources, task: TaskEntry) -> StepEntry:
    """Return the loops of each function and of those that are inlined into it, with the line of each definition."""
    texts = []
    for function in functions:
        inlined = [(one.file, one.line, one.name) for one in function.inlined]
        for depth, (file, line, name) in enumerate(
            [(function.file or "", function.line or 0, function.name), *inlined]
        ):
            body = sources.body(file, line, name)
            if body is not None:
                loops = "; ".join(body.loops) or "no loop"
                texts.append(f"{'  inlined ' if depth else ''}{name} ({body.file}:{body.line}): {loops}")
    no_code = f"computed by another processor, or by the code of its launch's first task: {task.lowering} generates it"
    return StepEntry(
        step="formula to loops",
        statement="\n".join(texts) or no_code,
        shown_by=[
            "each kernel starts with the formula in the same letters",
            "the claims below about this layer: the compiled functions are asked, not their source",
        ],
    )


def _constants(tables: Sequence[ConstantEntry], all_data: Sequence[ConstantEntry], task: str) -> StepEntry:
    texts = [
        f"{table.name}: {table.dtype} {'x'.join(map(str, table.shape or ()))}, SHA-256 {table.expected_sha256}"
        f"{'' if table.sha256 else ', written by init'}{'; ' + table.origin if table.origin else ''}"
        for table in tables
    ]
    unnamed = sum(each.name is None and task in each.owner.tasks for each in all_data)
    if unnamed:
        texts.append(f"{plural(unnamed, 'constant')} of the compiler without a name, from literals of the code")
    held = [table for table in tables if table.sha256]
    equal = sum(each.sha256 == each.expected_sha256 for each in held)
    shown = [f"bytes of the program file, compared now: {equal} of {plural(len(held), 'table')} equal"] if held else []
    if tables:
        shown.append("a proof reads each table from the board; its values are derived from the ONNX file by other code")
    return StepEntry(step="constants to tables", statement="\n".join(texts) or "no constants", shown_by=shown)


def _code(functions: Sequence[FunctionEntry], flags: Sequence[str]) -> StepEntry:
    places = [
        f"{function.name}: {function.address:#x} to {function.address + function.size:#x}" for function in functions
    ]
    exact = [flag for flag in flags if flag in EXACTNESS_FLAGS]
    fused = sum(function.fused for function in functions)
    return StepEntry(
        step="loops to machine code",
        statement="\n".join([*places, f"compiled with {' '.join(exact)}"]),
        shown_by=[f"instructions that multiply and add with one rounding, counted now: {fused}", OF_STAGES],
    )


def _schedule(task: str, functions: Sequence[FunctionEntry]) -> StepEntry:
    forward = [function for function in functions if function.kind == "forward" and task in function.owner.tasks]
    lines = [f"{each.name} calls {', '.join(each.calls) or 'no function'} for each vector" for each in forward]
    return StepEntry(step="machine code to execution", statement="\n".join(lines), shown_by=[OF_FORWARD])
