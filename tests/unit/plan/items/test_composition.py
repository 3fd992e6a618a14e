"""Descriptions whose parts do not compose to the network: each is refused, with the variable, the item and the file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.plan.items.composition import Columns, Work, check, require_network
from harness.plan.items.description import describe, describe_network
from harness.plan.items.graphs import Description, Get, Instruction, ItemGraph, Operation, Send, Shared, Value, Variable
from tests.support.nnef import plans

Change = Callable[[Instruction], list[Instruction]]


@pytest.fixture
def told() -> Description:
    """The paper's example 5: o1, o6, o7 and out on `prepost`, o2 and o3 on `network`, o4 and o5 on `third`."""
    return describe(plans.make("branches"))


@pytest.fixture
def split() -> Description:
    """Six columns of layer_0 on three items."""
    return describe(plans.make("argmax", split=("layer_0=network+prepost+third",)))


def files(description: Description) -> dict[str, str]:
    return {item.item: f"{item.item}.nnef" for item in description.items}


def changed(description: Description, item: str, change: Change, **fields: object) -> Description:
    """The description in which an item has other instructions, and other `fields`."""

    def of(graph: ItemGraph) -> ItemGraph:
        if graph.item != item:
            return graph
        instructions = tuple(new for entry in graph.instructions for new in change(entry))
        return dataclasses.replace(graph, instructions=instructions, **fields)

    return dataclasses.replace(description, items=tuple(map(of, description.items)))


def name_of(entry: Instruction) -> str:
    return entry.shared if isinstance(entry, Send) else entry.output


def without(*names: str) -> Change:
    return lambda entry: [] if name_of(entry) in names else [entry]


def behind(name: str, *new: Instruction) -> Change:
    return lambda entry: [entry, *new] if name_of(entry) == name else [entry]


def instead(old: Instruction, new: Instruction) -> Change:
    return lambda entry: [new] if entry == old else [entry]


def find(description: Description, item: str, name: str) -> Instruction:
    return next(e for g in description.items if g.item == item for e in g.instructions if name_of(e) == name)


def operation(description: Description, item: str, name: str) -> Operation:
    found = find(description, item, name)
    assert isinstance(found, Operation)
    return found


def with_constant(description: Description, item: str, name: str, constant: str, value: Value) -> Description:
    old = operation(description, item, name)
    assert constant in dict(old.attributes)
    attributes = tuple((dict(old.attributes) | {constant: value}).items())
    return changed(description, item, instead(old, dataclasses.replace(old, attributes=attributes)))


def refusal(description: Description) -> str:
    name = "branches" if "parameters/o1__weights" in description.parameters else "argmax"
    with pytest.raises(RequestError) as refused:
        check(description, files(description), plans.network(name).layers)
    return refused.value.message


@pytest.mark.parametrize("name", plans.MODELS)
def test_what_a_plan_describes_composes_to_its_network(name: str) -> None:
    plan = plans.make(name)
    told = describe(plan)
    require_network(told, *describe_network(plan.network), "graph.nnef")
    works = check(told, files(told), plan.network.layers)
    layers = plan.network.layers
    tasks = [Work(plan.items[t.item].name, t.name, Columns(layers[t.layer].name, t.start, t.stop)) for t in plan.tasks]
    assert sorted(works, key=repr) == sorted(tasks, key=repr)


def test_an_operation_that_nobody_does(told: Description) -> None:
    assert refusal(changed(told, "network", without("o3", "vsync_o3"))).startswith(
        "vsync_o3: prepost gets it from network"
    )
    assert (
        refusal(changed(told, "third", without("o4"))) == "o4: third reads it for o5, but no item has it (third.nnef)"
    )
    without_last = changed(told, "prepost", without("advisory"), outputs=("vsync_o1", "out"))
    assert refusal(without_last) == (
        "nothing computes columns 0 to 0 of advisory (prepost.nnef, network.nnef, third.nnef)"
    )


def test_an_operation_that_two_items_do(told: Description) -> None:
    twice = operation(told, "third", "o4")
    parameters = [find(told, "third", name) for name in twice.tensors[1:]]
    message = refusal(changed(told, "network", behind("o2", *parameters, twice)))
    assert message.startswith("o4 denotes different tensors: network computes it (qgemm); third computes it")
    assert message.endswith("(network.nnef, third.nnef)")


def test_an_operation_that_the_network_does_not_have(told: Description) -> None:
    more = dataclasses.replace(operation(told, "third", "o4"), output="o8")
    assert refusal(changed(told, "third", behind("o4", more))).startswith(
        "third.nnef: item third: o8 is no layer of the network, nor part of one"
    )


