"""The activations that are right: ONNX Runtime's, confirmed by an independent integer implementation."""

from __future__ import annotations
