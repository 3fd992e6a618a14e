"""Seventy networks that the tests write as exporters do: transformers, recurrences, detectors, sound, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from tests.support.exports import runtime, tables
from tests.support.exports.writer import BOOL, INT64, Export, causal

SIZE, STEPS, SIDE = 8, 4, 8
"""Values of a token, tokens of a text, width and height of an image."""


def tokens(g: Export, words: int = 16) -> str:
    """Add an input of token numbers, and their embeddings with positions."""
    embedded = g.op("Gather", g.weight(words, SIZE), g.input(1, STEPS, kind=INT64), axis=0)
    return g.op("Add", embedded, g.weight(1, STEPS, SIZE))


def patches(g: Export) -> str:
    """Add an image, cut into patches of 4x4, with a class token in front and positions."""
    x = g.op("Conv", g.input(1, 3, SIDE, SIDE), g.weight(SIZE, 3, 4, 4), g.weight(SIZE), strides=[4, 4])
    x = g.op("Transpose", g.op("Reshape", x, g.constant([1, SIZE, -1])), perm=[0, 2, 1])
    front = g.op("Expand", g.weight(1, 1, SIZE), g.constant([1, 1, SIZE]))
    return g.op("Add", g.op("Concat", front, x, axis=1), g.weight(1, 5, SIZE))


def vit(g: Export) -> str:
    x = g.layer_norm(g.block(patches(g), SIZE, 2), SIZE)
    return g.gemm(g.op("Gather", x, g.constant(0), axis=1), SIZE, 3)


def vit_old(g: Export) -> str:
    x = g.block(patches(g), SIZE, 2, old=True)
    return g.gemm(g.op("ReduceMean", x, axes=[1], keepdims=0), SIZE, 3)


def text_encoder(g: Export) -> str:
    x = g.layer_norm(g.block(tokens(g), SIZE, 2), SIZE)
    return g.gemm(g.op("Tanh", g.gemm(g.op("Squeeze", g.sliced(x, 0, 1, 1), g.constant([1])), SIZE, SIZE)), SIZE, 2)


def decoder(g: Export) -> str:
    mask = g.constant(causal(STEPS), np.bool_)
    x = g.layer_norm(g.block(tokens(g), SIZE, 2, mask=mask), SIZE)
    return g.op("MatMul", x, g.weight(SIZE, 16))


def masked_encoder(g: Export) -> str:
    x = g.input(1, STEPS, SIZE)
    mask = g.op("Unsqueeze", g.input(1, STEPS, kind=BOOL), g.constant([1, 2]))
    return g.block(x, SIZE, 2, mask=mask)


def cross_attention(g: Export) -> str:
    x, memory = g.input(1, STEPS, SIZE), g.input(1, 6, SIZE)
    return g.layer_norm(g.op("Add", x, g.attention(x, SIZE, 2, memory=memory)), SIZE)


def gated_mlp(g: Export) -> str:
    x = g.rms_norm(g.input(1, STEPS, SIZE), SIZE)
    gate = g.activate(g.op("MatMul", x, g.weight(SIZE, 16)), "Silu")
    return g.op("MatMul", g.op("Mul", gate, g.op("MatMul", x, g.weight(SIZE, 16))), g.weight(16, SIZE))


def rotary(g: Export) -> str:
    x = g.heads(g.linear(g.input(1, STEPS, SIZE), SIZE, SIZE), 2, 4)
    first, second = g.ops(2, "Split", x, g.constant([2, 2]), axis=-1)
    turned = g.op("Concat", g.op("Neg", second), first, axis=-1)
    angles = np.outer(np.arange(STEPS), [1.0, 0.01, 1.0, 0.01])[None, None]
    cosine, sine = (g.initializer(values.astype(np.float32)) for values in (np.cos(angles), np.sin(angles)))
    return g.op("Add", g.op("Mul", x, cosine), g.op("Mul", turned, sine))


def packed_attention(g: Export) -> str:
    x = g.linear(g.input(1, STEPS, SIZE), SIZE, 3 * SIZE)
    x = g.op("Transpose", g.op("Reshape", x, g.constant([1, STEPS, 3, 2, 4])), perm=[2, 0, 3, 1, 4])
    query, key, value = (g.op("Squeeze", part, g.constant([0])) for part in g.ops(3, "Split", x, axis=0))
    scores = g.op("Mul", g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2])), g.number(0.5))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), value)


def mixer(g: Export) -> str:
    x = g.input("batch", STEPS, SIZE)
    y = g.op("Transpose", g.layer_norm(x, SIZE), perm=[0, 2, 1])
    y = g.linear(g.activate(g.linear(y, STEPS, 8), "Gelu"), 8, STEPS)
    return g.op("Add", x, g.op("Transpose", y, perm=[0, 2, 1]))


def einsum(g: Export) -> str:
    x = g.input(1, STEPS, SIZE)
    return g.op("Einsum", x, g.weight(SIZE, 2, 4), equation="bsd,dhe->bhse")


def fused_gelu(g: Export) -> str:
    x = g.op("Gelu", g.linear(g.input("batch", STEPS, SIZE), SIZE, 16), domain="com.microsoft")
    return g.linear(x, 16, SIZE)


def recurrent(cell: str, direction: str = "forward", layers: int = 1) -> Callable[[Export], str]:
    def network(g: Export) -> str:
        x, width = g.op("Transpose", g.input(1, 6, 4), perm=[1, 0, 2]), 4
        for _ in range(layers):
            x = g.recurrent(x, cell, width, SIZE, direction, **({"linear_before_reset": 1} if cell == "GRU" else {}))
            width = SIZE * (2 if direction == "bidirectional" else 1)
        return g.gemm(g.op("Gather", x, g.constant(-1), axis=0), width, 3)

    return network


def lstm_of_sound(g: Export) -> str:
    x = g.conv(g.input(1, 1, 6, 4), 1, 2)
    x = g.op("Reshape", g.op("Transpose", x, perm=[2, 0, 1, 3]), g.constant([6, 1, 8]))
    return g.op("Softmax", g.linear(g.recurrent(x, "LSTM", 8, SIZE), SIZE, 5), axis=2)


def gru_pooled(g: Export) -> str:
    x = g.recurrent(g.input(6, 1, 4), "GRU", 4, SIZE, linear_before_reset=1)
    scores = g.op("Softmax", g.linear(x, SIZE, 1), axis=0)
    return g.gemm(g.op("ReduceSum", g.op("Mul", scores, x), g.constant([0]), keepdims=0), SIZE, 2)


def tagger(g: Export) -> str:
    embedded = g.op("Gather", g.weight(16, 4), g.input(6, 1, kind=INT64), axis=0)
    x = g.recurrent(embedded, "LSTM", 4, SIZE, "bidirectional")
    return g.op("ArgMax", g.linear(x, 2 * SIZE, 5), axis=-1, keepdims=0)


def image(g: Export, channels: int = 3) -> str:
    """Add an image as input."""
    return g.input("batch", channels, SIDE, SIDE)


def yolo_head(g: Export) -> str:
    x = g.conv(g.maximum(g.conv(image(g), 3, 8, activation="Silu")), 8, 14, 1, "")
    x = g.op("Transpose", g.op("Reshape", x, g.constant([-1, 2, 7, 4, 4])), perm=[0, 1, 3, 4, 2])
    centre, size, rest = g.ops(3, "Split", g.op("Sigmoid", x), g.constant([2, 2, 3]), axis=-1)
    grid = g.initializer(np.stack(np.meshgrid(range(4), range(4)), -1)[None, None].astype(np.float32))
    centre = g.op("Mul", g.op("Add", g.op("Mul", centre, g.number(2)), grid), g.number(2))
    size = g.op("Mul", g.op("Pow", g.op("Mul", size, g.number(2)), g.number(2)), g.weight(1, 2, 1, 1, 2))
    return g.op("Reshape", g.op("Concat", centre, size, rest, axis=-1), g.constant([-1, 32, 7]))


def ssd_heads(g: Export) -> str:
    x, scores = g.conv(image(g), 3, 8), []
    for _ in range(2):
        x = g.maximum(x)
        head = g.op("Transpose", g.conv(x, 8, 6, activation=""), perm=[0, 2, 3, 1])
        scores.append(g.op("Reshape", head, g.constant([0, -1, 3])))
    return g.op("Softmax", g.op("Concat", *scores, axis=1), axis=-1)


def centre_peaks(g: Export) -> str:
    heat = g.op("Sigmoid", g.conv(image(g), 3, 2, activation=""))
    peak = g.op("Equal", heat, g.maximum(heat, 3, 1, 1))
    return g.op("Mul", heat, g.op("Cast", peak, to=1))


def box_decoder(g: Export) -> str:
    centre, size = g.ops(2, "Split", g.gemm(g.input("batch", SIZE), SIZE, 4), g.constant([2, 2]), axis=1)
    half = g.op("Mul", g.op("Exp", g.op("Clip", size, g.number(-4), g.number(4))), g.number(0.5))
    return g.op("Concat", g.op("Sub", centre, half), g.op("Add", centre, half), axis=1)


def pyramid(g: Export) -> str:
    fine = g.conv(image(g), 3, 8)
    coarse = g.conv(g.maximum(fine), 8, 8)
    return g.conv(g.op("Add", fine, g.upsampled(coarse)), 8, 4)


def best_of(g: Export) -> str:
    scores = g.op("Sigmoid", g.gemm(g.input(1, SIZE), SIZE, 12))
    return g.ops(2, "TopK", scores, g.constant([3]), axis=1)[0]


def suppressed(g: Export) -> str:
    boxes = g.op("Reshape", g.gemm(g.input(1, SIZE), SIZE, 24), g.constant([1, 6, 4]))
    scores = g.op("Reshape", g.op("Sigmoid", g.gemm(g.input(1, SIZE), SIZE, 6)), g.constant([1, 1, 6]))
    limits = (g.constant([3]), g.constant([0.5], np.float32), g.constant([0.1], np.float32))
    return g.op("NonMaxSuppression", boxes, scores, *limits)


def unet(mode: str) -> Callable[[Export], str]:
    def network(g: Export) -> str:
        first = g.conv(image(g), 3, 4)
        low = g.conv(g.maximum(first), 4, 8)
        if mode == "transposed":
            up = g.op("ConvTranspose", low, g.weight(8, 4, 2, 2), g.weight(4), strides=[2, 2], kernel_shape=[2, 2])
            return g.conv(g.op("Concat", up, first, axis=1), 8, 2, 1, "")
        up = g.upsampled(low, mode)
        return g.conv(g.op("Concat", up, first, axis=1), 12, 2, 1, "")

    return network


def segmentation(g: Export) -> str:
    return g.op("ArgMax", unet("linear")(g), axis=1, keepdims=0)


def atrous(g: Export) -> str:
    x = g.conv(image(g), 3, 4)
    branches = [g.conv(x, 4, 4, dilation=dilation) for dilation in (1, 2)]
    pooled = g.conv(g.op("GlobalAveragePool", x), 4, 4, 1)
    sizes = g.op("Concat", g.sliced(g.op("Shape", pooled), 0, 2, 0), g.constant([SIDE, SIDE]), axis=0)
    branches.append(g.op("Resize", pooled, "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric"))
    return g.conv(g.op("Concat", *branches, axis=1), 12, 2, 1)


def pixel_shuffle(g: Export) -> str:
    x = g.op("DepthToSpace", g.conv(image(g), 3, 12), blocksize=2, mode="CRD")
    return g.op("Clip", x, g.number(0), g.number(1))


def style(g: Export) -> str:
    x = g.op("Pad", image(g), g.constant([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect")
    x = g.op("Conv", x, g.weight(4, 3, 3, 3), kernel_shape=[3, 3])
    x = g.op("InstanceNormalization", x, g.weight(4, positive=True), g.weight(4), epsilon=1e-5)
    return g.op("PRelu", x, g.weight(4, 1, 1))


def group_norm(g: Export) -> str:
    x = g.op("Reshape", g.conv(image(g), 3, 4, activation=""), g.constant([0, 2, -1]))
    x = g.op("InstanceNormalization", x, g.initializer(np.ones(2, np.float32)), g.initializer(np.zeros(2, np.float32)))
    x = g.op("Reshape", x, g.constant([0, 4, SIDE, SIDE]))
    return g.activate(g.op("Add", g.op("Mul", x, g.weight(4, 1, 1)), g.weight(4, 1, 1)), "Silu")


def mobile(g: Export) -> str:
    x = g.conv(image(g), 3, 8, activation="HardSwish")
    x = g.op("Add", x, g.conv(g.squeezed(g.conv(x, 8, 8, group=8, activation="HardSwish"), 8), 8, 8, 1, ""))
    return g.gemm(g.pooled(x), 8, 5)


def efficient(g: Export) -> str:
    x = g.conv(image(g), 3, 8, activation="Silu")
    x = g.conv(x, 8, 16, 1, "Silu")
    x = g.conv(g.conv(x, 16, 16, group=16, activation="Relu6"), 16, 8, 1, "")
    return g.gemm(g.pooled(x), 8, 5)


def convnext(g: Export) -> str:
    x = g.conv(image(g), 3, SIZE, activation="")
    y = g.op("Conv", x, g.weight(SIZE, 1, 7, 7), g.weight(SIZE), group=SIZE, pads=[3] * 4, kernel_shape=[7, 7])
    y = g.layer_norm(g.op("Transpose", y, perm=[0, 2, 3, 1]), SIZE)
    y = g.linear(g.activate(g.linear(y, SIZE, 16), "Gelu"), 16, SIZE)
    return g.op("Add", x, g.op("Transpose", g.op("Mul", y, g.weight(SIZE)), perm=[0, 3, 1, 2]))


def shuffle(g: Export) -> str:
    left, right = g.ops(2, "Split", g.conv(image(g), 3, 8), g.constant([4, 4]), axis=1)
    x = g.op("Concat", left, g.conv(g.conv(right, 4, 4, group=4, activation=""), 4, 4, 1), axis=1)
    x = g.op("Transpose", g.op("Reshape", x, g.constant([-1, 2, 4, SIDE, SIDE])), perm=[0, 2, 1, 3, 4])
    return g.op("Reshape", x, g.constant([-1, 8, SIDE, SIDE]))


def ghost(g: Export) -> str:
    x = g.conv(image(g), 3, 4, 1)
    return g.op("Concat", x, g.conv(x, 4, 4, group=4), axis=1)


def cspnet(g: Export) -> str:
    x = g.conv(image(g), 3, 8, activation="LeakyRelu")
    return g.conv(g.op("Concat", g.sliced(x, 0, 4, 1), g.conv(g.sliced(x, 4, 8, 1), 4, 4), axis=1), 8, 8, 1)


def pyramid_pooling(g: Export) -> str:
    x = g.conv(image(g), 3, 4, 1, "Silu")
    pools = [x]
    for _ in range(3):
        pools.append(g.maximum(pools[-1], 5, 1, 2))
    return g.conv(g.op("Concat", *pools, axis=1), 16, 4, 1, "Silu")


def spatial_attention(g: Export) -> str:
    x = g.conv(image(g), 3, 4)
    planes = [g.op("ReduceMean", x, axes=[1]), g.op("ReduceMax", x, axes=[1])]
    gate = g.op("Conv", g.op("Concat", *planes, axis=1), g.weight(1, 2, 3, 3), pads=[1] * 4, kernel_shape=[3, 3])
    return g.op("Mul", x, g.op("Sigmoid", gate))


def selu_image(g: Export) -> str:
    x = g.op("Selu", g.conv(image(g), 3, 4, activation=""))
    x = g.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=0, count_include_pad=1)
    return g.op("LogSoftmax", g.gemm(g.op("Flatten", x), 64, 4), axis=1)


def sequence(g: Export, channels: int = 4) -> str:
    """Add a sequence of 16 steps as input."""
    return g.input("batch", channels, 16)


def conv1(g: Export, x: str, inputs: int, outputs: int, dilation: int = 1) -> str:
    """Add a causal convolution of a sequence."""
    x = g.op("Pad", x, g.constant([0, 0, 2 * dilation, 0, 0, 0]))
    return g.op("Conv", x, g.weight(outputs, inputs, 3), g.weight(outputs), dilations=[dilation], kernel_shape=[3])


def gated_sound(g: Export) -> str:
    x = sequence(g)
    for dilation in (1, 2, 4):
        gate = g.op("Sigmoid", conv1(g, x, 4, 4, dilation))
        x = g.op("Add", x, g.op("Mul", g.op("Tanh", conv1(g, x, 4, 4, dilation)), gate))
    return x


def log_mel(g: Export) -> str:
    power = g.op("Pow", g.op("MatMul", g.input("batch", 6, 16), g.weight(16, 9)), g.number(2))
    mel = g.op("MatMul", power, g.initializer(np.abs(np.sin(np.arange(36.0))).reshape(9, 4).astype(np.float32)))
    return g.op("Log", g.op("Max", mel, g.number(1e-5)))


def keyword(g: Export) -> str:
    x = g.conv(g.input("batch", 1, 10, 6), 1, 4)
    x = g.conv(g.conv(x, 4, 4, group=4), 4, 8, 1)
    return g.op("Softmax", g.gemm(g.pooled(x), 8, 5), axis=1)


def pooled_statistics(g: Export) -> str:
    x = conv1(g, sequence(g), 4, 6)
    mean = g.op("ReduceMean", x, axes=[2], keepdims=1)
    centred = g.op("Sub", x, mean)
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[2], keepdims=1)
    deviation = g.op("Sqrt", variance)
    return g.gemm(g.op("Flatten", g.op("Concat", mean, deviation, axis=1)), 12, 4)


def spectrum(g: Export) -> str:
    x = g.op("Unsqueeze", g.input(1, 16), g.constant([2]))
    return g.op("DFT", x, axis=1, onesided=1)


NETWORKS: Mapping[str, Callable[[Export], str]] = {
    network.__name__: network
    for network in (
        *(vit, vit_old, text_encoder, decoder, masked_encoder, cross_attention, gated_mlp, rotary, packed_attention),
        *(mixer, einsum, fused_gelu, lstm_of_sound, gru_pooled, tagger, yolo_head, ssd_heads, centre_peaks),
        *(box_decoder, pyramid, best_of, suppressed, segmentation, atrous, pixel_shuffle, style, group_norm, mobile),
        *(efficient, convnext, shuffle, ghost, cspnet, pyramid_pooling, spatial_attention, selu_image, gated_sound),
        *(
            log_mel,
            keyword,
            pooled_statistics,
            spectrum,
            tables.scaled_classifier,
            tables.linear_regressor,
            tables.tree_regressor,
        ),
        *(
            tables.normalised_rows,
            tables.principal_components,
            tables.nearest_centre,
            tables.mixture,
            tables.naive_bayes,
            tables.kernel_machine,
        ),
        *(tables.chosen_columns, tables.dynamic_quantisation),
    )
} | {
    "lstm": recurrent("LSTM"),
    "lstm_stacked": recurrent("LSTM", layers=2),
    "lstm_both_ways": recurrent("LSTM", "bidirectional"),
    "gru": recurrent("GRU"),
    "gru_reversed": recurrent("GRU", "reverse"),
    "rnn": recurrent("RNN"),
    "unet_transposed": unet("transposed"),
    "unet_nearest": unet("nearest"),
    **{network.__name__: network for network in runtime.NETWORKS},
}


def model(name: str) -> onnx.ModelProto:
    """Return a network, with the weights that its place seeds."""
    export = Export([*NETWORKS].index(name))
    return export.model(NETWORKS[name](export))
