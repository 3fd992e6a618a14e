"""Run documents: 11 layers on two items, 100,000 vectors, 45 activations a vector."""

from __future__ import annotations

import copy
from typing import Any

import pytest

EMULATED = "emulated-cpu (qemu neoverse-n1)"
WIDTHS = {"quantize_input": 5, **{f"dense_{index}": 4 for index in range(1, 9)}, "scores": 5, "advisory": 3}
PREPOST = ("quantize_input", "advisory")


def _item(layer: str) -> str:
    return "prepost" if layer in PREPOST else "network"


def _task(name: str, width: int) -> dict[str, Any]:
    return {"name": name, "layer": name, "item": _item(name), "columns": [0, width], "stage": 0, "buffers": 1}


def _layer(index: int, name: str, width: int) -> dict[str, Any]:
    operators = {"quantize_input": "QuantizeLinear", "advisory": "ArgMax"}
    return {
        "index": index,
        "name": name,
        "operator": operators.get(name, "QGemm"),
        "reads": list(WIDTHS)[max(index - 1, 0) : index],
        "items": [_item(name)],
        "item": _item(name),
        "target": "c",
        "ran_on": EMULATED,
        "compared": width * 100_000,
        "differing": 0,
        "own": 0,
        "first_difference": None,
        "sha256": None,
    }


@pytest.fixture
def identical() -> dict[str, Any]:
    """A run on an emulated board without any difference."""
    return {
        "schema": 1,
        "harness": {"version": "0.1.0", "revision": "abc123"},
        "started": "2026-11-21T05:17:05Z",
        "finished": "2026-11-21T05:17:36Z",
        "command": ["harness", "run", "--board", "xavier", "--model", "acas coc"],
        "board": {
            "name": "xavier",
            "soc": "NVIDIA Xavier (8x Carmel, Volta GPU sm_72)",
            "kind": "emulated",
            "environment": {
                "kernel": "Linux xavier 6.1.0-49-arm64 #1 SMP Debian 6.1.174-1 (2026-05-26) aarch64 GNU/Linux",
                "processors": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1",
                "memory": "MemTotal:         983032 kB",
            },
            "setup": [{"command": "jetson_clocks", "status": 0, "output": ""}],
        },
        "model": {
            "name": "acas_coc",
            "sha256": "6f1ed002ab5595859014ebf0951522d98d6c6d0c6f0a5b1f7a1b3b6f2f2b1c01",
            "input": {
                "names": ["rho", "theta", "psi", "v_own", "v_int"],
                "units": ["ft", "rad", "rad", "ft/s", "ft/s"],
                "box_low": [-0.5, -0.5, -0.5, -0.5, -0.5],
                "box_high": [0.5, 0.5, 0.5, 0.5, 0.5],
            },
            "metadata": {"recipe": '{"seed": 1}'},
        },
        "plan": {
            "block": 1000,
            "sync": "barrier",
            "depth": 1,
            "items": [
                {"name": "prepost", "target": "c", "core": 0, "ran_on": EMULATED, "tasks": list(PREPOST)},
                {"name": "network", "target": "c", "core": 1, "ran_on": EMULATED, "tasks": list(WIDTHS)[1:-1]},
            ],
            "tasks": [_task(name, width) for name, width in WIDTHS.items()],
            "hand_overs": [
                {"name": "quantize_input", "items": ["prepost", "network"]},
                {"name": "scores", "items": ["network", "prepost"]},
            ],
        },
        "bundle": {
            "sha256": "0a77c6fb8d2b9e5f8b8f3f3a5b0c8f8f3d1b1e0f8c5d4e3f2a1b0c9d8e7f6a5b",
            "compiler": "aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0",
            "flags": ["-O3", "-march=armv8.2-a", "-ffp-contract=off", "-static"],
            "reused": False,
        },
        "reference": {
            "onnxruntime": "1.31.1",
            "isa": "avx512_vnni avx512f avx2",
            "agreement": "ONNX Runtime and the integer specification agree on every byte",
        },
        "host": {"platform": "Linux-6.1.0-x86_64-with-glibc2.36", "python": "3.11.7", "numpy": "2.4.6"},
        "stimuli": {
            "count": 100_000,
            "seed": 1,
            "source": "generated",
            "classes": {"uniform": 70_000, "boundary": 10_000, "halfway": 20_000},
            "sha256": "c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2",
        },
        "chunk": 10_000,
        "fetch": "all",
        "layers": [_layer(index, name, width) for index, (name, width) in enumerate(WIDTHS.items())],
        "verdict": "identical",
        "reason": "every activation has the bits of the reference",
        "diagnosis": None,
        "diagnoses": [],
        "failing": None,
        "pictures": [],
        "wall_s": 31.2,
        "vectors_per_s": 3205.1,
        "graph": _graph(),
        "launches": [],
        "effect": None,
        "previous": {
            "run": "before",
            "started": "2026-11-20T05:17:05Z",
            "verdict": "identical",
            "results": [],
            "layers": [],
            "times": [],
            "causes": [{"topic": "compiler", "base": "gcc 11", "new": "gcc 12"}],
        },
    }


