"""The memory that accelerators take for each vector of a block, beside the buffers of the program."""

from __future__ import annotations

import pytest

from harness.boards.profile import Address, BoardProfiles
from harness.core.installation import ROOT
from harness.model import graph
from harness.plan import launches, planner
from harness.plan.plan import Plan, buffer_bytes


def planned(laboratory: BoardProfiles, board: str, model: str, **changes: object) -> tuple[Plan, int]:
    """Return the plan with the default block, and the bytes of a vector in copies for devices."""
    network = graph.load(ROOT / "models" / f"{model}.onnx")
    profile = laboratory.board(board).model_copy(update=changes)
    plan = planner.make(network, profile)
    return plan, launches.vector_bytes(plan) - buffer_bytes(network, plan.tasks)


def test_a_fabric_takes_a_word_for_each_value_and_the_block_is_smaller(laboratory: BoardProfiles) -> None:
    made, copies = planned(laboratory, "kv260", "resnet8_int8", address=Address(host="kria"))
    *in_fabric, _ = made.network.layers[1:]
    two_operands = 2 * 16 * 32 * 32
    assert copies == 4 * (two_operands + 3 * 32 * 32 + sum(layer.size for layer in in_fabric))
    budget = laboratory.board("kv260").memory_budget_mib << 20
    assert made.block * launches.vector_bytes(made) <= budget < 1000 * launches.vector_bytes(made)


@pytest.mark.parametrize(("board", "copies_of_buffers"), [("xavier", 2), ("tda4vm", 1)])
def test_other_accelerators_take_copies_of_what_they_read_and_write(
    laboratory: BoardProfiles, board: str, copies_of_buffers: int
) -> None:
    made, copies = planned(laboratory, board, "lenet5_int8")
    on_device = [made.network.layers[task.layer] for task in made.tasks if made.items[task.item].name == "network"]
    first = on_device[0].inputs[0]
    outputs = sum(layer.size * layer.dtype.itemsize for layer in on_device)
    assert copies == copies_of_buffers * (first.size * first.dtype.itemsize + outputs)


def test_an_emulated_board_gets_smaller_blocks_of_large_networks(laboratory: BoardProfiles) -> None:
    blocks = {model: planned(laboratory, "tda4vm", model)[0].block for model in ("lenet5_int8", "ds_cnn_int8")}
    assert blocks == {"lenet5_int8": 1000, "ds_cnn_int8": (1 << 30) // 5_401_548}


def test_a_processor_takes_no_copies(laboratory: BoardProfiles) -> None:
    made, copies = planned(laboratory, "host", "lenet5_int8")
    assert (copies, made.block) == (0, 1000)
