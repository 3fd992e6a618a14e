"""True runs to forge: each is made once, by the command itself, and stands before anything is changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tests.support import builders
from tests.support.cli.command import User
from tests.support.decide.domains import random_domain

LAYERS = (4, 6, 3)
ON_HOST = ("--board", "host", "--items", "c,c")
RUN = ("--vectors", "300", "--chunk", "100", "--trace", "12")
PROVE = ("--vectors", "300", "--floats", "thresholds")
MEASURE = ("--samples", "500")
ON_CORES = ("--board", "kv260", "--items", "c,c")
CODES = 40
"""Codes of each of the three inputs of a decision."""
BASES = {
    "run": "a run on the board `host`: identical",
    "wrong": "the same with a kernel that rounds half away from zero: differs",
    "unfetched": "the same with `--fetch mismatch`: differs",
    "stand_in": "a run with an item on a simulated GPU: identical",
    "measurement": "a measurement on `host`",
    "compared": "a measurement with `--against` the other",
    "incorrect": "a measurement of the wrong kernel: differs",
    "proof": "a proof on `host`: holds",
    "refuted": "a proof of the wrong kernel: fails",
    "emulated": "a run on an emulated board: identical",
    "decision": "a decision of a property of another network for every code vector: violated",
    "bounded_decision": "a decision of the same property with `--bounds`",
    "bounds": "bounds of that network on an emulated board",
    "profile": "a profile of the network on `host`",
    "case": "an assurance case with that decision and these bounds",
}


@dataclass(frozen=True)
class Bases:
    """The true runs.

    `environment` is that of this checkout, `wrong_environment` that of one in which a kernel is wrong.
    """

    user: User
    environment: Mapping[str, str]
    wrong_environment: Mapping[str, str]

    def folder(self, kind: str) -> Path:
        """Return the run folder of one of BASES."""
        found: Path = getattr(self, kind)
        return found

    @cached_property
    def model(self) -> Path:
        return self._model("small", seed=7)

    @cached_property
    def other_model(self) -> Path:
        """Return a model with the same layers and other weights."""
        return self._model("other", seed=8)

    @cached_property
    def key(self) -> Path:
        """Return the laboratory's private key."""
        return new_key(self.user.folder / "laboratory")

    @cached_property
    def run(self) -> Path:
        return self._made("run", *ON_HOST, *RUN)

    @cached_property
    def wrong(self) -> Path:
        """Return a run whose verdict is `differs`."""
        return self._made("run", *ON_HOST, *RUN, wrong=True)

    @cached_property
    def unfetched(self) -> Path:
        """Return a run whose verdict is `differs`, with the dumps of layers that differ only."""
        return self._made("run", *ON_HOST, *RUN, "--fetch", "mismatch", wrong=True)

    @cached_property
    def stand_in(self) -> Path:
        """Return a run with an item on a simulated GPU."""
        return self._made("run", "--board", "host", "--items", "c,cuda:fused", *RUN)

    @cached_property
    def measurement(self) -> Path:
        return self._made("measure", *ON_HOST, *MEASURE)

    @cached_property
    def compared(self) -> Path:
        """Return a measurement that was compared with the other one."""
        return self._made("measure", *ON_HOST, *MEASURE, "--against", str(self.measurement))

    @cached_property
    def incorrect(self) -> Path:
        """Return a measurement of wrong outputs."""
        return self._made("measure", *ON_HOST, *MEASURE, wrong=True)

    @cached_property
    def proof(self) -> Path:
        """Return a proof that holds."""
        return self._made("prove", *ON_HOST, *PROVE)

    @cached_property
    def refuted(self) -> Path:
        """Return a proof that fails."""
        return self._made("prove", *ON_HOST, *PROVE, wrong=True)

    @cached_property
    def emulated(self) -> Path:
        """Return a run on an emulated board."""
        return self._made("run", "--board", "kv260", "--items", "c,c", *RUN)

    @cached_property
    def domain(self) -> Path:
        """Return a model with a property beside it."""
        return self._domain("domain")

    @cached_property
    def decision(self) -> Path:
        return self._of_domain("decide", code=1)

    @cached_property
    def bounded_decision(self) -> Path:
        return self._of_domain("decide", "--bounds", code=1)

    @cached_property
    def other_decision(self) -> Path:
        """Return a decision of the same property of a network with other weights, for which it holds."""
        return self._of("decide", model=self._domain("other_domain", other_weights=True), code=0)

    @cached_property
    def bounds(self) -> Path:
        """Return the bounds of a program."""
        return self._of_domain("wcet", *ON_CORES, "--core", "none")

    @cached_property
    def profile(self) -> Path:
        return self._made("profile", *ON_HOST, "--samples", "300")

    @cached_property
    def case(self) -> Path:
        """Return a case with the decision and the bounds."""
        evidence = ("--evidence", str(self.decision), "--evidence", str(self.bounds))
        return self._of_domain("case", "build", *ON_CORES, "--no-run", *evidence)

    def _domain(self, name: str, *, other_weights: bool = False) -> Path:
        folder = self.user.folder / name
        folder.mkdir()
        domain = random_domain(1, codes=CODES, argmax=True, float_output=True)
        if other_weights:
            weights = next(each for each in domain.model.graph.initializer if each.name == "layer_1_weights")
            weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights)[::-1].copy(), weights.name))
        model, stated = domain.write(folder, property="robust", axes=domain.axes())
        stated.rename(model.with_name("net.property.yaml"))
        return model

    def _of_domain(self, *command: str, code: int = 0) -> Path:
        return self._of(*command, model=self.domain, code=code)

    def _of(self, *command: str, model: Path, code: int) -> Path:
        ended = self.user.harness(*command, "--model", str(model), "--json", **self.environment)
        if ended.code != code:
            raise AssertionError(f"harness {' '.join(command)} ended with {ended.code}: {ended.err}")
        return Path(ended.document["case" if command[0] == "case" else "run"])

    def _model(self, name: str, seed: int) -> Path:
        path = self.user.folder / f"{name}.onnx"
        onnx.save(builders.random_network(np.random.default_rng(seed), LAYERS), path)
        return path

    def _made(self, command: str, *options: str, wrong: bool = False) -> Path:
        asked = (command, *options, "--model", str(self.model), "--json")
        ended = self.user.harness(*asked, **(self.wrong_environment if wrong else self.environment))
        if ended.code != int(wrong) and "--against" not in asked:  # which on a machine at work may say anything
            raise AssertionError(f"harness {' '.join(asked)} ended with {ended.code}: {ended.err}")
        return Path(json.loads(ended.out)["run"])


def new_key(path: Path) -> Path:
    """Make an OpenSSH key pair, and return the private file."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path
