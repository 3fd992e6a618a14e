"""Every rule of boards.yaml, and that every mistake is named with file, line and the valid choices."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import operators, targets
from harness.boards import profile
from harness.boards.profile import Address, BoardProfiles, Profile
from harness.core.errors import RequestError
from harness.targets.tiovx.settings import TiovxSettings
from harness.targets.vitis.settings import VitisSettings

BOARD = """\
tda:
  soc: a SoC
  cores: 2
  toolchain: {compiler: gcc, flags: [-O3, -g]}
  items:
    network: {target: c, operators: [QGemm]}
  emulator: {cpu: cortex-a72, cores: 2}
"""  # 7 lines
OPERATORS = sorted({f"{name!r}" for _, name in operators.by_onnx_name()})


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    path = tmp_path / "boards.yaml"
    path.write_text(BOARD)
    return path


def load(path: Path, environment: Mapping[str, str] | None = None) -> Profile:
    return targets.load_boards(path, environment or {}).board("tda")


def failure(path: Path, environment: Mapping[str, str] | None = None) -> RequestError:
    with pytest.raises(RequestError) as caught:
        targets.load_boards(path, environment or {})
    assert caught.value.exit_code == 2
    return caught.value


def test_the_shipped_laboratory_has_its_boards(laboratory: BoardProfiles) -> None:
    assert {name: board.emulated for name, board in laboratory.profiles.items()} == {
        "tda4vm": True, "xavier": True, "kv260": True, "host": False, "local-gpu": False,
        "cortex-r5": True, "cortex-m4": True, "cortex-m7": True,
        "stm32f405": True, "cortex-m33": True, "cortex-m55": True,
    }  # fmt: skip
    for board in laboratory.profiles.values():
        assert sorted(item.operators is None for item in board.items.values()) == [False, True]


def test_an_entry_is_read_with_its_defaults(boards: Path) -> None:
    board = load(boards)
    assert (board.name, board.soc, board.cores, board.block, board.timeout_s) == ("tda", "a SoC", 2, 1000, 300.0)
    assert (board.local, board.address, board.emulated) == (False, None, True)
    assert (board.setup, board.teardown, board.time_source) == ((), (), "CLOCK_MONOTONIC_RAW")
    assert board.work_folder is None
    assert board.toolchain == profile.Toolchain(compiler="gcc", flags=("-O3", "-g"), static=False, glibc=None)
    assert board.items == {"network": profile.ItemProfile(target="c", operators=("QGemm",), core=None)}
    assert board.emulator == profile.Emulator(cpu="cortex-a72", cores=2, memory_mib=1024, disk_mib=512)


def test_profiles_are_frozen(boards: Path) -> None:
    board = load(boards)
    with pytest.raises(ValueError, match="frozen"):
        board.cores = 3


def test_an_unknown_board_is_answered_with_the_nearest(laboratory: BoardProfiles) -> None:
    with pytest.raises(RequestError) as caught:
        laboratory.board("xaver")
    assert caught.value.message == "unknown board 'xaver'"
    choices = (
        "cortex-m33, cortex-m4, cortex-m55, cortex-m7, cortex-r5, host, kv260, local-gpu, stm32f405, tda4vm, xavier"
    )
    assert caught.value.hint == f"did you mean xavier? valid choices: {choices}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cuda: {archs: []}", "cuda.archs: at least 1 must be given, found []"),
        ("cuda: {archs: [volta]}", r"cuda.archs.0: String should match pattern '^sm_\d+$', found 'volta'"),
        ("cuda: {archs: [sm_72], ptx: new}", r"cuda.ptx: String should match pattern '^\d+\.\d+$', found 'new'"),
        ("cuda: {archs: [sm_72], wait: sleep}", "cuda.wait: Input should be 'spin', 'yield' or 'block', found 'sleep'"),
        ("stand_ins: false", "an emulated board has no accelerators but stand-ins"),
    ],
)
def test_what_is_wrong_about_accelerators_is_named(boards: Path, line: str, message: str) -> None:
    boards.write_text(f"{BOARD}  {line}\n")
    assert failure(boards).message.endswith(f"board tda: {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("power: {off_command: [pdu, 'off']}", "give command, or off_command and on_command"),
        ("power: {}", "give command, or off_command and on_command"),
        ("power: {command: [pdu], on_command: [pdu], off_command: [pdu]}", "give command, or off_command and"),
        ("power: {command: reboot it}", "power.command: Input should be a list"),
        ("power: {command: []}", "power.command: at least 1 must be given"),
        ("power: {command: [''] }", "power.command.0: String should have at least 1 character"),
        ("power: {command: [pdu, off]}", "power.command.1: Input should be a valid string, found False"),
        ("power: {command: [pdu], wait: 3}", "unknown key 'power.wait'"),
        ("labgrid: {}", "'labgrid.place' is missing"),
        ("labgrid: {place: --kick}", "labgrid.place: String should match pattern"),
        ("labgrid: {place: a b}", "labgrid.place: String should match pattern"),
        ("labgrid: {place: a, coordinator: '-x'}", "labgrid.coordinator: String should match pattern"),
        ("labgrid: {place: a, client: '-x'}", "labgrid.client: String should match pattern"),
        ("boot_s: 0", "boot_s: Input should be greater than 0"),
    ],
)
def test_what_is_wrong_about_sharing_is_named(boards: Path, line: str, message: str) -> None:
    boards.write_text(f"{BOARD}  {line}\n")
    assert message in failure(boards).message


def test_power_and_labgrid_are_read(boards: Path) -> None:
    assert (load(boards).power, load(boards).labgrid, load(boards).boot_s) == (None, None, 120.0)
    power = "power: {off_command: [pdu, '3', 'off'], on_command: [pdu, '3', 'on'], off_s: 2}"
    boards.write_text(f"{BOARD}  {power}\n  labgrid: {{place: tda-1, coordinator: 'lab:20408'}}\n  boot_s: 30\n")
    board = load(boards)
    assert board.power == profile.Power(off_command=("pdu", "3", "off"), on_command=("pdu", "3", "on"), off_s=2.0)
    assert (board.labgrid, board.boot_s) == (profile.Labgrid(place="tda-1", coordinator="lab:20408"), 30.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("timing: {governor: $(reboot)}", "timing.governor: String should match pattern '^[a-z_]{1,15}$'"),
        ("timing: {frequency_khz: 2.0 GHz}", "timing.frequency_khz: Input should be a valid integer"),
        ("timing: {fifo: 100}", "timing.fifo: Input should be less than or equal to 99, found 100"),
        ("timing: {dma_latency_us: -1}", "timing.dma_latency_us: Input should be greater than or equal to 0, found -1"),
        ("timing: {idle_states: 0}", "timing.idle_states: Input should be a valid boolean, found 0"),
        ("timing: {as_root: ['']}", "timing.as_root.0: String should have at least 1 character, found ''"),
    ],
)
def test_what_is_wrong_about_timing_is_named(boards: Path, line: str, message: str) -> None:
    boards.write_text(f"{BOARD}  {line}\n")
    assert f"board tda: {message}" in failure(boards).message


def test_a_profile_says_how_its_board_is_prepared_for_times(boards: Path) -> None:
    assert load(boards).timing == profile.Timing()
    boards.write_text(f"{BOARD}  timing: {{governor: performance, dma_latency_us: null, as_root: [sudo, -n]}}\n")
    assert load(boards).timing == profile.Timing(governor="performance", dma_latency_us=None, as_root=("sudo", "-n"))
    assert (load(boards).timing.warmup, load(boards).timing.lock_memory) == (1000, True)


def test_this_machine_is_left_as_it_is(laboratory: BoardProfiles) -> None:
    """A developer's machine: nothing of the system is changed unless its boards.local.yaml asks for it."""
    for name in ("host", "local-gpu"):
        assert laboratory.board(name).timing == profile.Timing(dma_latency_us=None)


