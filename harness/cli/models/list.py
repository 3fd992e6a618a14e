"""`harness models list`: every file of the models folder, with the reason if it cannot be run."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.safe_io import read_input
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.model.network import Network


PROVENANCE = ("recipe_sha256", "source_file", "source_sha256", "quantisation")
SHORT_HASH = 12


@click.command("list", epilog="Example: harness models list")
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool) -> None:
    """List the models: layers, parameters, provenance, hash."""
    list_models(space, Console.open(as_json=as_json))


@dataclass(frozen=True)
class ListedModel:
    """A file of the models folder; if it cannot be run, it has a `problem` and no facts of a network."""

    name: str
    sha256: str = ""
    problem: str | None = None
    widths: tuple[int, ...] = ()
    parameters: int | None = None
    operators: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)


def list_models(workspace: Workspace, console: Console) -> None:
    """Print one line per file, sorted by name."""
    entries = [_entry(path) for path in workspace.model_files()]
    if not entries:
        console.note(f"there are no models in {workspace.models}: import one with harness models import")
    console.show(_table(entries))
    console.document({"models": [asdict(entry) for entry in entries]})


def _entry(path: Path) -> ListedModel:
    from harness import model as networks

    try:
        content = read_input(path)
    except OSError as error:
        return ListedModel(path.stem, problem=error.strerror)
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        return _facts(networks.load(path), sha256)
    except RequestError as error:
        return ListedModel(path.stem, sha256, error.message)


def _facts(network: Network, sha256: str) -> ListedModel:
    from harness.model.text.document import decoded
    from harness.model.text.facts import parameter_count, widths

    metadata = network.metadata
    return ListedModel(
        name=network.name,
        sha256=sha256,
        widths=widths(network),
        parameters=parameter_count(network),
        operators=dict(Counter(layer.operator for layer in network.layers)),
        provenance={key: decoded(metadata[key]) for key in PROVENANCE if key in metadata},
    )


def _table(entries: list[ListedModel]) -> Table:
    has_problem = any(entry.problem for entry in entries)  # stands in the column "from"
    optional = ("SHA-256",) if has_problem else ("other operators", "from", "SHA-256")
    table = Table(optional=optional, box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("model", "layers", "parameters", "other operators", "from", "SHA-256"):
        table.add_column(heading, justify="right" if heading == "parameters" else "left", no_wrap=heading != "from")
    for entry in entries:
        table.add_row(*map(Text, _cells(entry)), style="dim" if entry.problem else "")
    return table


def _cells(entry: ListedModel) -> tuple[str, ...]:
    from harness.model.text.facts import short_widths

    sha256 = entry.sha256[:SHORT_HASH]
    if entry.problem:
        return entry.name, "", "", "", entry.problem, sha256
    return (
        entry.name,
        short_widths(entry.widths),
        f"{entry.parameters:,}",
        _besides(entry.operators),
        _origin(entry.provenance),
        sha256,
    )


def _besides(operators: dict[str, int]) -> str:
    """Return the operators after the first QuantizeLinear, except those that the widths show, with their counts."""
    from harness.model.text.facts import in_widths
    from harness.operators import by_onnx_name
    from harness.operators.traits import Trait

    classes = {name: operator for (_, name), operator in by_onnx_name().items()}
    first = Counter({name: 1 for name in operators if Trait.QUANTISER in classes[name].traits})
    rest = Counter({name: count for name, count in operators.items() if not in_widths(classes[name])}) - first
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in rest.items())


def _origin(provenance: dict[str, Any]) -> str:
    """Return the recipe or the imported file, as far as the model states it."""
    from harness.model.text.document import readable

    if "recipe_sha256" in provenance:
        return f"recipe {readable(provenance['recipe_sha256'])[:SHORT_HASH]}"
    return readable(provenance.get("source_file", ""))
