from __future__ import annotations

import platform
from pathlib import Path

import pytest

from harness.boards.local import LocalBoard
from harness.boards.tuning import facts
from tests.support.tuning.system import CPU, Recording, on_board, write

CARMEL = "processor\t: {}\nCPU implementer\t: 0x4e\nCPU variant\t: 0x0\nCPU part\t: 0x004\nCPU revision\t: 0\n\n"
XAVIER = {
    "proc/version": "Linux version 5.10.104-rt63-tegra (x@y) #1 SMP PREEMPT_RT Thu\n",
    "proc/cmdline": "root=/dev/mmcblk0p1 isolcpus=1,2\n",
    "proc/cpuinfo": CARMEL.format(0) + CARMEL.format(1),
    "proc/device-tree/model": "Jetson-AGX\0",
    "proc/device-tree/compatible": "nvidia,p2972-0000\0nvidia,tegra194\0",
    "etc/nv_tegra_release": "# R35 (release), REVISION: 2.1\n",
    "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 20.04.5 LTS"\n',
    f"{CPU}/isolated": "1-2\n",
    f"{CPU}/nohz_full": "  (null)\n",
    f"{CPU}/cpu0/cpufreq/scaling_driver": "tegra194\n",
    f"{CPU}/vulnerabilities/meltdown": "Not affected\n",
    f"{CPU}/vulnerabilities/spectre_v2": "Mitigation: CSV2, BHB\n",
}
PC = {
    "proc/version": "Linux version 6.1.0-13-amd64 (x@y) #1 SMP PREEMPT_DYNAMIC Debian\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: A PC\nflags\t\t: fpu vme\n",
    "sys/class/dmi/id/sys_vendor": "Maker\n",
}


@pytest.fixture
def xavier(tmp_path: Path) -> Path:
    write(tmp_path, XAVIER)
    return tmp_path


def test_a_board_says_what_it_is_in_one_round_trip(xavier: Path) -> None:
    board = Recording()
    assert facts(board, cores=(1, 2), system=on_board(xavier)) == {
        "kernel": "Linux version 5.10.104-rt63-tegra (x@y) #1 SMP PREEMPT_RT Thu",
        "command_line": "root=/dev/mmcblk0p1 isolcpus=1,2",
        "isolated_cores": "1-2",
        "frequency_driver": "tegra194",
        "board": "Jetson-AGX",
        "jetson_linux": "# R35 (release), REVISION: 2.1",
        "preemption": "PREEMPT_RT",
        "processor": "implementer 0x4e, part 0x004, variant 0x0, revision 0",
        "processors": "2",
        "system": "Ubuntu 20.04.5 LTS",
        "mitigations": "spectre_v2: Mitigation: CSV2, BHB",
        "items_on_isolated_cores": "yes",
    }
    assert len(board.asked) == 1


def test_cores_with_items_that_are_not_isolated_are_named(xavier: Path) -> None:
    assert facts(LocalBoard(), cores=(0, 1, 3), system=on_board(xavier))["items_on_isolated_cores"] == "no: 0,3"
    assert "items_on_isolated_cores" not in facts(LocalBoard(), system=on_board(xavier))


@pytest.mark.parametrize(
    ("files", "preemption"),
    [
        ({"sys/kernel/realtime": "1\n", "proc/version": "Linux version 5 #1 SMP\n"}, "PREEMPT_RT"),
        (PC, "PREEMPT_DYNAMIC"),
        ({"proc/version": "Linux version 5 #1 SMP PREEMPT Thu\n"}, "PREEMPT"),
        ({"proc/version": "Linux version 5 #1 SMP Debian\n"}, "none"),
        ({"proc/cmdline": "x\n"}, None),
    ],
)
def test_preemption_is_told_by_the_kernel(tmp_path: Path, files: dict[str, str], preemption: str | None) -> None:
    write(tmp_path, files)
    assert facts(LocalBoard(), system=on_board(tmp_path)).get("preemption") == preemption


@pytest.mark.parametrize(
    ("files", "sign"),
    [
        ({"proc/cpuinfo": "flags\t: fpu hypervisor\n"}, "the processor says that a hypervisor runs it"),
        ({"proc/device-tree/compatible": "linux,dummy-virt\0"}, "linux,dummy-virt"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, "QEMU"),
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
        ({}, None),
    ],
)
def test_a_virtual_machine_is_told(tmp_path: Path, files: dict[str, str], sign: str | None) -> None:
    write(tmp_path, PC | files)
    assert facts(LocalBoard(), system=on_board(tmp_path)).get("virtual_machine") == sign


def test_a_board_that_talks_too_much_is_cut(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cmdline": "x" * 100_000})
    assert facts(LocalBoard(), system=on_board(tmp_path)) == {"command_line": "x" * 2000}


def test_this_machine_says_what_python_says() -> None:
    found = facts(LocalBoard())
    assert platform.release() in found["kernel"]
    assert found["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