def test_accelerators_are_played_where_the_board_is_or_where_the_profile_says(laboratory: BoardProfiles) -> None:
    assert {name: board.simulated for name, board in laboratory.profiles.items()} == {
        "tda4vm": True, "xavier": True, "kv260": True, "host": True, "local-gpu": False,
        "cortex-r5": True, "cortex-m4": True, "cortex-m7": True,
        "stm32f405": True, "cortex-m33": True, "cortex-m55": True,
    }  # fmt: skip


def test_a_boards_name_with_a_hyphen_has_its_variable(boards: Path) -> None:
    boards.write_text(BOARD.replace("tda:", "tda-4:"))
    assert profile.load(boards, {"HARNESS_TDA_4_HOST": "there:7"}).board("tda-4").address == Address(
        host="there", port=7
    )


@pytest.mark.parametrize(
    ("line", "key", "choices"),
    [
        (
            "emulater: {cores: 1}",
            "emulater",
            (
                "address, bare_metal, block, boot_s, c, cores, cuda, emulator, iree, items, labgrid, litert, local, "
                "memory_budget_mib, peak, power, setup, soc, split, stand_ins, sync, teardown, time_source, timeout_s, "
                "timing, tiovx, toolchain, vitis, work_folder"
            ),
        ),
        ("address: {host: tda, prot: 22}", "address.prot", "host, jump, key, known_hosts, port, user"),
        ("cuda: {archs: [sm_72], arch: sm_72}", "cuda.arch", "archs, ptx, wait"),
        (
            "timing: {govenor: performance}",
            "timing.govenor",
            (
                "as_root, dma_latency_us, fifo, frequency_khz, governor, idle_states, interrupts_away, lock_memory, "
                "realtime_throttling, turbo, warmup"
            ),
        ),
        ("address: {hostname: tda}", "address.hostname", "host, jump, key, known_hosts, port, user"),
        ("address: {host: a, jump: {host: b, pot: 1}}", "address.jump.pot", "host, jump, key, known_hosts, port, user"),
    ],
)
def test_an_unknown_key_is_answered_with_the_choices(boards: Path, line: str, key: str, choices: str) -> None:
    boards.write_text(f"{BOARD}  {line}\n")
    error = failure(boards)
    assert error.message == f"{boards}:8: board tda: unknown key {key!r}"
    assert error.hint.endswith(f"valid choices: {choices}")


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "choices"),
    [
        ("compiler: gcc", "compiler: gcc, flag: x", 4, "toolchain.flag", "compiler, flags, glibc, static"),
        ("target: c", "target: c, cpu: 0", 6, "items.network.cpu", "core, operators, target"),
        ("cpu: cortex-a72", "cpu: max, ram: 1", 7, "emulator.ram", "cores, cpu, disk_mib, memory_mib"),
    ],
)
def test_an_unknown_key_of_a_part_is_answered_with_the_choices(
    boards: Path, old: str, new: str, line: int, key: str, choices: str
) -> None:
    boards.write_text(BOARD.replace(old, new))
    error = failure(boards)
    assert error.message == f"{boards}:{line}: board tda: unknown key {key!r}"
    assert error.hint.endswith(f"valid choices: {choices}")


