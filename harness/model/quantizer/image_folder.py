"""A folder of PNG and JPEG images -> inputs of a network, and their classes from the names of its subfolders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.core.errors import RequestError
from harness.core.installation import install_extra
from harness.core.safe_io import open_input
from harness.model.float_network import Floats32
from harness.model.network import Normalisation

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB"}
LARGEST = 1 << 30  # bytes of all images as float32


@dataclass(frozen=True, eq=False)
class Images:
    """Images (n, *shape) as float32, their classes (n,), None without subfolders, and notes."""

    vectors: Floats32
    classes: npt.NDArray[np.int64] | None
    notes: tuple[str, ...]


def read(
    folder: Path, shape: Sequence[int], pixels: tuple[float, float], normalisation: Normalisation | None
) -> Images:
    """Read all images, of the network's input `shape`; the values 0 and 255 of a pixel become the two of `pixels`.

    Images become greyscale or RGB, as the shape has 1 or 3 channels, and are resized (bilinear).  If the network states
    a normalisation, it is applied.  The class of an image is the name of its subfolder if all names are numbers, and
    its place among the sorted names otherwise.  Raises RequestError, with the file, for what is no image of 8 bits.
    """
    height, width, channels, channels_first = _layout(folder, shape)
    files, classes, notes = _files(folder)
    if (size := 4 * len(files) * math.prod(shape)) > LARGEST:
        raise RequestError(f"{folder}: {len(files):,} images are {size:,} bytes", f"at most {LARGEST:,} bytes")
    found = np.empty((len(files), height, width, channels), np.uint8)
    resized = [_read(file, found[index], MODES[channels]) for index, file in enumerate(files)]
    vectors = pixels[0] + found.astype(np.float64) * ((pixels[1] - pixels[0]) / 255)
    vectors = (vectors.transpose(0, 3, 1, 2) if channels_first else vectors).reshape(len(files), -1)
    notes.append(f"{len(files)} images of {folder}: {MODES[channels]}, 0 to 255 as {pixels[0]:g} to {pixels[1]:g}")
    if normalisation is not None:
        vectors = (vectors - np.array(normalisation.mean)) / np.array(normalisation.range)
        notes.append("the images are normalised as the metadata state: (x - input_mean) / input_range")
    if any(resized):
        notes.append(f"{sum(resized)} images are resized to {width}x{height} (bilinear)")
    return Images(vectors.astype(np.float32).reshape(len(files), *shape), classes, tuple(notes))


def _layout(folder: Path, shape: Sequence[int]) -> tuple[int, int, int, bool]:
    """Return height, width and channels of the images, and whether the channels are the first axis."""
    if len(shape) == 2:
        return shape[0], shape[1], 1, False
    if len(shape) == 3 and shape[0] in MODES:
        return shape[1], shape[2], shape[0], True
    if len(shape) == 3 and shape[2] in MODES:
        return shape[0], shape[1], shape[2], False
    raise RequestError(
        f"{folder}: the network's input has shape (vectors, {', '.join(map(str, shape))}), which is no image",
        "an input (vectors, 1 or 3, height, width), (vectors, height, width, 1 or 3) or (vectors, height, width); "
        "otherwise give --data VECTORS.npy",
    )


def _files(folder: Path) -> tuple[list[Path], npt.NDArray[np.int64] | None, list[str]]:
    """Return the images in the order of their names, their classes, and a note of the names of the classes."""
    here = _images(folder)
    groups = {each.name: files for each in sorted(folder.iterdir()) if each.is_dir() and (files := _images(each))}
    if not here and not groups:
        raise RequestError(f"{folder}: no images", f"files {', '.join(SUFFIXES)}, or subfolders of them, one a class")
    if here and groups:
        raise RequestError(f"{folder}: images beside subfolders of images", "images in subfolders only, one a class")
    if here:
        return here, None, []
    numbered = all(name.isascii() and name.isdigit() and len(name) < 10 for name in groups)
    labels = [int(name) if numbered else place for place, name in enumerate(groups)]
    classes = np.repeat(np.array(labels, np.int64), [len(files) for files in groups.values()])
    names = ", ".join(f"{label} {name!r}" for label, name in zip(labels, groups, strict=True))
    return [file for files in groups.values() for file in files], classes, [f"the classes are {names}"]


def _images(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())


def _read(file: Path, values: npt.NDArray[np.uint8], mode: str) -> bool:
    """Read an image into `values` (height, width, channels); return whether it was resized."""
    try:
        from PIL import Image
    except ImportError as error:
        hint = f"{install_extra('images')}; or convert the images: --data VECTORS.npy, saved with numpy.save"
        raise RequestError("images need Pillow, which is not installed", hint) from error
    size = values.shape[1], values.shape[0]
    try:
        with open_input(file) as content, Image.open(content, formats=("PNG", "JPEG")) as image:
            if image.mode[0] in "IF":
                raise RequestError(f"{file}: pixels of more than 8 bits ({image.mode})", "images of 8 bits a channel")
            converted = image.convert(mode)
            values[...] = np.asarray(converted.resize(size, Image.Resampling.BILINEAR)).reshape(values.shape)
            return bool(converted.size != size)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise RequestError(f"{file}: not a complete PNG or JPEG image: {error}", "remove or replace it") from error
