"""The data of a model in other files of its folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import onnx
import onnx.checker
import onnx.external_data_helper

from harness.core.errors import RequestError
from harness.core.safe_io import open_input

LARGEST_DATA = 1 << 30  # bytes of other files; a serialised model is smaller than 2 GiB


def load_data(model: onnx.ModelProto, path: Path) -> dict[str, str]:
    """Load the tensors that lie in other files of the folder of `path`; return the metadata of these files.

    Raises RequestError where one cannot be read, or lies outside of the folder.
    """
    held = [attribute.t for node in model.graph.node for attribute in node.attribute if attribute.HasField("t")]
    tensors = [*model.graph.initializer, *held]
    places = sorted({entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"})
    if not places:
        return {}
    hashes = {}
    try:
        if (size := sum((path.parent / place).stat().st_size for place in places)) > LARGEST_DATA:
            raise RequestError(f"model {path.stem!r}: its data has {size:,} bytes", f"at most {LARGEST_DATA:,} bytes")
        for place in places:
            open_input(path.parent / place).close()
        onnx.external_data_helper.load_external_data_for_model(model, str(path.parent))
        for place in places:
            hashes[place] = hashlib.sha256((path.parent / place).read_bytes()).hexdigest()
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise RequestError(
            f"model {path.stem!r}: its data in another file cannot be read: {error}",
            f"put it next to {path.name}, or save the model with its data inside: onnx.save(onnx.load(path), new)",
        ) from error
    return {"source_data_sha256": json.dumps(hashes)}