def test_a_section_of_no_target_is_answered_with_the_targets(boards: Path) -> None:
    boards.write_text(f"{BOARD}  vitas: {{clock_mhz: 300}}\n")
    error = failure(boards)
    assert error.message == f"{boards}:8: board tda: unknown key 'vitas'"
    assert {"cuda", "tiovx", "vitis"} < set(error.hint.removeprefix("valid choices: ").split(", "))


def test_a_section_is_checked_by_its_target(boards: Path) -> None:
    boards.write_text(f"{BOARD}  vitis: {{clock: 300}}\n  tiovx: null\n")
    board = profile.load(boards, {}).board("tda")
    assert (board.section("vitis"), board.section("tiovx"), board.section("cuda")) == ({"clock": 300}, {}, {})
    assert board.settings("tiovx", TiovxSettings) == TiovxSettings()
    with pytest.raises(RequestError) as caught:
        board.settings("vitis", VitisSettings)
    assert caught.value.message == "board tda: unknown key 'vitis.clock'"
    assert caught.value.hint == "did you mean clock_mhz? valid choices: clock_mhz, platform, timeout_s, vitis, xrt"
    boards.write_text(f"{BOARD}  vitis: {{clock_mhz: 0}}\n")
    expected = f"{boards}:8: board tda: vitis.clock_mhz: Input should be greater than or equal to 1, found 0"
    assert failure(boards).message == expected


