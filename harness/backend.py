"""ONNX's backend interface (onnx.backend.base) on the specification: numpy computes each operator as it is defined.

import harness.backend
outputs = harness.backend.prepare(model).run([values])
"""

from __future__ import annotations

from harness.reference.backend import HarnessBackend, Prepared, prepare, run_model, supports_device

__all__ = ["HarnessBackend", "Prepared", "prepare", "run_model", "supports_device"]
