"""The flags that a profile may give to its compiler: those that cannot change what the program computes.

Every other flag is refused.  In particular a flag must not read a file (`@file`, -include, -specs, -fplugin), replace a
name (-D, -U, -Wl,--wrap), add a folder or a library (-I, -L, -l, -B), or choose another language or output (-x, -o).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from harness.boards.profile import Toolchain
from harness.core.errors import RequestError

ZIG = ("python-zig", "zig")  # programs whose C compiler is the subcommand `cc`

_X86 = (
    r"mmx|sse[23]?|ssse3|sse4(\.[12])?|avx2?|avxvnni|avx512[a-z0-9]{1,12}|fma|f16c|bmi2?|lzcnt|popcnt|movbe|adx|aes|vaes"
    r"|pclmul|vpclmulqdq|gfni|sha|prfchw|prefetchwt1|amx-(tile|int8|bf16)"
)
_TUNING = (
    r"unroll-loops|unroll-all-loops|peel-loops|split-loops|inline|inline-functions|inline-small-functions"
    r"|omit-frame-pointer|tree-vectorize|tree-loop-vectorize|tree-slp-vectorize|vectorize|slp-vectorize"
    r"|prefetch-loop-arrays|schedule-insns2?|strict-aliasing|wrapv|builtin|function-sections|data-sections|plt"
    r"|stack-protector(-strong|-all)?|(asynchronous-)?unwind-tables|exceptions|common|ident"
)
_LINKER = (
    r"-O[0-2]|-z,(now|relro|norelro|noexecstack)|--gc-sections|--(no-)?as-needed|--hash-style=(gnu|sysv|both)"
    r"|--build-id=none|--strip-debug"
)
_TRIPLE = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_.]+){1,3}")
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"

# How each kind is shown to the user, and its exact form.
ALLOWED = {
    "-O0 to -O3, -Os, -Og, -Oz": r"-O[0-3sgz]?",
    "-march= -mcpu= -mtune=": rf"-m(arch|cpu|tune)={_NAME}",
    "-m and an instruction set of x86 (-mavx2, -mno-avx512f)": rf"-m(no-)?({_X86})",
    "-mprefer-vector-width=": r"-mprefer-vector-width=(none|128|256|512)",
    "-moutline-atomics, -mstrict-align, -mfix-cortex-a53-835769, -mfix-cortex-a53-843419": (
        r"-m(no-)?(outline-atomics|strict-align|fix-cortex-a53-(835769|843419))"
    ),
    "-mabi=lp64d": r"-mabi=lp64d?",
    "-marm, -mthumb, -mfloat-abi=hard, -mfpu= and a unit without Neon (-mfpu=fpv4-sp-d16)": (
        r"-marm|-mthumb|-mfloat-abi=(hard|softfp)|-mfpu=(vfpv3(xd)?-d16|vfpv4-d16|fpv4-sp-d16|fpv5-(sp-)?d16|vfpv3xd)"
    ),
    "-f and a kind of optimisation (-funroll-loops, -fno-tree-vectorize)": rf"-f(no-)?({_TUNING})",
    "-falign-functions=, -falign-loops=": r"-falign-(functions|loops|jumps|labels)(=\d{1,5})?",
    "-fPIC, -fPIE, -fno-pie, -fvisibility=hidden, -ffp-contract=off": (
        r"-f(PIC|pic|(no-)?(PIE|pie)|visibility=hidden|fp-contract=off)"
    ),
    "-g": r"-g[0-3]?",
    "-W and a warning, -w": r"-w|-W(?![lap],)[a-z][a-z0-9+=-]*",
    "--target=, -target": rf"--target={_TRIPLE.pattern}",
    "-static, -static-libgcc, -static-libstdc++, -pie, -no-pie, -pthread, -pipe": (
        r"-static(-libgcc|-libstdc\+\+)?|-pie|-no-pie|-pthread|-pipe"
    ),
    "-Wl, with -O1, -z,now, -z,relro, --gc-sections, --as-needed, --hash-style=": rf"-Wl(,({_LINKER}))+",
}
_ALLOWED = re.compile("|".join(ALLOWED.values()))
HINT = f"remove it; allowed are {'; '.join(ALLOWED)}"


def command(toolchain: Toolchain) -> tuple[str, ...]:
    """Return the words of the profile's `compiler`, of the program its name only."""
    program, *words = toolchain.compiler.split()
    return (PurePath(program).name, *words)


def check(board: str, toolchain: Toolchain) -> None:
    """Raise RequestError for the first flag, or word of the compiler, that is not allowed."""
    for where, refused in (
        ("compiler", first_refused_word(command(toolchain))),
        ("flag", first_refused(toolchain.flags)),
    ):
        if refused is not None:
            raise RequestError(
                f"board {board}: toolchain {where} {refused!r} is not allowed: only flags that cannot change what the "
                "program computes are",
                HINT,
            )


def is_zig(program: str) -> bool:
    """Return whether the program is zig, whose C compiler is a subcommand."""
    return PurePath(program).name in ZIG


def first_refused_word(given: Sequence[str]) -> str | None:
    """Return the first word after a compiler's program that is not allowed: all are flags except `cc` of zig."""
    program, *words = given
    return first_refused(words[1:] if is_zig(program) and words[:1] == ["cc"] else words)


def first_refused(flags: Sequence[str]) -> str | None:
    """Return the first flag that is not allowed, with its value if that is why; None if all are allowed."""
    remaining = iter(flags)
    for flag in remaining:
        if flag == "-target":
            value = next(remaining, "")
            if not _TRIPLE.fullmatch(value):
                return f"-target {value}".strip()
        elif not _ALLOWED.fullmatch(flag):
            return flag
    return None
