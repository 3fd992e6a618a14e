"""What a proof takes for granted, to be read beside what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness import targets
from harness.model.network import Network
from harness.operators.base import Layer
from harness.plan.plan import Plan


def of_plan(plan: Plan, ran_on: Sequence[str], *, all_floats: bool) -> list[str]:
    """What is taken for granted of a plan whose items `ran_on` what this says."""
    places = {item.name: where for item, where in zip(plan.items, ran_on, strict=True)}
    stand_ins = {item: where for item, where in places.items() if where != targets.HARDWARE}
    granted = {item.name: targets.find(item.target).assumptions for item in plan.items}
    of_items = {item: sentences for item, sentences in granted.items() if sentences}
    return list(assumptions(plan.network, stand_ins, all_floats=all_floats, of_items=of_items))


def assumptions(
    network: Network, stand_ins: Mapping[str, str], *, all_floats: bool, of_items: Mapping[str, str]
) -> Iterator[str]:
    """In whole sentences, for a reader who has to judge the argument.

    `stand_ins` says by item what played the hardware that it is for; `of_items` what its target takes for granted.
    """
    for item, stand_in in stand_ins.items():
        yield (
            f"Item {item} ran on a stand-in, {stand_in}: what is shown of it holds for its source as compiled for "
            "that, not for the machine code of the hardware, and not for the hardware."
        )
    for item, sentences in of_items.items():
        yield f"Of item {item}: {sentences}"
    yield "The same instructions with the same operands give the same result whenever they run."
    yield (
        "Of the machine code was read which variables and arguments each function uses, not at which index: indices "
        "stay inside their arrays, functions keep the calling convention of the processor, and a function reads "
        "nothing of its stack frame that it has not written. The fixed sources of the board program (kernels/program, "
        "and the driver code of a target) do with tasks, buffers and flags what they say. The code of other devices "
        "was not read."
    )
    yield from _of_layers(layer for layer in network.layers if layer.accumulates)
    yield (
        "No column of a layer depends on other columns in a way that vectors with equal, differently ordered and NaN "
        "values in any two columns do not show. In a sweep each value passes through one column."
    )
    if not all_floats:
        yield (
            "Division by a positive constant, clamping and rounding are monotone on the board, as IEEE 754 requires, "
            "and one NaN is like another: the places where its code changes settle QuantizeLinear."
        )
    yield from _of_layers(layer for layer in network.layers if not layer.accumulates)
    yield (
        "The barriers and flags of the program keep the order that POSIX and C11 promise of them. That the plan has "
        "them wherever its net needs them was decided for every interleaving; on the board delays were injected into "
        "each item, and items that may work at the same time were shifted against each other."
    )
    yield (
        "The reference: ONNX Runtime and the integer specification agree on every case, but both were run by this "
        "program, on this machine, and the specification is what its authors measured of ONNX Runtime."
    )


def _of_layers(layers: Iterable[Layer]) -> list[str]:
    """Return what proofs of these layers take for granted, each sentence once."""
    return list(dict.fromkeys(sentence for layer in layers for sentence in layer.assumptions()))
