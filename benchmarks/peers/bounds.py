"""The least time that one inference can take on this core, by rates that workers/bounds.c measures there."""

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
        done = subprocess.run([program, str(shop.case.weight_bytes)], capture_output=True, text=True, check=True)
    return bounds(shop.case, json.loads(done.stdout))


def bounds(case: Case, rates: Mapping[str, Any]) -> tuple[Bound, ...]:
    """Return the bounds of all products, and of reading all weights once from the cache that holds as many bytes.

    A float sum in the specified order rounds each product: it needs a multiplication and an addition.  Other engines
    contract both.
    """
    if case.form != "float":
        return _of_products(case.multiply_adds, rates, "", rates["instruction"]), _of_bytes(case, rates)
    lanes = f"{rates['load_bytes'] * 8} bits"
    each = (("mul_add_", f"multiplication and addition, {lanes}"), ("fma_", f"contracted (FMA), {lanes}"))
    return *(_of_products(case.multiply_adds, rates, *names) for names in each), _of_bytes(case, rates)


def _of_products(count: int, rates: Mapping[str, Any], kind: str, instruction: str | None) -> Bound:
    rate = rates[f"{kind}macs_per_ns"]
    name = f"{count:,} {'contracted ' * (kind == 'fma_')}multiply-adds"
    if rate is None:
        return Bound(name, "unknown: the compiler has no instruction that sums products", None)
    return Bound(name, f"{rate:.0f} a ns, {instruction}", count / rate)


def _of_bytes(case: Case, rates: Mapping[str, Any]) -> Bound:
    rate = f"{rates['bytes_per_ns']:.0f} a ns, loads of {rates['load_bytes']} bytes"
    return Bound(f"{case.weight_bytes:,} bytes of weights", rate, case.weight_bytes / rates["bytes_per_ns"])
