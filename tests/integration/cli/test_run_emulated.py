"""`harness run` on emulated boards: real aarch64 Linux over real SSH; tests/campaigns/faults has what can go wrong
there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from harness.boards import profile
from harness.boards.emulator import Endpoint, Machine, emulated
from harness.boards.ssh import Address, SshBoard
from harness.core.installation import ROOT
from harness.runs.tracing import SIMULATED_VECTORS
from tests.support import builders
from tests.support.boards import sshd
from tests.support.cli.command import User
from tests.support.dags import listing_2, random_dag
from tests.support.recurrent import Recurrences

NAME = "testboard"
MACHINE = Machine(cpu="cortex-a72", cores=2, memory_mib=512, disk_mib=64)

pytestmark = pytest.mark.usefixtures("clean_checkout")  # `harness verify` needs a revision


def _board(name: str) -> dict[str, object]:
    """A board of boards.yaml on a smaller machine."""
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())[name]
    machine = {"cpu": MACHINE.cpu, "cores": 2, "memory_mib": MACHINE.memory_mib, "disk_mib": MACHINE.disk_mib}
    return entry | {"emulator": machine, "work_folder": "/board"}


def _entry(**changes: object) -> dict[str, object]:
    """One whose items are both on a processor, by a program that needs nothing of the board."""
    toolchain = {"compiler": "aarch64-linux-gnu-gcc", "flags": ["-O3", "-mcpu=cortex-a53"], "static": True}
    items = {
        "prepost": {"target": "c", "core": 0, "operators": ["QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin"]},
        "network": {"target": "c", "core": 1, "operators": ["QGemm", "Add"]},
    }
    return _board("kv260") | {"toolchain": toolchain, "items": items} | changes


@pytest.fixture(scope="module")
def endpoint(cache: Path) -> Iterator[Endpoint]:
    """One boot for all tests of this file; the commands under test find the board running."""
    with emulated(NAME, MACHINE, cache, print) as endpoint:
        yield endpoint


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    boards = tmp_path / "boards.yaml"
    boards.write_text(yaml.safe_dump({NAME: _entry()}))
    return User(tmp_path, cache, boards)


def _address(endpoint: Endpoint, **changes: object) -> dict[str, object]:
    """The emulated board as if it were a real one, with an address."""
    given = {
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "key": str(endpoint.key),
        "known_hosts": str(endpoint.known_hosts),
    }
    return _entry(address=given | changes)


def _give(user: User, entry: dict[str, object]) -> None:
    assert user.boards
    user.boards.write_text(yaml.safe_dump({NAME: entry}))


@contextmanager
def _session(endpoint: Endpoint) -> Iterator[SshBoard]:
    address = Address(
        host=endpoint.host, port=endpoint.port, user=endpoint.user, key=endpoint.key, known_hosts=endpoint.known_hosts
    )
    with SshBoard.connect(address) as board:
        yield board


def test_identical_and_named_as_emulated(user: User, endpoint: Endpoint) -> None:
    words = ("--board", NAME, "--model", "acas_coc", "--vectors", "3000", "--chunk", "2000", "--trace", "16")
    ended = user.harness("run", *words)
    assert ended.code == 0, ended.err
    assert "EMULATED" in ended.out
    [folder] = (user.folder / "runs").iterdir()
    run = json.loads((folder / "run.json").read_text())
    assert (run["verdict"], run["board"]["kind"]) == ("identical", "emulated")
    assert {layer["ran_on"] for layer in run["layers"]} == {"emulated-cpu (qemu cortex-a72)"}
    assert "aarch64" in run["board"]["environment"]["kernel"]
    with _session(endpoint) as board:
        left = board.run(["ls", "/board/runs"], 10).stdout
    assert left == b"", "a finished run leaves nothing in its folder on the board"


@pytest.mark.usefixtures("endpoint")
def test_the_steps_of_a_stream_are_identical(user: User) -> None:
    """Each execution reads what the one before has left in the memory of the program there."""
    _give(user, _entry(items={"prepost": {"target": "c", "core": 0}, "network": {"target": "c", "core": 1}}))
    words = ("--board", NAME, "--model", "kws_stream_int8", "--stream", "2", "--vectors", "3", "--trace", "8", "--json")
    ended = user.harness("run", *words)
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    assert {layer["ran_on"] for layer in ended.document["layers"]} == {"emulated-cpu (qemu cortex-a72)"}
    assert sum(layer["compared"] for layer in ended.document["layers"]) == 3 * 98 * 2064
    assert ended.document["stream"]["windows"] == 50


@pytest.mark.usefixtures("endpoint")
def test_the_steps_of_recurrences_are_identical(user: User, tmp_path: Path) -> None:
    _give(user, _entry(items={"prepost": {"target": "c", "core": 0}, "network": {"target": "c", "core": 1}}))
    network = Recurrences(5, 3, 4, np.random.default_rng(3))
    network.add("LSTM", states=["constant", "input"])
    network.add("GRU", "reverse", linear_before_reset=1)
    onnx.save_model(network.model(), tmp_path / "recurrences.onnx")
    words = ("--model", str(tmp_path / "recurrences.onnx"), "--vectors", "50", "--trace", "8", "--json")
    ended = user.harness("run", "--board", NAME, *words)
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    assert [layer["compared"] for layer in ended.document["layers"]] == [50 * 20] * 2
    assert {layer["ran_on"] for layer in ended.document["layers"]} == {"emulated-cpu (qemu cortex-a72)"}


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize(
    ("board", "stand_in"),
    [
        ("tda4vm", "host-simulation of TIOVX (double)"),
        ("xavier", "host-simulation of CUDA"),
        # Its programs are built in targets/vitis/test_xrt.py, and run on this machine in test_run_vitis.py.
        pytest.param("kv260", "host-simulation of Vitis HLS (C++)", marks=pytest.mark.campaign),
    ],
)
def test_accelerators_are_played_there_and_marked(user: User, board: str, stand_in: str, tmp_path: Path) -> None:
    """The code for a device of a small network is compiled in a fraction of the time."""
    _give(user, _board(board))
    model = builders.random_network(np.random.default_rng(7), (5, 6, 3), dequantize=True, argmax=True)
    onnx.save_model(model, tmp_path / "small.onnx")
    few = ("--vectors", "100", "--trace", "8")
    ended = user.harness("run", "--board", NAME, "--model", str(tmp_path / "small.onnx"), *few, "--json")
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    ran_on = {layer["item"]: layer["ran_on"] for layer in ended.document["layers"]}
    assert ran_on == {"prepost": "emulated-cpu (qemu cortex-a72)", "network": stand_in}
    traced = json.loads((Path(ended.document["run"]) / "run.json").read_text())["conformance"]
    assert (traced["executions"], traced["vectors"]) == (8, SIMULATED_VECTORS)


SPLITS = {"pipeline": ("o1=second,o2=prepost+third,o4..o5=third,pipeline", "flag")}
MORE_SPLITS = {
    "parallel layers": ("parallel", "flag"),
    "pipeline by barriers": ("o1=second,o2=prepost+third,o4..o5=third,pipeline", "barrier"),
    "branches": ("o2..o3=second,o4..o5=third", "barrier"),
    "branches by flags": ("branches", "flag"),
}
ITEMS = ("prepost", "second", "third")


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize(
    ("split", "sync"),
    [
        *(pytest.param(*each, id=name) for name, each in SPLITS.items()),
        *(pytest.param(*each, id=name, marks=pytest.mark.campaign) for name, each in MORE_SPLITS.items()),
    ],
)
def test_a_split_network_is_identical_there_and_its_traces_conform(
    user: User, tmp_path: Path, split: str, sync: str
) -> None:
    _run_split(user, listing_2(), tmp_path / "listing.onnx", split, sync)


@pytest.mark.campaign
@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_so_is_any_network_however_it_is_split(user: User, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_dag(rng, 7)
    words = [f"{node.name}={rng.choice(ITEMS)}" for node in model.graph.node]
    sync = str(rng.choice(["barrier", "flag"]))
    _run_split(user, model, tmp_path / "dag.onnx", ",".join([*words, *(["pipeline"] * (seed % 2))]), sync)


def _run_split(user: User, model: onnx.ModelProto, path: Path, split: str, sync: str) -> None:
    spare = {name: {"target": "c"} for name in ITEMS[1:]}
    _give(user, _entry(items=_entry()["items"] | spare))  # type: ignore[operator] # a mapping
    onnx.save_model(model, path)
    ended = user.harness(
        "run", "--board", NAME, "--model", str(path), "--split", split, "--sync", sync,
        "--vectors", "500", "--block", "50", "--trace", "20", "--json",
    )  # fmt: skip
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    assert ended.document["conformance"]["conforms"] is True
    assert ended.document["conformance"]["executions"] == 20
    assert {layer["ran_on"] for layer in ended.document["layers"]} == {"emulated-cpu (qemu cortex-a72)"}


@pytest.mark.campaign
def test_a_full_disk_is_inconclusive_and_says_so(user: User, endpoint: Endpoint) -> None:
    with _session(endpoint) as board:
        free_kib = int(board.run(["df", "-k", "/board"], 10).stdout.split()[-3])
        fill = ["dd", "if=/dev/zero", "of=/board/filler", "bs=1024", f"count={free_kib - 2000}"]
        assert board.run(fill, 30).status == 0
        try:
            ended = user.harness("run", "--board", NAME, "--model", "acas_coc", "--vectors", "10000", "--json")
        finally:
            board.run(["rm", "/board/filler"], 10)
    assert ended.code == 3
    assert ended.document["verdict"] == "inconclusive"
    assert "No space left on device" in ended.document["reason"]


def test_a_refused_port_is_inconclusive(user: User, endpoint: Endpoint) -> None:
    with sshd.closed_port() as port:
        _give(user, _address(endpoint, port=port))
        ended = user.harness("run", "--board", NAME, "--model", "acas_coc", "--vectors", "10", "--json")
    assert ended.code == 3
    assert ended.document["verdict"] == "inconclusive"
    assert "refused" in ended.document["reason"]


def test_a_wrong_host_key_is_refused(user: User, endpoint: Endpoint, tmp_path: Path) -> None:
    name, kind, key = endpoint.known_hosts.read_text().split()[:3]
    (tmp_path / "known_hosts").write_text(f"{name} {kind} {key[:-12]}{'A' * 11}{key[-1:]}\n")
    _give(user, _address(endpoint, known_hosts=str(tmp_path / "known_hosts")))
    ended = user.harness("run", "--board", NAME, "--model", "acas_coc", "--vectors", "10", "--json")
    assert ended.code == 3
    assert "is not the host that" in ended.document["reason"]


@pytest.mark.campaign
def test_an_address_makes_no_hardware_of_it_and_setup_failures_are_told(user: User, endpoint: Endpoint) -> None:
    _give(user, _address(endpoint) | {"setup": ["true", "nvpmodel -m 0"], "teardown": ["touch /board/restored"]})
    ended = user.harness("run", "--board", NAME, "--model", "acas_coc", "--vectors", "10", "--json")
    assert ended.code == 0, ended.err
    assert ended.document["board_kind"] == "emulated"
    assert {layer["ran_on"] for layer in ended.document["layers"]} == {"emulated-cpu"}
    assert user.harness("verify", ended.document["run"], "--no-rebuild").code == 0
    assert "warning: 'nvpmodel -m 0' failed on the board" in ended.err
    with _session(endpoint) as board:
        assert board.run(["rm", "/board/restored"], 10).status == 0


def test_a_failed_run_restores_the_board_and_keeps_its_cause(user: User, endpoint: Endpoint) -> None:
    _give(user, _address(endpoint) | {"timeout_s": 0.3, "setup": ["true"], "teardown": ["touch /board/restored"]})
    arguments = ("--vectors", "60000", "--chunk", "60000", "--json")
    ended = user.harness("run", "--board", NAME, "--model", "acas_coc", *arguments)
    assert ended.code == 3
    assert "0.3" in ended.document["reason"], "the deadline, not what happened after it"
    with _session(endpoint) as board:
        assert board.run(["rm", "/board/restored"], 10).status == 0


@pytest.mark.campaign
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, cache: Path) -> None:
    boards = tmp_path / "boards.yaml"
    boards.write_text(yaml.safe_dump({"ctrlc": _entry()}))
    user = User(tmp_path, cache, boards)
    process = user.start("run", "--board", "ctrlc", "--model", "acas_coc", "--vectors", "400000")
    state = cache / "emulator" / "ctrlc" / "state.json"
    while not state.exists():  # until the board has booted, or the test's time is over
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    pids = [value for key, value in json.loads(state.read_text()).items() if key.endswith("pid")]
    assert pids
    time.sleep(1.0)
    process.send_signal(2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "interrupted" in err
    assert "--resume" in err
    while any(map(_runs, pids)):  # as above
        time.sleep(0.1)
    assert not state.exists()


def _runs(pid: int) -> bool:
    """One that has ended may stay as a zombie: not every container's first process looks after the others'."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_the_shipped_boards_are_emulated_without_an_address() -> None:
    laboratory = profile.load(ROOT / "boards.yaml", {})
    emulated = {name for name, board in laboratory.profiles.items() if board.emulated and board.emulator}
    assert emulated == {"tda4vm", "xavier", "kv260"}
