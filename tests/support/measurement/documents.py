"""Documents of measurements: the statistics are those of harness.runs.measurement, of series with known answers."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis import timing
from harness.runs.entries import MeasurementDocument
from harness.runs.measurement import statistics
from harness.runs.measurement.headline import headline
from harness.runs.measurement.statistics import MeasuredPart, Readings

EMULATED = "emulated-cpu (qemu neoverse-n1)"
SEGMENT = 1000
FIRST_RUN = "20261121-051705_xavier_acas_coc"


def gumbel(n: int, *, seed: int = 1, location: float = 50_000, scale: float = 400) -> Readings:
    """Independent times whose tail is exactly known, uint64 (n,) ns."""
    return np.random.default_rng(seed).gumbel(location, scale, n).astype(np.uint64)


def disturbed(n: int, *, period: int = 100, slow: int = 40) -> Readings:
    """Times with a warm-up of `slow` executions, every `period`-th far out."""
    times = gumbel(n).astype(np.int64)
    times[:slow] += 20_000
    times[period - 1 :: period] += 100_000
    return times.astype(np.uint64)


def wandering(n: int) -> Readings:
    """Return times of `gumbel`, of which the last tenth takes ten times as long."""
    times = gumbel(n)
    times[-n // 10 :] *= 10
    return times


@functools.cache
def _statistics(readings: bytes) -> dict[str, Any]:
    """Return the statistics of a series, whose law of extremes takes half a second, once for all of its documents."""
    return statistics.times(MeasuredPart("", "", "", alone=True), np.frombuffer(readings, np.uint64))


def _times(part: MeasuredPart, readings: Readings) -> dict[str, Any]:
    return copy.deepcopy(_statistics(readings.tobytes())) | dataclasses.asdict(part)


def timed(*series: Readings, names: tuple[str, ...] = ("acas_coc",), base: Readings | None = None) -> dict[str, Any]:
    """A measurement of times on hardware; with `base` it is compared with that."""
    parts = [
        _times(MeasuredPart(name, "hardware", "network", alone=True), one)
        for name, one in zip(names, series, strict=True)
    ]
    document = _document(parts, len(series[0]), "time", "ns", "hardware", "hardware")
    document["clock"] |= {"source": "CLOCK_MONOTONIC_RAW", "constant": None}
    document["measured"]["scope"] = "network" if len(series) == 1 else "layer"
    document["reason"] = headline(MeasurementDocument.view(document))
    if base is not None:
        compared = statistics.against(names, base[:, None], series[0][:, None], [], counted=False)
        document["against"] = compared | {
            "base": {"run": FIRST_RUN, "started": "2026-11-21T05:17:05Z"},
            "history": [],
            "changed": [],
        }
        if compared["too_noisy"]:
            document |= {"verdict": "inconclusive", "reason": "base too noisy: acas_coc: median gate 30,000 ns"}
        if compared["regressed"]:
            document |= {"verdict": "regressed", "reason": f"slower than {FIRST_RUN}: {', '.join(compared['slower'])}"}
    return document


def counted(varying: npt.ArrayLike | None = None) -> dict[str, Any]:
    """Instructions of three layers on an emulated board; `varying` are the counts of the second."""
    n = 2000
    constant = np.full(n, 2061, np.uint64)
    columns = [constant - 1000, constant if varying is None else np.asarray(varying, np.uint64), constant]
    names = ("quantize_input", "dense_1", "dense_2")
    parts = [
        statistics.counts(MeasuredPart(name, EMULATED, f"{name}_forward", alone=True), column, 51, SEGMENT)
        for name, column in zip(names, columns, strict=True)
    ]
    document = _document(parts, n, "instructions", "instructions", "emulated", EMULATED)
    document["measured"] |= {"scope": "layer", "memory_lock_asked": False, "memory_locked": False}
    document["measured"]["not_met_because"] = f"instructions were counted; item prepost ran on {EMULATED}"
    document["clock"] |= {"source": "instructions (perf_event)", "constant": 51}
    document["reason"] = "5,030 instructions in each of 2,000 executions, for all 1,000 vectors"
    if varying is not None:
        document |= {
            "verdict": "varies",
            "reason": "dense_1_forward takes 2,010 to 2,013 instructions, each vector always the same",
        }
    return document


def _document(parts: list[dict[str, Any]], n: int, quantity: str, unit: str, kind: str, ran_on: str) -> dict[str, Any]:
    segments = n // SEGMENT
    return {
        **_origin(kind, ran_on),
        "kind": "measure",
        "measured": {
            "scope": "network", "quantity": quantity, "unit": unit, "block": 1, "samples": n, "segment": SEGMENT,
            "segments": segments, "warmup": 1000, "duration_s": None, "fifo": 80, "fifo_refused": "",
            "interval": "from the start of the first task to the end of the last, hand-overs included",
            "pause_s": 0.0, "cycle_ns": 60_000.0, "options": ["--block", "1", "--lock-memory", "--dma-latency", "0"],
            "memory_lock_asked": True, "memory_locked": True, "dma_latency_asked": True, "dma_latency_held": True,
            "not_met_because": "",
        },
        "outputs": {"compared": n, "differing": 0, "first": None, "own": 0},
        "clock": {
            "resolution_ns": 32.0, "readings": 1000,
            "cost": statistics.plain(timing.summarise(32 * np.random.default_rng(2).integers(1, 3, 1000))),
        },
        "state": _state(segments),
        "load": {
            "name": "memory", "reason": "reads and writes large arrays", "argv": ["stress-ng", "--stream", "6"],
            "cores": [2, 3], "version": "stress-ng 0.15.06", "metrics": "stream 115 bogo ops", "failure": "",
        },
        "parts": parts,
        "devices": [],
        "against": None,
        "readings": {"file": "readings.npy", "sha256": _sha256("readings")},
        "verdict": "measured",
        "reason": "",
    }  # fmt: skip


def _origin(kind: str, ran_on: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "harness": {"version": "0.1.0", "revision": "abc123"},
        "started": "2026-11-22T12:02:11Z",
        "finished": "2026-11-22T12:02:17Z",
        "wall_s": 5.4,
        "command": ["harness", "measure", "--board", "xavier", "--model", "acas coc"],
        "board": {
            "name": "xavier", "soc": "NVIDIA Xavier (8x Carmel)", "kind": kind, "setup": [],
            "environment": {"kernel": "Linux version 5.10.104-tegra", "clock_source": "arch_sys_counter"},
        },
        "model": {
            "name": "acas_coc", "sha256": _sha256("model"), "metadata": {"recipe": "{}"},
            "input": {"names": ["rho"], "units": ["ft"], "box_low": [0.0], "box_high": [60000.0]},
        },
        "plan": {"items": [{"name": "prepost", "target": "c", "core": 0, "ran_on": ran_on, "tasks": []}]},
        "bundle": {
            "sha256": _sha256("bundle"), "compiler": "gcc (Debian 12.2.0-14) 12.2.0", "reused": False,
            "flags": ["-O3", "-march=armv8.2-a", "-ffp-contract=off"],
        },
        "reference": {"onnxruntime": "1.31.1", "isa": "avx2", "agreement": "they agreed on every byte"},
        "host": {"platform": "Linux", "python": "3.11.7", "numpy": "2.4.6"},
        "stimuli": {
            "count": SEGMENT, "seed": 1, "source": "seed 1", "classes": {"uniform": SEGMENT},
            "sha256": _sha256("stimuli"),
        },
    }  # fmt: skip


def _state(segments: int) -> dict[str, Any]:
    governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    setting = {
        "name": "governor", "path": governor, "wanted": "performance", "before": "schedutil",
        "reached": "performance", "reason": "",
    }  # fmt: skip
    return {
        "settings": [setting],
        "snapshots": [_snapshot(index) for index in range(segments + 1)],
        "segments": [_segment(index) for index in range(segments)],
        "throttled": [],
        "unseen": [],
        "told": [],
        "drifted": [],
    }


def _snapshot(index: int) -> dict[str, Any]:
    return {
        "time_s": 1795348933.0 + index, "uptime_s": 100.0 + 0.4 * index, "frequency_khz": {"0": 2265600, "1": 2265600},
        "limit_khz": {}, "frequency_changes": {}, "state_ticks": {}, "device_hz": {"gpu": 1377000000},
        "device_limit_hz": {}, "temperature_c": {"CPU-therm": 41.5 + 0.25 * index, "GPU-therm": 40.0},
        "throttle_events": {}, "cooling": {}, "interrupts": {}, "switches": None, "core_switches": {}, "faults": None,
        "major_faults": None, "busy_ticks": {}, "stolen_ticks": {}, "load": [0.3, 0.2, 0.6], "running": 1,
        "memory_free_kib": 24048640,
    }  # fmt: skip


def _segment(index: int) -> dict[str, Any]:
    switches = {"voluntary_switches": 6000, "involuntary_switches": 12 + index, "minor_faults": 0, "major_faults": 0}
    board = {
        "seconds": 0.4, "interrupts": {"0": 300, "1": 21}, "named_interrupts": {"IPI0": {"0": 200, "1": 9}},
        "switches": 6100, "core_switches": {}, "faults": 80, "major_faults": 0, "busy_ticks": {}, "stolen_ticks": {},
        "frequency_changes": {}, "throttle_events": {},
    }  # fmt: skip
    return {
        "begun": f"2026-11-22T12:02:{13 + index:02d}Z",
        "elapsed_ns": 60_000_000,
        "process": switches,
        "board": board,
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
