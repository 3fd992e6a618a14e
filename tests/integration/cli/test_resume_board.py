"""`harness run --resume` goes on where a run was begun, or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from harness.boards.emulator import Endpoint, Machine
from harness.boards.keys import keys_in
from harness.core.installation import ROOT
from harness.runs.folder import RunFolder
from tests.integration.boards.conftest import server
from tests.support import builders
from tests.support.boards import sshd
from tests.support.boards.posing import hide_machine, posing, session, set_machine_id
from tests.support.cli.command import Ended, User

__all__ = ["server"]  # a fixture

NAME = "resumeboard"
MACHINE = Machine(cpu="cortex-a72", cores=2, memory_mib=512, disk_mib=64)
IDS = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210")

pytestmark = pytest.mark.usefixtures("clean_checkout")  # `harness verify` needs a revision


def entry(**changes: Any) -> dict[str, Any]:
    """The profile of an emulated board, with programs that need nothing of it but a processor."""
    items = {
        "prepost": {"target": "c", "core": 0, "operators": ["QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin"]},
        "network": {"target": "c", "core": 1, "operators": ["QGemm", "Add"]},
    }
    kept = yaml.safe_load((ROOT / "boards.yaml").read_text())["kv260"]
    toolchain = {"compiler": "aarch64-linux-gnu-gcc", "flags": ["-O3", "-mcpu=cortex-a53"], "static": True}
    machine = {"cpu": MACHINE.cpu, "cores": 2, "memory_mib": MACHINE.memory_mib, "disk_mib": MACHINE.disk_mib}
    return kept | {"toolchain": toolchain, "items": items, "emulator": machine, "work_folder": "/board"} | changes


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(builders.random_network(np.random.default_rng(7), (4, 6, 3)), path)
    return path


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, tmp_path / "boards.yaml")


def give(user: User, board: dict[str, Any]) -> None:
    """Write the laboratory of one board."""
    assert user.boards
    user.boards.write_text(yaml.safe_dump({NAME: board}))


def interrupted(user: User, model: Path) -> Path:
    """A run that was killed after the first of three chunks."""
    asked = ("--vectors", "300", "--chunk", "100", "--trace", "12", "--json")
    ended = user.harness("run", "--board", NAME, "--model", str(model), *asked)
    assert ended.code == 0, ended.err
    folder = Path(ended.document["run"])
    for name in ("run.json", "report.html", "junit.xml", "chunks/00001.json", "chunks/00002.json"):
        (folder / name).unlink()
    return folder


def resume(user: User, folder: Path, **environment: str) -> Ended:
    return user.harness("run", "--resume", str(folder), "--json", **environment)


def require_refused(user: User, folder: Path, *words: str, attempts: int = 1, **environment: str) -> Ended:
    """Resuming ends with 2 and these words; no chunk, no trace and no board was added."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ended = resume(user, folder, **environment)
    assert ended.code == 2, ended.err
    assert ended.document["exit_code"] == 2
    for word in words:
        assert word in ended.document["error"], ended.document["error"]
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    changed = {path.name for path in {**before, **after} if before.get(path) != after.get(path)}
    assert changed <= {"log.txt", "attempts.jsonl"}
    assert [attempt["board"] is not None for attempt in RunFolder(folder).attempts()] == [True] + [False] * attempts
    return ended


@pytest.mark.campaign
def test_a_run_on_an_emulated_board_goes_on_after_another_boot_and_not_by_an_address(user: User, begun: Path) -> None:
    give(user, entry())
    folder = Path(shutil.copytree(begun, user.folder / "runs" / begun.name))
    words = ('reached_by: "emulator" -> "address"', f"HARNESS_{NAME.upper()}_HOST")
    host = {f"HARNESS_{NAME.upper()}_HOST": "nvidia@127.0.0.1:9"}
    ended = require_refused(user, folder, words[0], attempts=0, **host)
    assert words[1] in ended.document["hint"]
    assert "connecting" not in ended.err, "refused before any work"
    ended = resume(user, folder)
    assert (ended.code, ended.document["verdict"], ended.document["board_kind"]) == (0, "identical", "emulated")
    boots = {attempt["board"]["boot_id"] for attempt in RunFolder(folder).attempts()}
    assert len(boots) == 2, "the board was booted twice"
    notes = {name: RunFolder(folder).read_board(name).boot_id for name in ("00000", "00001", "traces")}
    assert notes["00000"] != notes["00001"] == notes["traces"]
    ended = user.harness("verify", str(folder), "--no-rebuild")
    assert (ended.code, "in 2 boots" in " ".join(ended.out.split())) == (0, True), ended.out