@pytest.mark.parametrize(
    ("old", "line", "key"),
    [
        ("  soc: a SoC\n", 1, "soc"),
        ("  cores: 2\n", 1, "cores"),
        ("  toolchain: {compiler: gcc, flags: [-O3, -g]}\n", 1, "toolchain"),
        ("compiler: gcc, ", 4, "toolchain.compiler"),
        ("target: c, ", 6, "items.network.target"),
        (", cores: 2}", 7, "emulator.cores"),
    ],
)
def test_a_missing_key_is_named(boards: Path, old: str, line: int, key: str) -> None:
    assert old in BOARD
    boards.write_text(BOARD.replace(old, "}" if old.endswith("}") else ""))
    assert failure(boards).message == f"{boards}:{line}: board tda: {key!r} is missing"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("0022", "0022 is 18 in YAML, in base 8: write 22 or 18"),
        ("1:22", '1:22 is 82 in YAML, in base 60: write "1:22" or 82'),
        ("1:22.5", '1:22.5 is 82.5 in YAML, in base 60: write "1:22.5" or 82.5'),
    ],
)
def test_numbers_of_other_bases_are_refused(boards: Path, number: str, message: str) -> None:
    boards.write_text(f"{BOARD}  address: {{host: a, port: {number}}}\n")
    assert failure(boards).message == f"{boards}:8: not valid YAML: {message}"


@pytest.mark.parametrize(
    ("line", "shell"), [("a && b", "&&"), ("a; b", ";"), ("a > b", ">"), ("a $HOME", "$H"), (r"a \| b|c", "|")]
)
def test_operators_of_a_shell_are_refused(boards: Path, line: str, shell: str) -> None:
    boards.write_text(f"{BOARD}  teardown: [ls, '{line}']\n")
    assert f"board tda: teardown.1: '{shell}' is for a shell, and no shell runs it: " in failure(boards).message


@pytest.mark.parametrize("line", ["setup: [\"sh -c 'a && b'\", 'find -exec x \\;']", "address: {host: 'fe80::1%eth0'}"])
def test_quoted_operators_and_ipv6_addresses_are_accepted(boards: Path, line: str) -> None:
    boards.write_text(f"{BOARD}  {line}\n")
    assert load(boards).setup or load(boards).address


