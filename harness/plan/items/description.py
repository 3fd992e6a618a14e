"""Plan -> computations of the network and of each item, as instructions over named tensors.

The network is one graph of whole layers.  Every item has a graph of its own: it declares the input and the parameters
that it needs, computes its tasks in the order of its schedule, sends a result directly after the task that computes it,
and gets another item's result right before the first task that reads it.  A result goes by the same name in all items.
Where several items compute columns of one layer, a reader takes the list of them: side by side they are the layer, or
in each of its channels if they computed rows.  An item that computes a part takes only the values that it needs.

Tensors are called after layers and tasks, parameters after their task (`dense_1__weights`), shared variables after
what they carry (`vsync_dense_1`).  All constants of a layer appear, numbers as attributes and tables as parameters,
those of N columns as (1, N).  A graph says what becomes of one vector.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.region import Region
from harness.plan.items.graphs import (
    Description,
    External,
    Get,
    Graph,
    Instruction,
    ItemGraph,
    Join,
    Operand,
    Operation,
    Part,
    Send,
    Shared,
    Value,
    Variable,
)
from harness.plan.plan import Compute, Plan, Source, Task
from harness.plan.planner import unused

PARAMETERS = "parameters"
"""The folder of the parameters: the first part of every label."""

COLUMNS = "columns"
"""The constant of an operation that says which columns of its layer it computes, if its fragment has it.

The first, and the first behind them; for columns of each of several runs, as of the rows of channels, their number too.
"""

KEYWORDS = frozenset(
    {
        "version", "extension", "graph", "fragment", "tensor", "integer", "scalar", "logical", "string", "true",
        "false", "for", "in", "if", "else", "yield", "length_of", "shape_of", "range_of", "graphitem", "variablesync",
        "concat", "join", "part",
    }
)  # fmt: skip
"""The reserved words of NNEF and its extension by items, and those that can denote a tensor."""


def describe(plan: Plan) -> Description:
    """Return the network of a plan and its items, in the plan's order, with the parameters of both (section IV.B)."""
    network, parameters = describe_network(plan.network)
    steps = _task_steps(plan)
    exchange = _Exchange(plan)
    items = tuple(_item(plan, index, steps, exchange) for index in range(len(plan.items)))
    return Description(network, items, parameters | _parameters(steps))


def describe_network(network: Network) -> tuple[Graph, dict[str, Array]]:
    """Return the graph of whole layers, and its parameters by label."""
    tensors = {layer.output.name: identifier(layer.name) for layer in network.layers}
    sources = input_identifiers(network) | tensors
    steps = [
        step(layer, tensors[layer.output.name], [sources[name] for name in layer.sources], Region(0, layer.size))
        for layer in network.layers
    ]
    return _graph(network, steps, [tensors[name] for name in _outputs(network)]), _parameters(steps)


def refined(plan: Plan) -> Graph:
    """Return the network at the level of the plan's tasks, without the hand-overs of its items."""
    return _graph(plan.network, _task_steps(plan), _results(plan, range(len(plan.tasks))))


def traces(plan: Plan) -> dict[str, str]:
    """Return the origin of the tensor of every layer and task: its ONNX node, and its columns if they are not all."""
    layers = plan.network.layers
    origins = {layer.name: f"{layer.operator}, ONNX node {layer.node!a}" for layer in layers}
    parts = {
        task.name: f"{origins[layers[task.layer].name]}, {columns_text(task.region)}"
        for task in plan.tasks
        if task.name not in origins
    }
    return {identifier(name): origin for name, origin in (origins | parts).items()}


def columns_text(region: Region) -> str:
    """Return the columns of a region for people."""
    text = f"columns {region.start} to {region.stop - 1}"
    return text if region.runs == 1 else f"{text} of each of {region.runs} runs"


def identifier(name: str) -> str:
    """Return the name of a layer, task or item as NNEF can write it: unchanged but for keywords; no two become one."""
    return f"{name}_" if name.rstrip("_") in KEYWORDS else name


def layer_of(tensor: str, layers: Container[str]) -> str | None:
    """Return the layer that the tensor is or, by its name, is a part of: `dense_1_0` of `dense_1`."""
    if tensor in layers:
        return tensor
    part = re.fullmatch(r"(.+)_\d+_*", tensor)
    whole = identifier(part[1]) if part else tensor
    return whole if whole in layers else None


