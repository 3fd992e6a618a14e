"""Training in PyTorch: a float network, then the same network on, with the rounding of its quantised form in the loop.

The rounding passes gradients straight through (Jacob et al., "Quantization and training of neural networks for
efficient integer-arithmetic-only inference", CVPR 2018), so the weights settle where the quantised network is good.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.model.float_network import Dense
from harness.model.quantizer import CODE_MAX, WEIGHT_MAX
from models.acas import quantize
from models.acas.mdp import ADVISORIES
from models.acas.samples import STATE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.float_network import Floats32
    from models.acas.parameters import Cycle, Parameters
    from models.acas.samples import Samples, Subject

OnStep = Callable[[], object]

GRADIENT_NORM_MAX = 5.0
WARM_UP_STEPS = 500
SQUARED_GRADIENT_DECAY = 0.98
"""Of Adam; gradients come from rare states near a collision, and a longer memory of them slows all others down."""
FIRST_LAYER_SPREAD = 0.5


DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CHECKPOINT_STEPS = 5_000


class _Rounded(torch.autograd.Function):
    """Values at the nearest multiples of a scale, with the gradient of no rounding."""

    @staticmethod
    def forward(_context: Any, values: Tensor, scale: Tensor | float) -> Tensor:  # type: ignore[override]
        return torch.div(values, scale).round_().mul_(scale)

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient, None


def _rounded(values: Tensor, scale: Tensor | float) -> Tensor:
    rounded: Tensor = _Rounded.apply(values, scale)
    return rounded


class Network(nn.Module):
    """Dense layers with ReLU between them; with `hidden_scales`, rounded as `quantize` will round them."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = [nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(widths)]
        for index, layer in enumerate(self.layers):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
            self.add_module(f"dense_{index + 1}", layer)
        self.hidden_scales: tuple[float, ...] = ()

    def forward(self, states: Tensor) -> Tensor:
        """Scores (n, outputs) for normalised `states` (n, inputs) that lie on the input's codes."""
        *hidden, last = self.layers
        values = states
        for index, layer in enumerate(hidden):
            values = self._activate(functional.linear(values, self._weight(layer), layer.bias), index)
        return functional.linear(values, self._weight(last), last.bias)

    def _activate(self, values: Tensor, index: int) -> Tensor:
        if not self.hidden_scales:
            return functional.relu(values)
        scale = self.hidden_scales[index]
        return _rounded(functional.hardtanh(values, 0.0, CODE_MAX * scale), scale)

    def _weight(self, layer: nn.Linear) -> Tensor:
        if not self.hidden_scales:
            return layer.weight
        return _rounded(layer.weight, layer.weight.detach().abs().amax(dim=1, keepdim=True) / WEIGHT_MAX)

    def round_to(self, hidden_scales: Floats32) -> None:
        """From now on round the weights, and the hidden activations to codes of these scales (layers - 1,)."""
        self.hidden_scales = tuple(hidden_scales.tolist())

    def place(self, states: Tensor) -> None:
        """Let each neuron of the first layer switch at one of the `states` (n, inputs).

        Otherwise all would switch at the centre of the box, and the states that matter are near one of its faces.
        """
        first = self.layers[0]
        with torch.no_grad():
            spread = FIRST_LAYER_SPREAD / (states.std(dim=0) * first.in_features**0.5)
            first.weight.copy_(torch.randn(first.weight.shape).to(DEVICE) * spread)
            switches = states[torch.randint(len(states), (first.out_features,), device=DEVICE)]
            first.bias.copy_(-(first.weight * switches).sum(dim=1))

    def restore(self, layers: Sequence[Dense]) -> None:
        """Take the weights and biases of `layers`, as `export` returned them."""
        with torch.no_grad():
            for mine, given in zip(self.layers, layers, strict=True):
                mine.weight.copy_(torch.from_numpy(given.weight.T))
                mine.bias.copy_(torch.from_numpy(given.bias))

    def export(self) -> tuple[Dense, ...]:
        """The float layers as numpy arrays, weights (inputs, outputs)."""
        last = self.layers[-1]
        return tuple(
            Dense(_numpy(layer.weight).T.copy(), _numpy(layer.bias), relu=layer is not last) for layer in self.layers
        )


@dataclass(frozen=True)
class Pool:
    """Samples as tensors: states (n, inputs) on the input's codes, scores (n, outputs), advisories (n,)."""

    states: Tensor
    scores: Tensor
    advisories: Tensor

    @staticmethod
    def of(samples: Samples) -> Pool:
        """The pool of the samples given."""
        return Pool(
            torch.from_numpy(quantize.INPUT.rounded(samples.states)).to(DEVICE),
            torch.from_numpy(samples.scores).float().to(DEVICE),
            torch.from_numpy(samples.advisories).to(DEVICE),
        )

    def draw(self, count: int) -> Pool:
        """`count` of the samples, with replacement."""
        chosen = torch.randint(len(self.states), (count,), device=DEVICE)
        return Pool(self.states[chosen], self.scores[chosen], self.advisories[chosen])

    def beside(self, other: Pool) -> Pool:
        """Both pools in one."""
        return Pool(
            torch.cat([self.states, other.states]),
            torch.cat([self.scores, other.scores]),
            torch.cat([self.advisories, other.advisories]),
        )


class _Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Any) -> object: ...


