"""The least time that one inference can take on this core, by rates that contest/workers/bounds.c measures there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from peers.case import Case
from peers.competitors import WORKERS, Workshop
from peers.report import Bound
from peers.worker import pinned


def measure(shop: Workshop, core: int) -> tuple[Bound, ...]:
    """Build the program with the board's flags, run it on `core`; ToolError if it does not compile."""
    program = shop.folder("bounds") / "bounds"
    shop.compiler.build(program.parent, [WORKERS / "bounds.c"], (), (), program)
    with pinned(core):
        done = subprocess.run([program], capture_output=True, text=True, check=True)
    return bounds(shop.case, json.loads(done.stdout))


def bounds(case: Case, rates: Mapping[str, Any]) -> tuple[Bound, ...]:
    """Of the products of all layers, and of reading all weights once, which fill whole registers."""
    return _of_products(case.multiply_adds, rates), _of_bytes(case.padded_bytes, rates)


def _of_products(count: int, rates: Mapping[str, Any]) -> Bound:
    name = f"{count:,} multiply-adds"
    if rates["macs_per_ns"] is None:
        return Bound(name, "unknown: the compiler has no instruction that sums products of bytes", None)
    return Bound(name, f"{rates['macs_per_ns']:.0f} a ns, {rates['instruction']}", count / rates["macs_per_ns"])


def _of_bytes(count: int, rates: Mapping[str, Any]) -> Bound:
    rate = f"{rates['l1_bytes_per_ns']:.0f} a ns, loads of {rates['load_bytes']} bytes"
    return Bound(f"{count:,} bytes of weights from L1", rate, count / rates["l1_bytes_per_ns"])
