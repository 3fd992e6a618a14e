"""`harness models conformance`: ONNX's own tests, computed by the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import Words, as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, RequestError
from harness.core.installation import revision
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.operators.base import Layer
    from harness.reference.conformance import Case, Outcome

SETS = ("node", "pytorch-converted", "pytorch-operator", "simple")
"""The sets by their names in `onnx.backend.test.loader`."""
SHOWN = 40  # kinds of reasons
COLUMNS = ("c", "cuda", "iree", "tiovx", "vitis", "litert")
"""The targets of the table of operators, in their order."""
PAGE = """\
# Conformance

{day:%Y-%m-%d}, revision {revision}.

`harness models conformance --markdown` wrote this page. It computes the tests that ONNX has for backends
(`onnx.backend.test` of onnx {version}) by the specification, without a board: the network is loaded as `harness run`
loads it, and all outputs must have the type, the shape and the values of the test, within its tolerance (that of DFT is
2^-22 of the greatest value: the tests have the rounding errors of one library in the place of zeros; that of sums of
float16 and bfloat16 is one unit in the last place of it: the tests round after each operation).
`harness.backend` is the same as a backend of ONNX (`prepare`, `run_model`, `supports_device`).

A network that is refused is no error: the message of `harness models import` says why. *Not stated* are tests with
sequences, optional values or texts. None may be *wrong*: the command then ends with exit code 1. If a test of several
inputs cannot be imported, one of them is the input, a float if there is one, and the others are constants. Outputs
that depend on shapes only are constants. Those of a size that is data (ConstantOfShape, Range) are refused.

`harness models conformance --board NAME` computes the passed tests on a board, too: a program for each test, of which
every activation must have the bits of the specification. *Refused* are then also those with a layer that a target of
the board's items does not have, and *wrong* those with another bit. `--only` chooses tests, `--items` other targets:

    harness models conformance --set node --only 'test_reduce_*' --board host --items c:generic,c:generic
    harness models conformance --set node --board cortex-m4

"""
OPERATORS = """\
## Operators

All operators of ONNX's own domain, and those of other domains that have tests. *Pass* and *tests* count the tests whose
first node has the operator. An operator is *specified* if it has a definition of its own (yes), or if the importer
expands it into operators that have one or folds it (expanded), which a passed test shows. The columns of the targets
and of the proof then hold for all layers of its passed tests. A target may refuse some layers of an operator.

"""


@click.command("conformance", epilog="Example: harness models conformance --set node --only 'test_reduce_*'")
@click.option("--set", "chosen", type=click.Choice(SETS), multiple=True, help="A set of tests; by default all.")
@click.option("--only", default="*", metavar="PATTERN", help="Tests whose names match, such as 'test_conv_*'.")
@click.option("--markdown", is_flag=True, help="Print the page docs/results/conformance.md.")
@click.option(
    "--board", shell_complete=_completion.boards,
    help="Compute the passed tests on this board, too, and compare every activation bit for bit.",
)  # fmt: skip
@click.option("--items", type=Words(), help="Targets of the board's items, such as c:generic,c:generic.")
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    chosen: tuple[str, ...],
    only: str,
    markdown: bool,
    board: str | None,
    items: tuple[str, ...] | None,
) -> int:
    """Run ONNX's own tests: pass, refused with the reason, or wrong (exit code 1)."""
    from harness.reference import conformance

    if items and not board:
        raise click.UsageError("--items are those of a board: add --board")
    console = Console.open(as_json=as_json)
    outcomes: dict[str, list[Outcome]] = {}
    with _outcome(board, items, space, console) as outcome:
        for name in chosen or SETS:
            cases = list(conformance.cases(name, only))
            with console.progress(f"tests of {name}", len(cases)) as bar:
                outcomes[name] = []
                for case in cases:
                    outcomes[name].append(outcome(case))
                    bar.advance(1)
    if not any(outcomes.values()):
        raise RequestError(
            f"no test of {', '.join(outcomes)} matches {only!r}", "another pattern, such as 'test_conv_*'"
        )
    if markdown:
        click.echo(page(outcomes), nl=False)
    else:
        _show(console, outcomes)
    every = [each for of_set in outcomes.values() for each in of_set]
    return EXIT_DIFFERS if any(each.result == conformance.WRONG for each in every) else 0


