"""`harness trace --elf`: an application with the exported library is `contained`, and every planted change is found."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from harness.applications.case import leaves
from harness.core.errors import RequestError
from tests.support.applications import toy
from tests.support.applications.toy import EXACT, KERNELS, MACHINES
from tests.support.cli.command import Ended, User

pytestmark = pytest.mark.slow
MODEL = "lenet5_int8"
BOARDS = ("host", "kv260", "cortex-m4")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    return User(tmp_path_factory.mktemp("elf"), cache)


@pytest.fixture(scope="module")
def linked(user: User) -> Callable[[str], Path]:
    """Exports and links for a board, once."""
    found: dict[str, Path] = {}

    def of(board: str) -> Path:
        if board not in found:
            where = ("--board", board, "--model", MODEL, "--items", "c,c", "--vectors", "1")
            assert user.here("export", *where, str(user.folder / board)).code == 0
            found[board] = toy.link(MACHINES[board], user.folder / board, user.folder / f"{board}.elf")
        return found[board]

    return of


def trace(user: User, board: str, elf: Path, *options: str) -> Ended:
    return user.here(
        "trace", MODEL, "--board", board, "--items", "c,c", "--block", "1", "--elf", str(elf), "--json", *options
    )


def differences(user: User, board: str, elf: Path, *options: str) -> set[tuple[str, str]]:
    """The symbols that differ, each with the kind; the verdict and the exit code must agree."""
    ended = trace(user, board, elf, *options)
    found = {(each["symbol"], each["kind"]) for each in ended.document["differences"]}
    assert (ended.code, ended.document["verdict"]) == ((1, "differs") if found else (0, "contained"))
    return found


def m4(user: User, name: str, *flags: str, sources: Callable[[Path], Any] | None = None) -> Path:
    """An application for the Cortex-M4, with flags of the link, or with compiled sources in place of the archive."""
    export, machine = user.folder / "cortex-m4", MACHINES["cortex-m4"]
    given = sources(export) if sources else ()
    return toy.link(machine, export, user.folder / f"{name}.elf", given, *flags)


def from_source(user: User, name: str, change: tuple[str, str] | None, *flags: str) -> Path:
    """An application whose network is compiled from the sources of the export, changed in one place."""
    export, folder = user.folder / "cortex-m4", user.folder / f"source_{name}"
    folder.mkdir()
    text = (export / "src" / "network.c").read_text()
    if change:
        assert text.count(change[0]) >= 1
        text = text.replace(*change, 1)
    (folder / "network.c").write_text(text)
    command = [MACHINES["cortex-m4"].compiler, *MACHINES["cortex-m4"].flags, *toy.bare_flags(folder), *EXACT,
               "-fno-stack-protector", f"-I{export}/src", *flags, "-c", str(folder / "network.c"),
               "-o", str(folder / "network.o")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return m4(user, name, sources=lambda _: [folder / "network.o", export / "lib" / f"lib{MODEL}.a"])


@pytest.mark.parametrize("board", BOARDS)
def test_the_exported_library_is_contained(user: User, linked: Callable[[str], Path], board: str) -> None:
    document = trace(user, board, linked(board)).document
    assert (document["verdict"], document["differences"]) == ("contained", [])
    assert document["entry"] == f"{MODEL}_network"
    sections = {each["section"] for each in document["places"] if each["object"] == "network.o"}
    assert {".text", ".rodata", ".bss"} <= sections
    assert document["compared_bytes"] > 60_000
    [called] = document["called"]
    if board == "cortex-m4":
        assert (called["name"], called["provided_by"], called["is_proved"]) == ("rintf", "math.o", True)
        assert len(called["callers"]) > 3
    else:
        assert (called["name"], called["address"], called["is_proved"]) == ("memmove", None, False)
        assert any("memmove (the system" in text for text in document["assumptions"])


@pytest.mark.parametrize("board", BOARDS)
def test_a_changed_bit_of_a_weight_is_found(user: User, linked: Callable[[str], Path], board: str) -> None:
    changed = toy.flipped(linked(board), "conv_2_weights", offset=77)
    assert differences(user, board, changed) == {("conv_2_weights", "constants or initial values")}


@pytest.mark.parametrize("board", BOARDS)
def test_changed_bits_of_code_are_found(user: User, linked: Callable[[str], Path], board: str) -> None:
    changed = toy.flipped(linked(board), "dense_3_finish", offset=0)
    assert differences(user, board, changed) == {("dense_3_finish", "code")}


@pytest.mark.parametrize("board", BOARDS[2:])
def test_a_replaced_table_is_found(user: User, linked: Callable[[str], Path], board: str) -> None:
    elf = linked(board)
    other = toy.bytes_at(elf, toy.address_of(elf, "conv_2_multiplier"), 4)
    changed = toy.patched(elf, toy.address_of(elf, "dense_3_multiplier"), other)
    assert differences(user, board, changed) == {("dense_3_multiplier", "constants or initial values")}


@pytest.mark.parametrize("board", BOARDS[:1])
def test_a_changed_name_in_a_merged_section_is_found(user: User, linked: Callable[[str], Path], board: str) -> None:
    elf = linked(board)
    content = elf.read_bytes()
    at = content.index(b"\0dense_3_accumulate\0") + 1
    changed = elf.with_name("renamed")
    changed.write_bytes(content[:at] + b"D" + content[at + 1 :])
    found = differences(user, board, changed)
    assert {kind for _, kind in found} == {"constants or initial values"}  # the table of symbols is behind it


def test_a_pointer_to_another_function_is_found(user: User, linked: Callable[[str], Path]) -> None:
    elf = linked("cortex-m4")
    one, other = (struct.pack("<I", toy.address_of(elf, f"dense_{n}_forward") | 1) for n in (3, 4))
    table, size = toy.address_of(elf, "tasks"), 400
    at = toy.bytes_at(elf, table, size).index(one)
    assert differences(user, "cortex-m4", toy.patched(elf, table + at, other)) == {("tasks", "reference")}


def test_a_pointer_that_the_loader_writes_is_found(user: User, linked: Callable[[str], Path]) -> None:
    elf = linked("host")
    one, other = (toy.address_of(elf, f"dense_{n}_forward") for n in (3, 4))
    content = elf.read_bytes()
    with elf.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".rela.dyn")
        begin, end = table["sh_offset"], table["sh_offset"] + table["sh_size"]
    at = content.index(struct.pack("<QQ", 8, one), begin, end)
    changed = elf.with_name("loaded")
    changed.write_bytes(content[: at + 8] + struct.pack("<Q", other) + content[at + 16 :])
    assert differences(user, "host", changed) == {("tasks", "reference")}
    weights = toy.address_of(elf, "conv_2_weights")
    changed.write_bytes(content[: at - 8] + struct.pack("<Q", weights) + content[at:])
    kinds = {(symbol, kind) for symbol, kind in differences(user, "host", changed) if symbol == "conv_2_weights"}
    assert kinds == {("conv_2_weights", "loader")}


@pytest.mark.parametrize(
    ("board", "objdump", "caller", "callee"),
    [
        ("cortex-m4", "arm-none-eabi-objdump", "dense_3_finish", "rintf"),
        ("host", "objdump", "conv_2_forward", "conv_2_finish"),
        ("kv260", "aarch64-linux-gnu-objdump", "conv_2_forward", "conv_2_finish"),
    ],
)
def test_a_call_of_another_function_is_found(
    user: User, linked: Callable[[str], Path], board: str, objdump: str, caller: str, callee: str
) -> None:
    elf = linked(board)
    place = toy.first_call(elf, caller, callee, objdump)
    changed = toy.patched(elf, place, _call(board, place, toy.address_of(elf, "dense_4_accumulate")))
    found = differences(user, board, changed)
    assert found <= {(caller, "call"), (caller, "code")}
    assert found


def _call(board: str, place: int, target: int) -> bytes:
    if board == "host":
        return b"\xe8" + struct.pack("<i", target - place - 5)
    if board == "kv260":
        return struct.pack("<I", 0x94000000 | (target - place) >> 2 & 0x3FFFFFF)
    distance = target - place - 4
    sign, i1, i2 = (distance >> bit & 1 for bit in (24, 23, 22))
    low = 0xD000 | (i1 ^ 1 ^ sign) << 13 | (i2 ^ 1 ^ sign) << 11 | distance >> 1 & 0x7FF
    return struct.pack("<HH", 0xF000 | sign << 10 | distance >> 12 & 0x3FF, low)


@pytest.mark.parametrize("part", ["page", "offset"])
def test_a_reference_to_another_address_is_found(user: User, linked: Callable[[str], Path], part: str) -> None:
    elf = linked("kv260")
    command = ["aarch64-linux-gnu-objdump", "-d", "--disassemble=conv_2_forward", str(elf)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    wanted = "adrp" if part == "page" else "add"
    place = next(int(line.split(":")[0], 16) for line in lines if line.split("\t")[2:3] == [wanted])
    word = int.from_bytes(toy.bytes_at(elf, place, 4), "little") ^ (1 << 29 if part == "page" else 1 << 16)
    found = differences(user, "kv260", toy.patched(elf, place, struct.pack("<I", word)))
    assert {symbol for symbol, _ in found} == {"conv_2_forward"}


def test_an_initial_value_is_found(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    script = (KERNELS / "bare" / "program.ld").read_text()
    script = script.replace("*(.data .data.*)", f"*lib{MODEL}.a:*(.bss) *(.data .data.*)")
    (user.folder / "initial.ld").write_text(script)
    elf = m4(user, "initial", f"-Wl,-T,{user.folder}/initial.ld")
    assert not differences(user, "cortex-m4", elf), "zeros that the start-up code copies"
    assert differences(user, "cortex-m4", toy.flipped(elf, "dense_3_offset", offset=5)) == {
        ("dense_3_offset", "zero")
    }  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("name", "change", "flags"),
    [
        ("optimised", None, ("-O3",)),
        ("unoptimised", None, ("-O0",)),
        ("processor", None, ("-mcpu=cortex-m7",)),
        ("tables", None, ("-fdata-sections",)),
        ("lto", None, ("-flto", "-ffat-lto-objects", "-fuse-linker-plugin", "-O3")),
        ("block", ("enum { BLOCK = 1 }", "enum { BLOCK = 2 }"), ()),
        ("zero_point", ("quantize_input_zero[1] = {", "quantize_input_zero[1] = {1 + "), ()),
        ("stage", ("dense_3_finish(acc, dense_3_output[v]);", "dense_3_finish(acc + 1, dense_3_output[v]);"), ()),
        ("width", ("n < 784u", "n < 783u"), ()),
    ],
)
def test_another_compilation_is_found(
    user: User, linked: Callable[[str], Path], name: str, change: tuple[str, str] | None, flags: tuple[str, ...]
) -> None:
    linked("cortex-m4")
    assert differences(user, "cortex-m4", from_source(user, name, change, *flags))


def test_the_same_compilation_is_contained(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    text = ("#pragma GCC optimize", "#pragma message")  # the flags have it
    assert not differences(user, "cortex-m4", from_source(user, "same", text))


OTHER_ROUNDING = "float rintf(float x)\n{\n    return (float)(int)(x + (x < 0 ? -0.5f : 0.5f));\n}\n"


def test_another_rounding_function_is_found(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    (user.folder / "rounding.c").write_text(OTHER_ROUNDING)
    archive = user.folder / "cortex-m4" / "lib" / f"lib{MODEL}.a"
    elf = m4(user, "rounding", sources=lambda _: [user.folder / "rounding.c", archive])
    found = differences(user, "cortex-m4", elf)
    assert {symbol for symbol, _ in found} == {"rintf"}
    elf = m4(user, "wrapped", "-Wl,--defsym=rintf=memset")
    assert differences(user, "cortex-m4", elf)


def test_a_library_can_provide_functions(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    machine, folder = MACHINES["cortex-m4"], user.folder
    (folder / "rounding2.c").write_text(OTHER_ROUNDING)
    command = [machine.compiler, *machine.flags, "-c", folder / "rounding2.c", "-o", folder / "rounding2.o"]
    subprocess.run(command, check=True)
    archive = folder / "cortex-m4" / "lib" / f"lib{MODEL}.a"
    elf = m4(user, "provided", sources=lambda _: [folder / "rounding2.o", archive])
    assert differences(user, "cortex-m4", elf)
    ended = trace(user, "cortex-m4", elf, "--library", str(folder / "rounding2.o"))
    [called] = ended.document["called"]
    assert (ended.code, called["provided_by"], called["is_proved"]) == (0, "rounding2.o", False)
    assert any("rintf (rounding2.o)" in text for text in ended.document["assumptions"])


def test_a_function_of_the_application_in_place_of_an_imported_one_is_found(
    user: User, linked: Callable[[str], Path]
) -> None:
    linked("host")
    (user.folder / "move.c").write_text(
        "#include <stddef.h>\nvoid *memmove(void *to, const void *from, size_t n)\n{\n"
        "    for (size_t i = 0; i < n; ++i) ((char *)to)[i] = ((const char *)from)[i];\n    return to;\n}\n"
    )
    archive = user.folder / "host" / "lib" / f"lib{MODEL}.a"
    elf = toy.link(MACHINES["host"], user.folder / "host", user.folder / "moved.elf",
                   [user.folder / "move.c", archive], "-fno-builtin")  # fmt: skip
    assert differences(user, "host", elf) == {("memmove", "called function")}


def test_veneers_are_followed(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    script = (KERNELS / "bare" / "program.ld").read_text()
    script = script.replace(
        "SECTIONS\n{", "SECTIONS\n{\n    .far 0x3f000000 : { *:math.o(.text) *:copy_padded.o(.text) }"
    )
    (user.folder / "far.ld").write_text(script)
    elf = m4(user, "far", f"-Wl,-T,{user.folder}/far.ld")
    document = trace(user, "cortex-m4", elf).document
    [called] = document["called"]
    assert document["verdict"] == "contained"
    assert called["address"] >= 0x3F000000
    [veneer] = called["veneers"]
    literal = toy.bytes_at(elf, veneer, 8).index(struct.pack("<I", called["address"] | 1))
    other = struct.pack("<I", toy.address_of(elf, "dense_4_finish") | 1)
    found = differences(user, "cortex-m4", toy.patched(elf, veneer + literal, other))
    assert {kind for _, kind in found} == {"call"}


def test_two_networks_are_told_apart(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    where = ("--board", "cortex-m4", "--model", "lenet5", "--items", "c,c", "--vectors", "1")
    assert user.here("export", *where, str(user.folder / "second")).code == 0
    archives = [user.folder / "cortex-m4" / "lib" / f"lib{MODEL}.a", user.folder / "second" / "lib" / "liblenet5.a"]
    elf = m4(user, "two", "-Wl,-u,lenet5_network", sources=lambda _: archives)
    document = trace(user, "cortex-m4", elf).document
    assert (document["verdict"], document["entry"]) == ("contained", f"{MODEL}_network")
    assert document["other_networks"] == ["lenet5_network"]


def test_a_changed_copy_of_the_network_beside_it_is_told_apart(user: User, linked: Callable[[str], Path]) -> None:
    linked("cortex-m4")
    where = ("--board", "cortex-m4", "--model", MODEL, "--items", "c,c", "--vectors", "1", "--name", "copy")
    assert user.here("export", *where, str(user.folder / "copy")).code == 0
    archive = user.folder / "copy" / "lib" / "libcopy.a"
    text = (user.folder / "copy" / "src" / "network.c").read_text()
    weights = [int(word) for word in text.split("dense_3_bias[120] = {")[1].split("}")[0].split(",")]
    own, other = (struct.pack("<2i", first, weights[1]) for first in (weights[0], weights[0] + 1))
    content = archive.read_bytes()
    assert content.count(own) == 1
    archive.write_bytes(content.replace(own, other))
    right = user.folder / "cortex-m4" / "lib" / f"lib{MODEL}.a"
    for order in ([right, archive], [archive, right]):
        elf = m4(user, "copies", "-Wl,-u,copy_network", sources=lambda _, order=order: order)
        document = trace(user, "cortex-m4", elf).document
        assert (document["verdict"], document["entry"]) == ("contained", f"{MODEL}_network")
        assert document["other_networks"] == ["copy_network"]
    alone = toy.link(MACHINES["cortex-m4"], user.folder / "copy", user.folder / "alone.elf")
    assert differences(user, "cortex-m4", alone) == {("dense_3_bias", "constants or initial values")}


def test_what_cannot_be_compared_is_refused(user: User, linked: Callable[[str], Path]) -> None:
    elf = linked("host")
    stripped = user.folder / "stripped"
    subprocess.run(["strip", "-o", stripped, elf], check=True)
    with pytest.raises(RequestError, match="it has no symbols"):
        trace(user, "host", stripped)
    with pytest.raises(RequestError, match=r"it is for X86_64, and network\.o for ARM"):
        trace(user, "cortex-m4", elf)
    with pytest.raises(RequestError, match="not linked"):
        trace(user, "host", user.cache / "bundles" / _bundle(user, elf) / "device" / "network.o")
    with pytest.raises(RequestError, match="unknown run 'absent'"):
        user.here("trace", "--run", "absent", "--elf", str(elf))
    (user.folder / "text").write_text("no ELF")
    with pytest.raises(RequestError, match="no ELF file"):
        trace(user, "host", user.folder / "text")
    with pytest.raises(RequestError, match="cannot read"):
        trace(user, "host", user.folder / "absent")


def _bundle(user: User, elf: Path) -> str:
    return str(trace(user, "host", elf).document["bundle"])[:16]


def test_the_page_and_the_table_have_the_verdict(user: User, linked: Callable[[str], Path]) -> None:
    changed = toy.flipped(linked("host"), "conv_2_weights", offset=1)
    page = user.folder / "page.html"
    ended = user.here(
        "trace", MODEL, "--board", "host", "--items", "c,c", "--block", "1", "--elf", str(changed), "--html", str(page)
    )
    assert ended.code == 1
    assert "differs: 1 difference at 1 symbol" in ended.out
    assert "conv_2_weights" in page.read_text()
    assert "differs: 1 difference at 1 symbol" in page.read_text()


def test_evidence_is_verified_and_a_forged_application_is_found(user: User, linked: Callable[[str], Path]) -> None:
    folder = evidence(user, linked("cortex-m4"))
    claims = {each["claim"]: each["state"] for each in verified(user, folder).document["claims"]}
    assert {claims[name] for name in ("files", "bundle", "object", "contained", "description", "reports")} == {"ok"}
    changed = toy.flipped(folder / "application.elf", "conv_2_weights", offset=3)
    changed.replace(folder / "application.elf")
    document = json.loads((folder / "contained.json").read_text())
    document["files"]["application.elf"] = hashlib.sha256((folder / "application.elf").read_bytes()).hexdigest()
    (folder / "contained.json").write_text(json.dumps(document))
    ended = verified(user, folder)
    wrong = {each["claim"]: each["text"] for each in ended.document["claims"] if each["state"] == "not ok"}
    assert ended.code == 1
    assert "verdict" in wrong["contained"]


def test_an_assurance_case_reads_it(user: User, linked: Callable[[str], Path]) -> None:
    folder = evidence(user, linked("cortex-m4"))
    leaf = leaves.read(folder, user.folder)
    assert (leaf.entry.kind, leaf.entry.origin, leaf.entry.board) == ("application", "analysis", "cortex-m4")
    found = leaves.evidence_of("application", {leaf.name: leaf})
    assert found is not None
    assert found[1] is True
    other = leaves.read(evidence(user, toy.flipped(linked("cortex-m4"), "conv_2_weights", offset=3)), user.folder)
    refuted = leaves.evidence_of("application", {leaf.name: leaf, other.name: other})
    assert refuted is not None
    assert (refuted[0].name, refuted[1]) == (other.name, False), "evidence of the opposite is not hidden"
    assert leaf.plan().board == "cortex-m4"


def evidence(user: User, elf: Path) -> Path:
    trace(user, "cortex-m4", elf, "--evidence")
    return max((user.folder / "runs").glob("*_trace_*"), key=lambda path: path.stat().st_mtime_ns)


def verified(user: User, folder: Path) -> Ended:
    return user.here("verify", str(folder), "--no-rebuild", "--json")
