"""What the tests of the text form share: a model's two texts, read back, and edited."""

from __future__ import annotations

import onnx

from harness.model import parse
from harness.model.text import Description, Rebuilt, Source, describe, rebuild


def description_of(model: onnx.ModelProto | bytes, name: str = "net") -> Description:
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return describe(parse(content, name))


def read_back(text: str, weights: str) -> Rebuilt:
    return rebuild(Source("net.txt", text), Source("net.weights.txt", weights))


def without_hashes(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("sha256 "))


def changed(before: str, after: str) -> list[tuple[str, str]]:
    """The lines that differ, of two texts of as many lines."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return [(old, new) for old, new in pairs if old != new]
