"""A plan as a folder, and back: a complete text of the deployed network.

    graph.nnef        the network (valid NNEF)
    <item>.nnef       what one item does (the paper's extension), for every item
    parameters/*.dat  the tables of both
    model.onnx        the network that they describe: it defines the arithmetic
    plan.yaml         what NNEF has no words for: board, block, sync, pipeline; where the items run; which buffers share
                      bytes of the arena, each with its first byte per vector of a block

The items' texts assign the computations to items.  Every reading checks again that all items together are the network.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import nnef
import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import model as networks
from harness.boards.profile import BoardName, Name
from harness.core import strict_yaml
from harness.core.arrays import Array
from harness.core.document import first_error
from harness.core.errors import RequestError
from harness.core.safe_io import open_input, read_input
from harness.model.network import Network
from harness.plan import conformance
from harness.plan.items import composition
from harness.plan.items.composition import Work
from harness.plan.items.description import PARAMETERS, describe, describe_network, identifier, traces
from harness.plan.items.graphs import Description, Graph, Variable
from harness.plan.nnef import parser, printer
from harness.plan.plan import Item, Plan, Task
from harness.plan.planner import tasks_from
from harness.plan.schedule import compose
from harness.plan.split import Share

PLAN, MODEL, GRAPH, SUFFIX = "plan.yaml", "model.onnx", "graph.nnef", ".nnef"

COMMENT = """\
# What NNEF has no words for.  The items' files say which item computes what; change them to change the plan.
"""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Item(_Entry):
    name: Name
    target: str
    core: int | None = Field(ge=0)
    file: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\.nnef$")


class _Settings(_Entry):
    """The content of plan.yaml."""

    board: BoardName
    model: str = Field(min_length=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    block: int = Field(ge=1, le=1_000_000)
    sync: Literal["barrier", "flag"]
    pipeline: bool
    items: tuple[_Item, ...] = Field(min_length=1, strict=False)
    arena: dict[str, Annotated[int, Field(ge=0)]] = {}


def write(plan: Plan, folder: Path) -> None:
    """Write a plan; replace the files of an older plan in the folder.

    RequestError if there is a file, or a folder with other things, in the place.
    """
    _clear(folder)
    description, comments = describe(plan), traces(plan)
    (folder / PARAMETERS).mkdir(parents=True, exist_ok=True)
    for label, table in description.parameters.items():
        write_tensor(folder / f"{label}.dat", table)
    (folder / MODEL).write_bytes(plan.network.onnx_bytes)
    _write_text(folder / GRAPH, printer.graph_text(description.network, description.parameters, comments))
    for item in description.items:
        _write_text(folder / f"{item.item}{SUFFIX}", printer.item_text(item, description.parameters, comments))
    settings = yaml.safe_dump(_settings_of(plan).model_dump(mode="json", exclude_defaults=True), sort_keys=False)
    _write_text(folder / PLAN, f"{COMMENT}{settings}")


def read(folder: Path) -> Plan:
    """Return the plan of a folder.

    RequestError, naming file, item and variable, and in a text line and column, for whatever is missing, cannot be
    read, or does not compose to the network of model.onnx.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder}: there is no such folder", "give one that `harness plan -o FOLDER` has written")
    settings = _read_settings(folder / PLAN)
    _require_distinct(folder / PLAN, [item.name for item in settings.items])
    files = {identifier(item.name): str(folder / item.file) for item in settings.items}
    _require_listed(folder, [item.file for item in settings.items])
    network = _read_model(folder / MODEL, settings)
    graph = _read_network(folder / GRAPH)
    items = tuple(parser.parse_item(_read_text(Path(file)), file) for file in files.values())
    for item, (name, file) in zip(items, files.items(), strict=True):
        if item.item != name:
            raise RequestError(f"{file}: describes item {item.item}", f"{PLAN} says that it is {name}'s")
    graphs = {str(folder / GRAPH): graph} | dict(zip(files.values(), items, strict=True))
    description = Description(graph, items, _read_parameters(folder, graphs))
    composition.require_network(description, *describe_network(network), str(folder / GRAPH))
    return _plan(settings, network, composition.check(description, files, network.layers), files)


def _clear(folder: Path) -> None:
    """Delete the texts and tables of an older plan; keep all other files."""
    if folder.is_file():
        raise RequestError(f"{folder} is a file", "name a folder that is not there yet, or one of an older plan")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / PLAN).is_file():
        raise RequestError(f"{folder} is not empty, and holds no plan", "name a folder that is not there yet")
    for old in (*folder.glob(f"*{SUFFIX}"), *(folder / PARAMETERS).glob("*.dat")):
        old.unlink()


def _settings_of(plan: Plan) -> _Settings:
    return _Settings(
        board=plan.board,
        model=plan.network.name,
        sha256=plan.network.sha256,
        block=plan.block,
        sync=plan.sync,
        pipeline=plan.depth > 1,
        items=tuple(
            _Item(name=item.name, target=item.target, core=item.core, file=f"{identifier(item.name)}{SUFFIX}")
            for item in plan.items
        ),
        arena={task.name: task.offset for task in plan.tasks if task.offset is not None},
    )


