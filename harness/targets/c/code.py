"""The lowerings of the target: base class, and C text that several of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.window import Window
from harness.targets.base import Lowering
from harness.targets.generated import C_TYPES, LayerCode, Stage, Table, compute_stage, definition

TERM_LIMIT = 100_000
"""Products in one unrolled layer: each is about 10 bytes of code, and compilers take minutes for more."""
ALIGNED = "__attribute__((aligned(64)))"

L = TypeVar("L", bound=Layer)


class CLowering(Lowering[L]):
    """The code of an operator in all variants of target c; a variant without a method of its own has the plain code.

    `sources` are the names of the buffers that the layer reads, of shape (vectors, input size) each.
    """

    @abstractmethod
    def plain(self, layer: L, sources: Sequence[str], prefix: str = "") -> LayerCode:
        """Return code that calls functions with sizes as arguments; `prefix` is that of the functions' names."""

    def vector(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Return the fastest code."""
        return self.plain(layer, sources)

    def generic(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Return code that calls one function per operator, which is not inlined.

        The plain code calls `generic_<function>`: define it in kernels/c/generic.h.
        """
        return self.plain(layer, sources, "generic_")

    def inlined(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Return loops with constant bounds (ACETONE, section 3.3)."""
        return self.plain(layer, sources)

    def unrolled(self, layer: L, sources: Sequence[str]) -> LayerCode:
        """Return code without loops and tables (ACETONE, section 3.4)."""
        return self.plain(layer, sources)


def too_long(terms: int, variant: str, noun: str = "products") -> str | None:
    """Return why code without loops for so many products, or other terms, is refused; None if it is not."""
    if variant == "unrolled" and terms > TERM_LIMIT:
        return f"{terms:,} {noun}, but code without loops is limited to {TERM_LIMIT:,} a layer; take c:inlined"
    return None


def elementwise(layer: Layer, sources: Sequence[str], tables: tuple[Table, ...], body: str) -> LayerCode:
    """Return a layer of one stage; `body` computes the vector `out` from `in`, or from `in_0`, `in_1` and so on."""
    if len(sources) > 1:
        return of_inputs(layer, sources, body, tables)
    compute = compute_stage(layer)
    forward = each_vector(f"{compute.name}({sources[0]}[v], {layer.name}_output[v]);")
    return LayerCode(definitions(tables, function(compute, body)), forward, tables, (compute,))


def of_inputs(layer: Layer, sources: Sequence[str], body: str, tables: tuple[Table, ...] = ()) -> LayerCode:
    """Return a layer of one stage; `body` computes `out` from the vectors `in_0`, `in_1` and so on."""
    compute, read, c_type = compute_stage(layer), C_TYPES[layer.input.dtype.name], C_TYPES[layer.dtype.name]
    sizes = [tensor.size for tensor in layer.inputs]
    vectors = [f"&in[v * {sum(sizes)} + {sum(sizes[:number])}]" for number in range(len(sizes))]
    parameters = ", ".join(f"const {read} *in_{number}" for number in range(len(sizes)))
    text = (
        f"\nstatic ONE_CODE void {compute.name}({parameters}, {c_type} *restrict out)\n{{\n    {body}\n}}\n"
        f"static void {compute.name}_stage(size_t vectors, const void *inputs, void *outputs)\n{{\n"
        f"    const {read} *in = inputs;\n    {c_type} *out = outputs;\n"
        f"    for (size_t v = 0; v < vectors; ++v)\n"
        f"        {compute.name}({', '.join(vectors)}, &out[v * {layer.size}]);\n}}"
    )
    arguments = ", ".join(f"{source}[v]" for source in sources)
    forward = each_vector(f"{compute.name}({arguments}, {layer.name}_output[v]);")
    return LayerCode(definitions(tables, text), forward, tables, (compute,))


def two_stages(
    layer: Layer,
    sources: Sequence[str],
    of_layer: tuple[Stage, Stage],
    tables: tuple[Table, ...],
    sums: str,
    values: str,
    initialise: str = "",
) -> LayerCode:
    """Return a contraction from the bodies of its stages; between them are only the accumulators of one vector."""
    (accumulate, finish), [source] = of_layer, sources
    calls = f"{accumulate.name}({source}[v], acc);", f"{finish.name}(acc, {layer.name}_output[v]);"
    return LayerCode(
        definitions(tables, function(accumulate, sums), function(finish, values)),
        each_vector(f"int32_t acc[{layer.size}];", *calls),
        tables,
        of_layer,
        initialise=initialise,
    )


def window(of_layer: Window) -> str:
    """Return the definition of the variable `window` (kernels/c/window.h)."""
    return f"const struct window window = {{{', '.join(map(str, of_layer.table().reshape(-1)))}}};"


def affine(layer: Any) -> tuple[Table, Table]:
    """Return the tables of a layer's scale and zero point."""
    scale = Table(f"{layer.name}_scale", np.atleast_1d(layer.scale))
    # Not _zero_point: layer dense_output would have the same table as dense, which is a QGemm.
    return scale, Table(f"{layer.name}_zero", np.array([layer.zero_point], np.int32), "zero point")


def filled(values: Array, size: int | None) -> Array:
    """Return the values with the last dimension filled up with zeros to `size`."""
    room = 0 if size is None else size - values.shape[-1]
    result: Array = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, room)])
    return result


