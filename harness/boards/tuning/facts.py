"""Constant properties of a board during a measurement, as its kernel and firmware report them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from harness.boards.session import Board
from harness.boards.tuning import cores as core_sets
from harness.boards.tuning.files import Files, first_line, read
from harness.boards.tuning.snapshot import CPU, SYSTEM

LONGEST = 2000
NO_ANSWERS = (None, "", "(null)")  # the last of a kernel that was built without what is asked for

# The topic and the file whose first line answers it.
ANSWERS = {
    "kernel": "proc/version",
    "command_line": "proc/cmdline",
    "boot_id": "proc/sys/kernel/random/boot_id",
    "isolated_cores": f"{CPU}/isolated",
    "cores_without_tick": f"{CPU}/nohz_full",
    "cores_online": f"{CPU}/online",
    "simultaneous_multithreading": f"{CPU}/smt/active",
    "clock_source": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "frequency_driver": f"{CPU}/cpu0/cpufreq/scaling_driver",
    "governor": f"{CPU}/cpu0/cpufreq/scaling_governor",
    "frequencies_khz": f"{CPU}/cpu0/cpufreq/scaling_available_frequencies",
    "idle_driver": f"{CPU}/cpuidle/current_driver",
    "microcode": f"{CPU}/cpu0/microcode/version",
    "realtime_runtime_us": "proc/sys/kernel/sched_rt_runtime_us",
    "board": "proc/device-tree/model",
    "jetson_linux": "etc/nv_tegra_release",
    "system_vendor": "sys/class/dmi/id/sys_vendor",
    "system_product": "sys/class/dmi/id/product_name",
    "firmware_version": "sys/class/dmi/id/bios_version",
    "firmware_date": "sys/class/dmi/id/bios_date",
}
PATTERNS = (
    *ANSWERS.values(),
    "proc/cpuinfo",
    "etc/os-release",
    "proc/device-tree/compatible",
    "proc/device-tree/hypervisor/compatible",
    "sys/hypervisor/type",
    "sys/kernel/realtime",
    f"{CPU}/vulnerabilities/*",
)

VIRTUAL_SIGNS = (
    "proc/cpuinfo",
    "sys/hypervisor/type",
    "proc/device-tree/hypervisor/compatible",
    "proc/device-tree/compatible",
    ANSWERS["system_vendor"],
    ANSWERS["system_product"],
)
"""The files that show whether a board is a virtual machine."""

_VIRTUAL = re.compile(
    r"qemu|kvm|vmware|virtualbox|xen|bochs|virtual machine|dummy-virt|firecracker|hyper-v", re.IGNORECASE
)


def facts(session: Board, *, cores: Collection[int] = (), system: PurePosixPath = SYSTEM) -> dict[str, str]:
    """Return properties of the board by topic; unknown ones are left out.  `cores` are those that have items."""
    files = read(session, system, PATTERNS)
    answers = {topic: first_line(files, path) for topic, path in ANSWERS.items()}
    derived: dict[str, Callable[[Files], str | None]] = {
        "preemption": _preemption,
        "processor": _processor,
        "processors": lambda files: str(len(_fields(files, "processor")) or "") or None,
        "system": _system,
        "virtual_machine": virtual_machine,
        "mitigations": _mitigations,
        "items_on_isolated_cores": lambda files: _isolation(files, cores),
    }
    answers |= {topic: answer(files) for topic, answer in derived.items()}
    return {topic: answer[:LONGEST] for topic, answer in answers.items() if answer not in NO_ANSWERS}


def _fields(files: Files, name: str) -> list[str]:
    """Return the values of a field of /proc/cpuinfo, one a processor."""
    pairs = (line.partition(":") for line in files.get("proc/cpuinfo", ()))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def _processor(files: Files) -> str | None:
    """Return the model's name, or the numbers by which Arm's processors are known, each once."""
    names = _fields(files, "model name") or [
        f"implementer {implementer}, part {part}, variant {variant}, revision {revision}"
        for implementer, part, variant, revision in zip(
            *(_fields(files, f"CPU {key}") for key in ("implementer", "part", "variant", "revision")), strict=False
        )
    ]
    return "; ".join(dict.fromkeys(names)) or None


def _preemption(files: Files) -> str | None:
    kernel = first_line(files, "proc/version") or ""
    if first_line(files, "sys/kernel/realtime") == "1" or "PREEMPT_RT" in kernel:
        return "PREEMPT_RT"
    match = re.search(r"\bPREEMPT(_[A-Z]+)?\b", kernel)
    return match[0] if match else ("none" if kernel else None)


def _system(files: Files) -> str | None:
    found = (re.fullmatch(r'PRETTY_NAME="?(.*?)"?', line) for line in files.get("etc/os-release", ()))
    return next((match[1] for match in found if match), None)


def virtual_machine(files: Files) -> str | None:
    """Return the sign that the board is a virtual machine, whose times depend on its host; None without one."""
    flags = " ".join(_fields(files, "flags")[:1]).split()
    if "hypervisor" in flags:
        return "the processor says that a hypervisor runs it"
    named = (first_line(files, path) or "" for path in VIRTUAL_SIGNS[1:])
    return next((name for name in named if _VIRTUAL.search(name)), None)


def _mitigations(files: Files) -> str | None:
    found = {path.rpartition("/")[2]: lines[0] for path, lines in files.items() if "/vulnerabilities/" in path}
    return "; ".join(f"{name}: {state}" for name, state in sorted(found.items()) if state != "Not affected") or None


def _isolation(files: Files, cores: Collection[int]) -> str | None:
    """Return whether the scheduler keeps other programs off the items' cores, as isolcpus= on the command line asks."""
    if not cores:
        return None
    isolated = core_sets.parse(first_line(files, f"{CPU}/isolated") or "") or frozenset()
    shared = set(cores) - isolated
    return f"no: {core_sets.text(shared)}" if shared else "yes"
