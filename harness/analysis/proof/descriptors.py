"""The constants by which `network.c` tells the board program what to call, read from the deployed file.

Stages and forwards are known by their names, but the schedule and the proof call what the structures of
kernels/program/network.h point to.  Each of their members takes 8 bytes on the processors that can be checked, padding
included, so that a structure is a sequence of words; the generated source says what each word is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.analysis.inspection.flow import Analysis
from harness.analysis.inspection.program import POINTER_BYTES
from harness.build import codegen

NETWORK, ROOT = "network.c", "network"
TASK_WORDS = 8  # members of struct task
STEPS = ("STEP_TASK", "STEP_RAISE", "STEP_WAIT", "STEP_MEET")
ARRAY = re.compile(r"^(?:static )?const (?:struct \w+|size_t) (\w+)(?:\[\])? = \{(.*?)\};$", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r'"[^"]*"|&?\w+(?:\[\d+\])*')


@dataclass(frozen=True)
class Descriptors:
    """The descriptors of a generated program, and its compiled file."""

    generated: codegen.Program
    analysis: Analysis

    def wrong_word(self) -> str:
        """Return the first word that is not what the generated source says; nothing if all are right."""
        for place, where, member in self._words:
            reason = self._reason_against(place, member)
            if reason:
                return f"{where} {reason}"
        return ""

    def stray_code(self) -> str:
        """Return how a function of network.c, or one in the place of a library's, can be called against the plan."""
        program, known = self.analysis.program, {place for place, *_ in self._words}
        if program.exported:
            return f"{min(program.exported)} of the program takes the place of a library's function"
        code = {function.address: function.name for function in program.functions if function.file == NETWORK}
        for place, to in program.pointers.items():
            section, holder = program.section_at(place), program.object_at(place)
            if to in code and place not in known and not (section and section.name.startswith(".got")):
                return f"{holder.name if holder else hex(place)} holds the address of {code[int(to)]}"
        return ""

    @cached_property
    def _arrays(self) -> Mapping[str, Sequence[str]]:
        """The members of the structures in each array, one behind the other, as the source has them."""
        text = re.sub(r"/\*.*?\*/", "", self.generated.source, flags=re.DOTALL)
        return {name: MEMBER.findall(members) for name, members in ARRAY.findall(text)}

    @cached_property
    def _words(self) -> Sequence[tuple[int, str, str]]:
        """The places of all words with their descriptions and the members that must be there."""
        roots = [each.address for each in self.analysis.program.objects if each.name == ROOT]
        kernels = (pair for code in self.generated.items for pair in code.kernel_names.items())
        return [
            *(word for root in roots for word in self._of_array(root, ROOT, self._arrays[ROOT])),
            *(word for name, names in kernels for word in self._of_kernels(name, names)),
        ]

    def _of_array(self, address: int, name: str, members: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        for index, member in enumerate(members):
            place = address + POINTER_BYTES * index
            yield place, f"word {index} of {name}", member
            array, _, first = member.removeprefix("&").removesuffix("]").partition("[")
            if array in self._arrays:
                yield from self._of_array(self._read(place), array, self._arrays[array][TASK_WORDS * int(first or 0) :])

    def _of_kernels(self, name: str, kernels: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Yield the names of a device's kernels, each the first member of its structure."""
        address = self._address(name)
        size = next((each.size for each in self.analysis.program.objects if each.address == address), 0)
        for number, kernel in enumerate(kernels):
            yield address + size // len(kernels) * number, f"the name of kernel {number} in {name}", f'"{kernel}"'

    def _read(self, place: int) -> int:
        """Return the word that the loader leaves at `place`; 0 for the address of an import."""
        pointer = self.analysis.program.pointers.get(place)
        if pointer is None:
            return int.from_bytes(self.analysis.program.content(place, POINTER_BYTES), "little")
        return pointer if isinstance(pointer, int) else 0

    def _reason_against(self, place: int, member: str) -> str:
        word, program = self._read(place), self.analysis.program
        if len(program.content(place, POINTER_BYTES)) != POINTER_BYTES:
            return f"is at {place:#x}, where the program has no constants"
        if member.startswith('"'):
            text = program.content(word, len(member) - 1)
            return "" if text == member[1:-1].encode() + b"\0" else f"is the text {text!r}, the plan says {member}"
        name = member.removeprefix("&").partition("[")[0]
        if name in self._arrays:
            return ""  # its words are compared
        number = int(name) if name.isdigit() else self._numbers.get(name)
        expected = self._address(name) if number is None else number
        symbol = self.analysis.function_at(word) or program.object_at(word)
        actual = symbol.name if symbol and not number else program.pointers.get(place, word)
        return "" if word == expected else f"is {actual}, the plan says {member}"

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        steps = {step: value for value, step in enumerate(STEPS)}
        return {"NULL": 0, "BLOCK": self.generated.plan.block} | steps

    def _address(self, name: str) -> int:
        """Return the address of the function or object of the plan; -1 if the program has none."""
        functions = self.analysis.by_name
        objects = (each.address for each in self.analysis.program.objects if each.name == name)
        return functions[name].address if name in functions else next(objects, -1)