def _read_settings(path: Path) -> _Settings:
    document = strict_yaml.load(_read_text(path), path)
    try:
        return _Settings.model_validate(document)
    except ValidationError as error:
        reason = first_error(error, "the document")
        raise RequestError(f"{path}: {reason}", "write the description again, or fix it") from error


def _require_listed(folder: Path, listed: Sequence[str]) -> None:
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name not in {GRAPH, *listed}:
            raise RequestError(
                f"{path}: is no item's file", f"{PLAN} lists {', '.join(listed)}: add its item, or remove it"
            )


def _require_distinct(path: Path, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"{path}: item {name} is listed twice", "one entry for each item")


def _read_model(path: Path, settings: _Settings) -> Network:
    """Return the network of model.onnx, which must be the file of the plan, with its input box and metadata."""
    network = networks.parse(_read_bytes(path), settings.model)
    if network.sha256 != settings.sha256:
        raise RequestError(
            f"{path}: SHA-256 {network.sha256}, but {PLAN} says {settings.sha256}",
            "put the model back that the plan was made of, or make a plan of this one: harness plan -o",
        )
    return network


def _read_network(path: Path) -> Graph:
    """Return the network's graph, read by this parser, and found valid by the Khronos one."""
    graph = parser.parse_graph(_read_text(path), str(path))
    try:
        nnef.parse_file(str(path))
    except (nnef.Error, UnicodeDecodeError) as error:  # the latter of a message that cuts a character in two
        raise RequestError(f"{path}: no valid NNEF: {error}", "write the description again") from error
    return graph


def _read_parameters(folder: Path, graphs: dict[str, Graph]) -> dict[str, Array]:
    """Return the tables of all variables, by label."""
    tables: dict[str, Array] = {}
    for file, graph in graphs.items():
        for entry in graph.instructions:
            if isinstance(entry, Variable):
                if not re.fullmatch(rf"{PARAMETERS}/[A-Za-z0-9_]+", entry.label):
                    raise RequestError(
                        f"{file}: {entry.output}: label {entry.label!r}", f"labels are {PARAMETERS}/NAME"
                    )
                if entry.label not in tables:
                    tables[entry.label] = read_tensor(folder / f"{entry.label}.dat")
                if tables[entry.label].shape != entry.shape:
                    shape = list(tables[entry.label].shape)
                    raise RequestError(f"{file}: {entry.output} is of shape {list(entry.shape)}, its file of {shape}")
    return tables


def _plan(settings: _Settings, network: Network, works: Iterable[Work], files: dict[str, str]) -> Plan:
    """Return the plan whose items do these works."""
    items = [Item(item.name, item.target, item.core) for item in settings.items]
    index = {name: number for number, name in enumerate(files)}
    by_layer: dict[str, list[Work]] = {}
    for work in sorted(works, key=lambda work: work.columns.start):
        by_layer.setdefault(work.columns.layer, []).append(work)
    in_order = [by_layer[identifier(layer.name)] for layer in network.layers]
    shares = [[Share.of(index[work.item], work.columns.region) for work in works] for works in in_order]
    tasks = tasks_from(network.layers, shares, pipeline=settings.pipeline)
    _require_names(tasks, [work for works in in_order for work in works], files)
    plan = compose(settings.board, network, settings.block, settings.sync, items, tasks)
    return _with_arena(plan, settings.arena)


def _with_arena(plan: Plan, offsets: Mapping[str, int]) -> Plan:
    """Return the plan with these offsets of buffers; RequestError if buffers share bytes that both need at once."""
    if unknown := sorted(offsets.keys() - {task.name for task in plan.tasks}):
        raise RequestError(
            f"{PLAN}: arena: {unknown[0]} is no task", f"tasks: {', '.join(task.name for task in plan.tasks)}"
        )
    tasks = tuple(dataclasses.replace(task, offset=offsets.get(task.name)) for task in plan.tasks)
    made = dataclasses.replace(plan, tasks=tasks)
    for defect in conformance.check(made) if offsets else ():
        raise RequestError(f"{PLAN}: arena: {defect.text}", "make the plan again: harness plan --buffers reuse -o")
    return made


def _require_names(tasks: Sequence[Task], works: Sequence[Work], files: dict[str, str]) -> None:
    for task, work in zip(tasks, works, strict=True):
        if identifier(task.name) != work.tensor:
            raise RequestError(
                f"{files[work.item]}: item {work.item}: {work.tensor} computes {work.columns}",
                f"call it {identifier(task.name)}",
            )


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _read_text(path: Path) -> str:
    try:
        return _read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: no UTF-8 text: {error}") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return read_input(path)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}", "a part of the description of a plan") from error


def write_tensor(path: Path, table: Array) -> None:
    """Write a table of int8, uint8, int32 or float32 as NNEF 1.0 tensor file: little endian, in C order."""
    with path.open("wb") as file:
        nnef.write_tensor(file, np.ascontiguousarray(table))


def read_tensor(path: Path) -> Array:
    """Read the table of a `.dat` file; raise RequestError if it is missing or not a complete tensor file."""
    try:
        with open_input(path) as file:
            table: Array = nnef.read_tensor(file)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}", "a parameter of the description") from error
    except (ValueError, OverflowError, MemoryError) as error:  # of a header with larger sizes than the file has
        raise RequestError(f"{path}: no complete NNEF tensor file: {error}", "write the description again") from error
    return table
