from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from harness.core.errors import RequestError
from harness.model.network import Normalisation
from harness.model.quantizer import image_folder

GREY = np.arange(6, dtype=np.uint8).reshape(2, 3) * 50


def save(path: Path, pixels: npt.NDArray[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def read(folder: Path, shape: tuple[int, ...], pixels: tuple[float, float] = (0, 1)) -> image_folder.Images:
    return image_folder.read(folder, shape, pixels, None)


def test_pixels_become_values_in_the_layout_of_the_input(tmp_path: Path) -> None:
    colours = np.random.default_rng(1).integers(0, 256, (2, 3, 3)).astype(np.uint8)
    save(tmp_path / "a.png", colours)
    save(tmp_path / "b.PNG", colours[::-1])
    (tmp_path / "notes.txt").write_text("no image")
    first = read(tmp_path, (3, 2, 3))
    assert first.classes is None
    assert np.allclose(first.vectors[0], colours.transpose(2, 0, 1) / 255, rtol=1e-6)
    assert np.allclose(first.vectors[1], colours[::-1].transpose(2, 0, 1) / 255, rtol=1e-6)
    assert first.vectors.dtype == np.float32
    last = read(tmp_path, (2, 3, 3), (-1, 1))
    assert np.allclose(last.vectors[0], colours / 127.5 - 1, atol=1e-6)
    grey = read(tmp_path, (2, 3), (0, 255)).vectors[0]
    assert (grey == np.asarray(Image.fromarray(colours).convert("L"))).all()
    assert any("RGB, 0 to 255 as -1 to 1" in note for note in last.notes)


def test_images_are_resized_with_a_note(tmp_path: Path) -> None:
    save(tmp_path / "a.png", GREY)
    save(tmp_path / "b.jpeg", np.full((8, 8), 200, np.uint8))
    found = read(tmp_path, (1, 2, 3), (0, 255))
    assert (found.vectors[0, 0] == GREY).all()
    assert (np.abs(found.vectors[1] - 200) <= 2).all()
    assert "1 images are resized to 3x2 (bilinear)" in found.notes


@pytest.mark.parametrize(
    ("names", "labels"), [(("cat", "dog"), [0, 1, 1]), (("10", "9"), [10, 9, 9]), (("1", "b"), [0, 1, 1])]
)
def test_subfolders_are_classes(tmp_path: Path, names: tuple[str, str], labels: list[int]) -> None:
    for file in (f"{names[0]}/a.png", f"{names[1]}/a.png", f"{names[1]}/b.png"):
        save(tmp_path / file, GREY)
    found = read(tmp_path, (1, 2, 3))
    assert found.classes is not None
    assert found.classes.tolist() == labels
    assert f"the classes are {labels[0]} {names[0]!r}, {labels[1]} {names[1]!r}" in found.notes


def test_a_stated_normalisation_is_applied(tmp_path: Path) -> None:
    save(tmp_path / "a.png", GREY)
    normalisation = Normalisation(("",) * 6, ("",) * 6, (10.0,) * 6, (2.0,) * 6)
    found = image_folder.read(tmp_path, (1, 2, 3), (0, 255), normalisation)
    assert (found.vectors[0, 0] == (GREY.astype(np.float32) - 10) / 2).all()


def cut(folder: Path) -> None:
    path = save(folder / "a.png", np.random.default_rng(1).integers(0, 256, (40, 40)).astype(np.uint8))
    path.write_bytes(path.read_bytes()[:300])


BAD: dict[str, tuple[Any, str]] = {
    "empty": (lambda _: None, "no images"),
    "cut": (cut, "a.png: not a complete PNG or JPEG image"),
    "text": (lambda folder: (folder / "a.jpg").write_text("text"), "a.jpg: not a complete PNG or JPEG image"),
    "16 bits": (lambda folder: save(folder / "a.png", GREY.astype(np.uint16)), "pixels of more than 8 bits"),
    "both": (lambda folder: [save(folder / name, GREY) for name in ("a.png", "b/a.png")], "beside subfolders"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_folders_are_refused(tmp_path: Path, case: str) -> None:
    make, message = BAD[case]
    make(tmp_path)
    with pytest.raises(RequestError) as refused:
        read(tmp_path, (1, 2, 3))
    assert message in refused.value.message


@pytest.mark.parametrize("shape", [(6,), (2, 2, 3, 1), (4, 5, 6)])
def test_inputs_that_are_no_image_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    save(tmp_path / "a.png", GREY)
    with pytest.raises(RequestError, match=r"which is no image") as refused:
        read(tmp_path, shape)
    assert "--data VECTORS.npy" in refused.value.hint


def test_without_pillow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.png", GREY)
    present = builtins.__import__

    def absent(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return present(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(RequestError, match=r"images need Pillow") as refused:
        read(tmp_path, (1, 2, 3))
    assert "make setup" in refused.value.hint
    assert "--data VECTORS.npy" in refused.value.hint
