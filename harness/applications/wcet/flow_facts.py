"""Flow facts of a program for other tools, by address: OTAWA's FFX and annotations as those of aiT.

A loop has as many iterations as its edges back to its header are taken: N where the header tests first, N - 1 where the
test comes last.  A function that is called with different sizes has the facts of each call below that call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import quoteattr

from harness.applications.wcet.bounds import Bounds, LayerBound
from harness.applications.wcet.execution import Context
from harness.applications.wcet.graph import COPY


def ffx(bounds: Bounds) -> str:
    """Return the flow facts as OTAWA reads them: one function for each layer, its calls inside."""
    lines = ['<?xml version="1.0"?>', f"<!-- flow facts of the program with SHA-256 {bounds.sha256} -->", "<flowfacts>"]
    for layer in bounds.layers:
        lines += _function(layer, layer.execution.root, "  ")
    return "\n".join([*lines, "</flowfacts>", ""])


def ais(bounds: Bounds) -> str:
    """Return annotations as those of aiT, AIS2: of each loop the most iterations of all calls."""
    lines = [f"# loop bounds of the program with SHA-256 {bounds.sha256}"]
    most: dict[int, tuple[int, str]] = {}
    for layer in bounds.layers:
        for (context, header), count in layer.execution.recorded.iterations.items():
            name = layer.execution.functions[context.function].name
            address = header % COPY
            most[address] = max(most.get(address, (0, name)), (count, name))
    for address, (count, name) in sorted(most.items()):
        lines.append(f"loop {address:#x} {{ bound: 0 .. {count}; }} # edges back, in {name}")
    return "\n".join([*lines, ""])


def loops(layer: LayerBound) -> Mapping[tuple[Context, int], int]:
    """Return the edges back to each header by entry of the loop, at most, by context and address."""
    found: dict[tuple[Context, int], int] = {}
    for (context, header), count in layer.execution.recorded.iterations.items():
        key = context, header % COPY
        found[key] = max(count, found.get(key, 0))
    return found


def _function(layer: LayerBound, context: Context, indent: str) -> Iterator[str]:
    name = layer.execution.functions[context.function].name
    yield f'{indent}<function address="{context.function:#x}" name={quoteattr(name)}>'
    for (of, header), count in sorted(loops(layer).items(), key=lambda each: each[0][1]):
        if of == context:
            yield f'{indent}  <loop address="{header:#x}" maxcount="{count}"/>'
    contexts = {of for of, _ in layer.execution.recorded.edges}
    for called in sorted(
        (of for of in contexts if of.calls[:-1] == context.calls and of.calls), key=lambda of: of.calls
    ):
        if called.calls[-1] in layer.execution.functions[context.function].calls:
            yield f'{indent}  <call address="{called.calls[-1]:#x}">'
            yield from _function(layer, called, f"{indent}    ")
            yield f"{indent}  </call>"
    yield f"{indent}</function>"
