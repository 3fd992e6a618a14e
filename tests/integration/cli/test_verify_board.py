"""What somebody makes of the board in a run's evidence, and that `harness verify` finds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.boards.keys import GUEST_KEYS, host_fingerprint
from harness.operators import sweeps
from harness.pipeline import prove as proof
from harness.runs.folder import write_json
from tests.campaigns.mutation.campaign import EFFORT
from tests.integration.cli.conftest import FEW_FLOATS
from tests.integration.cli.test_resume_board import NAME, entry
from tests.integration.cli.test_verify import (
    QUICK,
    a_run,
    change,
    edit_text,
    identical,
    model,
    rehash,
    states,
    text,
    user,
)
from tests.integration.cli.test_verify_measured import base, wrong
from tests.support.cli.command import User
from tests.support.identities import XAVIER

__all__ = ["base", "identical", "model", "user", "wrong"]  # fixtures

OTHER_BOOT = "66666666-2222-3333-4444-555555555555"
BY_SSH = {"address": XAVIER.address, "host_key": XAVIER.host_key}
Edit = Callable[[Path], object]


@pytest.fixture(scope="module")
def emulated(user: User, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emulated")
    (folder / "boards.yaml").write_text(yaml.safe_dump({NAME: entry()}))
    asked = ("--board", NAME, "--model", str(model), "--vectors", "300", "--chunk", "100", "--trace", "12", "--json")
    return Path(User(folder, user.cache, folder / "boards.yaml").harness("run", *asked).document["run"])


@pytest.fixture(scope="module")
def proved(user: User, model: Path) -> Iterator[Path]:
    """A proof of few floats and executions, by this process and all that look at it."""
    asked = ("--board", "host", "--items", "c,c", "--model", str(model), "--vectors", "100", "--trace", "0", "--json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "FLOATS", FEW_FLOATS)
        patch.setattr(proof, "effort_of", lambda *_: EFFORT)
        yield Path(user.here("prove", *asked, "--floats", "thresholds").document["run"])


def note(part: str, **changes: Any) -> Edit:
    """Edit one note of a board."""
    return lambda folder: change(folder / "boards" / f"{part}.json", lambda board: board.update(changes))


def in_run(**changes: Any) -> Edit:
    return lambda folder: change(folder / "run.json", lambda run: run["board"].update(changes))


def in_request(**changes: Any) -> Edit:
    return lambda folder: change(folder / "request.json", lambda asked: asked["board"].update(changes))


def in_profile(**changes: Any) -> Edit:
    return lambda folder: change(folder / "request.json", lambda asked: asked["profile"].update(changes))


def in_attempts(**changes: Any) -> Edit:
    """Edit the board of each attempt, in attempts.jsonl and in run.json."""

    def edit(folder: Path) -> None:
        events = [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]
        for event in events:
            if "board" in event:
                event["board"].update(changes)
        (folder / "attempts.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
        change(folder / "run.json", lambda run: [attempt["board"].update(changes) for attempt in run["attempts"]])

    return edit


def everywhere(**changes: Any) -> Edit:
    """Edit the board wherever it is named."""

    def edit(folder: Path) -> None:
        for each in (in_run(**changes), in_request(**changes), in_attempts(**changes)):
            each(folder)
        for path in (folder / "boards").iterdir():
            note(path.stem, **changes)(folder)

    return edit


def drop_board_of_attempt(folder: Path) -> None:
    began = (folder / "attempts.jsonl").read_text().splitlines()[0]
    (folder / "attempts.jsonl").write_text(f"{began}\n")
    change(folder / "run.json", lambda run: run["attempts"][0].update(board=None))


def all_of(*edits: Edit) -> Edit:
    def edit(folder: Path) -> None:
        for each in edits:
            each(folder)

    return edit


def no_mark(folder: Path) -> None:
    """The words of the board's kernel, without those that say what it is."""

    def edit(run: dict[str, Any]) -> None:
        line = run["board"]["environment"]["command_line"]
        run["board"]["environment"]["command_line"] = line.replace(f"harness.name={NAME} ", "")
        assert line != run["board"]["environment"]["command_line"]

    change(folder / "run.json", edit)


