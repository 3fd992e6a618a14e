"""An estimate in cycles of a core model: llvm-mca for each block, and the costliest path with these costs.

It is no bound of the hardware.  The model of LLVM assumes that every load hits the first-level cache, that no branch is
mispredicted and that instructions are there when they are needed; each block starts with an empty pipeline.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from harness.applications.wcet.bounds import Bounds
from harness.applications.wcet.graph import Block
from harness.applications.wcet.paths import costliest
from harness.core.errors import RequestError, ToolError

PROGRAMS = ("llvm-mca", *(f"llvm-mca-{version}" for version in range(21, 13, -1)))
CORES = (
    *("cortex-a35", "cortex-a53", "cortex-a55", "cortex-a57", "cortex-a72", "cortex-a73", "cortex-a75", "cortex-a76"),
    *("cortex-a77", "cortex-a78", "cortex-x1", "neoverse-n1", "neoverse-v1", "carmel"),
)
ASSUMPTIONS = (
    "an estimate of LLVM's model of the core, not a bound of the hardware",
    "every load hits the first-level data cache, and every instruction the first-level instruction cache",
    "no branch is mispredicted",
    "each basic block starts with an empty pipeline and ends when its last instruction has retired",
    "nothing else uses the core: no interrupts, no other threads",
    "calls of the C library take no time",
)
LONGEST_S = 300.0


def estimate(bounds: Bounds, core: str) -> tuple[tuple[int, ...], str]:
    """Return the cycles of each layer, in their order, and the version of llvm-mca.

    RequestError for an unknown core, ToolError without llvm-mca.
    """
    if core not in CORES:
        raise RequestError(f"no model of core {core!r}", f"choose one of {', '.join(CORES)}")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise ToolError("llvm-mca is not on this machine", "run: apt-get install llvm, or leave out --core")
    blocks = {
        (block.steps[0].address, block.last.address): block
        for layer in bounds.layers
        for function in layer.execution.functions.values()
        for block in function.blocks.values()
    }
    costs = _costs(program, core, blocks)

    def cost(block: Block) -> int:
        return costs[block.steps[0].address, block.last.address]

    version = re.search(r"LLVM version (\S+)", _output([program, "--version"], ""))
    return tuple(costliest(layer.execution, cost).cost for layer in bounds.layers), version[1] if version else "unknown"


def _costs(program: str, core: str, blocks: Mapping[tuple[int, int], Block]) -> Mapping[tuple[int, int], int]:
    """Return the cycles of one execution of each block."""
    names = {f"block_{index}": key for index, key in enumerate(blocks)}
    lines = [line for name, key in names.items() for line in _region(name, blocks[key])]
    command = [program, "-json", "-iterations=1", "-march=aarch64", f"-mcpu={core}"]
    found = json.loads(_output(command, "\n".join([*lines, "", ".L0:", ""])))
    regions = found["CodeRegions"] if isinstance(found, dict) else found
    costs = {names[region["Name"]]: int(region["SummaryView"]["TotalCycles"]) for region in regions}
    if costs.keys() != blocks.keys():
        raise ToolError(f"{program} has no result for each block", "use another version of llvm-mca")
    return costs


def _region(name: str, block: Block) -> Iterable[str]:
    return [f"# LLVM-MCA-BEGIN {name}", *map(_text, _texts(block)), f"# LLVM-MCA-END {name}"]


def _texts(block: Block) -> Sequence[str]:
    return [step.text for step in block.steps]


def _text(text: str) -> str:
    """Return an instruction with a label in place of an address of the program."""
    name, _, operands = text.partition(" ")
    if name in {"b", "bl", "cbz", "cbnz", "tbz", "tbnz", "adr", "adrp"} or name.startswith("b."):
        return f"{name} {re.sub(r'#0x[0-9a-f]+$', '.L0', operands)}"
    return text


def _output(command: Sequence[str], given: str) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    if done.returncode != 0:
        raise ToolError(f"{command[0]} failed: {done.stderr.strip()[:500]}", "use another version of llvm-mca")
    return done.stdout
