"""The program with an item in the fabric: what it says of the FPGA, what it refuses, what it does when one fails."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.plan import plan, planner
from harness.targets import STAND_INS
from harness.targets.vitis import build as vitis
from harness.targets.vitis import xclbin
from tests.simulators.test_accelerator_programs import ACCELERATORS
from tests.simulators.vitis.boards import with_fabric
from tests.support import builders
from tests.support.programs.board_program import (
    EXIT_SYSTEM,
    BoardProgram,
    Patch,
    assert_same,
    build_patched,
    parse,
    references,
    refusal,
    uniform_vectors,
)

VECTORS = 150  # no multiple of the block
FLAGS = ACCELERATORS["vitis"].flags


def made_of(net_model: onnx.ModelProto, board: Profile, **choices: object) -> plan.Plan:
    return planner.make(parse(net_model), board, **choices)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(host: Profile) -> plan.Plan:
    model = builders.random_network(np.random.default_rng(7), (5, 19, 4, 3), float_output=True, argmax=True)
    return made_of(model, with_fabric(host), block=64)


@pytest.fixture(scope="module")
def program(made: plan.Plan, host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> BoardProgram:
    folder = tmp_path_factory.mktemp("program")
    return build_patched(made, with_fabric(host), folder, flags=FLAGS, objects=objects)


@pytest.fixture(scope="module")
def vectors(program: BoardProgram) -> Array:
    return uniform_vectors(program.network, VECTORS, seed=8)


def test_the_program_says_what_its_items_run_on(program: BoardProgram, made: plan.Plan) -> None:
    """With the application that is loaded, of which there may be several from the same sources."""
    done = program.run("--devices")
    assert (done.returncode, done.stderr) == (0, "")
    digest = vitis.fabric_of(code.kernels for code in codegen.generate(made).items if code.kernels).digest
    device = f"host-simulation of Vitis HLS (C++), kernels {digest[:16]}, xclbin {xclbin.uuid_of(digest)}"
    assert json.loads(done.stdout) == {"done": True, "bundle": "patched", "devices": {"network": device}}


def test_a_device_that_xrt_plays_is_told(program: BoardProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XCL_EMULATION_MODE", "sw_emu")
    device = json.loads(program.run("--devices").stdout)["devices"]["network"]
    assert device.startswith("host-simulation of Vitis HLS (C++), XCL_EMULATION_MODE=sw_emu, kernels ")


def test_names_of_any_length_are_found_in_the_xclbin(host: Profile, objects: Path, tmp_path: Path) -> None:
    board = with_fabric(host)
    model = builders.random_network(np.random.default_rng(7), (5, 3))
    [node] = [node for node in model.graph.node if node.op_type == "QGemm"]
    node.name = "/encoder/layers.0/mlp/fc1/MatMul_quant"
    program = build_patched(made_of(model, board), board, tmp_path / "bundle", flags=FLAGS, objects=objects)
    vectors = uniform_vectors(program.network, 10, seed=1)
    assert_same(program.activations(vectors, tmp_path / "out"), references(program.network, vectors))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (
            "no_device",
            r"opening the FPGA by XRT: .*: is an application loaded \(xmutil listapps\), is XRT's driver zocl",
        ),
        (
            "load",
            r"network\.xclbin: .*: load this bundle's application \(harness firmware\), and end what uses another",
        ),
        (
            "identity",
            r"layer_0_kernel in the fabric was made of other sources \(\w{8}\.\.\.\) than this bundle \(\w{8}",
        ),
        ("memory@2", r"layer_0_kernel: there is no memory that the fabric can reach: use a smaller --block"),
        ("error@6", r"layer_0_kernel in the fabric ended in state \d+ of XRT, not 4: see dmesg"),
    ],
)
def test_what_fails_is_named_with_what_to_do(
    program: BoardProgram, vectors: Array, tmp_path: Path, fault: str, expected: str
) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, HARNESS_DOUBLE_FAULT=fault)
    assert re.search(expected, refusal(done)), done.stderr


@pytest.mark.parametrize("fault", ["end", "end,error@6"])
def test_a_process_that_xrt_does_not_let_end_ends_with_all_it_has_to_say(
    program: BoardProgram, vectors: Array, tmp_path: Path, fault: str
) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path, HARNESS_DOUBLE_FAULT=fault)
    assert done.stderr.endswith("HARNESS_DOUBLE_FAULT: the process does not end\n")
    if fault == "end":
        assert (done.returncode, json.loads(done.stdout.splitlines()[-1])["done"]) == (0, True)
        assert_same(program.read_dumps(tmp_path), references(program.network, vectors))
    else:
        assert (done.returncode, "layer_0_kernel in the fabric ended in state" in done.stderr) == (EXIT_SYSTEM, True)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, r"network\.xclbin cannot be read: the application of this bundle is not installed: build it"),
        (b"", r"network\.xclbin is no xclbin"),
        (b"xclbin3\0" + 500 * b"\0", r"network\.xclbin is no xclbin"),
        (b"xclbin2\0" + 600 * b"\0", r"network\.xclbin has no section EMBEDDED_METADATA"),
        ("other", r"network\.xclbin has no kernel layer_0_kernel: build it and load it: harness firmware"),
        ("given_width", r"argument given_wide! of layer_0_kernel has 4 bytes where this bundle has given_width with 4"),
    ],
)
def test_another_application_is_refused(
    made: plan.Plan, host: Profile, objects: Path, tmp_path: Path, content: bytes | str | None, expected: str
) -> None:
    program = build_patched(made, with_fabric(host), tmp_path, flags=FLAGS, objects=objects)
    there = tmp_path / STAND_INS / "network.xclbin"
    there.unlink()
    if content == "other":
        there.write_bytes(xclbin.write(["other_kernel"], 64 * "0"))
    elif content == "given_width":
        text = xclbin.write(["layer_0_kernel"], 64 * "0")
        there.write_bytes(text.replace(b'name="given_width"', b'name="given_wide!"'))
    elif content is not None:
        there.write_bytes(content)  # type: ignore[arg-type]
    assert re.search(expected, refusal(program.run("--devices")))


def test_a_word_that_is_no_code_is_refused(host: Profile, objects: Path, tmp_path: Path) -> None:
    """Its low byte may be right, so that nothing else would tell."""
    board = with_fabric(host)
    model = builders.random_network(np.random.default_rng(7), (5, 3))
    patch = Patch("kernels/vitis/layer.hpp", "return held.lowest + (element)reached;", "return 256 + (element)reached;")
    program = build_patched(made_of(model, board), board, tmp_path / "bundle", [patch], FLAGS, objects)
    np.save(tmp_path / "vectors.npy", uniform_vectors(program.network, 10, seed=1))
    done = program.run("--vectors", tmp_path / "vectors.npy", "--out", tmp_path)
    assert re.search(r"the kernel in the fabric has made \d+ of layer_0_output, which is no code", refusal(done))


def test_accumulators_are_scaled_as_target_c_does(
    program: BoardProgram, made: plan.Plan, vectors: Array, host: Profile, objects: Path, tmp_path: Path
) -> None:
    """In its very header: a change there is one here, in a program that was compiled before too."""
    wrong = Patch("kernels/c/qgemm.h", "y[n] = (float)acc[n] * m[n];", "y[n] = (float)acc[n] * m[n] + 1;")
    changed = build_patched(made, with_fabric(host), tmp_path / "bundle", [wrong], FLAGS, objects)
    index = next(i for i, layer in enumerate(program.network.layers) if layer.dtype == np.float32)
    right, found = (each.activations(vectors, tmp_path / each.path.parent.name)[index] for each in (program, changed))
    assert np.array_equal(found, right + np.float32(1))


def test_times_of_kernel_and_transfers_are_written_if_times_are_asked_for(
    program: BoardProgram, vectors: Array, tmp_path: Path
) -> None:
    np.save(tmp_path / "vectors.npy", vectors)
    arguments = ["--vectors", tmp_path / "vectors.npy", "--out", tmp_path, "--block", 50]
    program.run(*arguments)
    assert not list(tmp_path.glob("times_*"))
    assert program.run(*arguments, "--time", "network", "--repeat", 2, "--warmup", 3).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "times_network.jsonl").read_text().splitlines()]
    assert [next(iter(row.items())) for row in rows] == [
        (kind, "layer_0_kernel") for kind in ("to_device", "kernel", "from_device")
    ]
    assert {row["executions"] for row in rows} == {6}
    assert all(0 < row["least_ns"] <= row["average_ns"] <= row["greatest_ns"] for row in rows)
