"""The processor: every operator in C, one thread, in five variants of code that compute the same bits.

`c` is the readable reference, `c:vector` the fastest.  The others are the shapes of ACETONE (De Albuquerque Silva et
al., ECRTS 2022, section 3), for the analysis of execution times: `c:generic` has one function per operator, with sizes
known at run time; `c:inlined` has the loops of every layer with constant bounds; `c:unrolled` has no loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.targets.base import KERNELS, Target, core_environment
from harness.targets.c import dialect
from harness.targets.c.code import CLowering
from harness.targets.generated import ItemCode, Launch, LayerCode, TaskView

PLAIN = ("arg_extremum.h", "qgemm.h")
HEADERS = {
    "": PLAIN,
    "vector": (*PLAIN, "conv_vector.h", "gemm_vector.h", "max_pool_vector.h", "qgemm_vector.h", "quantize_vector.h"),
    "generic": ("generic.h",),
    "inlined": ("qgemm.h", "saturate.h"),
    "unrolled": ("saturate.h", "unrolled.h"),
}


class C(Target):
    """A variant of the target."""

    name = "c"
    variants = tuple(HEADERS)
    lowering = CLowering
    freestanding = True
    Settings = dialect.Settings

    def _dialect(self, profile: Profile) -> dialect.Settings:
        """Return the form of the C code; a target derived from this one may have a section of its own."""
        found = profile.settings(self.name, self.Settings)
        return found if isinstance(found, dialect.Settings) else dialect.Settings()

    def folders(self) -> tuple[Path, ...]:
        """Return the folder of the kernels."""
        return (KERNELS / "c",)

    def headers(self) -> tuple[str, ...]:
        """Return the headers of the variant."""
        return HEADERS[self.variant]

    def written(self, sources: Mapping[str, bytes], profile: Profile) -> dict[str, bytes]:
        """Return the sources in the C standard of the profile; see `dialect`."""
        settings = self._dialect(profile)
        if self.variant == "vector" and settings.flags:
            raise RequestError(
                f"board {profile.name}: c: standard {settings.standard}: the kernels of c:vector use vectors of the "
                "compiler, which no C standard has",
                "choose c, c:generic, c:inlined or c:unrolled with --items",
            )
        try:
            return dialect.written(sources, settings)
        except ValueError as error:
            raise RequestError(f"board {profile.name}: c: {error}", "choose standard: c99 or gnu11") from error

    def flags(self, profile: Profile) -> tuple[str, ...]:
        """Return the flags of the profile's C standard."""
        return self._dialect(profile).flags

    def environment(self, profile: Profile) -> str:
        """Return `hardware`, or the emulated CPU."""
        return core_environment(profile)

    def generate(self, item: str, launches: Sequence[Launch]) -> ItemCode:  # noqa: ARG002 - layers have their own names
        """Return the code of an item."""
        codes = tuple(self._code(task) for launch in launches for task in launch)
        return ItemCode(codes, initialise="\n".join(code.initialise for code in codes if code.initialise))

    def _code(self, task: TaskView) -> LayerCode:
        lowering: CLowering[Any] = self.lowering_of(task.layer)
        variant: LayerCode = getattr(lowering, self.variant or "plain")(task.layer, task.sources)
        return variant
