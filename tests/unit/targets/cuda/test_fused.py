"""What the generator of the fused kernel decides: where activations lie, where a launch is cut."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from harness import model as network
from harness import targets
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.plan import planner
from harness.plan.launches import item_views
from harness.targets import KERNELS, Launch, TaskView
from harness.targets.cuda import fused
from harness.targets.cuda.code import ARGUMENTS_LIMIT, DeviceCode
from tests.support import builders, dags
from tests.support.codes import node
from tests.support.programs.board_program import parse

FUSED = targets.find("cuda:fused")


def launches(net: Network, board: Profile) -> list[Launch]:
    """Of one item that computes everything."""
    names = [layer.name for layer in net.layers]
    plan = planner.make(net, board, ["c", "cuda:fused"], split=[f"{names[0]}..{names[-1]}=network"])
    [of_item] = item_views(plan)
    return of_item


def lifetimes(works: Sequence[TaskView]) -> dict[str, tuple[int, int]]:
    """By a buffer's name the layers during which its tile must be its own.

    It is written before layer 0 or by a layer, which ends with a barrier, also after its copy to memory; its readers
    read it.
    """
    found: dict[str, tuple[int, int]] = {}
    for index, work in enumerate(works):
        for source in work.sources:
            begin, end = found.get(source, (-1, -1))
            found[source] = begin, max(end, index)
        found[f"{work.layer.name}_output"] = index, index
    return found


def overwrites(work: TaskView, index: int, source: str, alive: tuple[int, int]) -> bool:
    """Return whether a layer, the last reader of a source, may write its output there: word by word, or not at all."""
    lowering = FUSED.lowering_of(work.layer)
    return source in work.sources and (lowering.renames(work.layer) or (lowering.in_place and alive[1] == index))


def networks() -> Iterator[Network]:
    yield from (parse(dags.random_dag(np.random.default_rng(seed), 14)) for seed in range(40))
    yield from (network.load(ROOT / f"models/{name}_int8.onnx") for name in ("resnet8", "lenet5", "ds_cnn"))


def test_no_tile_is_written_while_another_buffer_needs_it(host: Profile) -> None:
    reused = shared = 0
    for net in networks():
        for works in launches(net, host):
            tiles, alive = fused._Tiles(works, FUSED.lowering_of), lifetimes(works)
            regions = tiles.regions
            assert regions.keys() | tiles.direct >= alive.keys()
            writers = {f"{work.layer.name}_output": (work, index) for index, work in enumerate(works)}
            for a, b in itertools.combinations([name for name in alive if name in regions], 2):
                one, other = sorted((a, b), key=lambda name: alive[name][0])
                first, second = regions[one], regions[other]
                if first is second:
                    before = [name for name in alive if regions.get(name) is first]
                    assert any(overwrites(*writers[other], name, alive[name]) for name in before), (a, b)
                    shared += 1
                    continue
                apart = first.place + first.size <= second.place or second.place + second.size <= first.place
                assert apart or alive[one][1] < alive[other][0], (a, b)
                reused += not apart
            assert tiles.words == max(region.place + region.size for region in regions.values())
    assert reused > 100
    assert shared > 3


@pytest.mark.parametrize("name", ["lenet5", "ds_cnn", "resnet8"])
def test_a_network_on_images_is_one_launch(name: str, host: Profile) -> None:
    of_item = launches(network.load(ROOT / f"models/{name}_int8.onnx"), host)
    [launch], vectors = fused.generate(of_item, FUSED.lowering_of), fused.carried(of_item, FUSED.lowering_of)
    [kernel] = launch.kernels
    assert 4 * (kernel.tile_words * fused.stride(vectors) + kernel.other_words) <= 96 * 1024


def test_no_kernel_is_given_more_buffers_than_the_program_has_room_for(host: Profile) -> None:
    """A network of 70 layers."""
    room = re.search(r"ARGUMENTS = (\d+)", (KERNELS / "cuda" / "gpu.c").read_text())
    assert room
    assert int(room[1]) == ARGUMENTS_LIMIT
    net = parse(builders.random_network(np.random.default_rng(7), [3] * 70))
    [_, code] = codegen.generate(planner.make(net, host, ["c", "cuda:fused"])).items
    assert isinstance(code.kernels, DeviceCode)
    assert [len(kernel.arguments) for kernel in code.kernels.kernels] == [ARGUMENTS_LIMIT, 69 - 63 + 1]
    assert [len(kernel.layers) for kernel in code.kernels.kernels] == [63, 69 - 63]


@pytest.mark.parametrize(("count", "is_refused"), [(63, False), (64, True)])
def test_a_kernel_of_too_many_activations_is_refused(count: int, is_refused: bool) -> None:
    nodes = [node("Relu", "x", output=f"y{number}") for number in range(count)]
    joined = node("Sum", *(f"y{number}" for number in range(count)), output="total")
    net = parse(builders.make_model([*nodes, joined], {}, {"total": ("float32", 3)}, width=3, metadata=None))
    reason = targets.find("cuda:layerwise").unsupported(net.layers[-1])
    assert reason == ("it reads 64 activations, and a kernel at most 63" if is_refused else None)
