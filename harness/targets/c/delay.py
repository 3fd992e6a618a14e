"""Delay in C: a stage that moves the frames of the execution before, and one that begins a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harness.operators.base import Layer
from harness.operators.delay import Delay
from harness.operators.obligations import StageKind
from harness.operators.recurrent_steps import RecurrentSteps
from harness.targets.c import code
from harness.targets.c.code import CLowering
from harness.targets.generated import C_TYPES, LayerCode, Table, literal, stage


class DelayLowering(CLowering[Delay]):
    """The buffer has two copies: an execution reads the one that was written before, and writes the other."""

    operator = Delay

    def plain(self, layer: Delay, sources: Sequence[str], prefix: str = "") -> LayerCode:  # noqa: ARG002 - no function
        """Loop over runs of frames."""
        outer, new, inner = layer.sizes
        kept, given = layer.history * inner, new * inner
        return _code(
            layer,
            sources,
            f"for (size_t b = 0; b < {outer}u; ++b) {{\n"
            f"        for (size_t n = 0; n < {kept}u; ++n)\n"
            f"            out[b * {kept + given}u + n] = before[b * {kept + given}u + {given}u + n];\n"
            f"        for (size_t n = 0; n < {given}u; ++n)\n"
            f"            out[b * {kept + given}u + {kept}u + n] = in[b * {given}u + n];\n"
            f"    }}",
            code.loop(layer, f"out[n] = {layer.name}_value[0];"),
            (Table(f"{layer.name}_value", np.atleast_1d(layer.value), "padding of the layer that reads the frames"),),
        )

    def unrolled(self, layer: Delay, sources: Sequence[str]) -> LayerCode:
        """Write every copy."""
        outer, new, inner = layer.sizes
        kept, given = layer.history * inner, new * inner
        copies = (
            f"before[{b * (kept + given) + given + n}]" if n < kept else f"in[{b * given + n - kept}]"
            for b in range(outer)
            for n in range(kept + given)
        )
        return _code(layer, sources, code.assigned(copies), code.assigned([literal(layer.value)] * layer.size), ())


def _code(layer: Delay, sources: Sequence[str], move: str, begin: str, tables: tuple[Table, ...]) -> LayerCode:
    """Return the code of the bodies of both stages, which compute `out` from `in`, the first also from `before`."""
    name, c_type, [source] = layer.name, C_TYPES[layer.dtype.name], sources
    both = layer.size + layer.input.size
    compute = stage(layer, StageKind.COMPUTE, layer.dtype, both, layer.dtype, layer.size)
    shift = (
        f"\nstatic ONE_CODE void {compute.name}(const {c_type} *before, const {c_type} *in, {c_type} *restrict out)\n"
        "{\n"
        f"    {move}\n}}\n"
        f"static void {compute.name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    const {c_type} *in = inputs;\n    {c_type} *out = outputs;\n"
        f"    for (size_t v = 0; v < vectors; ++v)\n"
        f"        {compute.name}(&in[v * {both}u], &in[(v * {both}u) + {layer.size}u], &out[v * {layer.size}u]);\n}}"
    )
    moves = code.each_vector(f"{compute.name}({before(layer)}[v], {source}[v], {name}_output[v]);")
    return beginning(layer, source, LayerCode(shift, moves, (), (compute,)), begin, tables)


def before(layer: Layer) -> str:
    """Return the copy of a buffer that the execution before has written."""
    return f"{layer.name}_copies[(execution + 1u) % 2u]"


def beginning(
    layer: Delay | RecurrentSteps, source: str, computed: LayerCode, begin: str, tables: tuple[Table, ...]
) -> LayerCode:
    """Return the code of a step with the stage that begins a stream, whose body fills `out`."""
    name = layer.name
    reset = stage(layer, StageKind.RESET, layer.dtype, layer.input.size, layer.dtype, layer.size)
    # Each execution fills one copy, so that all take as long: without a new stream the one that it writes next.
    fills = "\n".join(
        (
            "    size_t begins = 0;",
            f"    if ((execution % {layer.steps}u) <= {layer.start}u)",
            "        begins = 1;",
            code.each_vector(f"{reset.name}({source}[v], {name}_copies[(execution + begins) % 2u][v]);"),
        )
    )
    begins = code.definitions(tables, code.function(reset, f"(void)in;\n    {begin}"))
    return replace(
        computed,
        definitions=f"{begins}\n{computed.definitions}",
        forward=f"{fills}\n{computed.forward}",
        tables=(*computed.tables, *tables),
        stages=(*computed.stages, reset),
    )
