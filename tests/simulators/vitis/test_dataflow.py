"""The kernel's processes side by side, joined by streams with the room that the hardware has: none waits for ever."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.targets import Launch
from harness.targets.vitis import circuit, kernel
from tests.simulators.vitis import simulated, test_image_layers, test_layer

BOUNDED = Path(__file__).with_name("bounded")  # has an hls_stream.h, which stream.hpp takes for that of Vitis
PROCESS = re.compile(r"^    (\w+(?:<\w+>)?\(.*\basked\b.*\));$", re.MULTILINE)
DEPTH = re.compile(r"^#pragma HLS STREAM variable=(\w+) depth=(\d+)$", re.MULTILINE)
AS_GENERATED, FOR_ONE = 0, 1

PASSED = (
    "            pass_on(passed, out, "
    "asked.part != WHOLE ? 0u : asked.everything ? LAYER::FULL_RECORD : LAYER::KEPT);\n"
)
TAKEN = "            const row<LAYER::WIDTH> sums = rows.read();\n"


def side_by_side(text: str, launch: Launch) -> str:
    """The source as HLS understands it: all processes of a dataflow region begin at once."""
    assert len(PROCESS.findall(text)) == 2 + sum(len(circuit.of(task.layer).calls(0)) for task in launch)
    text = PROCESS.sub(r"    flow += [&] { \1; };", text)
    text = DEPTH.sub(r"    \1.room = ROOM ? ROOM : \2;", text)
    text = text.replace("#pragma HLS DATAFLOW", "    hls::dataflow flow;")
    return re.sub(r"(store\(.*\); };\n)", r"\1    flow.run();\n", text)


def build(launch: Launch, folder: Path, room: int, changed: dict[str, tuple[str, str]] | None = None) -> None:
    simulated.write(launch, folder, changed)
    source = folder / kernel.SOURCE
    source.write_text(side_by_side(source.read_text(), launch))
    simulated.compile_there(folder, "-O1", f"-I{BOUNDED}", f"-DROOM={room}", "-pthread")


def shape(name: str) -> Launch:
    if name == "branches":
        return test_layer.branches(test_layer.chain(8, [6, 6, 6, 6], zero_points=True))
    return simulated.launch_of(test_layer.chain(8, [9, 130, 5] if name == "wide" else [9, 24, 7], zero_points=True))


@pytest.mark.campaign
@pytest.mark.parametrize("room", [AS_GENERATED, FOR_ONE], ids=["room as generated", "room for one element"])
@pytest.mark.parametrize("name", ["chain", "wide", "branches"])
def test_no_process_waits_for_ever(name: str, room: int, tmp_path: Path) -> None:
    """Not for the network, all of its activations, a part of a layer, its constants, or the identity."""
    launch = shape(name)
    build(launch, tmp_path, room)
    test_layer.check(simulated.load(launch, tmp_path), 8)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["branches, uint8", "windows, int8"])
def test_no_process_on_images_waits_for_ever(name: str, tmp_path: Path) -> None:
    """Streams of inputs have room for a vector, which may pass after them."""
    make, dtype = test_image_layers.NETWORKS[name]
    launch = test_image_layers.launch_of(make(dtype))
    build(launch, tmp_path, AS_GENERATED)
    test_image_layers.check(simulated.load(launch, tmp_path), 8, vectors=3)


@pytest.mark.campaign
def test_what_would_stand_still_in_the_fabric_is_found(tmp_path: Path) -> None:
    """Sums before what passes them: where streams have no end to their room that changes nothing."""
    changed = {"layer.hpp": (PASSED + TAKEN, TAKEN + PASSED)}
    simulated.build(shape("chain"), tmp_path / "endless", "-O1", "-DELEMENT_BY_ELEMENT", changed=changed)
    build(shape("chain"), tmp_path / "bounded", AS_GENERATED, changed)
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.simulators.vitis import simulated, test_dataflow, test_layer\n"
        "test_layer.check(simulated.load(test_dataflow.shape('chain'), Path(sys.argv[1])), 1)\n"
    )
    endless, bounded = (
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)], capture_output=True, text=True, check=False, timeout=60
        )
        for name in ("endless", "bounded")
    )
    assert (endless.returncode, endless.stderr) == (0, "")
    assert bounded.returncode < 0
    assert "deadlock: all processes that have not ended wait" in bounded.stderr