def test_a_run_on_this_machine_does_not_go_on_by_an_address(user: User, model: Path, server: sshd.Server) -> None:
    local = yaml.safe_load((ROOT / "boards.yaml").read_text())["host"]
    give(user, local)
    folder = interrupted(user, model)
    at = server.address
    address = {"host": at.host, "port": at.port, "key": str(at.key), "known_hosts": str(at.known_hosts)}
    give(user, {key: value for key, value in local.items() if key != "local"} | {"address": address})
    require_refused(user, folder, "local: true -> false", 'reached_by: "this machine" -> "address"', attempts=0)
    give(user, local)
    ended = resume(user, folder)
    assert (ended.code, ended.document["verdict"], ended.document["board_kind"]) == (0, "identical", "this machine")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (("items", "network", "core"), 0, "items.network.core: 1 -> 0"),
        (("items", "network", "target"), "c:vector", 'items.network.target: "c" -> "c:vector"'),
        (("setup",), ["true"], 'setup: [] -> ["true"]'),
        (("teardown",), ["true"], 'teardown: [] -> ["true"]'),
        (("timing",), {"fifo": 7}, "timing.fifo: 80 -> 7"),
        (("toolchain", "flags"), ["-O2"], 'toolchain.flags: ["-O3", "-mcpu=cortex-a53"] -> ["-O2"]'),
        (("cores",), 3, "cores: 4 -> 3"),
        (("block",), 50, "block: 1000 -> 50"),
        (("soc",), "another", 'soc: "AMD Kria KV260 (4x Cortex-A53, K26 fabric)" -> "another"'),
    ],
)
def test_a_profile_that_was_changed_is_refused_with_the_list(
    user: User, begun_on_hardware: Path, endpoint: Endpoint, key: tuple[str, ...], value: Any, told: str
) -> None:
    refuse_a_change(user, begun_on_hardware, by_address(endpoint), key, value, told)


@pytest.mark.campaign
def test_so_is_another_processor_of_an_emulated_board(user: User, begun: Path) -> None:
    told = 'emulator.cpu: "cortex-a72" -> "cortex-a53"'
    refuse_a_change(user, begun, entry(), ("emulator", "cpu"), "cortex-a53", told)


def refuse_a_change(
    user: User, begun: Path, board: dict[str, Any], key: tuple[str, ...], value: Any, told: str
) -> None:
    changed = inner = board | {"soc": "AMD Kria KV260 (4x Cortex-A53, K26 fabric)"}
    for part in key[:-1]:
        inner = inner[part]
    inner[key[-1]] = value
    give(user, changed)
    folder = Path(shutil.copytree(begun, user.folder / "begun"))
    require_refused(
        user, folder, f"the profile of board {NAME} was changed since the start of the run: ", told, attempts=0
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, cache: Path, model: Path) -> Path:
    """An interrupted run on the emulated board, which is off again."""
    folder = tmp_path_factory.mktemp("begun")
    user = User(folder, cache, folder / "boards.yaml")
    give(user, entry())
    return interrupted(user, model)


@pytest.mark.campaign
def test_how_long_to_wait_for_a_board_may_change(user: User, begun: Path) -> None:
    give(user, entry(timeout_s=299.0, boot_s=100.0, power={"command": ["true"]}))
    folder = Path(shutil.copytree(begun, user.folder / "begun"))
    ended = resume(user, folder)
    assert (ended.code, ended.document["verdict"]) == (0, "identical"), ended.err


def test_a_run_of_a_version_that_kept_no_board_is_not_resumed(user: User, on_hardware: Path) -> None:
    folder = on_hardware
    request = json.loads((folder / "request.json").read_text())
    kept = {key: value for key, value in request.items() if key not in {"schema", "profile", "board"}}
    (folder / "request.json").write_text(json.dumps(kept))
    ended = resume(user, folder)
    assert ended.code == 2
    assert "it is of schema None, this version resumes 2" in ended.document["error"]


@pytest.fixture(scope="module")
def endpoint(cache: Path) -> Iterator[Endpoint]:
    """A board that passes for hardware."""
    with posing("posingboard", MACHINE, cache) as found:
        hide_machine(found)
        set_machine_id(found, IDS[0])
        yield found


