"""Two keyword spotters over frames of audio features: convolutions over time, int8, with random weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from models.tiny import builder as images
from models.tiny.builder import Builder, Floats, Tensor, _calibrated

SEED = 1
FRAMES, FEATURES, WORDS = 98, 20, 12
"""One second in frames of 10 ms."""
CHANNELS = 32
RANDOM = "Seeded random weights, not trained on speech: for time, size and exactness, not for words."


class Sequences(Builder):
    """A network over sequences (channels, length)."""

    def sequence(
        self,
        name: str,
        source: Tensor,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        depthwise: bool = False,
        causal: bool = False,
    ) -> Tensor:
        """Add a QLinearConv over sequences; a `causal` one pads before the first frame, so that no frame is lost."""
        extent = (kernel - 1) * dilation + 1
        before = extent - stride if causal else 0
        padded = np.pad(source.centered, [(0, 0), (0, 0), (before, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=2)[:, :, ::stride, ::dilation]
        inputs = 1 if depthwise else windows.shape[1]
        weights = self._random_weights(outputs, inputs * kernel)
        sums = _products(windows, weights.codes.reshape(outputs, inputs, kernel), depthwise=depthwise)
        weights = self._normalised(source, weights, np.moveaxis(sums, 1, -1))
        result = _calibrated(
            f"{name}_codes", (sums + weights.bias[:, None]) * weights.real_scale(source)[:, None], relu=True
        )
        operands = self._weights(name, source, weights, (outputs, inputs, kernel)) + self._quantisation(result)
        self.constants[f"{name}_bias"] = weights.bias.astype(np.int32)
        self._node(
            "QLinearConv", name, [*operands, f"{name}_bias"], result.name,
            strides=[stride], dilations=[dilation], pads=[before, 0], group=outputs if depthwise else 1,
        )  # fmt: skip
        return result

    def mean_of_sequence(self, name: str, source: Tensor) -> Tensor:
        """Add a QLinearGlobalAveragePool of all frames."""
        as_image = Tensor(source.name, source.scale, source.zero_point, source.codes[..., None])
        return self.mean(name, as_image)


def _products(windows: Floats, weights: Floats, *, depthwise: bool) -> Floats:
    """Return the sums, (n, outputs, frames), of integers in float64: exact in any order."""
    if depthwise:
        return np.einsum("nctk,ck->nct", windows, weights[:, 0])
    patches = windows.transpose(0, 2, 1, 3).reshape(len(windows), windows.shape[2], -1)
    sums: Floats = np.moveaxis(patches @ weights.reshape(len(weights), -1).T, 2, 1)
    return sums


def keywords() -> onnx.ModelProto:
    """Return a keyword spotter without padding: each step classifies the last 98 frames."""
    build = _builder()
    last = build.sequence("conv_1", build.input, CHANNELS, 4, stride=2)
    for number, dilation in enumerate((2, 4, 8), start=2):
        last = build.sequence(f"depthwise_{number}", last, CHANNELS, 3, dilation=dilation, depthwise=True)
        last = build.sequence(f"pointwise_{number}", last, CHANNELS, 1)
    last = build.dense("dense", build.flatten(build.mean_of_sequence("pool", last)), WORDS, relu=False)
    return build.model("kws_stream_int8", last, _metadata("Keyword spotting, dilated convolutions over time."))


def residual() -> onnx.ModelProto:
    """Return a keyword spotter with causal padding and residual blocks, as temporal convolutional networks have."""
    build = _builder()
    last = build.sequence("conv_1", build.input, CHANNELS // 2, 4, stride=2, causal=True)
    for number, dilation in enumerate((1, 2, 4), start=2):
        inner = build.sequence(f"conv_{number}", last, CHANNELS // 2, 3, dilation=dilation, causal=True)
        last = build.add(f"add_{number}", last, inner)
    last = build.dense("dense", build.flatten(build.mean_of_sequence("pool", last)), WORDS, relu=False)
    return build.model("kws_causal_int8", last, _metadata("Keyword spotting, causal residual convolutions over time."))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {"kws_stream_int8": keywords, "kws_causal_int8": residual}


def _builder() -> Sequences:
    deviation = np.linspace(0.3, 2, 128)[:, None, None]
    features = np.random.default_rng(SEED).normal(size=(128, FEATURES, FRAMES)) * deviation
    return Sequences(SEED, features.astype(np.float32), 1 / 64, 0)


def _metadata(description: str) -> dict[str, object]:
    return {"description": f"{description} {RANDOM}", "recipe_sha256": recipe_sha256()}


def recipe_sha256() -> str:
    """Return the hash of the sources that make the networks."""
    sources = [Path(__file__), Path(images.__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
