"""Files of values alone, with a description: dumps.yaml, dumps.yml or dumps.json in their folder, or its path.

    layout: nhwc                  # of all tensors; nchw if it is not given
    tensors:
      - {name: conv1, file: conv1.bin, dtype: int8, shape: [100, 24, 24, 6], scale: 0.05, zero_point: -3}
      - {name: input, files: [in_0.bin, in_1.bin], dtype: float32, shape: [1, 28, 28, 1], layout: nhwc}

`shape` is that of one file, the vectors first.  With `scale`, a value x stands for scale * (x - zero_point); without,
values are those of the model.  `dtype` is a name of NumPy; `>` in front of it, as in ">f4", is big endian.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.applications.judge.dumps import DumpedTensor, Dumps, Layout, Quantisation, RawFile
from harness.core.document import first_error
from harness.core.errors import RequestError
from harness.core.strict_yaml import Source
from harness.model.network import Network

DESCRIPTIONS = ("dumps.yaml", "dumps.yml", "dumps.json")


class _Tensor(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    dtype: str
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    file: str | None = None
    files: tuple[str, ...] = ()
    layout: Layout | None = None
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    zero_point: int = 0


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tensors: Annotated[tuple[_Tensor, ...], Field(min_length=1)]
    layout: Layout | None = None


def fits(path: Path) -> bool:
    """Return whether the path is a description in YAML, or a folder with one; other JSON is Polygraphy's."""
    if path.is_dir():
        return _description(path) is not None
    return path.suffix in (".yaml", ".yml")


def _description(folder: Path) -> Path | None:
    return next((folder / name for name in DESCRIPTIONS if (folder / name).is_file()), None)


def read(path: Path, _network: Network) -> Dumps:
    """Return the described tensors; RequestError names the wrong entry."""
    file = (_description(path) if path.is_dir() else path) or path / DESCRIPTIONS[0]
    source = Source.read(file, "describe the files: docs/judge-an-engine.md", "give a readable file")
    try:
        description = _Description.model_validate(source.document)
    except ValidationError as error:
        raise RequestError(f"{file}: {first_error(error, 'the document')}", "see docs/judge-an-engine.md") from None
    names = [tensor.name for tensor in description.tensors]
    if len(set(names)) < len(names):
        raise RequestError(f"{file}: a name is repeated", "give the files of a tensor as a list: files")
    tensors = {tensor.name: _dumped(tensor, file, description.layout or "nchw") for tensor in description.tensors}
    return Dumps("raw", tensors)


def _dumped(tensor: _Tensor, description: Path, layout: Layout) -> DumpedTensor:
    files = tensor.files or ((tensor.file,) if tensor.file else ())
    where = f"{description}: tensor {tensor.name!r}"
    if not files or (tensor.file and tensor.files):
        raise RequestError(f"{where} needs either `file` or `files`", "see docs/judge-an-engine.md")
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        raise RequestError(f"{where}: unknown dtype {tensor.dtype!r}", "e.g. int8, uint8, float32, >f4") from None
    if dtype.kind not in "biuf":
        raise RequestError(f"{where}: dtype {tensor.dtype!r} is no type of numbers", "e.g. int8, uint8, float32")
    base = description.parent.resolve()
    for name in files:
        if not (base / name).resolve().is_relative_to(base):
            raise RequestError(f"{where}: {name} is outside of the folder of the description", "copy the file")
    parts = [RawFile(description.parent / name, dtype, tensor.shape) for name in files]
    quantisation = None if tensor.scale is None else Quantisation(tensor.scale, tensor.zero_point)
    return DumpedTensor(tensor.name, parts, tensor.layout or layout, quantisation)