def by_address(endpoint: Endpoint) -> dict[str, Any]:
    address = {"host": endpoint.host, "port": endpoint.port, "user": endpoint.user, "key": str(endpoint.key)}
    return entry(address=address | {"known_hosts": str(endpoint.known_hosts)})


@pytest.fixture(scope="module")
def begun_on_hardware(tmp_path_factory: pytest.TempPathFactory, cache: Path, model: Path, endpoint: Endpoint) -> Path:
    """An interrupted run on the board that passes for hardware."""
    folder = tmp_path_factory.mktemp("hardware")
    user = User(folder, cache, folder / "boards.yaml")
    give(user, by_address(endpoint))
    begun = interrupted(user, model)
    assert RunFolder(begun).board is not None
    return begun


@pytest.fixture
def on_hardware(user: User, begun_on_hardware: Path, endpoint: Endpoint) -> Path:
    """A copy of that run, to go on with."""
    give(user, by_address(endpoint))
    return Path(shutil.copytree(begun_on_hardware, user.folder / "runs" / begun_on_hardware.name))


def test_a_board_that_is_reached_at_another_address_is_still_the_same(
    user: User, on_hardware: Path, endpoint: Endpoint, tmp_path: Path
) -> None:
    with sshd.Link(endpoint.port) as link:
        known_hosts = tmp_path / "known_hosts"
        kind, key = endpoint.known_hosts.read_text().split()[1:3]
        known_hosts.write_text(f"[127.0.0.1]:{link.port} {kind} {key}\n")
        give(user, by_address(replace(endpoint, port=link.port, known_hosts=known_hosts)))
        ended = resume(user, on_hardware)
    assert (ended.code, ended.document["verdict"], ended.document["board_kind"]) == (0, "identical", "hardware")
    addresses = [attempt["board"]["address"] for attempt in RunFolder(on_hardware).attempts()]
    assert addresses == [f"root@127.0.0.1:{port}" for port in (endpoint.port, link.port)]
    assert user.harness("verify", str(on_hardware), "--no-rebuild").code == 0


def test_a_board_with_another_machine_id_is_refused(user: User, on_hardware: Path, endpoint: Endpoint) -> None:
    set_machine_id(endpoint, IDS[1])
    try:
        with session(endpoint) as board:
            before = board.run(["find", "/board"], 20).stdout
            require_refused(user, on_hardware, f"started on another board: machine_id: {IDS[0]} -> {IDS[1]}")
            assert board.run(["find", "/board"], 20).stdout == before, "refused before any work there"
    finally:
        set_machine_id(endpoint, IDS[0])
    ended = resume(user, on_hardware)
    assert (ended.code, ended.document["verdict"]) == (0, "identical")
    assert user.harness("verify", str(on_hardware), "--no-rebuild").code == 0, "the refused attempt stands in it, too"


def test_a_board_with_another_host_key_is_refused(
    user: User, on_hardware: Path, endpoint: Endpoint, tmp_path: Path
) -> None:
    """Also where the user has accepted the new key."""
    before = RunFolder(on_hardware).board
    assert before
    keys = keys_in(tmp_path / "keys")
    with session(endpoint) as board:
        old = board.run(["cat", "/etc/ssh/host_key"], 20).stdout
        _exchange(endpoint, keys.host_private, tmp_path)
        known_hosts = tmp_path / "known_hosts"
        known_hosts.write_bytes(b"[127.0.0.1]:%d %s\n" % (endpoint.port, keys.host_public))
        anew = replace(endpoint, known_hosts=known_hosts)
        try:
            give(user, by_address(anew))
            require_refused(user, on_hardware, f"host_key: {before.host_key} -> SHA256:")
        finally:
            _exchange(anew, old, tmp_path)


# The SSH server that waits for connections is a child of the board's init, which starts another one in its place.
RESTART = """
chmod 600 /etc/ssh/host_key
for process in $(pidof sshd); do
    read -r stat </proc/$process/stat
    set -- ${stat##*) }
    [ "$2" = 1 ] && kill "$process" && sleep 3 && exit 0
done
exit 1
"""


def _exchange(endpoint: Endpoint, host_key: bytes, folder: Path) -> None:
    """Give the board another host key."""
    (folder / "host_key").write_bytes(host_key)
    with session(endpoint) as board:
        board.put(folder / "host_key", PurePosixPath("/etc/ssh/host_key"))
        assert board.run(["sh", "-c", RESTART], 20).status == 0
