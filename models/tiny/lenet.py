"""LeNet-5 with Relu and MaxPool, trained with numpy on the digits of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Parameters = list[tuple[Floats, Floats]]
"""Weights (outputs, K) and biases (outputs,) of each layer; K counts channels, rows, columns."""

CHANNELS = (6, 16)
WIDTHS = (120, 84, 10)
KERNEL = 5
EPOCHS, BATCH, RATE, MOMENTUM = 25, 32, 0.02, 0.9
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Split:
    """A part to train on, and one to test with."""

    train: npt.NDArray[Any]
    test: npt.NDArray[Any]


def digits() -> tuple[Split, Split]:
    """Return the images, float32 (n, 1, 28, 28) from 0 to 1, and their labels."""
    from sklearn.datasets import load_digits  # type: ignore[import-not-found] # scikit-learn, for the training alone

    found = load_digits()
    images = np.kron(found.images / 16, np.ones((3, 3)))
    images = np.pad(images, [(0, 0), (2, 2), (2, 2)])[:, None].astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    test = int(TEST_SHARE * len(images))
    parts = order[test:], order[:test]
    return Split(*(images[part] for part in parts)), Split(*(found.target[part] for part in parts))


def train(images: Floats, labels: npt.NDArray[Any]) -> Parameters:
    """Return the parameters after stochastic gradient descent on the cross-entropy."""
    random = np.random.default_rng(0)
    sizes = [(CHANNELS[0], KERNEL**2), (CHANNELS[1], CHANNELS[0] * KERNEL**2)]
    sizes += list(zip(WIDTHS, (CHANNELS[1] * 16, *WIDTHS), strict=False))
    parameters = [
        (random.normal(0, np.sqrt(2 / inputs), (outputs, inputs)).astype(np.float32), np.zeros(outputs, np.float32))
        for outputs, inputs in sizes
    ]
    velocities = [(np.zeros_like(weight), np.zeros_like(bias)) for weight, bias in parameters]
    for epoch in range(EPOCHS):
        rate = np.float32(RATE * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2)
        order = random.permutation(len(images))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            for values, speeds, slopes in zip(
                parameters, velocities, _gradients(parameters, images[batch], labels[batch]), strict=True
            ):
                for value, speed, slope in zip(values, speeds, slopes, strict=True):
                    np.subtract(np.float32(MOMENTUM) * speed, rate * slope, out=speed)
                    np.add(value, speed, out=value)
    return parameters


def scores(parameters: Parameters, images: Floats) -> Floats:
    """Return the scores of the digits, (n, 10)."""
    return _forward(parameters, images)[-1]


def _forward(parameters: Parameters, images: Floats) -> list[Floats]:
    """Return what each layer multiplies and, for a convolution, its values before pooling; then the scores."""
    kept, values = [], images
    for weight, bias in parameters[: len(CHANNELS)]:
        patches = _patches(values)
        convolved = np.maximum(patches @ weight.T + bias, 0)
        kept += [patches, convolved]
        values = np.moveaxis(_squares(convolved).max(axis=(2, 4)), 3, 1)
    values = values.reshape(len(values), -1)
    for number, (weight, bias) in enumerate(parameters[len(CHANNELS) :], start=1):
        kept.append(values)
        values = values @ weight.T + bias
        values = np.maximum(values, 0) if number < len(WIDTHS) else values
    return [*kept, values]


def _gradients(parameters: Parameters, images: Floats, labels: npt.NDArray[Any]) -> Parameters:
    *kept, last = _forward(parameters, images)
    shares = np.exp(last - last.max(axis=1, keepdims=True))
    slope = shares / shares.sum(axis=1, keepdims=True)
    slope[np.arange(len(labels)), labels] -= 1
    slope /= len(labels)
    found: Parameters = []
    for weight, _ in parameters[: len(CHANNELS) - 1 : -1]:
        values = kept.pop()
        found.append((slope.T @ values, slope.sum(axis=0)))
        slope = (slope @ weight) * (values > 0)
    for channels, (weight, _) in zip(CHANNELS[::-1], parameters[len(CHANNELS) - 1 :: -1], strict=True):
        convolved, patches = kept.pop(), kept.pop()
        side = convolved.shape[1]
        pooled = np.moveaxis(slope.reshape(len(slope), channels, side // 2, side // 2), 1, 3)[:, :, None, :, None]
        squares = _squares(convolved)
        is_largest = (squares == squares.max(axis=(2, 4), keepdims=True)) & (squares > 0)
        slope = (pooled * is_largest).reshape(convolved.shape)
        found.append((np.einsum("nyxc,nyxk->ck", slope, patches, optimize=True), slope.sum(axis=(0, 1, 2))))
        slope = _unpatched(slope @ weight) if len(found) < len(parameters) else slope
    return found[::-1]


def _patches(images: Floats) -> Floats:
    """Return the windows of images (n, channels, side, side) as (n, rows, columns, K)."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (KERNEL, KERNEL), axis=(2, 3))
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(len(images), *windows.shape[2:4], -1)


def _unpatched(patches: Floats) -> Floats:
    """Return the sums of the windows at each pixel, the transpose of `_patches`."""
    count, side, _, size = patches.shape
    windows = patches.reshape(count, side, side, size // KERNEL**2, KERNEL, KERNEL)
    images = np.zeros((count, windows.shape[3], side + KERNEL - 1, side + KERNEL - 1), np.float32)
    for row, column in np.ndindex(KERNEL, KERNEL):
        images[:, :, row : row + side, column : column + side] += np.moveaxis(windows[..., row, column], 3, 1)
    return images


def _squares(images: Floats) -> Floats:
    """Return images (n, side, side, channels) in squares of 2 x 2: (n, side / 2, 2, side / 2, 2, channels)."""
    count, side, _, channels = images.shape
    return images.reshape(count, side // 2, 2, side // 2, 2, channels)