@dataclass(frozen=True)
class Forgery:
    """What somebody did, which claim falls, and words that name it."""

    how: Edit
    words: str
    claim: str = "board"


HARDWARE = {"kind": "hardware"}
LOCAL: Mapping[str, Forgery] = {
    "kind in run.json": Forgery(in_run(**HARDWARE), "kind is hardware, and no SSH address or host key is stated"),
    "kind everywhere": Forgery(everywhere(**HARDWARE), "no SSH address or host key is stated"),
    "kind and address in run.json": Forgery(
        in_run(**HARDWARE, **BY_SSH), "run.json and request.json name different boards: kind: hardware -> this machine"
    ),
    "kind and address everywhere": Forgery(
        everywhere(**HARDWARE, **BY_SSH), "run.json says hardware, and the profile reaches the board by this machine"
    ),
    "kind, address and profile": Forgery(
        all_of(everywhere(**HARDWARE, **BY_SSH), in_profile(local=False, reached_by="address")),
        "the boot-ids of board and host contradict this",
    ),
    "address everywhere": Forgery(everywhere(**BY_SSH), "has address nvidia@xavier.lab:22"),
    "emulated everywhere": Forgery(
        everywhere(kind="emulated", machine_id="harness.name=host", **BY_SSH), "run.json says emulated, and the profile"
    ),
    "name in run.json": Forgery(in_run(name="xavier"), "name: xavier -> host"),
    "name everywhere": Forgery(everywhere(name="xavier"), '[0] is "xavier", recomputed as "host"'),
    "soc": Forgery(in_run(soc="NVIDIA Xavier"), '[1] is "NVIDIA Xavier", recomputed as "this machine"'),
    "machine of a chunk": Forgery(note("00001", machine_id="f" * 32), "run.json and boards/00001.json name different"),
    "boot of a chunk": Forgery(note("00001", boot_id=OTHER_BOOT), "no attempt has reached: this machine without an"),
    "chunk of another board": Forgery(
        lambda folder: write_json(folder / "boards/00002.json", XAVIER.document()), "boards/00002.json name different"
    ),
    "chunk without a board": Forgery(
        lambda folder: (folder / "boards/00001.json").unlink(), "no record names the board of: boards/00001.json"
    ),
    "board of no chunk": Forgery(
        lambda folder: shutil.copy(folder / "boards/00001.json", folder / "boards/00009.json"),
        "boards names the board of missing parts: boards/00009.json",
    ),
    "traces of another boot": Forgery(note("traces", boot_id=OTHER_BOOT), "boards/traces.json names a board that no"),
    "traces without a board": Forgery(lambda folder: (folder / "boards/traces.json").unlink(), "boards/traces.json"),
    "attempt on another board": Forgery(in_attempts(machine_id="f" * 32), "run.json and attempt 1 name different"),
    "attempt in another boot": Forgery(in_attempts(boot_id=OTHER_BOOT), "request.json names a board that no attempt"),
    "attempt without a board": Forgery(drop_board_of_attempt, "names a board that no attempt has reached"),
    "attempt, in its file only": Forgery(
        edit_text("attempts.jsonl", '"kind": "this machine"', '"kind": "hardware"'), "attempts[0].board.kind", "request"
    ),
    "board asked for": Forgery(in_request(machine_id="f" * 32), "run.json and request.json name different boards"),
    "boot in run.json": Forgery(in_run(boot_id=OTHER_BOOT), f"boot-id {OTHER_BOOT}, attempt 1 names this machine"),
    "boot everywhere": Forgery(everywhere(boot_id=OTHER_BOOT), "the boot-ids of board and host contradict this"),
    "boot of the host": Forgery(
        lambda folder: change(folder / "run.json", lambda run: run["host"].update(boot_id=OTHER_BOOT)),
        "the boot-ids of board and host contradict this",
    ),
    "proof of another board": Forgery(
        lambda folder: write_json(folder / "proof.json", {"holds": True, "board": XAVIER.document()}),
        "run.json and proof.json name different boards",
    ),
    "key twice": Forgery(edit_text("boards/00000.json", "{", '{"kind": "hardware",'), "'kind' is repeated"),
    "unknown key": Forgery(note("00000", approved=True), "boards/00000.json has unknown keys: 'approved'"),
    "unknown key of the request": Forgery(
        lambda folder: change(folder / "request.json", lambda asked: asked.update(approved=True)),
        "request.json has unknown keys: 'approved'",
        "plan",
    ),
    "unknown key of what was asked": Forgery(
        lambda folder: change(folder / "request.json", lambda asked: asked["request"].update(approved=True)),
        "request.json, request has unknown keys: 'approved'",
        "plan",
    ),
}


