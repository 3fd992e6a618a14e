"""The constants of com.example.Shrink by the ONNX file, for the proof: it shares nothing with the operator."""

from __future__ import annotations

import numpy as np

from harness.analysis.proof.independent.node import Constants, Node


def read(node: Node) -> Constants:
    """Return `bias` and `lambd`, one float32 number each, by default those of ONNX."""
    bias, threshold = node.attributes.get("bias", 0.0), node.attributes.get("lambd", 0.5)
    return {"bias": np.array([bias], np.float32), "lambd": np.array([threshold], np.float32)}
