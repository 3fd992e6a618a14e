"""The paper's examples, and networks at random with a distribution derived from who computes what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from harness.plan.items.graphs import External, Get, Graph, Instruction, ItemGraph, Operation, Send, Shared, Variable

SHAPE = (1, 1)


def op(output: str, operation: str, *inputs: str) -> Operation:
    return Operation(output, operation, inputs)


def parameters(*numbers: int) -> tuple[Variable, ...]:
    return tuple(Variable(f"v{number}", SHAPE, f"variable{number}") for number in numbers)


def shared(*names: str) -> tuple[Shared, ...]:
    return tuple(Shared(name, SHAPE) for name in names)


LENET = Graph(
    "torch_jit_export",
    ("e1",),
    ("out",),
    (
        External("e1", (1, 1, 32, 32)),
        *parameters(*range(1, 11)),
        op("o1", "conv", "e1", "v1", "v2"),
        op("o2", "relu", "o1"),
        op("o3", "max_pool", "o2"),
        op("o4", "conv", "o3", "v3", "v4"),
        op("o5", "relu", "o4"),
        op("o6", "max_pool", "o5"),
        op("o7", "reshape", "o6"),
        op("o8", "linear", "o7", "v5", "v6"),
        op("o9", "relu", "o8"),
        op("o10", "linear", "o9", "v7", "v8"),
        op("o11", "relu", "o10"),
        op("o12", "linear", "o11", "v9", "v10"),
        op("out", "softmax", "o12"),
    ),
)

BRANCHES = Graph(
    "DNN",
    ("e1",),
    ("out",),
    (
        External("e1", SHAPE),
        *parameters(*range(1, 11)),
        op("o1", "conv", "e1", "v1", "v2"),
        op("o2", "conv", "o1", "v3", "v4"),
        op("o3", "conv", "o2", "v5", "v6"),
        op("o4", "conv", "o1", "v7", "v8"),
        op("o5", "conv", "o4", "v5", "v6"),
        op("o6", "concat", "o3", "o5"),
        op("o7", "flatten", "o6"),
        op("out", "gemm", "o7", "v9", "v10"),
    ),
)


def three_items(
    *,
    o2: Operation = BRANCHES.instructions[12],  # type: ignore[assignment]
    o5: Operation = BRANCHES.instructions[15],  # type: ignore[assignment]
    got: str = "o5",
    o7: Operation = BRANCHES.instructions[17],  # type: ignore[assignment]
) -> tuple[ItemGraph, ...]:
    """Listing 3 with its slips mended; the arguments bring them back."""
    first = ItemGraph(
        "DNN1",
        ("e1", "vsync2", "vsync3"),
        ("vsync1", "out"),
        (
            External("e1", SHAPE),
            *parameters(1, 2, 9, 10),
            op("o1", "conv", "e1", "v1", "v2"),
            Send("vsync1", ("ITEM2", "ITEM3"), "o1"),
            Get("o3", "ITEM2", "vsync2"),
            Get(got, "ITEM3", "vsync3"),
            op("o6", "concat", "o3", got),
            o7,
            op("out", "gemm", "o7", "v9", "v10"),
        ),
        item="ITEM1",
        shared=shared("vsync1", "vsync2", "vsync3"),
    )
    second = ItemGraph(
        "DNN2",
        ("vsync1",),
        ("vsync2",),
        (
            *parameters(3, 4, 5, 6),
            Get("o1", "ITEM1", "vsync1"),
            o2,
            op("o3", "conv", "o2", "v5", "v6"),
            Send("vsync2", ("ITEM1",), "o3"),
        ),
        item="ITEM2",
        shared=shared("vsync1", "vsync2"),
    )
    third = ItemGraph(
        "DNN3",
        ("vsync1",),
        ("vsync3",),
        (
            *parameters(5, 6, 7, 8),
            Get("o1", "ITEM1", "vsync1"),
            op("o4", "conv", "o1", "v7", "v8"),
            o5,
            Send("vsync3", ("ITEM1",), "o5"),
        ),
        item="ITEM3",
        shared=shared("vsync1", "vsync3"),
    )
    return first, second, third


def as_printed() -> tuple[ItemGraph, ...]:
    """Listing 3 letter for letter."""
    return three_items(
        o2=op("o2", "conv", "e1", "v3", "v4"),
        o5=op("o5", "conv", "o1", "v5", "v6"),
        got="o4",
        o7=op("o7", "flatten", "o4"),
    )


def relay() -> tuple[ItemGraph, ...]:
    """A computes a, B hands it on under a name of its own, C reads it."""
    a, c = op("a", "relu", "x"), op("c", "relu", "a")
    return (
        ItemGraph("A", ("x",), ("s",), (External("x", SHAPE), a, Send("s", ("B",), "a")), "A", shared("s")),
        ItemGraph("B", ("s",), ("t",), (Get("b", "A", "s"), Send("t", ("C",), "b")), "B", shared("s", "t")),
        ItemGraph("C", ("t",), ("c",), (Get("a", "B", "t"), c), "C", shared("t")),
    )


def distribute(network: Graph, owners: Mapping[str, str]) -> tuple[ItemGraph, ...]:
    """The descriptions of the items that compute what `owners` says: gets before their first use, sends at once."""
    return tuple(_item(network, owners, item) for item in dict.fromkeys(owners.values()))


def _item(network: Graph, owners: Mapping[str, str], item: str) -> ItemGraph:
    operations = [each for each in network.instructions if isinstance(each, Operation)]
    mine = [each for each in operations if owners[each.output] == item]
    needed = {name for each in mine for name in each.tensors}
    body: list[Instruction] = [
        each for each in network.instructions if not isinstance(each, Operation) and each.output in needed
    ]
    got: set[str] = set()
    for each in mine:
        for name in each.tensors:
            if owners.get(name, item) != item and name not in got:
                got.add(name)
                body.append(Get(name, owners[name], f"sync_{name}"))
        body.append(each)
        readers = {owners[other.output] for other in operations if each.output in other.tensors} - {item}
        if readers:
            body.append(Send(f"sync_{each.output}", tuple(sorted(readers)), each.output))
    names = [each.shared for each in body if isinstance(each, Send | Get)]
    outputs = [each.shared for each in body if isinstance(each, Send)]
    outputs += [name for name in network.outputs if owners[name] == item]
    return ItemGraph(f"{network.name}_{item}", tuple(got), tuple(outputs), tuple(body), item, shared(*names))


def layered(sources: Sequence[Sequence[int]], parameter_counts: Sequence[int]) -> Graph:
    """A network whose operation k reads the tensors `sources[k]`: -1 is the input, others operations before it.

    What no operation reads is an output.
    """
    names = [f"t{index}" for index in range(len(sources))]
    read = {source for given in sources for source in given}
    weights = [[f"w{index}{'_' * extra}" for extra in range(count)] for index, count in enumerate(parameter_counts)]
    body: list[Instruction] = [External("x", SHAPE)]
    body += [Variable(name, SHAPE, name) for of_operation in weights for name in of_operation]
    for index, given in enumerate(sources):
        tensors = [names[source] if source >= 0 else "x" for source in given]
        body.append(op(names[index], "qgemm" if weights[index] else "add", *tensors, *weights[index]))
    outputs = tuple(name for index, name in enumerate(names) if index not in read)
    return Graph("random", ("x",), outputs, tuple(body))


@st.composite
def networks(draw: st.DrawFn, most: int = 8) -> Graph:
    count = draw(st.integers(1, most))
    sources = [draw(st.lists(st.integers(-1, index - 1), min_size=1, max_size=3)) for index in range(count)]
    return layered(sources, draw(st.lists(st.sampled_from((0, 1, 5)), min_size=count, max_size=count)))


@st.composite
def distributions(draw: st.DrawFn, most: int = 8, items: int = 3) -> tuple[Graph, tuple[ItemGraph, ...]]:
    network = draw(networks(most))
    names = [each.output for each in network.instructions if isinstance(each, Operation)]
    owners = {name: f"item{draw(st.integers(0, items - 1))}" for name in names}
    return network, distribute(network, owners)


def replaced(items: Sequence[ItemGraph], item: str, instructions: Sequence[Instruction]) -> tuple[ItemGraph, ...]:
    """`items`, one of which has other instructions."""
    return tuple(
        ItemGraph(each.name, each.inputs, each.outputs, tuple(instructions), each.item, each.shared)
        if each.item == item
        else each
        for each in items
    )
