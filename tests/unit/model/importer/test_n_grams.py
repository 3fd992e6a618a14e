"""TfIdfVectorizer of integers has the values of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from harness import backend


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("lengths", "skips"), [((1, 1), 0), ((1, 2), 1), ((2, 3), 2)])
def test_counts_of_n_grams(mode: str, lengths: tuple[int, int], skips: int) -> None:
    """A column can have no n-gram."""
    x = np.random.default_rng(1).integers(0, 4, (6, 9)).astype(np.int32)
    stated: dict[str, Any] = {
        "pool_int64s": [0, 2, 3, 0, 1, 2, 2, 1, 3, 0, 0, 1, 3, 2, 1],
        "ngram_counts": [0, 3, 9],
        "ngram_indexes": [0, 6, 2, 3, 5, 1, 4, 8],
        "weights": [0.5, 2.0, 1.0, 3.0, -1.0, 0.25, 4.0, 1.5],
    }
    names = ("min_gram_length", "max_gram_length")
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode=mode, max_skip_count=skips,
                            **dict(zip(names, lengths, strict=True)), **stated)  # fmt: skip
    values = [helper.make_tensor_value_info("x", TensorProto.INT32, x.shape),
              helper.make_tensor_value_info("y", TensorProto.FLOAT, (6, 9))]  # fmt: skip
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    [expected], [y] = session.run(None, {"x": x}), backend.run_model(model, [x])
    np.testing.assert_allclose(y, expected, rtol=1e-6)
