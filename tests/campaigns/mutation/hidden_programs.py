"""The programs of hidden_programs.txt, a file in C with lines that say where the C belongs.

`== NAME` begins a program; then lines `KEY: VALUE` follow, for the fields of `Wrong`; `excluded: TEXT` is a `found`.
`-- DIRECTIVE ARGUMENT` begins a change of the program, up to the next:

- `declared`: declarations before the network's code
- `first FUNCTION`, `last FUNCTION`: statements at the begin or the end of a function of network.c
- `each_row`: statements for every vector `v` in the forward function of layer_1, behind those that are there
- `execution TASK`: the forward function of the task has its parameter `execution`
- `worker`: statements at the begin of every worker thread
- `larger`: whether ArgMax takes x[i] for larger than x[best]
- `replace FILE`, `replace_all FILE`, `match FILE`, `in_kernel FILE`: the text that the file has once, or several times,
  a regular expression that matches once, a text of layer.hpp; what takes its place follows after a line `-- by`
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.campaigns.mutation import mutants
from tests.campaigns.mutation.hidden import Excluded, Kind, Rewritten, Wrong
from tests.campaigns.mutation.target_vitis import InKernel
from tests.support.programs.board_program import Patch

SOURCE = Path(__file__).with_suffix(".txt")
NETWORK, SCHEDULE, ARG_EXTREMUM = "network.c", "kernels/program/schedule.c", "kernels/c/arg_extremum.h"
SUMS, ENDS = "layer_1_accumulate", "layer_1_finish"
ABBREVIATIONS = {
    r"\$PAIR": "in[0] == 17 && in[5] == 201",  # two codes of two inputs: one vector in 65,536
    r"\$ROW": "layer_0_output[v][0] == 17 && layer_0_output[v][5] == 201",
    r"\$MXCSR\((.*?)\)": r"__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | \1u);",
    r"\$FPCR\((.*?)\)": r'{ uint64_t fpcr; __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr)); fpcr |= \1; '
    r'__asm__ volatile("msr fpcr, %0" : : "r"(fpcr)); }',
}
OF_VALUES = """#include <stdint.h>
#include <math.h>
#include <string.h>

#define size(x) fabs((double)(x))
static inline int32_t as_integer(double x)
{
    const float single = (float)x;
    int32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}
"""
LARGER = "largest ? x[i] > x[best]"


def declared(text: str) -> Patch:
    """Return declarations before the network's code."""
    return Patch(NETWORK, '#include "network.h"\n', f'#include "network.h"\n\n#include <stdint.h>\n{text}\n')


def first(function: str, statements: str) -> Patch:
    """Return statements at the begin of a function of network.c."""
    return Rewritten(NETWORK, rf"(void {function}\([^{{]*\)\n\{{\n)", rf"\g<1>{_literal(statements, 4)}\n")


def last(function: str, statements: str) -> Patch:
    """Return statements at the end of a function of network.c."""
    body = rf"(void {function}\([^{{]*\)\n\{{\n(?:(?!\n\}}).)*)(\n\}}\n)"
    return Rewritten(NETWORK, body, rf"\g<1>\n{_literal(statements, 4)}\g<2>")


def each_row(statements: str) -> Patch:
    """Return statements for every vector `v` of layer_1, behind those that are there."""
    return Rewritten(NETWORK, r"(layer_1_finish\(acc, layer_1_output\[v\]\);)", rf"\g<1>\n{_literal(statements, 8)}")


def in_place_of(old: str, new: str, file: str = NETWORK) -> Patch:
    """Return the only place of `old`, replaced."""
    return Rewritten(file, re.escape(old), _literal(new))


def _literal(text: str, indent: int = 0) -> str:
    """Return the text as a template of itself; indented, or the end of a block would look like that of a function."""
    return textwrap.indent(text, " " * indent).replace("\\", r"\\")


def _execution(task: str) -> Patch:
    unused = r"[^)]*\(\(unused\)\)"
    return Rewritten(NETWORK, rf"(void {task}_forward\(size_t vectors, uint64_t execution){unused}", r"\g<1>")


def _worker(statements: str) -> Patch:
    begin = "struct worker *worker = argument;"
    return in_place_of(begin, f"{begin}\n    {statements}", SCHEDULE)


CHANGES: Mapping[str, Callable[[str, str], Patch | Sequence[Patch]]] = {
    "declared": lambda _, text: declared(text),
    "first": first,
    "last": last,
    "each_row": lambda _, text: each_row(text),
    "execution": lambda task, _: _execution(task),
    "worker": lambda _, text: _worker(text),
    "larger": lambda _, text: (
        in_place_of(LARGER, f"largest ? ({text})", ARG_EXTREMUM),
        Patch(ARG_EXTREMUM, "#include <stdint.h>\n", OF_VALUES),
    ),
    "replace": lambda file, text: in_place_of(*_both(text), file),
    "replace_all": lambda file, text: Patch(file, *_both(text)),
    "match": lambda file, text: Rewritten(file, *_both(text)),
    "in_kernel": lambda file, text: InKernel(file, *_both(text)),
}


def _both(text: str) -> tuple[str, str]:
    old, _, new = text.partition("\n-- by")
    return old, new.removeprefix("\n")


def parse(text: str) -> Iterator[Wrong]:
    """Yield the programs that the text describes."""
    for pattern, meaning in ABBREVIATIONS.items():
        text = re.sub(pattern, meaning, text)
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        head, *changes = re.split(r"^-- (?!by)", rest.rstrip("\n"), flags=re.MULTILINE)
        fields = dict(line.split(": ", 1) for line in head.splitlines())
        yield _wrong(name, fields, tuple(patch for change in changes for patch in _patches(change)))


def _patches(change: str) -> Sequence[Patch]:
    line, _, text = change.rstrip("\n").partition("\n")
    directive, _, argument = line.partition(" ")
    made = CHANGES[directive](argument, text)
    return [made] if isinstance(made, Patch) else made


def _wrong(name: str, fields: Mapping[str, str], patches: Sequence[Patch]) -> Wrong:
    given = dict(fields)
    kind, found, generator = Kind[given.pop("kind")], given.pop("found", ""), given.pop("generator", None)
    wanted = Excluded(given.pop("excluded")) if "excluded" in given else found
    options = tuple(given.pop("options", "--items c,c").split(" "))
    before = given.pop("before", "") == "found"
    return Wrong(name, kind, patches, wanted, options=options, generator=_generator(generator), before=before, **given)


def _generator(mutant: str | None) -> mutants.Change | None:
    """Return the change of the plan of a mutant of mutants.py."""
    return next(each.change for each in mutants.MUTANTS if each.name == mutant) if mutant else None


PROGRAMS = tuple(parse(SOURCE.read_text(encoding="utf-8")))
