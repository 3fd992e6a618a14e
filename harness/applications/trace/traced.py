"""Traceability: each ONNX node, its code and its constants in a program file, and the node of each byte of that file.

`Traced.of` reads the program file and the same program with debug data.  Nothing is taken from comments of the
compiler: names come from the plan, lines from DWARF, bytes from the sections of the file that is deployed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from harness import __version__, targets
from harness.analysis.inspection import program as elf
from harness.analysis.inspection.flow import Analysis
from harness.analysis.proof.structure import NETWORK
from harness.analysis.proof_document import ProofDocument
from harness.applications.trace import argument, debug_data
from harness.applications.trace.attribution import Attribution
from harness.applications.trace.debug_data import DebugData
from harness.applications.trace.document import SCHEMA, DeviceEntry, NodeEntry, TaskEntry, TraceabilityDocument
from harness.applications.trace.sources import Sources
from harness.build import codegen
from harness.build.bundle import PROGRAM, Bundle
from harness.core.errors import ToolError
from harness.core.installation import module_of, revision
from harness.plan.items.description import columns_text

TEXTS = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ptx", ".sv"}
DEFINITION = r"(?<![\w.&]){name}\s*[(=]"
"""A function, or a table of functions."""


@dataclass(frozen=True, eq=False)
class Traced:
    """A program, its file, and its debug data; `proof` is the content of proof.json of a run, if there is one."""

    generated: codegen.Program
    bundle: Bundle
    analysis: Analysis
    debug: DebugData
    proof: ProofDocument | None = None

    @classmethod
    def of(
        cls, generated: codegen.Program, bundle: Bundle, with_debug_data: Path, proof: ProofDocument | None = None
    ) -> Traced:
        """Read both files; ToolError if they cannot be read, or if one has other code or data than the other."""
        program = elf.read(bundle.folder / PROGRAM)
        twin = elf.read(with_debug_data)
        if program.sections != twin.sections or program.functions != twin.functions:
            others = [one.name for one, other in zip(program.sections, twin.sections, strict=False) if one != other]
            raise ToolError(
                f"{with_debug_data}: compiled with -g, the program has other code than the deployed one"
                f"{': ' + ', '.join(others) if others else ''}",
                "delete this file and run the command again; otherwise its lines are not those of the program",
            )
        return cls(generated, bundle, Analysis(program), debug_data.read(with_debug_data), proof)

    @cached_property
    def attribution(self) -> Attribution:
        """Return the owners of code and data."""
        return Attribution(self.generated, self.analysis, self.debug, self.bundle.files.keys())

    @cached_property
    def sources(self) -> Sources:
        """Return the sources of the bundle."""
        return Sources(sorted(self.bundle.files), self.text_of)

    def text_of(self, file: str) -> list[str]:
        """Return the lines of a source of the bundle; none of a file elsewhere."""
        path = self.bundle.folder / file
        inside = file in self.bundle.files and path.is_file()
        return path.read_text(errors="replace").splitlines() if inside else []

    def document(self) -> TraceabilityDocument:
        """Return all links of the program."""
        plan, found = self.generated.plan, self.attribution
        functions, constants = found.function_entries(), found.constant_entries()
        tasks = list(self._tasks())
        arguments, assumed = argument.entries(
            self.generated, tasks, functions, constants, self.bundle.flags, self.sources, self.proof
        )
        return TraceabilityDocument(
            schema=SCHEMA,
            harness={"version": __version__, "revision": revision()},
            model=plan.network.name,
            model_sha256=plan.network.sha256,
            board=plan.board,
            machine=self.analysis.program.machine,
            compiler=self.bundle.compiler,
            flags=list(self.bundle.flags),
            bundle_sha256=self.bundle.sha256,
            program_sha256=self.analysis.program.sha256,
            nodes=list(self._nodes()),
            tasks=tasks,
            functions=functions,
            constants=constants,
            devices=list(self._devices()),
            sections=found.section_entries(),
            unattributed=found.gaps(),
            differing=found.differing(),
            argument=arguments,
            assumptions=assumed,
        )

    def _nodes(self) -> Iterator[NodeEntry]:
        plan = self.generated.plan
        for index, layer in enumerate(plan.network.layers):
            yield NodeEntry(
                layer=index,
                name=layer.name,
                node=layer.node,
                operator=layer.operator,
                reads=list(layer.sources),
                writes=layer.output.name,
                shape=list(layer.output.shape),
                dtype=layer.dtype.name,
                formula=layer.text.explain(layer.operator),
                specification=module_of(type(layer)),
                tasks=[task.name for task in plan.tasks_of(index)],
            )

    def _tasks(self) -> Iterator[TaskEntry]:
        plan, lines = self.generated.plan, self.attribution.lines
        for task in plan.tasks:
            item, part = plan.items[task.item], plan.part(task)
            whole = part is plan.network.layers[task.layer]
            yield TaskEntry(
                name=task.name,
                layer=task.layer,
                item=item.name,
                target=item.target,
                columns=None if whole else columns_text(task.region),
                lowering=module_of(type(targets.find(item.target).lowering_of(part))),
                lines=lines[task.name],
            )

    def _devices(self) -> Iterator[DeviceEntry]:
        """Yield the kernels for other processors in all files of the bundle."""
        plan = self.generated.plan
        kernels = {
            name: list(layers)
            for item, code in zip(plan.items, self.generated.items, strict=True)
            for name, layers in targets.find(item.target).kernels_of(code).items()
        }
        if kernels:
            for path in sorted(each for each in self.bundle.folder.rglob("*") if each.is_file()):
                file = str(path.relative_to(self.bundle.folder))
                if path.suffix in TEXTS and file != NETWORK:
                    yield from _in_text(file, path.read_text(errors="replace"), kernels)
                elif file != PROGRAM:
                    yield from _in_elf(file, path.read_bytes(), kernels)


def _in_text(file: str, text: str, kernels: dict[str, list[str]]) -> Iterator[DeviceEntry]:
    for name, tasks in kernels.items():
        match = re.search(DEFINITION.format(name=re.escape(name)), text)
        if match:
            line = text.count("\n", 0, match.start()) + 1
            yield DeviceEntry(file=file, name=name, kind="source", line=line, address=None, size=None, tasks=tasks)


def _in_elf(file: str, content: bytes, kernels: dict[str, list[str]]) -> Iterator[DeviceEntry]:
    try:
        image = ELFFile(io.BytesIO(content))
        tables = [each for each in image.iter_sections() if isinstance(each, SymbolTableSection)]
    except (ELFError, UnicodeDecodeError):
        return
    seen: set[str] = set()
    for symbol in (each for table in tables for each in table.iter_symbols() if each["st_size"]):
        tasks = kernels.get(symbol.name)
        if tasks is not None and symbol.name not in seen:
            seen.add(symbol.name)
            where, size = symbol["st_value"], symbol["st_size"]
            yield DeviceEntry(
                file=file, name=symbol.name, kind="symbol", line=None, address=where, size=size, tasks=tasks
            )