def input_identifiers(network: Network) -> dict[str, str]:
    """Return the name of each input of the network: its ONNX name as far as NNEF permits, unlike any layer or part."""
    taken = {identifier(layer.name) for layer in network.layers}
    names: dict[str, str] = {}
    for tensor in network.inputs:
        name = identifier(re.sub(r"[^A-Za-z0-9]+", "_", tensor.name))
        while not name[:1].isalpha() or layer_of(name, taken):
            name = f"x_{name}"
        names[tensor.name] = name
        taken.add(name)
    return names


@dataclass(frozen=True)
class Step:
    """One operation, with its parameters by the variables that it reads."""

    operation: Operation
    tables: dict[str, Array]


def _task_steps(plan: Plan) -> list[Step]:
    """Return the operation of every task; it reads a tensor of several parts as their list."""
    return [step(plan.part(task), identifier(task.name), _sources(plan, task), task.region) for task in plan.tasks]


def _sources(plan: Plan, task: Task) -> list[Operand]:
    names = input_identifiers(plan.network)
    return [_operand(source, names.get(source.tensor.name, "")) for source in plan.sources(task)]


def _operand(source: Source, network_input: str) -> Operand:
    """Return the values of a source, from the tensors of those that wrote them."""
    names = tuple(identifier(writer.name) for writer in source.writers) or (network_input,)
    regions = [writer.region for writer in source.writers] or [Region(0, source.tensor.size)]
    first, runs = regions[0].start, regions[0].runs
    joined: Operand = names[0] if len(names) == 1 else names if runs == 1 else Join(names, runs)
    wanted, whole = source.region, Region.of(first, regions[-1].stop, runs, source.tensor.size)
    if wanted == whole:
        return joined
    if whole.size < source.tensor.size:
        wanted = Region(wanted.start - first, wanted.stop - first, runs)
    return Part(joined, wanted)


def step(layer: Layer, output: str, sources: Sequence[Operand], columns: Region) -> Step:
    """Return the operation that gives the tensor `output` from its `sources`, these columns of a layer."""
    tables = {f"{output}__{role}": table for role, table in _tables(layer).items()}
    if layer.text.side_by_side:
        sources = [_side_by_side(sources)]
    inputs = (*sources, *tables)
    return Step(Operation(output, layer.text.fragment.name, inputs, tuple(_attributes(layer, columns).items())), tables)


def _side_by_side(sources: Sequence[Operand]) -> Operand:
    each = tuple(one for source in sources for one in (source if isinstance(source, tuple) else (source,)))
    return each if len(each) > 1 else each[0]


def _tables(layer: Layer) -> dict[str, Array]:
    """Return the constants that are tables, with two axes each, by their role."""
    tables = {role: value for role, value in layer.constants().items() if isinstance(value, np.ndarray)}
    return {role: table if table.ndim == 2 else table.reshape(1, -1) for role, table in tables.items()}


def _attributes(layer: Layer, columns: Region) -> dict[str, Value]:
    """Return the constants that are numbers; then the columns, where the fragment has them, and type of the result."""
    numbers: dict[str, Value] = {
        role: float(value) if isinstance(value, np.float32) else value
        for role, value in layer.constants().items()
        if not isinstance(value, np.ndarray)
    }
    stated = (columns.start, columns.stop, *([columns.runs] if columns.runs > 1 else []))
    return numbers | ({COLUMNS: stated} if layer.text.fragment.states_columns else {}) | {"type": layer.dtype.name}


def _label(variable: str) -> str:
    return f"{PARAMETERS}/{variable}"


def _parameters(steps: Iterable[Step]) -> dict[str, Array]:
    return {_label(variable): table for step in steps for variable, table in step.tables.items()}


def _variables(steps: Iterable[Step]) -> Iterator[Variable]:
    for step in steps:
        for variable, table in step.tables.items():
            yield Variable(variable, table.shape, _label(variable))


def _outputs(network: Network) -> list[str]:
    """Return the tensors that no layer reads: they are the network's results."""
    read = {name for layer in network.layers for name in layer.sources}
    return [layer.output.name for layer in network.layers if layer.output.name not in read]


