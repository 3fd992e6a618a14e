"""A program for another ONNX Runtime or another processor: writes in JSON what the reference says of a model there.

usage: python -m tests.support.reference.other_host MODEL.onnx
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from harness import model, reference
from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import HostCheck, check_network
from harness.operators.qgemm import QGemm
from harness.operators.sweeps import Sweep
from harness.reference import Reference, check_host, exhaustive

VECTORS = 100
ACCUMULATORS = 1000


def main(path: Path) -> None:
    """Check the machine, then compute the reference, in the end without the check."""
    net = model.load(path)
    host = check_host()
    said: dict[str, Any] = {
        "onnxruntime": host.onnxruntime,
        "host": defects(host),
        "network": defects(check_network(net)),
        "precise": defects(check_network(net, x64_quant_precision=True)),
        "reference": refusal(net, x64_quant_precision=False),
        "reference_precise": refusal(net, x64_quant_precision=True),
    }
    said["proof"] = proof(net)
    reference.require_trusted = lambda _: None
    said["unchecked"] = refusal(net, x64_quant_precision=False)
    sys.stdout.write(json.dumps(said))


def defects(check: HostCheck) -> dict[str, str]:
    """Return the defects by what they were found in."""
    return {name: found.name for name, found in check.defects}


def refusal(net: Network, *, x64_quant_precision: bool) -> list[str] | None:
    """Return the words with which the reference refuses to compute random vectors, and the hint."""
    vectors = np.random.default_rng(1).uniform(*net.box, (VECTORS, net.vector.size)).astype(np.float32)
    try:
        Reference(net, x64_quant_precision=x64_quant_precision).activations(vectors)
    except ReferenceFailed as error:
        return [error.message, error.hint]
    return None


def proof(net: Network) -> str | None:
    """Return the words with which the proof refuses the accumulators in the middle of a layer's bounds."""
    try:
        for layer in net.layers:
            if isinstance(layer, QGemm):
                low, high = layer.accumulator_bounds()
                middle = Sweep((low + high) // 2, np.minimum(high - (low + high) // 2 + 1, ACCUMULATORS))
                node = exhaustive._node(net, layer)
                exhaustive._confirm_part(layer, layer.step_functions(), node, middle)
    except ReferenceFailed as error:
        return error.message
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
