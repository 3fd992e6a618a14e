"""Vectors of several inputs from files and folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import parse
from harness.reference.stimuli import stimuli
from harness.reference.vector_files import from_file
from tests.support import inputs

NETWORK = parse(inputs.every_type().SerializeToString(), "inputs")
COUNT = 20
Arrays = dict[str, Array]


@pytest.fixture(scope="module")
def vectors() -> Array:
    return stimuli(NETWORK, COUNT, 3).chunk(0, COUNT)


def as_archive(path: Path, values: Arrays) -> Path:
    np.savez(path / "v.npz", **values)
    return path / "v.npz"


def as_records(path: Path, values: Arrays) -> Path:
    fields = [(name, values[name].dtype, values[name].shape[1:]) for name in reversed(values)]
    records = np.empty(len(values["x"]), fields)
    for name, array in values.items():
        records[name] = array
    np.save(path / "v.npy", records)
    return path / "v.npy"


def as_folder(path: Path, values: Arrays) -> Path:
    for name, array in values.items():
        np.save(path / f"{name}.npy", array.reshape(len(array), 1, -1))
    return path


def as_rows(path: Path, values: Arrays) -> Path:
    np.save(path / "v.npy", NETWORK.vectors(values))
    return path / "v.npy"


@pytest.mark.parametrize("save", [as_archive, as_records, as_folder, as_rows])
def test_every_form_gives_the_same_vectors(
    tmp_path: Path, vectors: Array, save: Callable[[Path, Arrays], Path]
) -> None:
    path = save(tmp_path, NETWORK.values(vectors))
    found = from_file(path, NETWORK)
    assert (found.count, found.width, found.origin) == (COUNT, NETWORK.vector.size, str(path))
    assert found.chunk(0, COUNT).tobytes() == vectors.tobytes()
    assert found.chunk(3, 9).tobytes() == vectors[3:9].tobytes()


@pytest.mark.parametrize(
    ("save", "change", "message"),
    [
        (as_archive, lambda values: values.pop("s"), "expected x, s, k, c, i, t"),
        (as_records, lambda values: values.pop("s"), "records of t, i, c, k, x"),
        (as_folder, lambda values: values.pop("s"), "No such file"),
        (as_archive, lambda values: values.update(s=values["s"].astype(np.float64)), "input 's': <f8, not float32"),
        (as_archive, lambda values: values.update(i=values["i"].astype(">i8")), "input 'i': >i8, not int64"),
        (as_archive, lambda values: values.update(c=values["c"][:, :3]), r"input 'c': shape \(20, 3\)"),
        (as_archive, lambda values: values.update(k=values["k"][:7]), "20 of 's', 7 of 'k'"),
        (as_archive, lambda values: values["t"].__setitem__((4, 2), np.nan), "'t', 2 of vector 4 is nan"),
    ],
)
def test_wrong_files_are_refused(
    tmp_path: Path,
    vectors: Array,
    save: Callable[[Path, Arrays], Path],
    change: Callable[[Arrays], object],
    message: str,
) -> None:
    values = {name: array.copy() for name, array in NETWORK.values(vectors).items()}
    change(values)
    with pytest.raises(RequestError, match=message):
        from_file(save(tmp_path, values), NETWORK)


def test_an_array_without_names_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.zeros((3, 25), np.float32))
    with pytest.raises(RequestError, match="and inputs has 6 inputs") as refused:
        from_file(tmp_path / "v.npy", NETWORK)
    assert "numpy.savez" in refused.value.hint


def test_seeded_vectors_have_every_kind_of_value_of_each_input() -> None:
    values = NETWORK.values(stimuli(NETWORK, 4000, 1).chunk(0, 4000))
    for name, array in values.items():
        low, high = inputs.BOX[name]
        assert (array.min(), array.max()) == (low, high)  # corners are among them
        assert len(np.unique(array)) >= min(high - low + 1, 200)
    assert (np.abs(values["i"]) > 1 << 32).any()


def test_integers_are_drawn_from_their_whole_range() -> None:
    model = inputs.every_type()
    del model.metadata_props[:]
    values = parse(model.SerializeToString(), "inputs")
    drawn = values.values(stimuli(values, 6400, 2).chunk(0, 6400))["i"]
    uniform = drawn[np.abs(drawn.astype(np.float64)) < 2**63 - 1024]
    assert (drawn.min(), drawn.max()) == (-(2**63), 2**63 - 1)
    assert abs(uniform.astype(np.float64).mean()) < 2**63 / 20
    quarters = np.histogram(uniform.astype(np.float64), 4, (-(2.0**63), 2.0**63))[0]
    assert quarters.min() > 0.8 * quarters.max()


def test_vectors_do_not_depend_on_the_chunks() -> None:
    drawn = stimuli(NETWORK, 5000, 9)
    whole = drawn.chunk(0, 5000)
    assert np.concatenate([drawn.chunk(0, 777), drawn.chunk(777, 4500), drawn.chunk(4500, 5000)]).tobytes() == (
        whole.tobytes()
    )
    assert stimuli(NETWORK, 10, 9).chunk(0, 10).tobytes() == whole[:10].tobytes()