@dataclass(frozen=True)
class Checkpoint:
    """The file from which an interrupted training goes on as if nothing had happened."""

    path: Path

    def keep(self, done: int, *parts: _Stateful) -> None:
        """Write the state of the parts, and of the random numbers, after `done` batches."""
        state = {"done": done, "parts": [part.state_dict() for part in parts], "random": torch.get_rng_state()}
        if DEVICE.type == "cuda":
            state["random_of_device"] = torch.cuda.get_rng_state(DEVICE)
        partial = self.path.with_suffix(".part")
        torch.save(state, partial)
        partial.replace(self.path)

    def restore(self, *parts: _Stateful) -> int:
        """Put all that back, and return the number of batches done; 0 where nothing was kept."""
        if not self.path.exists():
            return 0
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        for part, values in zip(parts, state["parts"], strict=True):
            part.load_state_dict(values)
        torch.set_rng_state(state["random"])
        if DEVICE.type == "cuda":
            torch.cuda.set_rng_state(state["random_of_device"], DEVICE)
        return int(state["done"])


@dataclass(frozen=True)
class Training:
    """What both trainings share: the points, and what sets their two errors in relation.

    `score_variance` is that of the normalised scores on the grid; `advisory_logits` makes logits of normalised scores.
    """

    grid: Pool
    uniform: Pool
    score_variance: float
    advisory_logits: float
    parameters: Parameters

    @staticmethod
    def of(subject: Subject, parameters: Parameters) -> Training:
        """The training on points of the table of `subject`."""
        grid = subject.grid_samples(parameters.grid_points, parameters.seed)
        return Training(
            grid=Pool.of(grid),
            uniform=Pool.of(subject.uniform_samples(parameters.uniform_points, parameters.seed)),
            score_variance=float(grid.scores.var()),
            advisory_logits=parameters.advisory_sharpness * float(subject.score_scaling.range),
            parameters=parameters,
        )

    def run(self, network: Network, cycle: Cycle, on_step: OnStep, checkpoint: Checkpoint) -> None:
        """Train `network` in place for one cycle; the rate rises, then falls to zero along a cosine."""
        steps = cycle.steps
        optimizer = torch.optim.Adam(
            network.parameters(), lr=cycle.learning_rate, betas=(0.9, SQUARED_GRADIENT_DECAY), fused=True
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _share_of_rate(step, steps))
        done = checkpoint.restore(network, optimizer, schedule)
        for step in range(1, steps + 1):
            if step > done:
                self._learn(network, optimizer)
                schedule.step()
                if step % CHECKPOINT_STEPS == 0:
                    checkpoint.keep(step, network, optimizer, schedule)
            on_step()

    def _learn(self, network: Network, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        torch.autograd.backward(self._loss(network, self._batch()))
        nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_NORM_MAX)
        optimizer.step()

    def _batch(self) -> Pool:
        from_grid = round(self.parameters.batch * self.parameters.grid_share)
        return self.grid.draw(from_grid).beside(self.uniform.draw(self.parameters.batch - from_grid))

    def _loss(self, network: Network, batch: Pool) -> Tensor:
        """Squared error relative to the scores' variance, and the cross-entropy of the table's advisory.

        The advisory hangs on gaps of a ten-thousandth of the scores' spread, which the squared error cannot see.
        """
        scores = network(batch.states)
        error = functional.mse_loss(scores, batch.scores) / self.score_variance
        advisory = functional.cross_entropy(scores * self.advisory_logits, batch.advisories)
        return error + self.parameters.advisory_weight * advisory


def _share_of_rate(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / WARM_UP_STEPS) * (1 + math.cos(math.pi * step / steps)) / 2


def train_float(training: Training, on_step: OnStep, checkpoint: Checkpoint) -> tuple[Dense, ...]:
    """Train a float network from random weights, or from `checkpoint` on; `on_step` is called after every batch."""
    parameters = training.parameters
    _make_reproducible(parameters.float_cycle.seed)
    network = _network_of(parameters)
    network.place(training.grid.states)
    training.run(network, parameters.float_cycle, on_step, checkpoint)
    return network.export()


def tune(
    training: Training,
    layers: Sequence[Dense],
    hidden_scales: Floats32,
    cycle: Cycle,
    on_step: OnStep,
    checkpoint: Checkpoint,
) -> tuple[Dense, ...]:
    """Train `layers` on, rounded as `quantize` will round them with these activation scales (layers - 1,)."""
    _make_reproducible(cycle.seed)
    network = _network_of(training.parameters)
    network.restore(layers)
    network.round_to(hidden_scales)
    training.run(network, cycle, on_step, checkpoint)
    return network.export()


def _numpy(values: Tensor) -> Floats32:
    """A copy of the values (of the same shape) in this machine's memory."""
    copied: Floats32 = values.detach().cpu().numpy().copy()
    return copied


def _network_of(parameters: Parameters) -> Network:
    """The network on DEVICE, its random weights drawn on the CPU, so that they are the same everywhere."""
    return Network((len(STATE_NAMES), *[parameters.hidden] * parameters.depth, len(ADVISORIES))).to(DEVICE)


def _make_reproducible(seed: int) -> None:
    """Seed torch, and hold it to one thread and to deterministic algorithms.

    The weights then depend on the seed and the kind of processor alone.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for that
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    torch.set_flush_denormal(True)
