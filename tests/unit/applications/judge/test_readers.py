"""Readers of dumps: every format gives the same activations, and damaged files are refused."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.applications.judge import readers
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from tests.support import judged

COUNT = 6


@pytest.fixture(scope="module")
def network() -> Network:
    return judged.images()


@pytest.fixture(scope="module")
def dumps(network: Network) -> dict[str, Array]:
    values = judged.vectors(network, COUNT)
    return judged.activations(network, values) | {"x": values.reshape(COUNT, 2, 6, 6)}


def _last(images: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(images, 1, -1)) if images.ndim == 4 else images


def _folder(path: Path, dumps: dict[str, Array]) -> Path:
    path.mkdir()
    for name, values in dumps.items():
        np.save(path / f"{name}.npy", values)
    return path


def _numbered(path: Path, dumps: dict[str, Array]) -> Path:
    """A folder for each vector, ten before two in the order of texts."""
    path.mkdir()
    for index in range(COUNT):
        (path / str(index * 2)).mkdir()
        for name, values in dumps.items():
            np.save(path / str(index * 2) / f"{name}.npy", values[index])
    return path


def _compressed(path: Path, dumps: dict[str, Array]) -> Path:
    file = path.with_suffix(".npz")
    np.savez_compressed(file, allow_pickle=False, **dumps)
    return file


def _channels_last(path: Path, dumps: dict[str, Array]) -> Path:
    flat = _last(dumps["sums_2"]).reshape(COUNT, -1)
    return _compressed(path, {name: _last(values) for name, values in dumps.items()} | {"flat": flat})


def _polygraphy(path: Path, dumps: dict[str, Array]) -> Path:
    """The structure of a file of Polygraphy 0.53.6."""

    def encoded(values: Array) -> dict[str, object]:
        content = io.BytesIO()
        np.save(content, values)
        array = {"array": base64.b64encode(content.getvalue()).decode(), "polygraphy_class": "ndarray"}
        return {"values": array, "polygraphy_class": "LazyArray"}

    iterations = [
        {
            "outputs": {name: encoded(values[start : start + 2]) for name, values in dumps.items()},
            "runtime": 0.1,
            "runner_name": "onnxrt-runner-N0",
            "polygraphy_class": "IterationResult",
        }
        for start in range(0, COUNT, 2)
    ]
    file = path.with_suffix(".json")
    file.write_text(json.dumps({"lst": [["onnxrt-runner-N0", iterations]], "polygraphy_class": "RunResults"}))
    return file


def _raw(path: Path, dumps: dict[str, Array]) -> Path:
    path.mkdir()
    entries = []
    for name, values in dumps.items():
        (path / f"{name}.bin").write_bytes(_last(values).astype(">f4").tobytes())
        shape = list(_last(values).shape)
        layout = "nchw" if name == "flat" else "nhwc"
        entries.append({"name": name, "file": f"{name}.bin", "dtype": ">f4", "shape": shape, "layout": layout})
    (path / "dumps.yaml").write_text(json.dumps({"tensors": entries}))
    return path


def _tidl(path: Path, dumps: dict[str, Array]) -> Path:
    path.mkdir()
    lines = []
    for data, (name, values) in enumerate(dumps.items()):
        images = values.reshape(COUNT, *values.shape[1:], *(1,) * (4 - values.ndim))
        if values.ndim == 2:
            images = values.reshape(COUNT, 1, 1, -1)
        batch, channels, height, width = images.shape
        file = f"tidl_trace_subgraph_0_{data:04}_{batch:05}_{channels:05}_{width:05}x{height:05}"
        (path / f"{file}_float.bin").write_bytes(images.astype("<f4").tobytes())
        (path / f"{file}.y").write_bytes(b"\0" * images.size)
        lines.append(f"{data} {data} {name}")
    (path / "subgraph_0_tidl_net.bin.layer_info.txt").write_text("\n".join(lines))
    return path


def _vitis(path: Path, dumps: dict[str, Array]) -> Path:
    for batch in range(COUNT):
        folder = path / "dump_results" / f"dump_results_{batch}"
        folder.mkdir(parents=True)
        for name, values in dumps.items():
            (folder / f"quant_{name}_float.bin").write_bytes(_last(values[batch : batch + 1]).tobytes())
        flat = _last(dumps["sums_2"][batch : batch + 1]).tobytes()
        (folder / "quant_flat_float.bin").write_bytes(flat)
        (folder / "quant_conv_1_kernel_0.bin").write_bytes(b"\0" * 72)
    return path / "dump_results"


WRITERS: dict[str, Callable[[Path, dict[str, Array]], Path]] = {
    "folder": _folder,
    "numbered": _numbered,
    "compressed": _compressed,
    "channels last": _channels_last,
    "polygraphy": _polygraphy,
    "raw": _raw,
    "tidl": _tidl,
    "vitis": _vitis,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_activations(
    network: Network, dumps: dict[str, Array], kind: str, tmp_path: Path
) -> None:
    path = WRITERS[kind](tmp_path / "dumps", dumps)
    document = judged.judge(network, tmp_path, path, None)
    assert document.verdict == "identical", document.reason
    assert (document.vectors, len(document.layers), document.unmatched) == (COUNT, 5, [])
    assert document.tried_on_real_files == (kind not in {"tidl", "vitis"})
    if kind == "vitis":
        assert document.notes == [f"{COUNT} files of weights were left out"]
    if kind == "tidl":
        assert document.notes == ["6 fixed-point traces (.y) were left out: they state no scale"]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_difference_is_at_the_same_place_in_every_format(
    network: Network, dumps: dict[str, Array], kind: str, tmp_path: Path
) -> None:
    changed = dumps | {"positive": dumps["positive"].copy()}
    changed["positive"][4, 2, 1, 3] += 1
    document = judged.judge(network, tmp_path, WRITERS[kind](tmp_path / "dumps", changed), None)
    layer = judged.by_name(document)["relu_1"]
    assert (document.verdict, layer.own) == ("differs", 1)
    assert (layer.own_first.vector, layer.own_first.unit) == (4, 2 * 16 + 1 * 4 + 3)


def test_outputs_of_st_edge_ai_are_those_of_the_model_in_its_order(tmp_path: Path) -> None:
    network = judged.network(argmax=True)
    values = judged.vectors(network, 20)
    dumps = judged.activations(network, values)
    path = tmp_path / "network_val_io.npz"
    scores, advisory = dumps["layer_2_out"], dumps["advisory_out"]
    arrays = {"m_inputs_1": values, "m_outputs_1": scores + 1, "c_outputs_1": scores.reshape(20, 1, 1, 3)}
    np.savez(path, allow_pickle=False, **arrays, c_outputs_2=advisory.reshape(20, 1, 1, 1).astype(np.int32))
    document = judged.judge(network, tmp_path, path, None)
    assert (document.format, document.verdict, document.tried_on_real_files) == ("st-edge-ai", "identical", False)
    np.savez(path, allow_pickle=False, **arrays, c_outputs_3=advisory)
    with pytest.raises(RequestError, match="has c_outputs_3, and net has 2 outputs"):
        readers.read(path, network)


def test_codes_of_the_other_sign_and_dequantised_codes_are_read(tmp_path: Path) -> None:
    network = judged.network()
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    [scale, *_] = [layer.scales.y for layer in network.layers[1:]]  # type: ignore[attr-defined]
    dumps["quantize_out"] = (dumps["quantize_out"].astype(np.int16) - 128).astype(np.int8)
    codes = dumps["layer_0_out"]
    dumps["layer_0_out"] = codes.astype(np.float32) * scale
    dumps["layer_1_out"] = dumps["layer_1_out"].astype(np.float32)
    document = judged.judge(network, tmp_path, dumps, values)
    assert document.verdict == "identical"
    assert document.reason.endswith("; those of layer_0, layer_1 are numbers in the dumps, compared as codes")
    notes = {layer.name: layer.notes for layer in document.layers}
    assert notes["quantize"] == ["int8 codes plus 128"]
    assert notes["layer_0"] == ["numbers of float32"]
    assert notes["layer_1"] == ["whole numbers of float32 read as codes"]
    dumps["layer_0_out"][3, 1] += scale / 2
    wrong = judged.judge(network, tmp_path, dumps, values)
    assert (wrong.verdict, judged.by_name(wrong)["layer_0"].off) == ("differs", 1)


def test_the_step_of_another_scale_is_stated(tmp_path: Path) -> None:
    network = judged.network()
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    dumps["layer_0_out"] = dumps["layer_0_out"].astype(np.float32) * np.float32(2**-5)
    document = judged.judge(network, tmp_path, dumps, values)
    assert document.verdict == "differs"
    assert "multiples of 0.03125, a power of two; the scale of the model is" in document.notes[0]


def _saved(values: Array, *, allow_pickle: bool = False) -> bytes:
    content = io.BytesIO()
    np.save(content, values, allow_pickle=allow_pickle)
    return content.getvalue()


def _archive(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)


PICKLED = _saved(np.array([{}], object), allow_pickle=True)
DAMAGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickled.npy": (lambda path: path.write_bytes(PICKLED), "Python objects"),
    "pickled.npz": (
        lambda path: _archive(path, "scores.npy", PICKLED),
        "pickled Python objects, which are never loaded",
    ),
    "cut.npy": (lambda path: path.write_bytes(_saved(np.zeros((6, 5), np.float32))[:-3]), "not a complete .npy file"),
    "cut.npz": (lambda path: path.write_bytes(b"PK\3\4 no archive"), "not a complete .npz file"),
    "outside.npz": (lambda path: _archive(path, "../scores.npy", _saved(np.zeros(3))), "is no name of an array"),
    "absolute.npz": (lambda path: _archive(path, "/etc/scores.npy", _saved(np.zeros(3))), "is no name of an array"),
    "no_array.npz": (lambda path: _archive(path, "scores.npy", b"text"), "not a complete array"),
    "empty": (lambda path: path.mkdir(), "the folder is empty"),
    "text.json": (lambda path: path.write_text("{"), "cannot read"),
    "other.json": (lambda path: path.write_text('{"a": 1}'), "no RunResults of Polygraphy"),
    "file.txt": (lambda path: path.write_text("text"), "no dumps of a known format"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_dumps_are_refused(network: Network, name: str, tmp_path: Path) -> None:
    write, message = DAMAGED[name]
    write(tmp_path / name)
    with pytest.raises(RequestError, match=message):
        readers.read(tmp_path / name, network)


def test_an_archive_that_is_cut_behind_its_header_is_refused(network: Network, tmp_path: Path) -> None:
    content = _saved(np.zeros((6, 5), np.float32))
    _archive(tmp_path / "short.npz", "scores.npy", content[:-4])
    with pytest.raises(RequestError, match="cut short"):
        judged.judge(network, tmp_path, tmp_path / "short.npz", judged.vectors(network, 6))


WRONG_DESCRIPTIONS = {
    "{tensors: []}": "tensors",
    "{tensors: [{name: a, dtype: int8, shape: [3]}]}": "either `file` or `files`",
    "{tensors: [{name: a, dtype: int7, shape: [3], file: a.bin}]}": "unknown dtype 'int7'",
    "{tensors: [{name: a, dtype: O, shape: [3], file: a.bin}]}": "no type of numbers",
    "{tensors: [{name: a, dtype: int8, shape: [4], file: a.bin}]}": "it has 3 bytes",
    "{tensors: [{name: a, dtype: int8, shape: [3], file: ../a.bin}]}": "outside of the folder",
    "{tensors: [{name: a, dtype: int8, shape: [3], file: a.bin, scale: 0}]}": "scale",
    "{tensors: [{name: a, dtype: int8, shape: [3], file: b.bin}]}": "cannot read",
    "{tensor: []}": "tensors",
}


@pytest.mark.parametrize("text", WRONG_DESCRIPTIONS)
def test_wrong_descriptions_are_refused(network: Network, text: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    (tmp_path / "dumps.yaml").write_text(text)
    with pytest.raises(RequestError, match=WRONG_DESCRIPTIONS[text]):
        readers.read(tmp_path, network)