@contextmanager
def _outcome(
    board: str | None, items: tuple[str, ...] | None, space: Workspace, console: Console
) -> Iterator[Callable[[Case], Outcome]]:
    """Yield the function that computes a test, on the board where one is named."""
    from harness.boards.locks import LOCK_WAIT_S
    from harness.reference import conformance
    from harness.runs.board_tests import on_board

    if board is None:
        yield conformance.outcome
        return
    with on_board(board, items, space, LOCK_WAIT_S, console.note) as tests:
        yield tests.outcome


def _show(console: Console, outcomes: dict[str, list[Outcome]]) -> None:
    """Show the counts, the reasons of the refused tests, and each wrong one; give the document."""
    from harness.reference import conformance

    every = [each for of_set in outcomes.values() for each in of_set]
    counts, reasons = Table("set", *conformance.RESULTS), Table("tests", "reason")
    for name, of_set in outcomes.items():
        counts.add_row(*map(Text, _row(name, of_set)))
    for kind, count in conformance.reasons(every)[:SHOWN]:
        reasons.add_row(Text(str(count)), Text(kind))
    wrong = [Text(f"wrong: {each.name}: {each.reason}") for each in every if each.result == conformance.WRONG]
    places = dict.fromkeys(place for each in every for place in each.ran_on)
    console.show(counts, reasons, *wrong, *([Text(f"ran on: item {', '.join(places)}")] if places else []))
    tests = [{"set": name} | asdict(each) for name, of_set in outcomes.items() for each in of_set]
    totals = {name: dict(Counter(each.result for each in of_set)) for name, of_set in outcomes.items()}
    console.document({"counts": totals, "tests": tests})


def _row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    from harness.reference import conformance

    counts = Counter(outcome.result for outcome in outcomes)
    return [name, *(f"{counts[result]:,}" for result in conformance.RESULTS)]


def page(outcomes: dict[str, list[Outcome]]) -> str:
    """Return the outcomes of all sets as a page of the documentation."""
    import onnx

    from harness.reference import conformance

    every = [each for of_set in outcomes.values() for each in of_set]
    reasons = [[str(count), kind.replace("|", r"\|")] for kind, count in conformance.reasons(every)[:SHOWN]]
    parts = [
        PAGE.format(version=onnx.__version__, day=datetime.now(UTC), revision=revision())
        + _table(["set", *conformance.RESULTS], [_row(*entry) for entry in outcomes.items()]),
        "## Reasons of refusals\n\n"
        "Names, numbers and shapes are left out (`...`, n).\n\n" + _table(["tests", "reason"], reasons),
        OPERATORS + _operators(every),
    ]
    return "\n".join(parts)


def _operators(outcomes: Sequence[Outcome]) -> str:
    """Return the table of the operators, with the number of operators that each column has."""
    import onnx.defs

    from harness import operators
    from harness.cli.models.operators import has_proof, lowered, targets_of
    from harness.reference.conformance import PASS

    classes, lowerings = {operator.__name__: operator for operator in operators.classes()}, lowered()
    own = {".".join(filter(None, name)): operator for name, operator in operators.by_onnx_name().items()}
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    columns = ("specified", *(name for name in COLUMNS if name in lowerings), "proof")

    def layers_of(name: str, passed: Sequence[Outcome]) -> list[type[Layer]]:
        """Return the class of an operator, or those of the layers that its passed tests have."""
        if name in own:
            return [own[name]]
        return [classes[layer] for outcome in passed for layer in outcome.layers]

    def marks_of(name: str, layers: Sequence[type[Layer]]) -> dict[str, str]:
        """Return the entries of a row by column: the targets that compute every layer, and its proof."""
        if not layers:
            return {}
        marks = {"specified": "yes" if name in own else "expanded"}
        for target in lowerings:
            if all(target in targets_of(layer, lowerings) for layer in layers):
                marks[target] = "yes"
        if all(map(has_proof, layers)):
            marks["proof"] = "yes"
        return marks

    counts, rows = Counter[str](), []
    for name in sorted(standard | {outcome.operator for outcome in outcomes}):
        tests = [outcome for outcome in outcomes if outcome.operator == name]
        passed = [outcome for outcome in tests if outcome.result == PASS]
        marks = marks_of(name, layers_of(name, passed))
        counts.update(mark for mark in marks if name in standard)
        rows.append([name, str(len(passed)), str(len(tests)), *(marks.get(column, "") for column in columns)])
    total = [f"{len(standard)} of ONNX", "", "", *(str(counts[column]) for column in columns)]
    return _table(["operator", "pass", "tests", *columns], [total, *rows])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
