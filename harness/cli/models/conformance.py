"""`harness models conformance`: ONNX's own tests, computed by the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.cli._options import as_json
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.backend.conformance import Outcome

SETS = ("node", "pytorch-converted", "pytorch-operator", "simple")
"""The sets by their names in `onnx.backend.test.loader`."""
SHOWN = 40  # kinds of reasons
PAGE = """\
# Conformance

`harness models conformance --markdown` wrote this page. It computes the tests that ONNX has for backends
(`onnx.backend.test` of onnx {version}) by the specification, without a board: the network is loaded as `harness run`
loads it, and all outputs must have the type, the shape and the values of the test, within its tolerance.
`harness.backend` is the same as a backend of ONNX (`prepare`, `run_model`, `supports_device`).

A network that is refused is no error: the message of `harness models import` says why. *Not stated* are tests with
sequences, optional values or texts. None may be *wrong*: the command then ends with exit code 1. If a test of several
inputs cannot be imported, the first of float32 or of 8 bits is the input, and the others are constants.

"""


@click.command("conformance", epilog="Example: harness models conformance --set node --only 'test_reduce_*'")
@click.option("--set", "chosen", type=click.Choice(SETS), multiple=True, help="A set of tests; by default all.")
@click.option("--only", default="*", metavar="PATTERN", help="Tests whose names match, such as 'test_conv_*'.")
@click.option("--markdown", is_flag=True, help="Print the page docs/conformance.md.")
@as_json
def command(*, chosen: tuple[str, ...], only: str, markdown: bool, as_json: bool) -> int:
    """Run ONNX's own tests: pass, refused with the reason, or wrong (exit code 1)."""
    from harness.backend import conformance

    console = Console.open(as_json=as_json)
    outcomes: dict[str, list[Outcome]] = {}
    for name in chosen or SETS:
        cases = list(conformance.cases(name, only))
        with console.progress(f"tests of {name}", len(cases)) as bar:
            outcomes[name] = []
            for case in cases:
                outcomes[name].append(conformance.outcome(case))
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


def _show(console: Console, outcomes: dict[str, list[Outcome]]) -> None:
    """Show the counts, the reasons of the refused tests, and each wrong one; give the document."""
    from harness.backend import conformance

    every = [each for of_set in outcomes.values() for each in of_set]
    counts, reasons = Table("set", *conformance.RESULTS), Table("tests", "reason")
    for name, of_set in outcomes.items():
        counts.add_row(*map(Text, _row(name, of_set)))
    for kind, count in conformance.reasons(every)[:SHOWN]:
        reasons.add_row(Text(str(count)), Text(kind))
    wrong = [Text(f"wrong: {each.name}: {each.reason}") for each in every if each.result == conformance.WRONG]
    console.show(counts, reasons, *wrong)
    tests = [{"set": name} | asdict(each) for name, of_set in outcomes.items() for each in of_set]
    totals = {name: dict(Counter(each.result for each in of_set)) for name, of_set in outcomes.items()}
    console.document({"counts": totals, "tests": tests})


def _row(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    from harness.backend import conformance

    counts = Counter(each.result for each in outcomes)
    return [name, *(f"{counts[result]:,}" for result in conformance.RESULTS)]


def page(outcomes: dict[str, list[Outcome]]) -> str:
    """Return the outcomes of all sets as a page of the documentation."""
    import onnx

    from harness.backend import conformance

    every = [each for of_set in outcomes.values() for each in of_set]
    passed = Counter(each.operator for each in every if each.result == conformance.PASS)
    tests = Counter(each.operator for each in every)
    reasons = [[str(count), kind.replace("|", r"\|")] for kind, count in conformance.reasons(every)[:SHOWN]]
    operators = [[operator, str(passed[operator]), str(count)] for operator, count in sorted(tests.items())]
    parts = [
        PAGE.format(version=onnx.__version__)
        + _table(["set", *conformance.RESULTS], [_row(*entry) for entry in outcomes.items()]),
        "## Reasons of refusals\n\n"
        "Names, numbers and shapes are left out (`...`, n).\n\n" + _table(["tests", "reason"], reasons),
        "## Operators\n\nThe operator is that of the first node of a test.\n\n"
        + _table(["operator", "pass", "tests"], operators),
    ]
    return "\n".join(parts)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
