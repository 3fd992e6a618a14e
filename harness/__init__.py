"""Run an ONNX network on an embedded board and show that the board computes that network."""

import os
from typing import Any

__version__ = "0.2.0"
__all__ = ["HarnessError", "InfrastructureError", "Lab", "RequestError", "__version__"]

# ONNX Runtime reads this variable when it is imported.  Without it, ONNX Runtime sends events about models and machine,
# with a device ID that it keeps in ~/.cache/Microsoft, to its vendor.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> Any:
    """Import the Python interface when it is used, because `harness --help` must not import numpy."""
    from importlib import import_module

    if name == "Lab":
        return import_module("harness.lab").Lab
    if name in __all__:
        return getattr(import_module("harness.core.errors"), name)
    raise AttributeError(name)
