"""`harness models operators`: every operator, the targets that compute it, and whether a proof is available."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.cli._options import as_json
from harness.core.console import Console
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.operators.base import Layer

HEADINGS = ("operator", "targets", "exactness", "proof")
EXACT = "bit for bit"
ORDERED = "bit for bit, in the order that harness states; ONNX Runtime within a bound"
"""Every lowering computes the exact specification; a target that cannot has none."""
PAGE = """\
# Operators

`harness models operators --markdown` wrote this page from the code. An operator of ONNX's own domain has its bare name.
Each target but `litert` computes exactly the bits of the specification, which ONNX Runtime must confirm for each vector
of a run, on every bit or within the tolerance of [float operators](float-operators.md); otherwise the run is
inconclusive. The last column says whether `prove` covers an operator; its result tells which steps try every case and
which try samples. A model with other operators is refused, with the workaround for each node; see
[Bring a network](../bring-a-network.md).
A target may refuse some layers of an operator, and names the reason: `tiovx` and `vitis` refuse float32 inputs, except
those of QuantizeLinear, which `tiovx` computes. Target `litert` gives float32 sums and approximations
[within a bound](convert-a-model.md#forms), and its items have no proof.

"""


@dataclass(frozen=True)
class SupportedOperator:
    """An operator with the targets that compute it."""

    operator: str
    targets: tuple[str, ...]
    exactness: str
    proof: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return self.operator, ", ".join(self.targets), self.exactness, "yes" if self.proof else "no"


@click.command("operators", epilog="Example: harness models operators")
@click.option("--markdown", is_flag=True, help="Print the page docs/reference/operators.md.")
@as_json
def command(*, markdown: bool, as_json: bool) -> None:
    """List the operators: targets, exactness, proof."""
    found = supported()
    if markdown:
        click.echo(page(found), nl=False)
        return
    console = Console.open(as_json=as_json)
    table = Table(*HEADINGS, box=None, padding=(0, 2, 0, 0), header_style="bold")
    for each in found:
        table.add_row(*map(Text, each.cells))
    console.show(table)
    console.document({"operators": [asdict(each) for each in found]})


def supported() -> list[SupportedOperator]:
    """Return all operators, sorted by name."""
    from harness import operators
    from harness.operators.float_errors import has_tolerance

    lowerings = lowered()
    entries = operators.by_onnx_name().items()
    return [
        SupportedOperator(
            f"{domain}.{name}" if domain else name,
            targets_of(operator, lowerings),
            ORDERED if has_tolerance(operator) else EXACT,
            has_proof(operator),
        )
        for (domain, name), operator in sorted(entries, key=lambda entry: (entry[0][1].lower(), entry[0][0]))
    ]


def lowered() -> dict[str, Collection[type[Layer]]]:
    """Return the classes of operators that each target computes, by the target without its variant."""
    from harness import targets

    classes: dict[str, set[type[Layer]]] = {}
    for name in targets.names():
        classes.setdefault(name.partition(":")[0], set()).update(targets.find(name).lowerings)
    return dict(classes)


def targets_of(operator: type[Layer], lowerings: Mapping[str, Collection[type[Layer]]]) -> tuple[str, ...]:
    """Return the targets that compute a class."""
    return tuple(target for target, classes in lowerings.items() if operator in classes)


def has_proof(operator: type[Layer]) -> bool:
    """Return whether a proof of the class is available."""
    from harness.operators.base import Layer

    return operator.obligations is not Layer.obligations


def page(found: list[SupportedOperator]) -> str:
    """Return the operators as a page of the documentation."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(each.cells for each in found)]
    return PAGE + "".join(f"| {' | '.join(row)} |\n" for row in rows)