@pytest.mark.parametrize(
    ("old", "new", "line", "finding"),
    [
        ("cores: 2\n", "cores: two\n", 3, "cores: Input should be a valid integer, found 'two'"),
        ("cores: 2\n", "cores: '2'\n", 3, "cores: Input should be a valid integer, found '2'"),
        ("cores: 2\n", "cores: 0\n", 3, "cores: Input should be greater than or equal to 1, found 0"),
        ("a SoC", "[a, SoC]", 2, "soc: Input should be a valid string, found ['a', 'SoC']"),
        ("gcc,", "'',", 4, "toolchain.compiler: String should have at least 1 character, found ''"),
        ("gcc,", "gcc, glibc: 2.31,", 4, "toolchain.glibc: Input should be a valid string, found 2.31"),
        ("gcc,", "gcc, glibc: new,", 4, r"toolchain.glibc: String should match pattern '^\d+\.\d+$', found 'new'"),
        ("gcc,", "gcc, static: 1,", 4, "toolchain.static: Input should be a valid boolean, found 1"),
        ("[-O3, -g]", "-O3", 4, "toolchain.flags: Input should be a list, as [one, another], found '-O3'"),
        ("[-O3, -g]", "[-O3, 5]", 4, "toolchain.flags.1: Input should be a valid string, found 5"),
        (
            "[QGemm]",
            "[QGemm, Cnv]",
            6,
            f"items.network.operators.1: Input should be {', '.join(OPERATORS[:-1])} or {OPERATORS[-1]}, found 'Cnv'",
        ),
        (
            "target: c",
            "target: c, core: -1",
            6,
            ("items.network.core: Input should be greater than or equal to 0, found -1"),
        ),
        (
            " network:",
            " Net-work:",
            6,
            ("items.Net-work: String should match pattern '^[a-z][a-z0-9_]*$', found 'Net-work'"),
        ),
        ("tda:", "TDA:", 1, "name: String should match pattern '^[a-z][a-z0-9_-]*$', found 'TDA'"),
        ("tda:", "4711:", 1, "name: Input should be a valid string, found 4711"),
        ("cores: 2}", "cores: 65}", 7, "emulator.cores: Input should be less than or equal to 64, found 65"),
        (
            "cores: 2}",
            "cores: 2, disk_mib: 0}",
            7,
            ("emulator.disk_mib: Input should be greater than or equal to 1, found 0"),
        ),
        (
            "cores: 2}",
            "cores: 2, memory_mib: 128}",
            7,
            ("emulator.memory_mib: Input should be greater than or equal to 256, found 128"),
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(
    boards: Path, old: str, new: str, line: int, finding: str
) -> None:
    assert BOARD.count(old) == 1
    boards.write_text(BOARD.replace(old, new))
    name = new.rstrip(":") if old == "tda:" else "tda"
    assert failure(boards).message == f"{boards}:{line}: board {name}: {finding}"


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("block: 0", "block: Input should be greater than or equal to 1, found 0"),
        ("block: 1000001", "block: Input should be less than or equal to 1000000, found 1000001"),
        ("timeout_s: 0", "timeout_s: Input should be greater than 0, found 0"),
        ("timeout_s: .inf", "timeout_s: Input should be a finite number, found inf"),
        ("timeout_s: 9999999", "timeout_s: Input should be less than or equal to 1000000, found 9999999"),
        (
            "timeout_s: soon",
            ("timeout_s: Input should be a valid number, unable to parse string as a number, found 'soon'"),
        ),
        ("work_folder: tmp", r"work_folder: String should match pattern '^/[^\x00]+$', found 'tmp'"),
        ("work_folder: /", r"work_folder: String should match pattern '^/[^\x00]+$', found '/'"),
        (
            "time_source: RTC",
            "time_source: Input should be 'CLOCK_MONOTONIC_RAW', 'CLOCK_MONOTONIC', 'CNTVCT' or 'SYSTICK', found 'RTC'",
        ),
        ("setup: reboot", "setup: Input should be a list, as [one, another], found 'reboot'"),
        ("local: maybe", "local: Input should be a valid boolean, found 'maybe'"),
        ("address: tda", "address: Input should be a mapping, as {key: value}, found 'tda'"),
        ("address: {host: ''}", "address.host: String should have at least 1 character, found ''"),
        ("address: {host: -oX}", r"address.host: String should match pattern '^[^\s-]\S*$', found '-oX'"),
        ("address: {host: a b}", r"address.host: String should match pattern '^[^\s-]\S*$', found 'a b'"),
        ("address: {host: a, port: 0}", "address.port: Input should be greater than or equal to 1, found 0"),
        ("address: {host: a, port: 65536}", "address.port: Input should be less than or equal to 65535, found 65536"),
        (
            "address: {host: me@a}",
            "address.host: Input should be a host alone: write {host: a, user: me}, found 'me@a'",
        ),
        ("address: {host: 'a:2'}", "address.host: Input should be a host alone: write {host: a, port: 2}, found 'a:2'"),
        (
            "address: {host: b, jump: {host: 'ssh://me@a:2'}}",
            "address.jump.host: Input should be a host alone: write {host: a, port: 2, user: me}, found 'ssh://me@a:2'",
        ),
        (
            "address: {host: 'a:65536'}",
            "address.host: Input should be a host alone: write {host: NAME, port: 22, user: NAME}, found 'a:65536'",
        ),
        (
            'setup: ["a\\nb"]',
            "setup.0: Input should be one line: write a list with one command in each entry, found 'a\\nb'",
        ),
        ("local: true\n  address: {host: a}", "local: true and an address exclude each other"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(boards: Path, line: str, finding: str) -> None:
    boards.write_text(f"{BOARD}  {line}\n")
    last = 8 + line.count("\n")
    assert failure(boards).message == f"{boards}:{last}: board tda: {finding}"


def test_two_items_cannot_claim_one_operator(boards: Path) -> None:
    other = "    prepost: {target: c, operators: [ArgMax, QGemm]}\n"
    boards.write_text(BOARD.replace("  emulator", f"{other}  emulator"))
    assert failure(boards).message == f"{boards}:7: board tda: items network and prepost both claim QGemm"


@pytest.mark.parametrize(("core", "accepted"), [(0, True), (1, True), (2, False)])
def test_an_item_needs_a_core_that_is_there(boards: Path, core: int, *, accepted: bool) -> None:
    boards.write_text(BOARD.replace("target: c", f"target: c, core: {core}"))
    if accepted:
        assert load(boards).items["network"].core == core
    else:
        expected = f"{boards}:6: board tda: there is no core 2, the board has cores 0 to 1"
        assert failure(boards).message == expected


def test_a_board_must_be_reachable_somehow(boards: Path) -> None:
    unreachable = BOARD.replace("  emulator: {cpu: cortex-a72, cores: 2}\n", "")
    boards.write_text(unreachable + BOARD.replace("tda:", "emulated:"))
    laboratory = profile.load(boards, {})
    assert laboratory.board("emulated").emulated  # a board without an address does not prevent the use of others
    assert (laboratory.named("tda").emulated, laboratory.named("tda").reached_by) == (False, "address")
    with pytest.raises(RequestError, match=r"^board tda has no address$") as caught:
        laboratory.board("tda")
    assert "HARNESS_TDA_HOST=[user@]host[:port]" in caught.value.hint
    assert "boards.local.yaml" in caught.value.hint
    assert profile.load(boards, {"HARNESS_TDA_HOST": "a"}).board("tda").address == Address(host="a")
    boards.write_text(unreachable + "  local: true\n")
    assert not load(boards).emulated
    boards.write_text(unreachable + "  address: {host: tda}\n")
    assert not load(boards).emulated


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = failure(tmp_path / "none.yaml")
    assert error.message == f"{tmp_path}/none.yaml: there is no such file"
    assert error.hint == "give the path of a boards.yaml: --boards FILE"


def test_a_file_without_boards_is_refused(boards: Path) -> None:
    boards.write_text("# none yet\n")
    assert failure(boards).message == f"{boards}: no board is defined"
    assert failure(boards).hint == "harness init LAB creates a file with examples"


def test_a_misspelt_board_in_the_local_file_is_guessed(boards: Path) -> None:
    boards.write_text(BOARD.replace("tda:", "tda4vm:"))
    local = boards.with_suffix(".local.yaml")
    local.write_text("tda4wm:\n  address: {host: tda.lab}\n")
    error = failure(boards)
    assert error.message == f"{local}:1: board tda4wm: 'soc' is missing"
    assert error.hint == (
        f"did you mean board tda4vm of {boards.name}? a board needs cores, items, soc, toolchain: "
        "see docs/add-a-board.md"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert failure(tmp_path).message.startswith(f"{tmp_path}: cannot be read: ")


def test_bytes_that_are_no_text_are_refused(boards: Path) -> None:
    boards.write_bytes(b"tda: \xff\n")
    assert failure(boards).message.startswith(f"{boards}: cannot be read: 'utf-8' codec")


@pytest.mark.parametrize("text", ["a: b: c\n", "a: [1\n", "\t\n", "? {a: b}\n: {}\n", "[1, 2]: {}\n", "a: *b\n"])
def test_invalid_yaml_is_refused_with_the_place(boards: Path, text: str) -> None:
    boards.write_text(text)
    error = failure(boards)
    assert re.match(rf"{re.escape(str(boards))}:[12]: not valid YAML: ", error.message)
    assert error.hint.startswith("found at: ")
    assert "\n" not in error.message + error.hint


@pytest.mark.parametrize("text", ["- tda\n", "tda\n", "tda:\n", "tda: 5\n"])
def test_anything_but_boards_is_refused(boards: Path, text: str) -> None:
    boards.write_text(text)
    assert failure(boards).message == f"{boards}: expected a mapping of board names to profiles"


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:pathlib.Path.touch", "!!python/object/new:pathlib.Path", "!!python/name:os.system"]
)
def test_tags_that_make_python_objects_are_refused(boards: Path, tag: str) -> None:
    victim = boards.parent / "victim"
    boards.write_text(f"{BOARD}  setup: {tag} [{victim}]\n")
    assert "not valid YAML: could not determine a constructor for the tag" in failure(boards).message
    assert not victim.exists()


def test_an_entry_that_contains_itself_is_refused(boards: Path) -> None:
    boards.write_text(BOARD.replace("tda:", "tda: &tda").replace("a SoC", "*tda"))
    assert failure(boards).message.startswith(f"{boards}:2: board tda: soc: Input should be a valid string, found {{")


def test_aliases_that_multiply_are_read_once(boards: Path) -> None:
    """Sixty levels of two: as many paths as nobody could walk through."""
    levels = [f"level{n}: &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 60)]
    text = "\n  ".join(["tda:", "level0: &l0 [x, x]", *levels])
    boards.write_text(text + "\n")
    assert failure(boards).message.startswith(f"{boards}:2: board tda: unknown key 'level0'")


def test_aliases_and_merge_keys_serve_to_share_settings(boards: Path) -> None:
    boards.write_text(BOARD.replace("tda:", "tda: &tda") + "other:\n  <<: *tda\n  cores: 4\n")
    other = profile.load(boards, {}).board("other")
    assert (other.name, other.soc, other.cores) == ("other", "a SoC", 4)


def test_a_key_that_is_given_twice_is_refused(boards: Path) -> None:
    boards.write_text(BOARD + BOARD)
    error = failure(boards)
    assert error.message == f"{boards}:8: 'tda' is repeated, first in line 1"
    boards.write_text(BOARD + "  cores: 4\n")
    assert failure(boards).message == f"{boards}:8: 'tda.cores' is repeated, first in line 3"


# boards.local.yaml


def local(boards: Path, text: str) -> Path:
    path = boards.with_suffix(".local.yaml")
    path.write_text(text)
    return path


def test_the_local_file_is_merged_key_by_key(boards: Path) -> None:
    local(boards, "tda:\n  address: {host: 10.0.0.7, user: root}\n  toolchain: {flags: [-O2]}\n")
    board = load(boards)
    assert board.address == Address(host="10.0.0.7", user="root")
    assert board.toolchain == profile.Toolchain(compiler="gcc", flags=("-O2",))
    assert (board.soc, board.emulated) == ("a SoC", False)


def test_the_local_file_can_take_a_key_back(boards: Path) -> None:
    boards.write_text(BOARD + "  address: {host: tda}\n")
    local(boards, "tda:\n  address: null\n")
    assert load(boards).emulated


def test_the_local_file_can_add_a_board(boards: Path) -> None:
    local(boards, BOARD.replace("tda:", "mine:"))
    assert list(profile.load(boards, {}).profiles) == ["tda", "mine"]


def test_an_empty_local_file_changes_nothing(boards: Path) -> None:
    before = load(boards)
    local(boards, "# tda:\n#   address: {host: 10.0.0.7}\n")
    assert load(boards) == before


def test_a_mistake_is_located_in_the_file_that_has_it(boards: Path) -> None:
    path = local(boards, "\ntda:\n  address:\n    host: a\n    prot: 1\n")
    assert failure(boards).message == f"{path}:5: board tda: unknown key 'address.prot'"
    path = local(boards, "tda:\n  cores: none\n")
    assert failure(boards).message == f"{path}:2: board tda: cores: Input should be a valid integer, found 'none'"
    path = local(boards, "tda: [\n")
    assert failure(boards).message.startswith(f"{path}:2: not valid YAML: ")
    assert failure(boards).hint == "found at: the end of the file"


# HARNESS_<BOARD>_HOST


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.7", Address(host="10.0.0.7")),
        ("root@tda.lab", Address(host="tda.lab", user="root")),
        ("tda.lab:2222", Address(host="tda.lab", port=2222)),
        ("root@tda.lab:2222", Address(host="tda.lab", port=2222, user="root")),
        ("root@[2001:db8::7]:2222", Address(host="2001:db8::7", port=2222, user="root")),
        ("[::1]", Address(host="::1")),
    ],
)
def test_the_environment_gives_an_address(boards: Path, text: str, address: Address) -> None:
    board = load(boards, {"HARNESS_TDA_HOST": text, "HARNESS_OTHER_HOST": "elsewhere"})
    assert (board.address, board.emulated) == (address, False)


@pytest.mark.parametrize("entry", ["{host: old, port: 2222, user: me, key: ~/.ssh/lab}", "elsewhere"])
def test_the_environment_replaces_an_address(boards: Path, entry: str) -> None:
    boards.write_text(f"{BOARD}  address: {entry}\n")
    address = load(boards, {"HARNESS_TDA_HOST": "you@new"}).address
    assert address is not None
    assert (address.host, address.user) == ("new", "you")
    assert address.port == (2222 if "port" in entry else None)


def test_an_empty_variable_gives_none(boards: Path) -> None:
    assert load(boards, {"HARNESS_TDA_HOST": ""}).address is None


@pytest.mark.parametrize(
    "text",
    [
        "tda:",
        "@tda",
        "a b",
        "-oProxyCommand=x",
        "me@-x",
        "tda:ssh",
        "a@b@c",
        "[::1:22",
        "[tda]",
        "::1",
        "tda:0",
        "tda:65536",
        "tda\n",
    ],
)
def test_what_is_no_address_is_refused(boards: Path, text: str) -> None:
    error = failure(boards, {"HARNESS_TDA_HOST": text})
    assert error.message == f"HARNESS_TDA_HOST={text!r} is not an address"
    assert error.hint == "the form is [user@]host[:port]"


@pytest.mark.parametrize(
    ("data", "stack", "finding"),
    [
        ("{origin: 0x10000, kib: 64}", "8", ""),
        ("{origin: 0xfc00, kib: 64}", "8", "7: board tda: code and data overlap"),
        ("{origin: 0x10000, kib: 8}", "8", "7: board tda: the stack fills the data memory"),
        ("{origin: 0x10000, kib: 64}", "8, ram: 1", "7: board tda: unknown key 'bare_metal.ram'"),
        ("{origin: 0x10000, kb: 64}", "8", "7: board tda: unknown key 'bare_metal.data.kb'"),
    ],
)
def test_a_bare_processor_has_room_and_no_other_way_to_it(boards: Path, data: str, stack: str, finding: str) -> None:
    code = "machine: none, cpu: cortex-r5f, code: {origin: 0, kib: 64}"
    given = f"  bare_metal: {{{code}, data: {data}, stack_kib: {stack}}}\n"
    boards.write_text(BOARD.replace("  emulator: {cpu: cortex-a72, cores: 2}\n", given))
    if finding:
        assert failure(boards).message.startswith(f"{boards}:{finding}")
        return
    board = load(boards)
    assert (board.emulated, board.reached_by, profile.restored(board.kept())) == (True, "semihosting", board)
    assert board.bare_metal
    assert (board.bare_metal.top, board.bare_metal.stack_kib) == (1 << 20, 8)
    boards.write_text(BOARD + given)
    assert "bare_metal excludes local: true, address and emulator" in failure(boards).message


def test_a_local_board_takes_no_address(boards: Path) -> None:
    boards.write_text(BOARD + "  local: true\n")
    error = failure(boards, {"HARNESS_TDA_HOST": "tda"})
    assert error.message == f"{boards}:1: board tda: local: true and an address exclude each other"


# What a run keeps of its board's profile


def test_what_is_kept_of_a_profile_makes_it_again(laboratory: BoardProfiles) -> None:
    for board in laboratory.profiles.values():
        assert profile.restored(json.loads(json.dumps(board.kept()))) == board
        assert profile.changes(board.kept(), json.loads(json.dumps(board.kept()))) == ()


def test_what_does_not_shape_a_run_is_not_kept(boards: Path) -> None:
    boards.write_text(BOARD + "  address: {host: there, key: /home/me/key}\n  timeout_s: 7\n  boot_s: 7\n")
    kept = load(boards).kept()
    assert "/home/me/key" not in json.dumps(kept)
    assert not {"address", "timeout_s", "boot_s", "power", "labgrid", "work_folder"} & kept.keys()
    assert profile.restored(kept).reached_by == kept["reached_by"] == "address"
    assert profile.changes(load(boards).kept(), load(boards, {"HARNESS_TDA_HOST": "elsewhere"}).kept()) == ()


def test_every_change_of_a_profile_is_told(boards: Path) -> None:
    before = load(boards).kept()
    boards.write_text(
        BOARD.replace("cores: 2\n  tool", "cores: 3\n  tool") + "  setup: [ls]\n  cuda: {archs: [sm_72]}\n"
    )
    assert profile.changes(before, load(boards, {"HARNESS_TDA_HOST": "there"}).kept()) == (
        "cores: 2 -> 3",
        'setup: [] -> ["ls"]',
        'reached_by: "emulator" -> "address"',
        'cuda.archs: none -> ["sm_72"]',
    )


@pytest.mark.parametrize(
    "changes", [{"approved": True}, {"cores": "many"}, {"reached_by": "emulator", "emulator": None}]
)
def test_what_is_no_kept_profile_is_refused(laboratory: BoardProfiles, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        profile.restored(laboratory.board("xavier").kept() | changes)
