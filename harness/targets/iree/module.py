"""A network, or some layers of it, as the text of one MLIR module.

A layer is a function with its name, whose location is the name of the ONNX node.  Its formal tensors have all vectors
of a call, its constants are those of the layer.  The function `main` calls all of them and returns their activations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from harness import targets
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.tensor import Tensor
from harness.targets.iree.builder import ZERO, Function, quoted
from harness.targets.iree.lowering import IreeLowering

Lowerings: TypeAlias = Mapping[type[Layer], IreeLowering[Any]]
MAIN = "main"
UNKNOWN = f"""
// IREE contracts a float32 product with the sum that takes it.  The bits of such a product pass an exclusive or with
// this zero, which is no constant to the compiler, so that both operations are rounded.
util.global private @{ZERO} <inlining_policy = #util.inline.never> = dense<0> : tensor<i32>
"""


def module_text(
    layers: Sequence[Layer],
    inputs: Sequence[Tensor] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    vectors: int = 1,
    lowerings: Lowerings | None = None,
) -> str:
    """Return the module of some layers, in the order of the model.

    `main` takes `inputs`, by default the activations that layers read and none writes, in the order of their first use,
    and returns the activations with the names `outputs`, by default of all layers.  A call computes `vectors` vectors.
    Raises RequestError for a layer that has no form in MLIR, with its node.
    """
    return "".join(module_pieces(layers, inputs, outputs, vectors=vectors, lowerings=lowerings))


def network_pieces(network: Network, vectors: int = 1) -> Iterator[str]:
    """Yield the text of a network's module in pieces, with the name and the hash of the model at its top."""
    pieces = module_pieces(network.layers, network.inputs, vectors=vectors)
    first = next(pieces)  # a refusal comes before any text
    yield f"// model {quoted(network.name)}, SHA-256 of the ONNX file {network.sha256}\n{first}"
    yield from pieces


def module_pieces(
    layers: Sequence[Layer],
    inputs: Sequence[Tensor] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    vectors: int = 1,
    lowerings: Lowerings | None = None,
) -> Iterator[str]:
    """Yield the text of `module_text` in pieces."""
    found: Any = targets.find("iree:static").lowerings if lowerings is None else lowerings
    given = sources(layers) if inputs is None else inputs
    names = [layer.output.name for layer in layers] if outputs is None else outputs
    for layer in layers:
        _require_supported(layer, found)
    functions = [_function(layer, found[type(layer)], vectors) for layer in layers]
    yield "module {\n"
    if any(function.has_products for function, _ in functions):
        yield UNKNOWN
    for _, pieces in functions:
        yield "\n"
        yield from pieces
    yield "\n"
    yield _main_text(layers, given, names, vectors)
    yield "}\n\n"
    yield from map(location_text, layers)


def sources(layers: Sequence[Layer]) -> tuple[Tensor, ...]:
    """Return the activations that layers read and none of them writes, in the order of their first use."""
    written = {layer.output.name for layer in layers}
    read = {tensor.name: tensor for layer in layers for tensor in layer.inputs if tensor.name not in written}
    return tuple(read.values())


def symbol(layer: Layer) -> str:
    """Return the name of a layer's function."""
    return layer.name if layer.name != MAIN else f"{MAIN}.layer"  # no layer's name has a dot


def _function(layer: Layer, lowering: IreeLowering[Any], vectors: int) -> tuple[Function, list[str]]:
    """Return the function of a layer, and its text in pieces, with the formula."""
    function = Function(f"#{alias(layer)}", vectors)
    given = [function.argument(f"in{n}", tensor.shape, tensor.dtype) for n, tensor in enumerate(layer.inputs)]
    result = lowering.emit(layer, function, given)
    return function, function.pieces(symbol(layer), list(comment(layer)), given, [result])


def _require_supported(layer: Layer, lowerings: Lowerings) -> None:
    lowering = lowerings.get(type(layer))
    why = "it has no form in MLIR here" if lowering is None else lowering.unsupported(layer, "")
    if lowering is None or why:
        raise RequestError(
            f"node {layer.node!r} ({layer.operator}) cannot be converted: {why}",
            f"operators with a form in MLIR: {', '.join(supported(lowerings))}",
        )


def supported(lowerings: Lowerings) -> list[str]:
    """Return the names of the ONNX operators that have a form in MLIR."""
    return sorted({name for layer in lowerings for _, name in layer.ONNX})


def _main_text(layers: Sequence[Layer], inputs: Sequence[Tensor], outputs: Sequence[str], vectors: int) -> str:
    function = Function('"main"', vectors)
    given = [function.argument("in", tensor.shape, tensor.dtype) for tensor in inputs]
    values = {tensor.name: value for tensor, value in zip(inputs, given, strict=True)}
    for layer in layers:
        read = [values[tensor.name] for tensor in layer.inputs]
        values[layer.output.name] = function.call(symbol(layer), read, layer.output, f"#{alias(layer)}")
    words = f"{_listed(tensor.name for tensor in inputs)} -> {_listed(outputs)}"
    return function.text(MAIN, [words], given, [values[name] for name in outputs])


def comment(layer: Layer) -> Iterator[str]:
    """Yield the node, the activations and the formula of a layer."""
    yield f"{layer.operator} {quoted(layer.node)}: {_listed(layer.sources)} -> {quoted(layer.output.name)}"
    for line in layer.text.explain(layer.operator).splitlines():
        yield f"  {line}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def alias(layer: Layer) -> str:
    """Return the name of a layer's location."""
    return f"at_{layer.name}"


def location_text(layer: Layer, file: str = "", line: int = 0) -> str:
    """Return the definition of the location of a layer: the name of its node, and the place of its function."""
    place = f"({quoted(file)}:{line}:1)" if file else ""
    return f"#{alias(layer)} = loc({quoted(layer.node)}{place})\n"
