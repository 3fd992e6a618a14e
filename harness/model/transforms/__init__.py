"""Transforms of float networks that keep their function of real numbers; each is named, optional and reported.

A transform is a function from an ONNX model, which it changes, and the model's name to what it did (`edit.Applied`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import onnx
import onnx.helper

from harness.core.errors import RequestError, unknown_name
from harness.model.importer.graph import decode
from harness.model.network import Network
from harness.model.transforms import batch_normalization, constants, dropout, normalization, reshape
from harness.model.transforms.constants import readable
from harness.model.transforms.edit import Applied, name_nodes, tidy

METADATA = "transforms"


@dataclass(frozen=True)
class Transform:
    """A transform: whether it claims to leave all bits of the outputs unchanged, and its function."""

    keeps_bits: bool
    apply: Callable[[onnx.ModelProto, str], Applied]


TRANSFORMS = {
    "constants": Transform(keeps_bits=True, apply=constants.apply),
    "dropout": Transform(keeps_bits=True, apply=dropout.apply),
    "reshape": Transform(keeps_bits=True, apply=reshape.apply),
    "normalization": Transform(keeps_bits=False, apply=normalization.apply),
    "batch-normalization": Transform(keeps_bits=False, apply=batch_normalization.apply),
}
"""The transforms by name, in the order in which they are applied."""


@dataclass(frozen=True, eq=False)
class Step:
    """The model `name` after a transform."""

    name: str
    transform: str
    applied: Applied
    onnx_bytes: bytes

    @cached_property
    def network(self) -> Network:
        """The model as every command reads it, with its constants computed."""
        return original(self.onnx_bytes, self.name)


def original(onnx_bytes: bytes, name: str) -> Network:
    """Return the network of the file, with its constants computed; raises RequestError where it is not supported."""
    return readable(decode(onnx_bytes, name), name)


def apply(onnx_bytes: bytes, name: str, asked: Collection[str] = ()) -> Iterator[Step]:
    """Yield the model after each transform that is asked for; by default, after all that leave the bits unchanged.

    The metadata of each model name the transforms before it, and the SHA-256 of the file.  Raises RequestError for an
    unknown transform, for one that is asked for and changes nothing, and for a model that is not supported.
    """
    for each in asked:
        if each not in TRANSFORMS:
            raise unknown_name("transform", each, TRANSFORMS)
    model = decode(onnx_bytes, name)
    name_nodes(model.graph)
    sha256 = hashlib.sha256(onnx_bytes).hexdigest()
    for each, transform in TRANSFORMS.items():
        if each not in asked if asked else not transform.keeps_bits:
            continue
        applied = transform.apply(model, name)
        if asked and not applied.nodes:
            raise RequestError(
                f"model {name!r}: transform {each!r} finds nothing to change"
                + "".join(f"; {it}" for it in applied.kept),
                "leave it out of --apply",
            )
        tidy(model.graph)
        _record(model, name, {"transform": each, "nodes": len(applied.nodes), "source_sha256": sha256})
        yield Step(name, each, applied, model.SerializeToString())


def _record(model: onnx.ModelProto, name: str, entry: dict[str, str | int]) -> None:
    """Append an entry to the list in the metadata `transforms`; raise RequestError if that is none."""
    metadata = {metadata_prop.key: metadata_prop.value for metadata_prop in model.metadata_props}
    try:
        entries = [*json.loads(metadata.get(METADATA, "[]")), entry]
    except (ValueError, TypeError) as error:
        raise RequestError(f"model {name!r}: metadata {METADATA} is no JSON list", "remove the entry") from error
    onnx.helper.set_model_props(model, metadata | {METADATA: json.dumps(entries)})