def test_columns_that_are_done_twice_or_by_nobody(split: Description) -> None:
    assert refusal(with_constant(split, "prepost", "layer_0_1", "columns", (1, 3))) == (
        "prepost.nnef: item prepost: layer_0_1 computes columns 1 to 1 of layer_0 a second time"
    )
    assert refusal(with_constant(split, "prepost", "layer_0_1", "columns", (3, 4))) == (
        "nothing computes columns 2 to 2 of layer_0 (prepost.nnef, network.nnef, third.nnef)"
    )
    assert refusal(with_constant(split, "third", "layer_0_2", "columns", (4, 5))).startswith(
        "nothing computes columns 5 to 5 of layer_0"
    )
    for columns in ((4, 7), (4, 4), (-1, 2), (4, 5, 6)):
        assert refusal(with_constant(split, "third", "layer_0_2", "columns", columns)) == (
            "third.nnef: item third: layer_0_2: columns are not among the 6 of layer_0"
        )


def test_parts_in_another_order(split: Description) -> None:
    old = operation(split, "network", "layer_1")
    turned = dataclasses.replace(old, inputs=(("layer_0_1", "layer_0_0", "layer_0_2"), *old.inputs[1:]))
    assert refusal(changed(split, "network", instead(old, turned))) == (
        "network.nnef: item network: layer_1 reads columns 2 to 3 of layer_0 and columns 0 to 1 of layer_0 and "
        "columns 4 to 5 of layer_0, but in the network columns 0 to 5 of layer_0"
    )


@pytest.mark.parametrize(
    ("constant", "value", "text"),
    [
        ("alpha", 0.5, "alpha is 0.5, but in the network 1.0"),
        ("a_zero_point", 127, "a_zero_point is 127, but in the network 128"),
        ("a_zero_point", 128.0, "a_zero_point is 128.0, but in the network 128"),
        ("low", 1, "low is 1, but in the network 0"),
        ("type", "int8", "type is int8, but in the network uint8"),
    ],
)
def test_another_constant(told: Description, constant: str, value: Value, text: str) -> None:
    message = refusal(with_constant(told, "third", "o4", constant, value))
    assert message == f"third.nnef: item third: o4: {text}"


def test_another_operation_and_other_inputs(told: Description) -> None:
    old = operation(told, "third", "o5")
    assert refusal(changed(told, "third", instead(old, dataclasses.replace(old, operation="qgemm")))) == (
        "third.nnef: item third: o5 is computed by qgemm, but in the network qgemm_float32"
    )
    other = dataclasses.replace(old, inputs=("o1", *old.inputs[1:]))
    assert refusal(changed(told, "third", instead(old, other))) == (
        "third.nnef: item third: o5 reads columns 0 to 5 of o1, but in the network columns 0 to 5 of o4"
    )
    other = dataclasses.replace(old, inputs=(old.inputs[0], "o4", *old.inputs[2:]))
    assert refusal(changed(told, "third", instead(old, other))) == (
        "third.nnef: item third: o5 reads columns 0 to 5 of o4, but the network o5__weights"
    )
    other = dataclasses.replace(old, inputs=(old.inputs[1], *old.inputs[1:]))
    assert refusal(changed(told, "third", instead(old, other))).startswith(
        "third.nnef: item third: o5 reads o5__weights"
    )
    other = dataclasses.replace(old, inputs=old.inputs[:-1])
    assert refusal(changed(told, "third", instead(old, other))) == (
        "third.nnef: item third: o5: the number of inputs is 5, but in the network 6"
    )


def test_parameters_in_a_list_or_sent(told: Description) -> None:
    old = operation(told, "third", "o4")
    listed = dataclasses.replace(old, inputs=("o1", ("o4__weights", "o5__weights"), *old.inputs[2:]))
    assert refusal(changed(told, "third", instead(old, listed))) == (
        "third.nnef: item third: o4__weights is a parameter in a list of results"
    )
    (one, _, three) = told.items
    shared = Shared("vsync_bias", (1, 6))
    sent = behind("o5", Send("vsync_bias", ("prepost",), "o5__bias"))
    got = behind("o5", Get("o5__bias", "third", "vsync_bias"))
    told = changed(told, "third", sent, outputs=("vsync_bias", "vsync_o5"), shared=(*three.shared, shared))
    told = changed(told, "prepost", got, inputs=(*one.inputs, "vsync_bias"), shared=(*one.shared, shared))
    assert refusal(told) == "third.nnef: item third: o5__bias is a parameter, and is sent"


