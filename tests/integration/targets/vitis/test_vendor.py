"""The build with AMD's tools, played by strict fakes, and the real dtc; what the tools report, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.boards.profile import BoardProfiles, Profile
from harness.core.errors import ToolError
from harness.core.installation import ROOT
from harness.targets.vitis import Vitis, overlay, reports, vendor, xclbin
from harness.targets.vitis.overlay import Controller, Hardware
from harness.targets.vitis.reports import Loop
from harness.targets.vitis.vendor import Package, Tools
from tests.support.vitis import vendor_tools
from tests.support.vitis.vendor_tools import KERNELS, MET, MISSED, fabric, handoff, timing

APP = fabric().app
needs_dtc = pytest.mark.skipif(not shutil.which("dtc"), reason="no dtc: install device-tree-compiler")


@pytest.fixture
def board(tmp_path: Path, laboratory: BoardProfiles, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A KV260 with Vitis and a platform, and an environment in which all goes well."""
    root, platform = vendor_tools.install(tmp_path / "Xilinx")
    for name, value in vendor_tools.environment(tmp_path / "record").items():
        monkeypatch.setenv(name, value)
    for name in ("VITIS", "XILINX_VITIS", "PLATFORM", "XILINX_XRT"):
        monkeypatch.delenv(name, raising=False)
    found = laboratory.board("kv260")
    keys = {"vitis": str(root), "platform": str(platform), "clock_mhz": 200}
    return found.model_copy(update={"vitis": found.section("vitis") | keys})


@pytest.fixture
def tools(board: Profile) -> Tools:
    return vendor.find(board, {})


class Built:
    """Builds in one cache, and what they say."""

    def __init__(self, tools: Tools, tmp_path: Path) -> None:
        self.tools, self.cache, self.record = tools, tmp_path / "cache", tmp_path / "record"
        self.said: list[str] = []

    def build(self, word: str = "", clock_mhz: float = 200) -> Package:
        return vendor.build(fabric(word), self.tools, clock_mhz, self.cache, self.said.append)

    @property
    def called(self) -> list[str]:
        """The programs that were called, but for the version."""
        lines = self.record.read_text().splitlines()
        return [line.split()[0] for line in lines if not line.endswith("--version")]


@pytest.fixture
def built(tools: Tools, tmp_path: Path) -> Built:
    return Built(tools, tmp_path)


# Finding


def test_the_tools_are_found_in_both_layouts(board: Profile, tools: Tools, tmp_path: Path) -> None:
    assert tools.version == "2022.2 (SW Build 3671529)"
    assert tools.bootgen == tmp_path / "Xilinx/Vivado/2022.2/bin/bootgen"
    assert tools.environment["XILINX_VIVADO"] == str(tmp_path / "Xilinx/Vivado/2022.2")
    modern = tmp_path / "2025.1"
    modern.mkdir()
    for name in ("Vitis", "Vivado"):
        (tmp_path / "Xilinx" / name / "2022.2").rename(modern / name)
    found = vendor.find(with_keys(board, vitis=str(modern / "Vitis")), {})
    assert found.bootgen == modern / "Vivado/bin/bootgen"
    assert found.environment["XILINX_VIVADO"] == str(modern / "Vivado")
    assert found.environment["PATH"].startswith(f"{modern}/Vitis/bin:{modern}/Vivado/bin:")


def with_keys(board: Profile, **keys: object) -> Profile:
    return board.model_copy(update={"vitis": board.section("vitis") | keys})


