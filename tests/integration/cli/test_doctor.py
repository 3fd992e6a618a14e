from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from harness.core import debian_packages
from harness.core.installation import ROOT
from harness.targets.cuda import driver
from tests.integration.cli.test_boards import has_gpu
from tests.support.cli.command import HARNESS, User


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def test_a_machine_that_has_everything(user: User) -> None:
    ended = user.harness("doctor", "--json")
    findings = {finding["topic"]: finding for finding in ended.document["findings"]}
    missing = [topic for topic, finding in findings.items() if not finding["ok"]]
    assert (ended.code, missing) == ((0, []) if has_gpu() else (3, ["local-gpu: GPU"])), ended.out
    assert "onnxruntime 1.31.1" in findings["reference"]["found"]
    assert findings["xavier: emulator"]["found"].endswith("qemu-system-aarch64")
    assert findings["kv260: compiler"]["found"].startswith("aarch64-linux-gnu-gcc")
    assert findings["xavier: compiler"]["found"].startswith("clang version")
    without = "this machine has no NVIDIA driver (libcuda.so.1)"
    assert findings["local-gpu: GPU"]["found"] == (driver.FOUND if has_gpu() else without)
    assert findings["host: compiler"]["found"].startswith("gcc")


def test_a_board_that_lacks_its_gpu_is_not_ready_and_others_are(user: User) -> None:
    ended = user.harness("doctor", "host", "local-gpu")
    assert ("ready: host\nnot ready: local-gpu" in ended.out) is not has_gpu()
    alone = user.harness("doctor", "host", "--json")
    assert (alone.code, alone.document["ready"]) == (0, {"host": True})
    assert not [finding for finding in alone.document["findings"] if "local-gpu" in finding["topic"]]
    unknown = user.harness("doctor", "hst")
    assert (unknown.code, "did you mean host?" in unknown.err) == (2, True)


def test_what_is_missing_comes_with_the_command_that_brings_it(user: User, tmp_path: Path) -> None:
    """On a PATH with nothing but python."""
    (tmp_path / "bin").mkdir()
    ended = user.harness("doctor", PATH=str(tmp_path / "bin"))
    assert (ended.code, ended.out.splitlines()[-1]) == (3, "check one board alone: harness doctor BOARD")
    boards = (
        "tda4vm",
        "xavier",
        "kv260",
        "cortex-r5",
        "cortex-m4",
        "cortex-m7",
        "stm32f405",
        "cortex-m33",
        "cortex-m55",
    )
    emulators = ", ".join(f"{board}: emulator" for board in boards)
    assert f"{emulators}:\n  run: sudo apt-get install --no-install-recommends qemu-system-arm" in ended.out
    assert (
        f"sudo apt-get install --no-install-recommends {debian_packages.PACKAGES['aarch64-linux-gnu-gcc']}" in ended.out
    )
    assert "sudo apt-get install --no-install-recommends gcc-arm-none-eabi binutils-arm-none-eabi" in ended.out


def test_an_address_of_a_misspelt_board_is_named(user: User) -> None:
    ended = user.harness("doctor", "host", HARNESS_XAVIRE_HOST="xavier.lab")
    assert (ended.code, "ready: host" in ended.out) == (3, True)
    assert "HARNESS_XAVIRE_HOST:\n  did you mean HARNESS_XAVIER_HOST" in ended.out


def test_an_unknown_target_is_named(tmp_path: Path, cache: Path) -> None:
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())["host"]
    entry["items"]["network"]["target"] = "cud"
    (tmp_path / "boards.yaml").write_text(yaml.safe_dump({"host": entry}))
    ended = User(tmp_path, cache, tmp_path / "boards.yaml").harness("doctor")
    assert ended.code == 3
    assert "valid choices: c" in ended.out


def test_onnx_runtime_sends_no_telemetry(tmp_path: Path, cache: Path) -> None:
    """It would keep the ID of the device in the home folder when its first session is opened."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "HARNESS_CACHE": str(cache)}
    done = subprocess.run([*HARNESS, "doctor", "host"], env=environment, check=False, capture_output=True, text=True)
    assert (done.returncode, "reference, uint8 x int8" in done.stdout) == (0, True), done.stderr
    assert not (tmp_path / ".cache").exists()