@pytest.mark.parametrize("name", ["weights", "weights_zero_point", "bias", "multiplier", "b_scale"])
def test_another_table(split: Description, name: str) -> None:
    label = f"parameters/layer_0_2__{name}"
    table = split.parameters[label].copy()
    bits = table.view(f"u{table.dtype.itemsize}")
    bits[-1, 1] ^= 1
    row = len(table) - 1
    before = split.parameters[label][-1, 1]
    split.parameters[label] = table
    assert refusal(split) == (
        f"third.nnef: item third: layer_0_2__{name} ({label}.dat) is at [{row}, 1] {table[-1, 1]!s}, "
        f"but in the network {before!s}"
    )


def test_hand_overs_that_make_no_sense(told: Description) -> None:
    again = Send("vsync_o3", ("prepost",), "o5")
    assert refusal(changed(told, "third", behind("o5", again))).startswith("vsync_o3 is sent 2 times: by network")
    assert refusal(changed(told, "network", without("vsync_o3"))).startswith(
        "vsync_o3: prepost gets it from network, which does not send it; no item does (prepost.nnef, network.nnef)"
    )
    unknown = Get("o5", "fourth", "vsync_o5")
    assert refusal(changed(told, "prepost", instead(find(told, "prepost", "o5"), unknown))).startswith(
        "vsync_o5: prepost gets it from fourth, which does not send it"
    )
    idle = ItemGraph("N_idle", ("x",), (), (), "idle")
    message = refusal(dataclasses.replace(told, items=(*told.items, idle)))
    assert message == "idle.nnef: item idle: it is left without work"


def test_items_that_wait_for_each_other(told: Description) -> None:
    """`prepost` wants o3 before it sends o1, of which `network` makes o3."""
    get = find(told, "prepost", "o3")
    early = changed(told, "prepost", without("o3"))
    early = changed(early, "prepost", lambda entry: [get, entry] if name_of(entry) == "e1" else [entry])
    assert refusal(early) == (
        "prepost stops before o3 and waits for vsync_o3 of network; "
        "network stops before o1 and waits for vsync_o1 of prepost; "
        "third stops before o1 and waits for vsync_o1 of prepost (prepost.nnef, network.nnef, third.nnef)"
    )


def test_declarations_that_do_not_fit(told: Description) -> None:
    assert refusal(changed(told, "third", lambda entry: [entry], outputs=())) == (
        "third.nnef: item third: vsync_o5 is not among the outputs of NETWORK_third"
    )
    assert refusal(changed(told, "third", lambda entry: [entry], inputs=("vsync_o1", "vsync_o3"))) == (
        "third.nnef: item third: vsync_o3 has no place among the inputs of NETWORK_third"
    )
    (third,) = (item for item in told.items if item.item == "third")
    wide = tuple(dataclasses.replace(shared, shape=(1, 7)) for shared in third.shared)
    assert refusal(changed(told, "third", lambda entry: [entry], shared=wide)) == (
        "third.nnef: item third: vsync_o1 is of shape [1, 7], but prepost sends [1, 6]"
    )
    external = next(entry for entry in told.network.instructions)
    other = dataclasses.replace(external, shape=(1, 5))
    assert refusal(changed(told, "prepost", instead(external, other))).startswith(
        "prepost.nnef: item prepost: the input is"
    )


def test_a_network_that_is_not_the_models(told: Description) -> None:
    wanted, parameters = describe_network(plans.network("branches"))

    def refused(change: Change, tables: dict[str, np.ndarray] = told.parameters) -> str:
        instructions = tuple(new for entry in told.network.instructions for new in change(entry))
        network = dataclasses.replace(told.network, instructions=instructions)
        with pytest.raises(RequestError) as refusal:
            require_network(Description(network, (), tables), wanted, parameters, "g.nnef")
        return refusal.value.message

    old = next(e for e in told.network.instructions if isinstance(e, Operation) and e.output == "o4")
    scaled = dataclasses.replace(old, attributes=(("alpha", 0.5), *old.attributes[1:]))
    assert refused(instead(old, scaled)) == "g.nnef: o4: alpha is 0.5, but in the model 1.0"
    assert refused(without("advisory")) == "nothing computes columns 0 to 0 of advisory (g.nnef)"
    part = dataclasses.replace(old, output="o4_0")
    assert refused(lambda e: [part] if e == old else _renamed(e, "o4", "o4_0")) == "g.nnef: o4_0 is a part of o4"


def _renamed(entry: Instruction, old: str, new: str) -> list[Instruction]:
    if isinstance(entry, Variable) or not isinstance(entry, Operation):
        return [entry]
    return [dataclasses.replace(entry, inputs=tuple(new if name == old else name for name in entry.inputs))]


def test_the_message_names_files_of_the_items_concerned(told: Description) -> None:
    message = refusal(changed(told, "third", without("vsync_o5")))
    assert re.search(r"\(([^()]*)\)$", message).group(1) == "prepost.nnef, third.nnef"  # type: ignore[union-attr]