def loop(layer: Layer, statement: str) -> str:
    """Return a loop over the values of the output."""
    return f"for (size_t n = 0; n < {layer.size}u; ++n)\n        {statement}"


def assigned(values: Iterable[str]) -> str:
    """Return statements that assign the values of `out` one by one."""
    return "\n    ".join(f"out[{n}] = {value};" for n, value in enumerate(values))


def rounded(dtype: np.dtype[Any], value: str) -> str:
    """Return a float32 quantised to this type, by the only rounding of saturate.h and the variable `zero_point`."""
    limits = np.iinfo(dtype)
    return f"({C_TYPES[dtype.name]})round_saturated({value}, {limits.min}, {limits.max}, zero_point)"


def not_known(c_type: str, name: str, value: str) -> str:
    """Define a variable whose value compilers cannot propagate (saturate.h)."""
    return f"{c_type} {name} = {value};\n    NOT_KNOWN({name});"


def zero_point(value: str) -> str:
    """Define the variable `zero_point` that `rounded` reads."""
    return not_known("int32_t", "zero_point", value)


def definitions(tables: Sequence[Table], *functions: str, aligned: bool = False) -> str:
    """Return the tables, optionally aligned to cache lines, then the functions."""
    return "\n".join([*(definition(table, f" {ALIGNED}" if aligned else "") for table in tables), *functions])


def function(of_layer: Stage, body: str, wrapper: str | None = None) -> str:
    """Return the only code of a stage, and its form for the proof: `wrapper`, or one call per vector."""
    input_type, output_type = C_TYPES[of_layer.input_dtype.name], C_TYPES[of_layer.output_dtype.name]
    sizes = f"{input_type}, {of_layer.input_width}, {output_type}, {of_layer.output_width}"
    return (
        f"\nstatic ONE_CODE void {of_layer.name}(const {input_type} *in, {output_type} *restrict out)\n"
        f"{{\n    {body}\n}}\n"
        f"{wrapper or f'DEFINE_STAGE({of_layer.name}, {sizes})'}"
    )


def each_vector(*calls: str) -> str:
    """Return the body of a forward that makes these calls for every vector v."""
    body = "\n".join(f"        {call}" for call in calls)
    # By the second bound the compiler knows that no index leaves the buffers.
    return f"    for (size_t v = 0; (v < vectors) && (v < BLOCK); ++v) {{\n{body}\n    }}"
