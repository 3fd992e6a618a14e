"""A kept reference gives the same verdicts, and is refused where it is not that of the judgement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.applications.judge.judgement import Judge
from harness.core.errors import ReferenceFailed, RequestError
from harness.reference.specification import SpecificationReference
from tests.support import judged


def test_a_kept_reference_gives_the_same_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = judged.network(argmax=True)
    values = judged.vectors(network, 100)
    dumps, folder = judged.activations(network, values), tmp_path / "kept"
    assert judged.judge(network, tmp_path, dumps, values, reference=folder).verdict == "identical"
    monkeypatch.setattr(SpecificationReference, "activations", lambda *_: pytest.fail("it is computed again"))
    assert judged.judge(network, tmp_path, dumps, values, reference=folder).verdict == "identical"
    dumps["layer_0_out"] = dumps["layer_0_out"] ^ 1
    document = judged.judge(network, tmp_path, dumps, values, reference=folder)
    assert (document.verdict, document.first_layer) == ("differs", "layer_0")


def test_a_changed_value_of_the_reference_is_found(tmp_path: Path) -> None:
    network = judged.network()
    values = judged.vectors(network, 100)
    dumps, folder = judged.activations(network, values), tmp_path / "kept"
    judged.judge(network, tmp_path, dumps, values, reference=folder)
    kept = np.load(folder / "1_layer_0.npy", mmap_mode="r+")
    kept[50, 3] ^= 4
    kept.flush()
    dumps["layer_0_out"][50, 3] ^= 4
    with pytest.raises(ReferenceFailed, match=r"1_layer_0\.npy: its values were changed"):
        judged.judge(network, tmp_path, dumps, values, reference=folder)


@pytest.mark.parametrize("other", ["vectors", "model"])
def test_a_reference_of_others_is_refused(tmp_path: Path, other: str) -> None:
    network = judged.network()
    values = judged.vectors(network, 100)
    dumps, folder = judged.activations(network, values), tmp_path / "kept"
    judged.judge(network, tmp_path, dumps, values, reference=folder)
    if other == "model":
        network = judged.network(8)
    else:
        values = values + np.float32(1e-3)
    with pytest.raises(RequestError, match=f"it is of another .*{other}"):
        judged.judge(network, tmp_path, judged.activations(network, values), values, reference=folder)


def test_an_unfinished_reference_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = judged.network()
    values = judged.vectors(network, 100)
    dumps, folder = judged.activations(network, values), tmp_path / "kept"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Judge, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            judged.judge(network, tmp_path, dumps, values, reference=folder)
    with pytest.raises(RequestError, match="File exists"):
        judged.judge(network, tmp_path, dumps, values, reference=folder)