def test_the_profile_comes_before_the_environment(board: Profile, tools: Tools) -> None:
    wrong = {"VITIS": "/nowhere", "XILINX_VITIS": "/nowhere", "PLATFORM": "/nowhere.xpfm"}
    assert vendor.find(board, wrong) == tools
    bare = with_keys(board, vitis=None, platform=None)
    given = {"VITIS": str(tools.root), "XILINX_VITIS": "/nowhere", "PLATFORM": str(tools.platform)}
    assert vendor.find(bare, given) == tools
    assert vendor.find(bare, {"XILINX_VITIS": str(tools.root), "PLATFORM": str(tools.platform)}) == tools


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("vitis", "no Vitis to build its fabric with"),
        ("platform", "no platform to build its fabric for"),
        ("v++", "is no folder of Vitis: no bin/v++"),
        ("bootgen", "no bootgen: it is not on the PATH"),
        ("xclbinutil", "no xclbinutil: it is not on the PATH"),
        ("dtc", "no dtc: it is not on the PATH"),
        (".xpfm", "kv260_custom.xpfm is no platform"),
        ("mute", "does not tell its version"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(
    missing: str, message: str, board: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    if missing in {"vitis", "platform"}:
        board = with_keys(board, **{missing: None})
    elif missing == "mute":
        monkeypatch.setenv("FAULTS", "mute")
    elif missing != "dtc":
        [path] = [path for path in (tmp_path / "Xilinx").rglob("*") if path.name.endswith(missing)]
        path.unlink()
    if missing in {"xclbinutil", "mute"}:  # dtc beside the tools
        (tmp_path / "Xilinx/Vivado/2022.2/bin/dtc").symlink_to("/bin/true")
    with pytest.raises(ToolError, match=re.escape(message)) as error:
        vendor.find(board, {})
    assert error.value.hint


# Building


@needs_dtc
def test_a_package_is_what_the_board_is_given(built: Built) -> None:
    package = built.build()
    assert value(package.folder / f"{APP}.dtbo", f"{BUS}/afi0", "config-afi", "u").split()[:4] == ["0", "0", "1", "0"]
    assert set(package.files) == {f"{APP}.bit.bin", f"{APP}.dtbo", f"{APP}.xclbin", "shell.json"}
    assert package.app == APP
    assert re.fullmatch(r"harness_[0-9a-f]{12}", APP)
    assert (package.folder / f"{APP}.bit.bin").read_text() == "configuration"
    assert (package.folder / f"{APP}.xclbin").read_text() == f"sections\n{' '.join(KERNELS)}"
    assert json.loads((package.folder / "shell.json").read_text()) == {"shell_type": "XRT_FLAT", "num_slots": "1"}
    assert built.called == ["v++", "v++", "platforminfo", "v++", "bootgen", "xclbinutil"]
    manifest = json.loads((package.folder / "manifest.json").read_text())
    assert manifest["vitis"] == "2022.2 (SW Build 3671529)"
    assert manifest["digest"] == fabric().digest
    assert package.timing == "timing met: WNS 0.287 ns, WHS 0.011 ns, WPWS 1.458 ns"
    assert package.synthesis[0] == (
        "dense_1_kernel: II=1 in all 2 pipelined loops; of no fixed latency, 3.65 ns estimated; "
        "3,826 LUT, 4,504 FF, 50 DSP, 14 BRAM_18K, 0 URAM"
    )
    assert all(line in built.said for line in (package.timing, *package.synthesis))
    assert "this takes an hour or more" in built.said[0]


@needs_dtc
def test_a_second_build_is_taken_from_the_cache(built: Built) -> None:
    first = built.build()
    assert not first.reused
    called = built.called
    second = built.build()
    assert second == replace(first, reused=True)
    assert built.called == called
    assert "it was built from the same before" in built.said[-1]


@needs_dtc
@pytest.mark.parametrize("change", ["source", "clock", "platform", "version", "method"])
def test_whatever_decides_the_package_changes_its_name(
    change: str, built: Built, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = vendor.package_sha256(fabric(), tools, 200)
    word, clock = ("other", 200) if change == "source" else ("", 150 if change == "clock" else 200)
    if change == "platform":
        (tools.platform.parent / "hw" / "kv260.xsa").write_bytes(b"another design")
        tools = replace(tools, platform_sha256=vendor._platform_sha256(tools.platform))
    if change == "version":
        tools = replace(tools, version="2023.1")
    if change == "method":
        monkeypatch.setattr(vendor, "MODULES", ("vendor.py",))
    assert vendor.package_sha256(fabric(word), tools, clock) != before
    assert vendor.package_sha256(fabric(), built.tools, 200.0) == before or change == "method"


@needs_dtc
def test_software_beside_a_platform_does_not_matter(tools: Tools) -> None:
    (tools.platform.parent / "rootfs.ext4").write_bytes(b"large")
    assert vendor._platform_sha256(tools.platform) == tools.platform_sha256


@needs_dtc
def test_a_damaged_package_is_built_again(built: Built) -> None:
    package = built.build()
    (package.folder / f"{APP}.bit.bin").write_text("other")
    assert vendor.find_package(fabric(), built.tools, 200, built.cache) is None
    again = built.build()
    assert not again.reused
    assert again.files == package.files
    assert built.called.count("bootgen") == 2


@pytest.mark.half_of_cases
@needs_dtc
@pytest.mark.parametrize(
    ("fault", "message", "called"),
    [
        ("hls", r"v\+\+ \(compiling dense_1_kernel by HLS\) failed, exit status 1: .*\[v\+\+ 60-399\] hls failed", 1),
        ("forgetful", r"v\+\+ -c ended well, but made no dense_1_kernel.xo", 1),
        ("link", r"v\+\+ \(linking\) failed, exit status 1: .*link failed, please check the log", 4),
        ("bootgen", r"bootgen \(packing the bitstream\) failed", 5),
        ("xclbinutil", r"xclbinutil \(taking the bitstream out", 6),
        ("no-bitstream", "left no bitstream", 4),
        ("no-handoff", r"left no hardware handoff", 6),
        ("contradiction", "handoffs of the design that contradict each other", 6),
        ("no-timing", "Vivado left no timing summary: it is unknown whether timing is met", 4),
    ],
)
def test_a_tool_that_fails_is_shown_with_its_last_words_and_the_log(
    fault: str, message: str, called: int, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTS", fault)
    with pytest.raises(ToolError, match=message) as error:
        built.build()
    assert error.value.hint
    assert len(built.called) == called
    [log] = (built.cache / "fabric").glob("*.log")
    assert "$ cd " in log.read_text()
    assert vendor.find_package(fabric(), built.tools, 200, built.cache) is None
    assert not list((built.cache / "fabric").glob(".building-*"))
    monkeypatch.setenv("FAULTS", "")
    assert not built.build().reused


@needs_dtc
def test_a_failure_names_the_log_that_has_it_all(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTS", "link")
    with pytest.raises(ToolError) as error:
        built.build()
    [log] = (built.cache / "fabric").glob("*.log")
    assert str(log) in error.value.hint
    assert "Block-level synthesis in progress" in log.read_text()


@pytest.mark.half_of_cases
@needs_dtc
@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (MISSED, "WNS -0.342 ns"),
        (MET.replace("0.011", "-0.001"), "WHS -0.001 ns"),
        (MET.replace("1.458", "-0.219"), "WPWS -0.219 ns"),
        (MET.replace("0.000 0 17000", "0.000 11 17000"), "11 failing endpoints"),
    ],
)
def test_a_design_that_misses_its_timing_is_refused(
    numbers: str, words: str, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMING", timing(numbers))
    with pytest.raises(ToolError, match=r"too slow for 200 MHz: timing NOT met.*not to be trusted") as error:
        built.build()
    assert words in error.value.message
    assert "lower vitis.clock_mhz" in error.value.hint
    [kept] = (built.cache / "fabric").glob("*.reports")
    assert str(kept) in error.value.hint
    assert list(kept.rglob("*timing_summary_routed.rpt"))
    assert "bootgen" not in built.called
    assert vendor.find_package(fabric(), built.tools, 200, built.cache) is None


@needs_dtc
def test_a_slow_loop_and_a_missing_report_are_told_and_refuse_nothing(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTS", "slow")
    assert "II=4 in dense_1_kernel_Pipeline_2/LOOP_2; II=1 in 1 other" in built.build().synthesis[0]
    monkeypatch.setenv("FAULTS", "unreported")
    assert built.build("other").synthesis == ()
    assert "dense_9_kernel: HLS left no csynth.xml where one is looked for" in built.said


@needs_dtc
def test_metadata_that_the_program_would_refuse_are_told_after_the_link(built: Built) -> None:
    built.build()
    assert any(line.startswith(f"{APP}.xclbin: this file is no xclbin: ") for line in built.said)


@needs_dtc
@pytest.mark.parametrize("kernels", [KERNELS, KERNELS[:1]])
def test_metadata_with_all_kernels_are_passed_over(
    kernels: Sequence[str], built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = xclbin.read(xclbin.write(kernels, 64 * "0"))
    monkeypatch.setattr(xclbin, "read", lambda _: linked)
    built.build()
    assert any(line.startswith(f"{APP}.xclbin: ") for line in built.said) is (kernels != KERNELS)


@needs_dtc
def test_progress_is_told_with_the_time_that_has_passed(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor, "TELL_EVERY_S", -1.0)
    built.build()
    told = [line for line in built.said if line.startswith("linking, ")]
    assert re.fullmatch(r"linking, 1 lines: \[19:06:54\] Block-level synthesis.* \(\ds\)", told[-1])


def test_a_cache_that_cannot_be_written_is_named(built: Built) -> None:
    built.cache.write_text("a file")
    with pytest.raises(ToolError, match=re.escape(f"cannot write {built.cache}")) as error:
        built.build()
    assert "free space" in error.value.hint


def test_the_link_is_told_clocks_kernels_and_memory() -> None:
    assert vendor.link_config(("a_kernel", "b_kernel"), 200_000_000, ("HP0", "HP1", "HP2")) == (
        "[clock]\nfreqHz=200000000:a_kernel_1.ap_clk\nfreqHz=200000000:b_kernel_1.ap_clk\n\n"
        "[connectivity]\nnk=a_kernel:1:a_kernel_1\nnk=b_kernel:1:b_kernel_1\n"
        "sp=a_kernel_1.given:HP0\nsp=a_kernel_1.made:HP1\nsp=b_kernel_1.given:HP2\nsp=b_kernel_1.made:HP0\n\n"
        "[advanced]\nparam=compiler.addOutputTypes=hw_export\n"
    )
    assert "sp=" not in vendor.link_config(("a_kernel",), 1, ())


def test_ports_are_those_of_the_platform() -> None:
    said = "Memory Information\n  Bus SP Tag: HP1\n  Bus SP Tag: HPC0\n  Bus SP Tag: HP0\n"
    assert vendor.memory_ports(said) == ("HP0", "HP1")
    assert vendor.memory_ports("  Bus SP Tag: HPC1\n  Bus SP Tag: HPC0\n") == ("HPC0", "HPC1")
    assert vendor.memory_ports("Memory Information\n") == ()


@needs_dtc
def test_without_platforminfo_the_linker_chooses_the_memory(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTS", "no-ports")
    assert not built.build().reused


# Reports


def test_the_last_optimisation_decides_about_timing(tmp_path: Path) -> None:
    (tmp_path / "a_timing_summary_routed.rpt").write_text(timing(MISSED))
    assert not reports.find_timing(tmp_path).met
    (tmp_path / "a_timing_summary_postroute_physopted.rpt").write_text(timing(MET))
    assert reports.find_timing(tmp_path / "nowhere", tmp_path).met
    (tmp_path / "b_timing_summary_postroute_physopted.rpt").write_text(timing(MISSED))
    assert not reports.find_timing(tmp_path).met


@pytest.mark.parametrize(
    "text",
    ["", timing("NA NA NA NA NA NA NA NA NA NA NA NA"), timing("0.1 0.0 0 9"), "WNS(ns) TNS(ns)\n--- ---\n1 2\n"],
)
def test_a_report_without_numbers_is_no_proof(text: str) -> None:
    with pytest.raises(ToolError, match="it is unknown whether timing is met"):
        reports.timing(text)


def test_loops_come_from_the_modules_not_from_the_summary_of_the_top() -> None:
    text = vendor_tools.CSYNTH.replace("KERNEL", "k").replace("INTERVAL", "2")
    found = reports.synthesis("k", text)
    assert found.loops == (Loop("k_Pipeline_1/LOOP_1", 1), Loop("k_Pipeline_2/LOOP_2", 2))
    assert found.slow_loops == found.loops[1:]
    alone = re.sub(r"<ModuleInformation>.*</ModuleInformation>", "", text, flags=re.DOTALL)
    assert reports.synthesis("k", alone).loops == (Loop("COPY", 9),)


def test_a_report_that_is_no_xml_is_named() -> None:
    with pytest.raises(ToolError, match="the report of HLS on k is no XML"):
        reports.synthesis("k", "<profile>")


# The overlay


DIRECT = overlay.hardware(handoff(clocks=2))
GATHERED = overlay.hardware(handoff(vendor_tools.CONTROLLER))


def test_the_handoff_tells_widths_clocks_and_the_controller() -> None:
    expected = tuple(enumerate((0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 << 8 | 2 << 10, 0)))
    assert Hardware(expected, ((0, 99_999_001), (1, 99_999_001))) == DIRECT
    assert Hardware(expected, ((0, 99_999_001),), Controller(0xA0030000, 0x10000, 32, 0xFFFFFFFE)) == GATHERED
    narrow = overlay.hardware(handoff(widths="32"))
    assert narrow is not None
    assert [word for _, word in narrow.afi] == [2, 2, 2, 2, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0]
    some = {"C_SAXIGP2_DATA_WIDTH": "32", "C_MAXIGP1_DATA_WIDTH": "64", "C_MAXIGP2_DATA_WIDTH": "128"}
    few = overlay.hardware(f"<MODULES>{vendor_tools.module('zynq_ultra_ps_e', some)}</MODULES>")
    assert few == Hardware(((4, 2), (5, 2), (14, 0x400), (15, 0x200)), ())
    assert overlay.hardware("<EDKSYSTEM><MODULES/></EDKSYSTEM>") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<EDKSYSTEM>", "is no XML"),
        (handoff(widths="256"), "C_SAXIGP0_DATA_WIDTH '256' where one of 128, 64, 32 bits was expected"),
        (f"<MODULES>{vendor_tools.module('zynq_ultra_ps_e', {})}</MODULES>", "says the width of no port"),
        (handoff(vendor_tools.module("axi_intc", {})), "says too little of the design's interrupt controller"),
    ],
)
def test_a_handoff_that_says_too_little_is_refused(text: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        overlay.hardware(text)


def compiled(design: Hardware | None, tmp_path: Path) -> Path:
    assert design is not None
    source, blob = tmp_path / "app.dtso", tmp_path / "app.dtbo"
    source.write_text(overlay.device_tree("harness_0123456789ab", design))
    done = subprocess.run(["dtc", "-@", "-O", "dtb", "-o", blob, source], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return blob


def value(blob: Path, node: str, name: str, kind: str = "s") -> str:
    done = subprocess.run(["fdtget", "-t", kind, blob, node, name], capture_output=True, check=True, text=True)
    return done.stdout.strip()


FULL, BUS = "/fragment@0/__overlay__", "/fragment@1/__overlay__"


@needs_dtc
def test_the_overlay_names_bitstream_ports_clocks_and_driver(tmp_path: Path) -> None:
    blob = compiled(DIRECT, tmp_path)
    assert value(blob, FULL, "firmware-name") == "harness_0123456789ab.bit.bin"
    assert value(blob, FULL, "resets", "u").split()[1::2] == ["116", "117", "118", "119"]
    assert value(blob, f"{BUS}/afi0", "compatible") == "xlnx,afi-fpga"
    words = list(map(int, value(blob, f"{BUS}/afi0", "config-afi", "u").split()))
    assert dict(zip(words[::2], words[1::2], strict=True)) == dict(DIRECT.afi if DIRECT else ())
    for number in (0, 1):
        clock = f"{BUS}/clocking{number}"
        assert value(blob, clock, "compatible") == "xlnx,fclk"
        assert value(blob, clock, "assigned-clock-rates", "u") == "99999001"
        assert value(blob, clock, "clocks", "u").split()[1] == str(71 + number)
    driver = f"{BUS}/zyxclmm_drm"
    assert value(blob, driver, "compatible") == "xlnx,zocl"
    assert value(blob, driver, "status") == "okay"
    lines = value(blob, driver, "interrupts", "u").split()
    assert lines[1::3] == [str(line) for line in range(89, 97)]
    for label, places in {
        "fpga_full": "/fragment@0:target:0",
        "amba": "/fragment@1:target:0",
        "gic": f"{driver}:interrupt-parent:0",
    }.items():
        assert value(blob, "/__fixups__", label) == places


@needs_dtc
def test_interrupts_that_a_controller_gathers_come_through_it(tmp_path: Path) -> None:
    blob = compiled(GATHERED, tmp_path)
    controller, driver = f"{BUS}/interrupt-controller@a0030000", f"{BUS}/zyxclmm_drm"
    assert value(blob, controller, "reg", "x") == "0 a0030000 0 10000"
    assert value(blob, controller, "compatible") == "xlnx,axi-intc-4.1 xlnx,xps-intc-1.00.a"
    assert value(blob, controller, "interrupts", "u") == "0 89 4"
    assert value(blob, controller, "xlnx,num-intr-inputs", "u") == "32"
    assert value(blob, controller, "xlnx,kind-of-intr", "x") == "fffffffe"
    assert value(blob, driver, "interrupt-parent", "x") == value(blob, controller, "phandle", "x")
    assert value(blob, driver, "interrupts", "u").split()[::2] == [str(line) for line in range(32)]
    assert value(blob, "/__fixups__", "gic") == f"{controller}:interrupt-parent:0"


@needs_dtc
def test_the_package_has_the_overlay_of_its_design(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDOFF", handoff(vendor_tools.CONTROLLER, widths="32"))
    package = built.build()
    blob = package.folder / f"{APP}.dtbo"
    assert value(blob, FULL, "firmware-name") == f"{APP}.bit.bin"
    assert value(blob, f"{BUS}/afi0", "config-afi", "u").split()[:4] == ["0", "2", "1", "2"]
    assert value(blob, f"{BUS}/zyxclmm_drm", "interrupts", "u").split()[-2:] == ["31", "4"]


def test_the_page_has_the_list_that_a_run_prints() -> None:
    page = (ROOT / "docs" / "reference" / "fabric.md").read_text()
    assert re.findall(r"^- \[ \] (.*)$", page, re.MULTILINE) == list(Vitis.hardware_checklist)
