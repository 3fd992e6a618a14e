from __future__ import annotations

from pathlib import Path

import numpy as np

from harness import chunks, dumps, plan
from harness.chunks import Chunk
from harness.evidence import RunFolder
from harness.profile import Profile
from harness.reference import SpecificationReference
from harness.screen import Screen
from harness.stimuli import stimuli
from harness.verification.folder import Evidence
from harness.verification.results import Outputs, recompute
from tests import builders
from tests.kernels.board_program import parse


def test_a_record_of_a_difference_that_is_nan_follows_from_its_dumps(host: Profile, tmp_path: Path) -> None:
    """NaN is not equal to itself, and what a board computed as NaN is evidence as all else."""
    network = parse(builders.random_network(np.random.default_rng(7), (4, 6, 3), float_output=True))
    made, given, folder = plan.make(network, host), stimuli(network, 8, seed=1), RunFolder.create_at(tmp_path / "run")
    right = SpecificationReference(network).activations(given.chunk(0, 8))
    wrong = np.full_like(right[-1], np.nan)
    actual = {index: wrong if index == len(right) - 1 else each for index, each in enumerate(right)}
    for index, layer in enumerate(network.layers):
        dumps.write(folder.dumps("target", 0) / dumps.file_name(index, layer), actual[index])
    hashes = (tuple(map(dumps.sha256, right)), tuple(map(dumps.sha256, actual.values())))
    folder.write_chunk(chunks.recorded(made, 8, Chunk(0, 0, 8), given.chunk(0, 8), right, actual, hashes))
    folder.write_request({"request": {"x64_quant_precision": False}}, network.onnx_bytes)
    outputs = Outputs(Evidence(folder.path, {}), made, given)
    assert recompute(outputs, "all", Screen.open(as_json=True).progress).vectors == 8
