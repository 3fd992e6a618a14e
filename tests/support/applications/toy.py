"""An application that links an exported library: by the board's compiler, run on this machine or in qemu."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from harness.build import bundle
from harness.core.installation import ROOT

KERNELS = ROOT / "kernels"
BARE = [*(KERNELS / "bare" / f"{name}.c" for name in ("start", "semihosting/host", "stdio", "library")),
        KERNELS / "program" / "fail.c"]  # fmt: skip
FOLDERS = (KERNELS / "bare", KERNELS / "program")
SEMIHOSTING = ("-nodefaults", "-display", "none", "-monitor", "none", "-serial", "none",
               "-semihosting-config", "enable=on,target=native,arg=toy")  # fmt: skip
M4 = ("-O2", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
R5 = ("-O2", "-mcpu=cortex-r5", "-marm", "-mfloat-abi=hard", "-mfpu=vfpv3-d16")
EXACT = ("-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Machine:
    """A board: how an application is linked for it, and started; `data` is the begin of its memory without a system."""

    board: str
    items: tuple[str, ...]
    compiler: str
    flags: tuple[str, ...]
    start: tuple[str, ...]
    data: int | None = None


MACHINES = {
    "host": Machine("host", ("c", "c"), "gcc", ("-O2",), ()),
    "kv260": Machine(
        "kv260", ("c", "c"), "aarch64-linux-gnu-gcc", ("-O2",), ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
    ),
    "cortex-m4": Machine(
        "cortex-m4", ("c", "c"), "arm-none-eabi-gcc", M4,
        ("qemu-system-arm", "-M", "mps2-an386", "-cpu", "cortex-m4", *SEMIHOSTING, "-kernel"), 0x20000000,
    ),
    "cortex-r5": Machine(
        "cortex-r5", ("c", "c"), "arm-none-eabi-gcc", R5,
        ("qemu-system-arm", "-M", "none", "-cpu", "cortex-r5f", "-m", "128M", *SEMIHOSTING, "-device"), 0x4000000,
    ),
}  # fmt: skip


def bare_flags(folder: Path) -> list[str]:
    """Return the flags for files of kernels/bare; write what they include of a board's profile into a folder."""
    (folder / "board.h").write_text(bundle.board_header(None, ()))
    return ["-std=gnu11", "-ffreestanding", "-nostdlib", *(f"-I{path}" for path in (*FOLDERS, folder))]


def link(machine: Machine, export: Path, output: Path, sources: Sequence[Path | str] = (), *flags: str) -> Path:
    """Link the self-test of an export with its archive, or with `sources` in place of it."""
    [archive] = (export / "lib").iterdir()
    words = [machine.compiler, *machine.flags, f"-I{export}/src"]
    if machine.data is not None:
        regions = f"code (rx) : ORIGIN = 0, LENGTH = 4M\n data (rw) : ORIGIN = {machine.data:#x}, LENGTH = 4M"
        (output.parent / "memory.ld").write_text(f"MEMORY\n{{\n {regions}\n}}\nSTACK_BYTES = 131072;\n")
        words += [*bare_flags(output.parent), *map(str, BARE), f"-L{output.parent}"]
        if not any("-T," in flag for flag in flags):
            words.append(f"-Wl,-T,{KERNELS}/bare/program.ld")
    words += [str(export / "test" / "selftest.c"), *map(str, sources or [archive]), *flags, "-o", str(output)]
    words.append("-lgcc" if machine.data is not None else "-lm")
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=120)
    return output


def run(machine: Machine, program: Path) -> tuple[int, str]:
    """Return the status of an application, and what it prints."""
    name = f"loader,file={program},cpu-num=0" if machine.board == "cortex-r5" else str(program)
    done = subprocess.run([*machine.start, name], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout


def address_of(program: Path, symbol: str) -> int:
    """Return the address of a symbol of an application, of which it has one."""
    with program.open("rb") as file:
        [found] = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(symbol)
        return int(found["st_value"]) & ~int(found["st_info"]["type"] == "STT_FUNC")


def place_in_file(program: Path, address: int) -> int:
    """Return where the bytes of an address are in the file."""
    with program.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            inside = section["sh_addr"] <= address < section["sh_addr"] + section["sh_size"]
            if inside and section["sh_flags"] & 2 and section["sh_type"] != "SHT_NOBITS":
                return int(section["sh_offset"] + address - section["sh_addr"])
    raise LookupError(f"{address:#x} has no bytes in {program}")


def patched(program: Path, address: int, change: bytes) -> Path:
    """Return a copy of an application with other bytes at an address; it ends with what was changed."""
    at = place_in_file(program, address)
    content = bytearray(program.read_bytes())
    assert bytes(content[at : at + len(change)]) != change
    content[at : at + len(change)] = change
    copy = program.with_name(f"{program.name}.patched")
    copy.write_bytes(content)
    copy.chmod(0o755)
    return copy


def bytes_at(program: Path, address: int, size: int) -> bytes:
    """Return the bytes at an address of an application."""
    at = place_in_file(program, address)
    return program.read_bytes()[at : at + size]


def flipped(program: Path, symbol: str, offset: int = 0, bit: int = 0) -> Path:
    """Return a copy of an application with one other bit."""
    address = address_of(program, symbol) + offset
    return patched(program, address, bytes([bytes_at(program, address, 1)[0] ^ 1 << bit]))


def first_call(program: Path, caller: str, callee: str, objdump: str) -> int:
    """Return the address of the first call of one function in another, by objdump."""
    command = [objdump, "-d", f"--disassemble={caller}", str(program)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    match = re.search(rf"(?m)^\s*([0-9a-f]+):.*<{re.escape(callee)}(@plt)?>\s*$", text)
    assert match, text
    return int(match[1], 16)
