"""Differences between a profile's settings and a board's files, in the order in which to write them; no I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from harness.boards.profile import Timing
from harness.boards.tuning import cores as core_sets
from harness.boards.tuning.files import Files, first_line, number
from harness.boards.tuning.snapshot import CPU

GOVERNOR = f"{CPU}/cpu*/cpufreq/scaling_governor"
LOWEST = f"{CPU}/cpu*/cpufreq/scaling_min_freq"
HIGHEST = f"{CPU}/cpu*/cpufreq/scaling_max_freq"
NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
BOOST = f"{CPU}/cpufreq/boost"
IDLE = f"{CPU}/cpu*/cpuidle/state*/disable"
AFFINITY = "proc/irq/*/smp_affinity_list"
REALTIME = "proc/sys/kernel/sched_rt_runtime_us"

WRITABLE = (GOVERNOR, LOWEST, HIGHEST, NO_TURBO, BOOST, IDLE, AFFINITY, REALTIME)
PATTERNS = (
    *WRITABLE,
    *(f"{CPU}/cpu*/cpufreq/scaling_available_{name}" for name in ("governors", "frequencies")),
    "proc/interrupts",
)

UNLIMITED = "-1"
DEFAULT_REALTIME_US = "950000"
MISSING = "the board has no such file"


@dataclass(frozen=True)
class Setting:
    """The found, wanted and reached value of one file of the board, or of one command of its profile.

    `name` is the profile's key; `reason` states why the wanted value was not reached, "" if it was.  None: no value.
    """

    name: str
    path: str
    wanted: str
    before: str | None
    reached: str | None = None
    reason: str = ""


def wishes(timing: Timing, files: Files, item_cores: Collection[int]) -> tuple[Setting, ...]:
    """Return the settings of the profile, each with its present value, before any value is written.

    Turbo and governor come before the bounds of the frequency, as they move those.
    """
    return (
        *_realtime(timing, files),
        *_interrupts(timing, files, item_cores),
        *_idle_states(timing, files),
        *_turbo(timing, files),
        *_governor(timing, files),
        *_frequency(timing, files),
    )


def same(path: str, one: str | None, other: str | None) -> bool:
    """Return whether two values mean the same; the kernel writes sets of cores in its own way."""
    if path.endswith("smp_affinity_list") and one and other:
        return core_sets.parse(one) == core_sets.parse(other)
    return one == other


def missing(setting: Setting) -> Setting:
    """Return the setting of a file that the board has not."""
    return replace(setting, reason=MISSING)


def _realtime(timing: Timing, files: Files) -> Iterator[Setting]:
    if timing.realtime_throttling is not None:
        wanted = DEFAULT_REALTIME_US if timing.realtime_throttling else UNLIMITED
        yield _setting("realtime_throttling", REALTIME, wanted, files)


def _setting(name: str, path: str, wanted: str, files: Files) -> Setting:
    setting = Setting(name, path, wanted, first_line(files, path))
    return setting if path in files else missing(setting)


def _all(name: str, pattern: str, wanted: str, files: Files) -> list[Setting]:
    """Return one setting for each matching file, or one that states that no file matches."""
    return [_setting(name, path, wanted, files) for path in matching(pattern, files) or [pattern]]


def matching(pattern: str, files: Files) -> list[str]:
    """Return the paths that match, cores and interrupts in the order of their numbers."""
    expression = re.escape(pattern).replace(r"\*", r"\d+")
    found = [path for path in files if re.fullmatch(expression, path)]
    return sorted(found, key=lambda path: [int(digits) for digits in re.findall(r"\d+", path)])


def _interrupts(timing: Timing, files: Files, item_cores: Collection[int]) -> Iterator[Setting]:
    """Yield the settings of interrupts that have a handler and may disturb an item's core."""
    if not timing.interrupts_away or not item_cores:
        return
    handled = {line.partition(":")[0].strip() for line in files.get("proc/interrupts", ())}
    allowed = {path: core_sets.parse(first_line(files, path) or "") for path in matching(AFFINITY, files)}
    everywhere = frozenset().union(*(cores for cores in allowed.values() if cores))
    for path, cores in allowed.items():
        if path.split("/")[2] in handled and cores and cores & set(item_cores):
            yield _moved(path, cores - set(item_cores) or everywhere - set(item_cores), files)


def _moved(path: str, to: frozenset[int], files: Files) -> Setting:
    setting = Setting("interrupts_away", path, core_sets.text(to), first_line(files, path))
    return setting if to else replace(setting, reason="every core has an item")


def _idle_states(timing: Timing, files: Files) -> Iterator[Setting]:
    """Yield the settings of all idle states except the shallowest, state 0: WFI on Arm, polling on x86."""
    if timing.idle_states is not None:
        wanted = "0" if timing.idle_states else "1"
        for setting in _all("idle_states", IDLE, wanted, files):
            if not setting.path.endswith("/state0/disable"):
                yield setting


def _turbo(timing: Timing, files: Files) -> Iterator[Setting]:
    if timing.turbo is None:
        return
    if NO_TURBO in files:
        yield _setting("turbo", NO_TURBO, "0" if timing.turbo else "1", files)
    else:
        yield _setting("turbo", BOOST, "1" if timing.turbo else "0", files)


def _governor(timing: Timing, files: Files) -> list[Setting]:
    return _all("governor", GOVERNOR, timing.governor, files) if timing.governor else []


def _frequency(timing: Timing, files: Files) -> Iterator[Setting]:
    """Yield both frequency bounds of each core; the bound that makes room for the other comes first."""
    if timing.frequency_khz is None:
        return
    wanted = str(timing.frequency_khz)
    for high in _all("frequency_khz", HIGHEST, wanted, files):
        low = _setting("frequency_khz", high.path.replace("scaling_max", "scaling_min"), wanted, files)
        room = number(high.before or "")
        yield from (high, low) if room is None or room <= timing.frequency_khz else (low, high)


def explained(setting: Setting, files: Files) -> Setting:
    """Return the setting with the valid choices after its reason, if the board lists them."""
    choices = {"governor": "governors", "frequency_khz": "frequencies"}.get(setting.name)
    if not setting.reason or not choices:
        return setting
    offered = first_line(files, f"{setting.path.rpartition('/')[0]}/scaling_available_{choices}")
    return replace(setting, reason=f"{setting.reason}; it offers {offered}") if offered else setting
