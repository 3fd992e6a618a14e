"""LeNet-5 with tanh and average pooling (LeCun et al., 1998), trained with numpy on the digits of scikit-learn."""

from __future__ import annotations

import click
import numpy as np
import numpy.typing as npt

from models.tiny.lenet import digits

Floats = npt.NDArray[np.float32]
Parameters = list[tuple[Floats, Floats]]
"""Weights and bias of each layer in ONNX's shapes: (outputs, channels, 5, 5) or (outputs, inputs), and (outputs,)."""

KERNEL = 5
SHAPES = ((6, 1, KERNEL, KERNEL), (16, 6, KERNEL, KERNEL), (120, 256), (84, 120), (10, 84))
EPOCHS, BATCH, RATE, MOMENTUM = 25, 32, 0.02, 0.9


def train() -> Parameters:
    """Return the parameters after stochastic gradient descent on the cross-entropy, and print what they recognise."""
    images, labels = digits()
    random = np.random.default_rng(0)
    values = [(random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32) for shape in SHAPES]
    parameters = [(weight, np.zeros(len(weight), np.float32)) for weight in values]
    speeds = [(np.zeros_like(weight), np.zeros_like(bias)) for weight, bias in parameters]
    for epoch in range(EPOCHS):
        rate = np.float32(RATE * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2)
        for batch in np.array_split(random.permutation(len(images.train)), len(images.train) // BATCH):
            slopes = _gradients(parameters, images.train[batch], labels.train[batch])
            for layer, speed, slope in zip(parameters, speeds, slopes, strict=True):
                for value, velocity, change in zip(layer, speed, slope, strict=True):
                    np.subtract(np.float32(MOMENTUM) * velocity, rate * change, out=velocity)
                    np.add(value, velocity, out=value)
    found = _forward(parameters, images.test)[-1].argmax(axis=1)
    click.echo(f"lenet5: {np.count_nonzero(found == labels.test)} of {len(found)} images not trained on", err=True)
    return parameters


def _forward(parameters: Parameters, images: Floats) -> list[Floats]:
    """Return what each layer multiplies and, for a convolution, its values before pooling; then the scores."""
    kept, values = [], images
    for weight, bias in parameters[:2]:
        windows = np.lib.stride_tricks.sliding_window_view(values, (KERNEL, KERNEL), axis=(2, 3))
        convolved = np.tanh(np.einsum("ncyxij,ocij->noyx", windows, weight, optimize=True) + bias[:, None, None])
        kept += [windows, convolved]
        count, channels, side, _ = convolved.shape
        values = convolved.reshape(count, channels, side // 2, 2, side // 2, 2).mean(axis=(3, 5), dtype=np.float32)
    values = values.reshape(len(values), -1)
    for weight, bias in parameters[2:-1]:
        kept.append(values)
        values = np.tanh(values @ weight.T + bias)
    weight, bias = parameters[-1]
    return [*kept, values, values @ weight.T + bias]


def _gradients(parameters: Parameters, images: Floats, labels: npt.NDArray[np.int64]) -> Parameters:
    *kept, scores = _forward(parameters, images)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope = shares / shares.sum(axis=1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= np.float32(len(labels))
    found: Parameters = []
    for number in (4, 3, 2):
        values = kept[number + 2]
        found.append((slope.T @ values, slope.sum(axis=0)))
        slope = slope @ parameters[number][0]
        slope = slope * (1 - values**2) if number > 2 else slope
    for number in (1, 0):
        windows, convolved = kept[2 * number], kept[2 * number + 1]
        pooled = slope.reshape(*convolved.shape[:2], convolved.shape[2] // 2, -1) / np.float32(4)
        slope = np.repeat(np.repeat(pooled, 2, axis=2), 2, axis=3) * (1 - convolved**2)
        found.append((np.einsum("noyx,ncyxij->ocij", slope, windows, optimize=True), slope.sum(axis=(0, 2, 3))))
        if number:
            around = np.pad(slope, [(0, 0), (0, 0), (KERNEL - 1,) * 2, (KERNEL - 1,) * 2])
            around = np.lib.stride_tricks.sliding_window_view(around, (KERNEL, KERNEL), axis=(2, 3))
            slope = np.einsum("noyxij,ocij->ncyx", around, parameters[1][0][:, :, ::-1, ::-1], optimize=True)
    return found[::-1]
