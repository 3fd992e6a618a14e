from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.core.console import Console
from harness.execution import dumps
from harness.model.network import Network
from harness.plan import planner
from harness.reference import SpecificationReference
from harness.reference.stimuli import stimuli
from harness.runs import chunks
from harness.runs.chunks import Chunk
from harness.runs.counterexample import case, first_difference
from harness.runs.folder import RunFolder
from harness.runs.verification.claims import ContradictionError
from harness.runs.verification.folder import Evidence
from harness.runs.verification.results import Outputs, failing, recompute
from tests.support import builders
from tests.support.identities import HOST
from tests.support.programs.board_program import parse


def differing(board: Profile, path: Path, network: Network, wrong: Callable[[Array], Array]) -> Outputs:
    """Of a run of which the last layer is wrong; nothing of it but its chunk."""
    count, folder = 64, RunFolder.create_at(path)
    made, given = planner.make(network, board), stimuli(network, count, seed=1)
    right = SpecificationReference(network).activations(given.chunk(0, count))
    actual = dict(enumerate((*right[:-1], wrong(right[-1]))))
    for index, layer in enumerate(network.layers):
        dumps.write(folder.dumps("target", 0) / dumps.file_name(index, layer), actual[index])
    hashes = (tuple(map(dumps.sha256, right)), tuple(map(dumps.sha256, actual.values())))
    chunk = Chunk(0, 0, count)
    folder.write_chunk(chunks.recorded(made, count, chunk, given.chunk(0, count), right, actual, hashes), HOST)
    folder.write_request({"request": {"x64_quant_precision": True}}, network.onnx_bytes)
    return Outputs(Evidence(folder.path, {}), made, given)


def test_a_record_of_a_difference_that_is_nan_follows_from_its_dumps(host: Profile, tmp_path: Path) -> None:
    """NaN is not equal to itself, and what a board computed as NaN is evidence as all else."""
    network = parse(builders.random_network(np.random.default_rng(7), (4, 6, 3), float_output=True))
    outputs = differing(host, tmp_path / "run", network, lambda right: np.full_like(right, np.nan))
    assert recompute(outputs, "all", Console.open(as_json=True).progress).vectors == 64


def test_a_zero_of_the_wrong_sign_is_a_failing_case(host: Profile, tmp_path: Path) -> None:
    network = parse(builders.random_network(np.random.default_rng(7), (4, 6, 3), dequantize=True, zero_points=True))
    outputs = differing(host, tmp_path / "run", network, lambda right: np.where(right == 0, -right, right))
    layer, first = first_difference(outputs.evidence.records) or pytest.fail("no activation is 0")
    vector = outputs.vectors.chunk(first.vector, first.vector + 1)
    said = dataclasses.asdict(first) | case(network, layer, first.vector, vector) | {"file": None}
    assert (str(said["expected"]), str(said["actual"])) == ("0.0", "-0.0")
    found = dataclasses.replace(outputs, evidence=Evidence(outputs.evidence.path, {"failing": said}))
    assert failing(found).startswith("one of layer dequantize")
    said["actual"] = said["expected"]
    with pytest.raises(ContradictionError, match="nothing differs there"):
        failing(found)
