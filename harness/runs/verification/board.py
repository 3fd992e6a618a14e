"""The board: all parts of a run name the same one, and what is said of it follows from its identity and its profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness import targets
from harness.boards import profile
from harness.boards.identity import EMULATED, GUEST_MARK, HARDWARE, THIS_MACHINE, VIRTUAL, BoardIdentity
from harness.boards.profile import EMULATED_PORT, SEMIHOSTING, SERIAL_PORT, Profile
from harness.runs.folder import BOARDS, RunFolder
from harness.runs.measurement.base import READINGS_FILE
from harness.runs.verification.claims import ContradictionError, listed, require_equal
from harness.runs.verification.folder import RUN, Evidence
from harness.targets import STAND_INS

REACHED_BY = {
    "emulator": {EMULATED},
    "this machine": {THIS_MACHINE},
    SEMIHOSTING: {EMULATED},
    EMULATED_PORT: {EMULATED},
    SERIAL_PORT: {HARDWARE},
}
BY_ADDRESS = {HARDWARE, EMULATED, THIS_MACHINE, VIRTUAL}  # an address may lead anywhere


def board(evidence: Evidence, emulator_key: str | None) -> str:
    """Check that every part of the run names one board, and that kind, name and facts follow from its identity.

    `emulator_key` is the fingerprint of the host key of the emulated boards of the machine that verifies.
    """
    folder, run = RunFolder(evidence.path), evidence.run
    concluded = _of_run(run)
    found = dict(folder.observations())
    for where, other in found.items():
        if others := concluded.differences(other):
            raise ContradictionError(f"{RUN} and {where} name different boards: {'; '.join(others)}")
    needed, possible = _notes(evidence)
    if missing := {"request.json", *needed} - found.keys():
        raise ContradictionError(f"no record names the board of: {listed(missing)}")
    if added := {name for name in found if name.startswith(BOARDS)} - needed - possible:
        raise ContradictionError(f"{BOARDS} names the board of missing parts: {listed(added)}")
    _require_attempts(evidence, concluded, found)
    _require_kind(run, concluded, profile_of(evidence), emulator_key)
    _require_devices(run, profile_of(evidence))
    boots = len({identity.boot_id for identity in found.values()})
    times = f", in {boots} boots" if boots > 1 else ""
    return f"{len(found)} parts name one board ({concluded.kind}, {concluded.machine_id}{times}): the one of {RUN}"


def profile_of(evidence: Evidence) -> Profile:
    """Return the profile of the board as it was when the run was begun; its address is not kept."""
    return profile.restored(RunFolder(evidence.path).read_request()["profile"])


def _of_run(run: Mapping[str, Any]) -> BoardIdentity:
    entries = {key: value for key, value in run["board"].items() if key not in {"soc", "environment", "setup"}}
    try:
        return BoardIdentity.parse(entries, f"{RUN}, board")
    except ValueError as error:
        raise ContradictionError(str(error)) from error


def _notes(evidence: Evidence) -> tuple[set[str], set[str]]:
    """Return the notes of a board that must be there, and those that may be there."""
    if evidence.measured:
        return {f"{BOARDS}/{READINGS_FILE.removesuffix('.npy')}.json"}, set()
    traces = {f"{BOARDS}/traces.json"} if (evidence.path / "traces").exists() else set()
    needed = traces if evidence.run["conformance"] is not None else set()
    return {f"{BOARDS}/{record.index:05}.json" for record in evidence.records} | needed, traces


def _require_attempts(evidence: Evidence, concluded: BoardIdentity, found: Mapping[str, BoardIdentity]) -> None:
    """Require that each part was observed in an attempt that reached the board, with its boot-id and its address."""
    attempts = {where: identity for where, identity in found.items() if where.startswith("attempt ")}
    for where, identity in found.items():
        if identity not in attempts.values():
            raise ContradictionError(f"{where} names a board that no attempt has reached: {_description(identity)}")
    last = f"attempt {len(evidence.run['attempts'])}"
    one_session = ("boards/traces.json", "boards/readings.json", "wrong-outputs.json")
    for where in (last, *(name for name in one_session if name in found)):
        if found.get(where) != concluded:
            named = _description(found[where]) if where in found else "no board"
            raise ContradictionError(f"{RUN} names {_description(concluded)}, {where} names {named}")


def _description(identity: BoardIdentity) -> str:
    return f"{identity.kind} {identity.address or 'without an address'}, boot-id {identity.boot_id}"


def _require_kind(run: Mapping[str, Any], found: BoardIdentity, kept: Profile, emulator_key: str | None) -> None:
    """Require that the kind follows from the identity, the profile, and from what the board's kernel said."""
    require_equal(f"{RUN}, board,", [run["board"]["name"], run["board"]["soc"]], [kept.name, kept.soc])
    _require_way(found, kept)
    own = {kept.name, f"{kept.name}-counting"}
    if kept.emulated and found.machine_id.removeprefix(GUEST_MARK) not in own:
        raise ContradictionError(f"{RUN} says {found.machine_id}, which is not the emulated board {kept.name}")
    if found.host_key is not None and found.host_key == emulator_key and found.kind != EMULATED:
        raise ContradictionError(f"{RUN} says {found.kind}, and {found.host_key} is the host key of emulated boards")
    if (run["host"]["boot_id"] == found.boot_id) != (found.kind == THIS_MACHINE):
        raise ContradictionError(f"{RUN} says {found.kind}; the boot-ids of board and host contradict this")
    _require_environment(run["board"]["environment"], found)


