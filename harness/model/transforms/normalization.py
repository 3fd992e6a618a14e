"""`normalization`: Sub, Div, Mul and Add with constants behind the input become part of the first Conv, Gemm or MatMul.

    x * f + o for each value, or for each channel of a Conv          w' = w * f          b' = b + sum of w * o

in float64, and w' and b' are rounded to float32 once.  The function of real numbers is the same; the bits change.  A
Conv with padding keeps an offset: its padding is 0 after the normalisation, and would be 0 before it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx.helper

from harness.model.importer import changes, steps
from harness.model.importer import graph as importer
from harness.model.importer.steps import Scaling
from harness.model.transforms.edit import Applied, Fold, named, only_reader, rewire
from harness.model.transforms.weighted import Weighted, has_rows

BETWEEN = ("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def apply(model: onnx.ModelProto, name: str) -> Applied:
    """Fold the nodes behind the input; raises RequestError for weights beyond float32."""
    graph = model.graph
    found = importer.read(model, name)
    taken, links = changes.leading(found)
    if not links:
        return Applied((), ("no Sub, Div, Mul or Add with constants reads the input alone",))
    removed = [link.node.proto for link in links]
    after = only_reader(graph, removed[-1].output[0])
    while after is not None and after.op_type in BETWEEN:
        after = only_reader(graph, after.output[0])
    which = ", ".join(map(named, removed))
    product = Weighted.read(graph, after) if after is not None and after.op_type != "ConvTranspose" else None
    if after is None or product is None:
        return Applied((), (f"{which}: no Conv, Gemm or MatMul with initializers as weights reads the result alone",))
    if has_rows(model, name, after):
        return Applied((), (f"{which}: {named(after)} multiplies several rows of a vector",))
    groups, _, inputs, _ = product.weights.shape
    width = int(np.prod(found.input_shape))
    offset = steps.evaluate(taken, np.zeros((1, width)))[0].reshape(groups * inputs, -1)
    factor = np.prod([step.factor for step in taken if isinstance(step, Scaling)] or [np.ones(width)], axis=0)
    factor = factor.reshape(groups * inputs, -1)
    if (offset != offset[:, :1]).any() or (factor != factor[:, :1]).any():
        return Applied((), (f"{which}: the constants differ within a channel of {named(after)}",))
    if offset.any() and _is_padded(after):
        reason = "pads with 0 after the normalisation; an offset cannot be folded exactly"
        return Applied((), (f"{which}: {named(after)} {reason}",))
    offset, factor = (each[:, 0].reshape(groups, 1, inputs, 1) for each in (offset, factor))
    bias = product.bias + (product.weights * offset).sum(axis=(2, 3)).reshape(-1)
    replace(product, weights=product.weights * factor, bias=bias).write(graph, after, name)
    rewire(graph, removed[-1].output[0], found.input_name)
    for node in removed:
        graph.node.remove(node)
    fold = Fold(after.name, found.input_name, after.output[0], leading=tuple(taken))
    return Applied(tuple(node.name for node in removed), folds=(fold,))


def _is_padded(node: onnx.NodeProto) -> bool:
    given = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    return any(given.get("pads", ())) or given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