def _graph() -> list[dict[str, Any]]:
    """A chain of all layers after the input."""
    names = ["state", *WIDTHS]
    widths, dtypes = {"state": 5} | WIDTHS, {"state": "float32", "scores": "float32", "advisory": "int64"}
    return [
        {
            "name": name,
            "operator": "" if name == "state" else _layer(0, name, 1)["operator"],
            "reads": [index - 1] if index else [],
            "shape": [widths[name]],
            "dtype": dtypes.get(name, "uint8"),
            "low": {"advisory": None, "state": -0.5, "scores": -11.25}.get(name, 0),
            "high": {"advisory": None, "state": 0.5, "scores": 11.25}.get(name, 255),
        }
        for index, name in enumerate(names)
    ]


@pytest.fixture
def differing(identical: dict[str, Any]) -> dict[str, Any]:
    """The same run with dense_1 rounded wrongly, and what follows from it."""
    run = copy.deepcopy(identical)
    counts = {"dense_1": 12, "dense_2": 1234, "scores": 31_415, "advisory": 2}
    first = {"vector": 17_041, "unit": 3, "expected": 12, "actual": 13}
    for layer in run["layers"]:
        if layer["name"] in counts:
            layer |= {"differing": counts[layer["name"]], "first_difference": first}
    run["layers"][9]["first_difference"] = {"vector": 17_041, "unit": 0, "expected": 0.1, "actual": -0.0}
    run["layers"][1]["own"] = 12
    diagnosis = {
        "layer": "dense_1",
        "cause": "rounding is half away from zero",
        "text": "exactly the 12 accumulators at a tie differ, all away from zero: rounding is half away from zero",
        "differing": 12,
        "looked_at": 12,
        "hypotheses": [_hypothesis("rounding is half away from zero", 12), _hypothesis("rounding is half up", 7)],
    }
    return run | {
        "verdict": "differs",
        "reason": "dense_1 is the first layer that differs",
        "effect": {"layer": "advisory", "what": "decisions", "changed": 2, "of": 100_000},
        "diagnosis": diagnosis,
        "diagnoses": [diagnosis],
        "failing": {
            "layer": "dense_1",
            "unit": 3,
            "expected": 12,
            "actual": 13,
            "vector": 17_041,
            "inputs": [{"index": 1, "name": "theta", "value": 0.25}, {"index": 4, "name": "v_int", "value": -0.5}],
            "of_inputs": 5,
            "file": "failing.npy",
            "replay": "harness run --board xavier --model 'acas coc' --vectors runs/one/failing.npy",
            "note": "a smaller one may exist: the search was cut short",
        },
        "pictures": [_picture("dense_2", 1234, own=0), _picture("dense_1", 12, own=12)],
    }


def _hypothesis(cause: str, explained: int) -> dict[str, Any]:
    return {
        "cause": cause,
        "right": "half to even",
        "explains_all": explained == 12,
        "explained": explained,
        "of": 12,
        "contradicted": 12 - explained,
        "example": {"vector": 17_041, "unit": 3, "expected": 12, "actual": 13},
    }


def _picture(name: str, differing: int, *, own: int) -> dict[str, Any]:
    """Of four units in 100,000 vectors: all differences in unit 3, one step up, at ties."""
    empty = " ".join(["0"] * 120)
    return {
        "layer": name,
        "vectors": 100_000,
        "units": 4,
        "map": [empty, empty, empty, " ".join([str(differing // 2), str(differing - differing // 2), *["0"] * 118])],
        "steps": [0, 0, 0, 0, 0, differing, 0, 0, 0],
        "tie_distances": [own, 0, 0, 0, 0, 0, 0, 0],
    }


@pytest.fixture
def one_cause(differing: dict[str, Any]) -> dict[str, Any]:
    """A run of which one cause explains two wrong layers."""
    first = differing["diagnoses"][0]
    text = "one cause explains all 15 differing values looked at in 2 layers: rounding is half away from zero"
    names = [layer["name"] for layer in differing["layers"] if layer["differing"]][:2]
    assert names[0] == first["layer"]
    return differing | {
        "diagnosis": {"layer": names[0], "layers": names, "cause": "rounding is half away from zero", "text": text},
        "diagnoses": [first, first | {"layer": names[1], "differing": 3, "looked_at": 3}],
    }