def require_found(user: User, run: Path, forgery: Forgery, copy: Path) -> None:
    shutil.copytree(run, copy)
    forgery.how(copy)
    rehash(copy)
    ended = user.here("verify", str(copy), "--json", *QUICK)
    assert (ended.code, ended.document["stands"]) == (1, False), ended.out
    assert states(ended)[forgery.claim] == "not ok", ended.out
    assert forgery.words in text(ended, forgery.claim)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("how", LOCAL)
def test_what_was_made_of_the_board_of_a_run_is_found(user: User, identical: Path, tmp_path: Path, how: str) -> None:
    require_found(user, identical, LOCAL[how], tmp_path / "copy")


AS_HARDWARE = {"kind": "hardware", "machine_id": "0123456789abcdef0123456789abcdef"}
BY_ADDRESS = all_of(everywhere(**AS_HARDWARE), in_profile(reached_by="address"))
OWN_KEY = everywhere(**AS_HARDWARE, host_key=XAVIER.host_key)
EMULATED: Mapping[str, Forgery] = {
    "kind in run.json": Forgery(in_run(**HARDWARE), f"kind is hardware, and machine_id is harness.name={NAME}"),
    "kind everywhere": Forgery(everywhere(**HARDWARE), f"kind is hardware, and machine_id is harness.name={NAME}"),
    "kind and machine": Forgery(everywhere(**AS_HARDWARE), "and the profile reaches the board by emulator"),
    "profile, too": Forgery(BY_ADDRESS, "is the host key of emulated boards"),
    "host key, too": Forgery(all_of(BY_ADDRESS, OWN_KEY), f"its kernel's command line has harness.name={NAME}"),
    "kernel's words, too": Forgery(all_of(BY_ADDRESS, OWN_KEY, no_mark), "items[0].ran_on is", "plan"),
    "another emulated board": Forgery(everywhere(machine_id="harness.name=xavier"), "is not the emulated board"),
    "this machine": Forgery(
        everywhere(kind="this machine", machine_id="f" * 32), "run.json says this machine, and the profile reaches"
    ),
    "virtual machine": Forgery(
        everywhere(kind="virtual machine", machine_id="f" * 32), "run.json says virtual machine, and the profile"
    ),
    "an item on hardware": Forgery(
        lambda folder: change(folder / "run.json", lambda run: run["plan"]["items"][0].update(ran_on="hardware")),
        'items[0].ran_on is "hardware", recomputed as "emulated-cpu',
        "plan",
    ),
}


@pytest.mark.parametrize("how", EMULATED)
def test_what_was_made_of_an_emulated_board_is_found(user: User, emulated: Path, tmp_path: Path, how: str) -> None:
    assert host_fingerprint(user.cache / GUEST_KEYS), "an emulated board has run here"
    require_found(user, emulated, EMULATED[how], tmp_path / "copy")


MEASURED: Mapping[str, Forgery] = {
    "readings of another board": Forgery(
        lambda folder: write_json(folder / "boards/readings.json", XAVIER.document()), "boards/readings.json name"
    ),
    "readings of another boot": Forgery(
        note("readings", boot_id=OTHER_BOOT), "boards/readings.json names a board that"
    ),
    "readings without a board": Forgery(
        lambda folder: (folder / "boards/readings.json").unlink(), "no record names the board of"
    ),
    "boot of the environment": Forgery(
        lambda folder: change(folder / "run.json", lambda run: run["board"]["environment"].update(boot_id=OTHER_BOOT)),
        f"its environment {OTHER_BOOT}",
    ),
}


