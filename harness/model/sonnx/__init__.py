"""The safety-related profile of ONNX (SONNX): where a network leaves it, and a model in the structure that it requires.

The documents are those of the working group: https://github.com/onnx/working-groups, folder safety-related-profile.
"""

from __future__ import annotations

from harness.model.sonnx.departures import departures
from harness.model.sonnx.description import describe

__all__ = ["departures", "describe"]
