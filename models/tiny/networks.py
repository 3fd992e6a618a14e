"""The five networks: four of the MLPerf Tiny benchmark in its shapes, with random weights, and a trained LeNet-5."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from models.tiny import lenet
from models.tiny.builder import WEIGHT_MAX, Builder, Tensor, Weights

SEED = 1
VECTORS = 64
"""Calibration images."""
RANDOM = "Seeded random weights in the shapes of MLPerf Tiny: for time, size and exactness, not for its task."
PIXEL = 1 / 255
FEATURE = 1 / 64

AUTOENCODER = (*(128,) * 4, 8, *(128,) * 4, 640)
RESNET = (16, 32, 64)
MOBILENET = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
"""Channels and stride of the blocks of MobileNetV1 with width 0.25."""


def autoencoder() -> onnx.ModelProto:
    """Return the autoencoder for machine sounds, 640 features of a spectrogram to 640."""
    build = Builder(SEED, _features((640,), 512), FEATURE, 0)
    last = build.input
    for number, width in enumerate(AUTOENCODER, start=1):
        last = build.dense(f"dense_{number}", last, width, relu=number < len(AUTOENCODER))
    return build.model("autoencoder_int8", last, _metadata(f"Anomaly detection in machine sounds. {RANDOM}"))


def ds_cnn() -> onnx.ModelProto:
    """Return the keyword spotter: 49 frames of 10 features to 12 words."""
    build = Builder(SEED, _features((1, 49, 10), 256), FEATURE, 0)
    last = build.convolution("conv_1", build.input, 64, (10, 4), stride=2)
    for number in range(2, 6):
        last = build.convolution(f"depthwise_{number}", last, 64, (3, 3), depthwise=True)
        last = build.convolution(f"pointwise_{number}", last, 64, (1, 1))
    last = build.dense("dense", build.flatten(build.mean("pool", last)), 12, relu=False)
    return build.model("ds_cnn_int8", last, _metadata(f"Keyword spotting. {RANDOM}"))


def resnet8() -> onnx.ModelProto:
    """Return the image classifier with three residual blocks: 32x32 pixels of 3 colours to 10 classes."""
    build = Builder(SEED, _images((3, 32, 32), VECTORS), PIXEL, -128)
    last = build.convolution("conv_1", build.input, RESNET[0], (3, 3))
    for number, channels in enumerate(RESNET, start=1):
        last = _residual(build, f"block_{number}", last, channels)
    last = build.dense("dense", build.flatten(build.mean("pool", last)), 10, relu=False)
    return build.model("resnet8_int8", last, _metadata(f"Image classification. {RANDOM}"))


def _residual(build: Builder, name: str, source: Tensor, channels: int) -> Tensor:
    grows = channels != source.codes.shape[1]
    inner = build.convolution(f"{name}_conv_1", source, channels, (3, 3), stride=1 + grows)
    inner = build.convolution(f"{name}_conv_2", inner, channels, (3, 3), relu=False)
    if grows:
        source = build.convolution(f"{name}_shortcut", source, channels, (1, 1), stride=2, relu=False)
    return build.add(f"{name}_add", source, inner)


def mobilenet() -> onnx.ModelProto:
    """Return the person detector, MobileNetV1 of width 0.25: 96x96 pixels of 3 colours to 2 classes."""
    build = Builder(SEED, _images((3, 96, 96), VECTORS), PIXEL, -128)
    last = build.convolution("conv_1", build.input, 8, (3, 3), stride=2)
    for number, (channels, stride) in enumerate(MOBILENET, start=2):
        last = build.convolution(
            f"depthwise_{number}", last, last.codes.shape[1], (3, 3), stride=stride, depthwise=True
        )
        last = build.convolution(f"pointwise_{number}", last, channels, (1, 1))
    last = build.dense("dense", build.flatten(build.mean("pool", last)), 2, relu=False)
    return build.model("mobilenet_int8", last, _metadata(f"Person detection. {RANDOM}"))


def lenet5() -> onnx.ModelProto:
    """Return LeNet-5, trained on the digits of scikit-learn: 28x28 pixels to 10 digits."""
    images, labels = lenet.digits()
    parameters = lenet.train(images.train, labels.train)
    build = Builder(SEED, images.train, PIXEL, -128)
    last = build.input
    for number, (weight, bias) in enumerate(parameters, start=1):
        weights = _rounded(weight, bias, last)
        if number <= len(lenet.CHANNELS):
            last = build.convolution(f"conv_{number}", last, len(bias), (5, 5), padding=False, weights=weights)
            last = build.maximum(f"pool_{number}", last, 2)
            continue
        last = last if last.codes.ndim == 2 else build.flatten(last)
        last = build.dense(f"dense_{number}", last, len(bias), relu=number < len(parameters), weights=weights)
    description = "LeNet-5 for the digits of scikit-learn, 8x8 pixels drawn as 24x24 with a margin of 2."
    model = build.model("lenet5_int8", last, _metadata(description))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for name, scores in (
        ("float", lenet.scores(parameters, images.test)),
        ("int8", session.run(None, {"input": images.test})[0]),
    ):
        right = np.count_nonzero(scores.argmax(axis=1) == labels.test)
        click.echo(f"lenet5 {name}: {right} of {len(labels.test)} images that were not trained on", err=True)
    return model


def _rounded(weight: lenet.Floats, bias: lenet.Floats, source: Tensor) -> Weights:
    """Return trained weights (outputs, K) in int8, with one scale for each output."""
    scale = (np.abs(weight).max(axis=1) / WEIGHT_MAX).astype(np.float32)
    codes = np.rint(weight / scale[:, None]).astype(np.float64)
    return Weights(codes, scale, np.rint(bias / (scale.astype(np.float64) * float(source.scale))))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "lenet5_int8": lenet5,
    "autoencoder_int8": autoencoder,
    "ds_cnn_int8": ds_cnn,
    "resnet8_int8": resnet8,
    "mobilenet_int8": mobilenet,
}


def _features(shape: tuple[int, ...], count: int) -> npt.NDArray[np.float32]:
    """Return vectors of normally distributed values, of more and more deviation."""
    deviation = np.linspace(0.3, 2, count).reshape(-1, *(1 for _ in shape))
    return (np.random.default_rng(SEED).normal(size=(count, *shape)) * deviation).astype(np.float32)


def _images(shape: tuple[int, int, int], count: int) -> npt.NDArray[np.float32]:
    """Return images of pixels from 0 to 1: squares of 8 x 8 pixels of one colour, with more and more noise."""
    random = np.random.default_rng(SEED)
    channels, height, width = shape
    squares = np.kron(random.random((count, channels, height // 8, width // 8)), np.ones((8, 8)))
    noise = np.linspace(0, 1, count)[:, None, None, None]
    return ((1 - noise) * squares + noise * random.random((count, *shape))).astype(np.float32)


def _metadata(description: str) -> dict[str, object]:
    return {"description": description, "recipe_sha256": recipe_sha256()}


def recipe_sha256() -> str:
    """Return the hash of the sources that make the networks."""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()