def _require_way(identity: BoardIdentity, profile: Profile) -> None:
    """Require that the profile reaches the board in the way in which it was reached."""
    if identity.kind not in REACHED_BY.get(profile.reached_by, BY_ADDRESS):
        raise ContradictionError(
            f"{RUN} says {identity.kind}, and the profile reaches the board by {profile.reached_by}"
        )
    if (profile.reached_by in {"this machine", SEMIHOSTING, EMULATED_PORT, SERIAL_PORT}) != (identity.address is None):
        raise ContradictionError(
            f"{RUN} has address {identity.address}, the profile reaches the board by {profile.reached_by}"
        )


def _require_environment(environment: Mapping[str, str], identity: BoardIdentity) -> None:
    """Require that what the board's kernel said is of this board."""
    marks = [word for word in environment.get("command_line", "").split() if word.startswith(GUEST_MARK)]
    if marks != [identity.machine_id] * (identity.kind == EMULATED):
        line = " ".join(marks) or "no mark of an emulated board"
        raise ContradictionError(
            f"{RUN} says {identity.kind}, {identity.machine_id}; its kernel's command line has {line}"
        )
    if environment.get("boot_id", identity.boot_id) != identity.boot_id:
        raise ContradictionError(f"{RUN} says boot-id {identity.boot_id}, its environment {environment['boot_id']}")
    if identity.kind == HARDWARE and "virtual_machine" in environment:
        raise ContradictionError(f"{RUN} says hardware, and its environment {environment['virtual_machine']!r}")


def _require_devices(run: Mapping[str, Any], kept: Profile) -> None:
    """Require that what items with a device said of it, and the files of the bundle, fit stand-ins or hardware."""
    stand_ins = [name for name in run["bundle"]["files"] if name.startswith(f"{STAND_INS}/")]
    if stand_ins and not kept.simulated:
        raise ContradictionError(f"{RUN}: the bundle has {listed(stand_ins)}, and the profile has no stand-ins")
    for item in run["plan"]["items"]:
        target, device = targets.find(item["target"]), run["board"]["environment"].get(f"device of item {item['name']}")
        if device is None and target.compiler():
            raise ContradictionError(f"{RUN} does not say on which device item {item['name']} ran")
        if device is not None and (why := target.check_device(kept, device)):
            raise ContradictionError(f"{RUN}, item {item['name']}: {why}")
