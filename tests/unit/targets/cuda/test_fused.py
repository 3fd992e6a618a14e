"""What the generator of the fused kernel decides: where activations lie, where a launch is cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest

from harness import targets
from harness.boards.profile import Profile
from harness.model.network import Network
from harness.plan import plan
from harness.targets import KERNELS, Launch, TaskView, codegen
from harness.targets.cuda import fused
from harness.targets.cuda.code import ARGUMENTS_LIMIT, DeviceCode
from tests.support import builders, dags, float_images
from tests.support.codes import node
from tests.support.programs.board_program import parse


def launches(net: Network, board: Profile) -> list[Launch]:
    """Of one item that computes everything."""
    names = [layer.name for layer in net.layers]
    made = plan.make(net, board, ["c", "cuda:fused"], split=[f"{names[0]}..{names[-1]}=network"])
    [of_item] = codegen.item_views(made)
    return of_item


def lifetimes(works: Sequence[TaskView]) -> dict[str, tuple[int, int]]:
    """By a buffer's name the layers during which its tile must be its own.

    It is written before layer 0 or by a layer.  A layer ends with a barrier, behind it what it has written is copied to
    memory while threads that are done with that compute the next; its readers read it.
    """
    found: dict[str, tuple[int, int]] = {}
    for index, work in enumerate(works):
        for source in work.sources:
            begin, end = found.get(source, (-1, -1))
            found[source] = begin, max(end, index)
        found[f"{work.layer.name}_output"] = index, index + 1
    return found


def test_no_tile_is_written_while_another_buffer_needs_it(host: Profile) -> None:
    reused = 0
    for seed in range(40):
        net = parse(dags.random_dag(np.random.default_rng(seed), 14))
        for works in launches(net, host):
            tiles, alive = fused._tiles(works), lifetimes(works)
            sizes = {name: size for work in works for name, size in fused._sizes(work)}
            assert sizes.keys() == alive.keys() == tiles.places.keys()
            for a, b in itertools.combinations(sizes, 2):
                apart = tiles.places[a] + sizes[a] <= tiles.places[b] or tiles.places[b] + sizes[b] <= tiles.places[a]
                at_once = alive[a][0] <= alive[b][1] and alive[b][0] <= alive[a][1]
                assert apart or not at_once, (seed, a, b)
                reused += not apart
            assert tiles.words == max(tiles.places[name] + sizes[name] for name in sizes)
    assert reused > 100


def test_no_kernel_is_given_more_buffers_than_the_program_has_room_for(host: Profile) -> None:
    """A network of 70 layers."""
    room = re.search(r"ARGUMENTS = (\d+)", (KERNELS / "cuda" / "gpu.c").read_text())
    assert room
    assert int(room[1]) == ARGUMENTS_LIMIT
    net = parse(builders.random_network(np.random.default_rng(7), [3] * 70))
    [_, code] = codegen.generate(plan.make(net, host, ["c", "cuda:fused"])).items
    assert isinstance(code.kernels, DeviceCode)
    assert [len(kernel.arguments) for kernel in code.kernels.kernels] == [ARGUMENTS_LIMIT, 69 - 63 + 1]
    assert [len(kernel.layers) for kernel in code.kernels.kernels] == [63, 69 - 63]


def refused(net: Network, target: str) -> dict[str, str]:
    found = ((layer.name, targets.find(target).unsupported(layer)) for layer in net.layers)
    return {name: reason for name, reason in found if reason}


def test_windows_moves_and_broadcasting_of_two_activations_are_refused_with_the_reason() -> None:
    net = float_images.every_operator()
    moving = "largest dilated most means padded mean row peak windows groups reflected edged wrapped gathered"
    moving += " gathered_row split split_2 repeated nearest linear aligned sums averages maxima minima"
    moving += " responses rooted wider unbounded"
    reasons = dict.fromkeys(moving.split(), "no windows over images and moves no values")
    reasons |= dict.fromkeys(
        ["scaled", "relative", "ratio", "upper", "lower", "total"], "combines two vectors of one size"
    )
    found = refused(net, "cuda:fused")
    assert found.keys() == reasons.keys()
    assert all(reason in found[name] for name, reason in reasons.items())
    assert refused(net, "cuda:layerwise") == {}


@pytest.mark.parametrize(("count", "is_refused"), [(63, False), (64, True)])
def test_a_kernel_of_too_many_activations_is_refused(count: int, is_refused: bool) -> None:
    nodes = [node("Relu", "x", output=f"y{number}") for number in range(count)]
    joined = node("Sum", *(f"y{number}" for number in range(count)), output="total")
    net = parse(builders.make_model([*nodes, joined], {}, {"total": ("float32", 3)}, width=3, metadata=None))
    assert ("and a kernel at most 63" in refused(net, "cuda:layerwise").get("total", "")) == is_refused