def _results(plan: Plan, tasks: Iterable[int]) -> list[str]:
    """Return the tasks that compute results of the network, by their tensors."""
    outputs, layers = set(_outputs(plan.network)), plan.network.layers
    named = (plan.tasks[task] for task in tasks)
    return [identifier(task.name) for task in named if layers[task.layer].output.name in outputs]


def _externals(network: Network) -> tuple[External, ...]:
    names = input_identifiers(network)
    return tuple(External(names[tensor.name], (1, tensor.size), tensor.dtype.name) for tensor in network.inputs)


def _title(network: Network) -> str:
    """Return the network's name in capitals, which no operation of NNEF is called by."""
    name = re.sub(r"[^A-Z0-9]+", "_", network.name.upper()).strip("_")
    return name if name[:1].isalpha() else f"NETWORK_{name}".rstrip("_")


def _graph(network: Network, steps: Sequence[Step], outputs: Iterable[str]) -> Graph:
    externals = _externals(network)
    instructions: tuple[Instruction, ...] = (*externals, *_variables(steps), *(step.operation for step in steps))
    return Graph(_title(network), tuple(external.output for external in externals), tuple(outputs), instructions)


class _Exchange:
    """The tensors that the items of a plan send each other: the tasks that other items read, by index."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        items: dict[int, set[int]] = {}
        for reader, sources in zip(plan.tasks, plan.reads, strict=True):
            for source in sources:
                if plan.tasks[source].item != reader.item:
                    items.setdefault(source, set()).add(reader.item)
        self.readers = {task: tuple(map(self._item, sorted(readers))) for task, readers in items.items()}
        layers, tasks = ((each.name for each in named) for named in (plan.network.layers, plan.tasks))
        taken = {*input_identifiers(plan.network).values(), *map(identifier, layers), *map(identifier, tasks)}
        self.names = {task: unused(f"vsync_{plan.tasks[task].name}", taken) for task in items}

    def _item(self, item: int) -> str:
        return identifier(self.plan.items[item].name)

    def shared(self, task: int) -> Shared:
        """Return the declaration of a task's shared variable."""
        work = self.plan.tasks[task]
        return Shared(self.names[task], (1, work.size))

    def send(self, task: int) -> Send:
        """Return the instruction of the task's own item."""
        return Send(self.names[task], self.readers[task], identifier(self.plan.tasks[task].name))

    def get(self, task: int) -> Get:
        """Return the instruction of an item that reads the task's result."""
        work = self.plan.tasks[task]
        return Get(identifier(work.name), self._item(work.item), self.names[task])


def _read_externals(plan: Plan, steps: Sequence[Step]) -> list[External]:
    """Return the declarations of the network's inputs that these steps read."""
    read = {name for step in steps for name in step.operation.tensors}
    return [external for external in _externals(plan.network) if external.output in read]


def _item(plan: Plan, item: int, steps: Sequence[Step], exchange: _Exchange) -> ItemGraph:
    """Return the graph of one item, from its schedule."""
    tasks = [step.task for step in plan.schedules[item] if isinstance(step, Compute)]
    got: dict[int, None] = {}
    computed: list[Instruction] = []
    shared: list[Shared] = []
    for task in tasks:
        lacking = [s for s in dict.fromkeys(plan.reads[task]) if plan.tasks[s].item != item and s not in got]
        got |= dict.fromkeys(lacking)
        sent = [task] if task in exchange.readers else []
        computed += [*map(exchange.get, lacking), steps[task].operation, *map(exchange.send, sent)]
        shared += map(exchange.shared, (*lacking, *sent))
    own = [steps[task] for task in tasks]
    declared = _read_externals(plan, own)
    return ItemGraph(
        name=f"{_title(plan.network)}_{plan.items[item].name}",
        inputs=(*(entry.output for entry in declared), *(exchange.names[task] for task in got)),
        outputs=(*(exchange.names[task] for task in tasks if task in exchange.names), *_results(plan, tasks)),
        instructions=(*declared, *_variables(own), *computed),
        item=identifier(plan.items[item].name),
        shared=tuple(shared),
    )
