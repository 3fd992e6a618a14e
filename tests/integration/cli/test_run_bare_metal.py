"""`harness run` on a processor without an operating system, which qemu emulates, by semihosting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.command import User

pytestmark = pytest.mark.usefixtures("clean_checkout")  # `harness verify` needs a revision
R5 = ("--board", "cortex-r5", "--model", "acas_coc")
PLACE = "emulated-cpu (qemu cortex-r5f, bare metal)"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache).with_local("cortex-r5: {timeout_s: 60}\n")


def test_a_run_is_identical_labelled_and_verified(user: User) -> None:
    done = user.harness("run", *R5, "--vectors", "60", "--chunk", "40", "--trace", "8", "--fetch", "mismatch", "--json")
    assert (done.code, done.document["verdict"]) == (0, "identical"), done.err
    assert {layer["ran_on"] for layer in done.document["layers"]} == {PLACE}
    folder = Path(done.document["run"])
    kept = json.loads((folder / "run.json").read_text())
    assert (kept["board"]["kind"], kept["board"]["address"]) == ("emulated", None)
    environment = kept["board"]["environment"]
    assert environment["command_line"].startswith("harness.name=cortex-r5 qemu-system-arm -M none -cpu cortex-r5f")
    assert environment["processors"].startswith("cortex-r5f, emulated by QEMU emulator version")
    assert environment["memory"] == "MemTotal: 131072 kB"
    assert "kernel" not in environment, "that of this machine is not the board's"
    assert "FPSCR" in environment["fp_environment"]
    assert user.harness("verify", str(folder)).code == 0


def test_a_run_that_takes_too_long_is_inconclusive_and_can_be_resumed(user: User) -> None:
    assert user.boards
    local = user.boards.with_suffix(".local.yaml")
    local.write_text("cortex-r5: {timeout_s: 0.05}\n")
    done = user.harness("run", *R5, "--vectors", "2000", "--trace", "0", "--json")
    assert (done.code, done.document["verdict"]) == (3, "inconclusive")
    assert "inference on cortex-r5 did not end within 0.1 s and was killed" in done.document["reason"].replace(
        "0.05", "0.1"
    )
    local.write_text("cortex-r5: {timeout_s: 60}\n")
    resumed = user.harness("run", "--resume", done.document["run"], "--json")
    assert (resumed.code, resumed.document["verdict"]) == (0, "identical"), resumed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("measure",), "board cortex-r5 is an emulated processor without an operating system"),
        (("prove",), "a proof reads the program's machine code"),
        (("run", "--items", "c,cuda:fused"), "has no operating system, which target cuda:fused of item"),
    ],
)
def test_what_needs_more_than_a_processor_is_refused(user: User, arguments: tuple[str, ...], message: str) -> None:
    done = user.harness(*arguments, *R5)
    assert done.code == 2
    assert message in done.err


def test_an_address_is_refused_and_doctor_names_the_emulator(user: User) -> None:
    done = user.harness("run", *R5, HARNESS_CORTEX_R5_HOST="r5.lab")
    assert done.code == 2
    assert "bare_metal excludes local: true, address and emulator" in done.err
    found = {
        each["topic"]: each["found"] for each in user.harness("doctor", "cortex-r5", "--json").document["findings"]
    }
    assert found["cortex-r5: emulator"].endswith("/qemu-system-arm")
    assert found["cortex-r5: compiler"].startswith("arm-none-eabi-gcc")
