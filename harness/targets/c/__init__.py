"""The processor: every operator in C, one thread, in five shapes of code that compute the same bits.

`c` is the readable reference, `c:vector` the fastest.  The others are the shapes of ACETONE (De Albuquerque Silva et
al., ECRTS 2022, section 3), for the analysis of execution times: `c:generic` has one function an operator, with sizes
known when it runs; `c:inlined` has every layer's loops with its own bounds; `c:unrolled` has no loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.boards.profile import Profile
from harness.operators.base import Layer
from harness.operators.qgemm import QGemm
from harness.targets import HARDWARE, KERNELS, ItemCode, KernelCompiler, Launch, LayerCode, too_deep
from harness.targets.c import inlined, plain, unrolled, vector

together = False
unconfirmed = ()
taken_for_granted = ""


def refusal(layer: Layer) -> str | None:
    """Why this target cannot compute `layer` exactly; None if it can."""
    return too_deep(layer)


def folders() -> tuple[Path, ...]:
    """Folders of fixed sources."""
    return (KERNELS / "c",)


def headers() -> tuple[str, ...]:
    """The headers that the generated code needs."""
    return plain.HEADERS


def ran_on(profile: Profile) -> str:
    """`hardware`, or the emulated CPU."""
    if profile.emulated and profile.emulator:
        return f"emulated-cpu (qemu {profile.emulator.cpu})"
    return HARDWARE


def contradiction(profile: Profile, device: str) -> str | None:  # noqa: ARG001 - of the interface
    """None: an item on the processor names no device."""
    return None


def shortage(launches: Sequence[Launch], profile: Profile) -> str | None:  # noqa: ARG001 - of the interface
    """None: whatever is long or large takes the processor longer."""
    return None


def forecast(launches: Sequence[Launch], profile: Profile) -> tuple[str, ...]:  # noqa: ARG001 - of the interface
    """Nothing."""
    return ()


def compiler() -> KernelCompiler | None:
    """None: C."""
    return None


def generate(item: str, launches: Sequence[Launch]) -> ItemCode:
    """The code of an item; its init computes the offsets."""
    return PLAIN.generate(item, launches)


@dataclass(frozen=True)
class Shape:
    """The target with another shape of code; `initialise` gives what init does for a QGemm."""

    needed: tuple[str, ...]
    layer_code: Callable[[Layer, Sequence[str]], LayerCode]
    initialise: Callable[[QGemm], str]
    refusal: Callable[[Layer], str | None] = too_deep

    together = together
    unconfirmed = unconfirmed
    taken_for_granted = taken_for_granted
    ran_on = staticmethod(ran_on)
    contradiction = staticmethod(contradiction)
    shortage = staticmethod(shortage)
    forecast = staticmethod(forecast)
    compiler = staticmethod(compiler)
    folders = staticmethod(folders)

    def headers(self) -> tuple[str, ...]:
        """The headers that the generated code needs."""
        return self.needed

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:  # noqa: ARG002 - the names are the layers'
        """The code of an item; its init computes the offsets."""
        works = [work for launch in launches for work in launch]
        calls = [self.initialise(work.layer) for work in works if isinstance(work.layer, QGemm)]
        codes = tuple(self.layer_code(work.layer, work.sources) for work in works)
        return ItemCode(codes, initialise="\n".join(calls))


PLAIN = Shape(plain.HEADERS, plain.layer_code, plain.initialise)
VARIANTS = {
    "": PLAIN,
    "vector": Shape(vector.HEADERS, vector.layer_code, vector.initialise),
    "generic": Shape(("generic.h",), functools.partial(plain.layer_code, prefix="generic_"), plain.initialise),
    "inlined": Shape(inlined.HEADERS, inlined.layer_code, plain.initialise),
    "unrolled": Shape(unrolled.HEADERS, unrolled.layer_code, unrolled.initialise, unrolled.refusal),
}