@pytest.mark.parametrize("how", MEASURED)
def test_what_was_made_of_the_board_of_a_measurement_is_found(user: User, base: Path, tmp_path: Path, how: str) -> None:
    require_found(user, base, MEASURED[how], tmp_path / "copy")


@pytest.fixture(scope="module")
def simulated(user: User, model: Path) -> Path:
    """A run whose second item is a GPU's, and was played by a program."""
    return a_run(user, model, "--items", "c,cuda:fused")


def on_a_gpu(run: dict[str, Any]) -> None:
    run["plan"]["items"][1].update(ran_on="hardware")
    for layer in run["layers"]:
        layer["ran_on"] = "hardware"


def without_stand_in(run: dict[str, Any]) -> None:
    run["bundle"]["files"] = {name: sha256 for name, sha256 in run["bundle"]["files"].items() if "stand-in" not in name}


GPU = all_of(in_profile(stand_ins=False), lambda folder: change(folder / "run.json", on_a_gpu))
PLAYED: Mapping[str, Forgery] = {
    "place": Forgery(
        lambda folder: change(folder / "run.json", on_a_gpu), 'ran_on is "hardware", recomputed as', "plan"
    ),
    "profile, too": Forgery(GPU, "and the profile has no stand-ins"),
    "bundle, too": Forgery(
        all_of(GPU, lambda folder: change(folder / "run.json", without_stand_in)), "but a GPU should be there"
    ),
    "no device": Forgery(
        lambda folder: change(
            folder / "run.json", lambda run: run["board"]["environment"].pop("device of item network")
        ),
        "does not say on which device item network ran",
    ),
}


@pytest.mark.parametrize("how", PLAYED)
def test_a_stand_in_is_not_called_hardware(user: User, simulated: Path, tmp_path: Path, how: str) -> None:
    require_found(user, simulated, PLAYED[how], tmp_path / "copy")


def test_a_run_with_a_stand_in_stands(user: User, simulated: Path) -> None:
    assert user.here("verify", str(simulated), "--json", *QUICK).code == 0


def test_wrong_outputs_of_another_board_are_found(user: User, wrong: Path, tmp_path: Path) -> None:
    def swap(folder: Path) -> None:
        change(folder / "wrong-outputs.json", lambda found: found.update(board=XAVIER.document()))

    require_found(user, wrong, Forgery(swap, "run.json and wrong-outputs.json name different"), tmp_path / "copy")


@pytest.mark.parametrize("forged", ["board", "boot", "key", "claim"])
def test_the_proof_of_another_board_is_found(user: User, proved: Path, tmp_path: Path, forged: str) -> None:
    edits: dict[str, tuple[Callable[[Any], object], str, str]] = {
        "board": (
            lambda proof: proof.update(board=XAVIER.document()),
            "run.json and proof.json name different",
            "board",
        ),
        "boot": (lambda proof: proof["board"].update(boot_id=OTHER_BOOT), "proof.json names a board that no", "board"),
        "key": (lambda proof: proof.update(approved=True), "proof.json has entries that this version does", "proof"),
        "claim": (lambda proof: proof["claims"][0].update(approved=True), "does not know: proof.claims.app", "proof"),
    }
    edit, words, claim = edits[forged]

    def forge(folder: Path) -> None:
        change(folder / "proof.json", edit)
        proof = json.loads((folder / "proof.json").read_text())
        change(folder / "run.json", lambda run: run.update(proof=proof))

    require_found(user, proved, Forgery(forge, words, claim), tmp_path / "copy")


def test_a_run_names_its_board_everywhere(identical: Path, proved: Path, base: Path) -> None:
    for folder in (identical, proved, base):
        run = json.loads((folder / "run.json").read_text())
        keys = ("name", "kind", "address", "host_key", "machine_id", "boot_id")
        board = {key: run["board"][key] for key in keys}
        named = [json.loads(path.read_text()) for path in (folder / "boards").iterdir()]
        named += [json.loads((folder / "request.json").read_text())["board"], *(a["board"] for a in run["attempts"])]
        named += [run["proof"]["board"]] if run.get("proof") else []
        assert named == [board] * len(named)
        assert len(named) >= 3
