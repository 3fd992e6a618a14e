"""Several items on one GPU: streams that work at the same time, and hand over by events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import model
from harness.boards.profile import ItemProfile, Profile
from harness.build import bundle, codegen
from harness.core.installation import ROOT
from harness.plan import plan, planner
from harness.reference import SpecificationReference
from tests.campaigns.gpu.device import Device, narrowed
from tests.support import dags
from tests.support.programs.board_program import BoardProgram, assert_same, parse, uniform_vectors

SPLITS = {
    "listing 2": ["e1..o1=gpu_a", "o2..o3=gpu_b", "o4..o5=gpu_c"],
    "lenet5": ["conv_1..pool_1=gpu_a+gpu_b:rows", "conv_2..pool_2=gpu_a+gpu_b+gpu_c"],
    "lenet5_int8": ["conv_1..pool_1=gpu_a+gpu_b:rows", "conv_2..pool_2=gpu_b+gpu_c", "dense_4=gpu_c"],
}
TARGETS = {"gpu_a": "cuda:layerwise", "gpu_b": "cuda:fused", "gpu_c": "cuda:fused"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sync", ["barrier", "flag"])
@pytest.mark.parametrize("name", SPLITS)
def test_items_on_one_gpu_are_identical(
    name: str, sync: plan.Sync, board: Profile, gpu: Device, cache: Path, tmp_path: Path
) -> None:
    """Every layer of every block, long and short; then the results of many executions, for which no item waits."""
    items = {item: ItemProfile(target=target) for item, target in TARGETS.items()}
    profile = narrowed(board, gpu.arch).model_copy(update={"items": items})
    net = parse(dags.listing_2()) if name == "listing 2" else model.load(ROOT / "models" / f"{name}.onnx")
    planned = planner.make(net, profile, split=SPLITS[name], sync=sync, block=256)
    built = bundle.build(codegen.generate(planned), profile, cache)
    program = BoardProgram(built.folder / bundle.PROGRAM, net, built.sha256, built.compiler)
    vectors = uniform_vectors(net, 40 if gpu.simulated else 2003, seed=8)
    expected = SpecificationReference(net).activations(vectors)
    for block in (256, 7):
        assert_same(program.activations(vectors, tmp_path / f"{block}", "--block", block), expected)
    last = len(net.layers) - 1
    for block in (256, 1):
        folder = tmp_path / f"deployed_{block}"
        folder.mkdir()
        options = ["--dump", "last", "--block", block, "--executions", 4 if gpu.simulated else 10_000]
        done = program.run("--vectors", tmp_path / "256/vectors.npy", "--out", folder, *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert '"fault": ""' in done.stdout  # every pass gave the same
        assert_same([np.load(folder / f"{last:02}_{net.layers[last].name}.npy")], [expected[last]])
