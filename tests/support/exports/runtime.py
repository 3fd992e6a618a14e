"""Networks of operators of ONNX Runtime, as its optimisers and its quantisers write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.exports.writer import INT32, Export

SIZE, STEPS = 8, 4
"""Values of a token, tokens of a text."""
MICROSOFT = "com.microsoft"


def text(g: Export) -> str:
    """Add the tokens of a text as input."""
    return g.input("batch", STEPS, SIZE)


def contributed(g: Export, operator: str, *inputs: str, **attributes: Any) -> str:
    """Add a node of ONNX Runtime."""
    return g.op(operator, *inputs, domain=MICROSOFT, **attributes)


def blocks(g: Export, x: str, inputs: int, outputs: int) -> str:
    """Add a product with weights of 4 bits, a scale for 16 of them."""
    count = -(-inputs // 16)
    codes = np.random.default_rng(outputs).integers(0, 256, (outputs, count, 8))
    parts = g.initializer(codes, np.uint8), g.weight(outputs * count, positive=True)
    return contributed(g, "MatMulNBits", x, *parts, K=inputs, N=outputs, block_size=16, bits=4)


def codes_of(g: Export, *shape: int) -> str:
    """Add weights of int8."""
    return g.initializer(np.random.default_rng(len(shape)).integers(-127, 128, shape), np.int8)


def fused_image(g: Export) -> str:
    x = contributed(g, "FusedConv", g.input("batch", 3, 8, 8), g.weight(4, 3, 3, 3), g.weight(4), activation="Relu",
                    pads=[1] * 4)  # fmt: skip
    y = contributed(g, "FusedConv", x, g.weight(4, 4, 3, 3), g.weight(4), x, activation="Relu", pads=[1] * 4)
    return g.gemm(g.op("Flatten", y), 256, 3)


def fused_layers(g: Export) -> str:
    x = contributed(g, "FusedGemm", g.input("batch", 6), g.weight(6, 8), g.weight(8), activation="LeakyRelu",
                    activation_alpha=0.1)  # fmt: skip
    return contributed(g, "FusedMatMul", x, g.weight(3, 8), transB=1, alpha=0.5)


def fused_scores(g: Export) -> str:
    x = text(g)
    scores = contributed(g, "FusedMatMul", g.linear(x, SIZE, SIZE), g.linear(x, SIZE, SIZE), transB=1, alpha=SIZE**-0.5)
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), x)


def blocks_of_bits(g: Export) -> str:
    hidden = contributed(g, "QuickGelu", blocks(g, text(g), SIZE, 24), alpha=1.702)
    return blocks(g, hidden, 24, SIZE)


def simplified_norm(g: Export) -> str:
    x = text(g)
    y = g.op("SimplifiedLayerNormalization", x, g.weight(SIZE, positive=True), axis=-1, epsilon=1e-6)
    gated = g.op("Mul", g.activate(blocks(g, y, SIZE, 16), "Silu"), blocks(g, y, SIZE, 16))
    y = g.op("Add", x, blocks(g, gated, 16, SIZE))
    return g.op("SimplifiedLayerNormalization", y, g.weight(SIZE, positive=True), axis=-1, epsilon=1e-6)


def bert(g: Export) -> str:
    x = text(g)
    y = contributed(g, "Attention", x, g.weight(SIZE, 3 * SIZE), g.weight(3 * SIZE), num_heads=2)
    norm = g.weight(SIZE, positive=True), g.weight(SIZE)
    x = contributed(g, "SkipLayerNormalization", g.linear(y, SIZE, SIZE), x, *norm, epsilon=1e-5)
    hidden = contributed(g, "BiasGelu", g.op("MatMul", x, g.weight(SIZE, 16)), g.weight(16))
    return contributed(g, "SkipLayerNormalization", g.linear(hidden, 16, SIZE), x, *norm, epsilon=1e-5)


def bert_masked(g: Export) -> str:
    parts = g.weight(SIZE, 3 * SIZE), g.weight(3 * SIZE)
    return contributed(g, "Attention", text(g), *parts, g.input("batch", STEPS, kind=INT32), num_heads=2)


def cross_heads(g: Export) -> str:
    x, memory = text(g), g.input("batch", 6, SIZE)
    parts = [g.op("MatMul", source, g.weight(SIZE, SIZE)) for source in (x, memory, memory)]
    return contributed(g, "MultiHeadAttention", *parts, g.weight(3 * SIZE), num_heads=2)


def dynamic_image(g: Export) -> str:
    x, scale, zero_point = g.ops(3, "DynamicQuantizeLinear", g.input(1, 3, 8, 8))
    sums = g.op("ConvInteger", x, codes_of(g, 4, 3, 3, 3), zero_point, pads=[1] * 4)
    y = g.op("Mul", g.op("Cast", sums, to=1), g.op("Mul", scale, g.number(0.01)))
    return g.op("Relu", g.op("Add", y, g.initializer(np.ones((1, 4, 1, 1)), np.float32)))


def dynamic_attention(g: Export) -> str:
    x, scale, zero_point = g.ops(3, "DynamicQuantizeLinear", g.input(1, STEPS, SIZE))
    parts = x, codes_of(g, SIZE, 3 * SIZE), g.weight(3 * SIZE), scale, g.number(0.01), "", zero_point
    y = contributed(g, "QAttention", *parts, g.initializer(0, np.int8), num_heads=2)
    factors = codes_of(g, SIZE, 5), g.number(0.01), g.initializer(0, np.int8), g.weight(5)
    return contributed(g, "DynamicQuantizeMatMul", y, *factors)


NETWORKS = (
    *(fused_image, fused_layers, fused_scores, blocks_of_bits, simplified_norm),
    *(bert, bert_masked, cross_heads, dynamic_image, dynamic_attention),
)
