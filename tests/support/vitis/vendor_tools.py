"""AMD's tools as strict fakes: programs that check what they are given, write what is believable, and fail on request.

What they write has the form of public builds; nobody has compared it with a run of the real tools here.  A fault is a
word in the environment's FAULTS; RECORD names a file that lists who was called.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.targets.vitis.kernel import Fabric

VERSION = "2022.2"
KERNELS = ("dense_1_kernel", "dense_9_kernel")

PRELUDE = """#!{python}
import os, pathlib, re, sys

NAME = pathlib.Path(sys.argv[0]).name
FAULTS = os.environ.get("FAULTS", "").split()
with open(os.environ["RECORD"], "a") as record:
    print(NAME, *sys.argv[1:], file=record)


def demand(condition, what):
    if not condition:
        print("ERROR: [fake]", NAME, what)
        sys.exit(99)


def fail_if(fault):
    if fault in FAULTS:
        print("INFO: working")
        print("ERROR: [v++ 60-399] " + fault + " failed, please check the log")
        print()
        sys.exit(1)


def options(words, values, flags):
    given, rest, words = {{}}, [], list(words)
    while words:
        word = words.pop(0)
        if word in values:
            demand(words, word + " without a value")
            demand(word not in given, word + " twice")
            given[word] = words.pop(0)
        elif word in flags:
            given[word] = True
        else:
            demand(not word.startswith("-"), "does not know " + word)
            rest.append(word)
    return given, rest


def write(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
"""

COMPILER = """
if sys.argv[1:] == ["--version"]:
    print("\\n****** v++ v{version} (64-bit)\\n  **** SW Build 3671529 on 2022-10-13-17:52:11" * ("mute" not in FAULTS))
    sys.exit(0)

demand(os.environ["XILINX_VITIS"] and os.environ["XILINX_VIVADO"], "without the settings of Vitis")
demand("Vivado/{version}/bin" in os.environ["PATH"], "cannot find vivado")
COMMON = ["-t", "--platform", "--temp_dir", "--log_dir", "--report_dir", "-o"]
COMPILE, LINK = ["-k", "--hls.clock", "-I"], ["--config"]
given, inputs = options(sys.argv[1:], COMMON + COMPILE + LINK, ["--save-temps", "-c", "-l"])
demand(given["-t"] == "hw" and given["--save-temps"], "target")
demand(pathlib.Path(given["--platform"]).read_text() == "<platform/>", "platform")
temporary, report = pathlib.Path(given["--temp_dir"]), pathlib.Path(given["--report_dir"])
demand("-c" in given or "-l" in given, "neither -c nor -l")


def compile():
    kernel = given["-k"]
    demand(given["--hls.clock"] == "200000000:" + kernel, "clock " + given["--hls.clock"])
    [source] = map(pathlib.Path, inputs)
    demand(source.name == "network.cpp", "source " + source.name)
    text = source.read_text()
    demand(re.search(r"void " + kernel + r"\\(", text), "no function " + kernel)
    for header in re.findall(r'#include "(.*)"', text):
        demand((pathlib.Path(given["-I"]) / header).is_file(), "no " + header)
    fail_if("hls")
    report_of = temporary / kernel / "solution/syn/report"
    interval = 4 if "slow" in FAULTS else 1
    if "unreported" not in FAULTS:
        text = os.environ["CSYNTH"].replace("KERNEL", kernel).replace("INTERVAL", str(interval))
        write(report_of / "csynth.xml", text)
    write(given["-o"], "object of " + kernel)
    if "forgetful" in FAULTS:
        os.remove(given["-o"])


def link():
    lines = pathlib.Path(given["--config"]).read_text().splitlines()
    sections = [line for line in lines if line.startswith("[")]
    demand(sections == ["[clock]", "[connectivity]", "[advanced]"], "sections " + str(sections))
    demand("param=compiler.addOutputTypes=hw_export" in lines, "no hw_export")
    kernels = [pathlib.Path(path).read_text().removeprefix("object of ") for path in inputs]
    demand([line for line in lines if line.startswith("nk=")] == [f"nk={{k}}:1:{{k}}_1" for k in kernels], "nk")
    clocks = [f"freqHz=200000000:{{k}}_1.ap_clk" for k in kernels]
    demand([line for line in lines if line.startswith("freqHz=")] == clocks, "freqHz")
    for line in lines:
        if line.startswith("sp="):
            demand(re.fullmatch(r"sp=(\\w+)_1[.](given|made):HP[0-3]", line), line)
    print("[19:06:54] Block-level synthesis in progress, 0 of 10 jobs complete, 8 jobs running.")
    fail_if("link")
    vivado = temporary / "link/vivado/vpl/prj"
    if "no-timing" not in FAULTS:
        write(report / "link/imp/impl_1_system_wrapper_timing_summary_routed.rpt", os.environ["TIMING"])
    if "no-bitstream" not in FAULTS:
        write(temporary / "link/int/system.bit", "header of the bitstream\\nconfiguration")
    if "no-handoff" not in FAULTS:
        write(vivado / "prj.gen/sources_1/bd/system/hw_handoff/system.hwh", os.environ["HANDOFF"])
        write(vivado.parent / ".local/hw_platform/system.hwh", os.environ["HANDOFF"].replace('"128"', '"64"'))
    if "contradiction" in FAULTS:
        write(vivado / "prj.srcs/sources_1/bd/system/hw_handoff/system.hwh", os.environ["HANDOFF"].replace("128", "64"))
    write(vivado / "prj.gen/sources_1/bd/system/ip/smc/bd_0/hw_handoff/bd_0.hwh", "<EDKSYSTEM><MODULES/></EDKSYSTEM>")
    write(given["-o"], "sections\\nBITSTREAM " + " ".join(kernels))


compile() if "-c" in given else link()
"""

PLATFORMINFO = """
demand(len(sys.argv) == 2 and sys.argv[1].endswith(".xpfm"), "arguments")
if "no-ports" in FAULTS:
    sys.exit(1)
for tag in ("HPC0", "HP1", "HP0"):
    print("  Bus SP Tag:", tag)
"""

BOOTGEN = """
given, rest = options(sys.argv[1:], ["-image", "-arch", "-process_bitstream"], ["-w"])
demand(not rest and given["-arch"] == "zynqmp" and given["-process_bitstream"] == "bin", "arguments")
description = pathlib.Path(given["-image"]).read_text()
found = re.fullmatch(r"all:\\n\\{{\\n    \\[destination_device = pl\\] (\\S+)\\n\\}}\\n", description)
demand(found, "image description")
fail_if("bootgen")
write(found[1] + ".bin", pathlib.Path(found[1]).read_text().split("\\n")[1])
"""

XCLBINUTIL = """
given, rest = options(sys.argv[1:], ["--remove-section", "--input", "--output"], ["--force"])
demand(not rest and given["--remove-section"] == "BITSTREAM" and given["--force"], "arguments")
text = pathlib.Path(given["--input"]).read_text()
demand("BITSTREAM" in text, "no such section")
fail_if("xclbinutil")
write(given["--output"], text.replace("BITSTREAM ", ""))
"""

CSYNTH = """<?xml version="1.0" encoding="UTF-8"?>
<profile>
  <PerformanceEstimates>
    <SummaryOfTimingAnalysis><EstimatedClockPeriod>3.650</EstimatedClockPeriod></SummaryOfTimingAnalysis>
    <SummaryOfOverallLatency>
      <Best-caseLatency>undef</Best-caseLatency><Worst-caseLatency>undef</Worst-caseLatency>
    </SummaryOfOverallLatency>
    <SummaryOfLoopLatency><COPY><PipelineII>9</PipelineII></COPY></SummaryOfLoopLatency>
  </PerformanceEstimates>
  <AreaEstimates>
    <Resources><BRAM_18K>14</BRAM_18K><DSP>50</DSP><FF>4504</FF><LUT>3826</LUT><URAM>0</URAM></Resources>
  </AreaEstimates>
  <ModuleInformation>
    <Module>
      <Name>KERNEL_Pipeline_1</Name>
      <PerformanceEstimates>
        <SummaryOfLoopLatency>
          <LOOP_1><Name>LOOP_1</Name><PipelineII>1</PipelineII><PipelineDepth>3</PipelineDepth></LOOP_1>
        </SummaryOfLoopLatency>
      </PerformanceEstimates>
    </Module>
    <Module>
      <Name>KERNEL_Pipeline_2</Name>
      <PerformanceEstimates>
        <SummaryOfLoopLatency>
          <OUTER><Name>OUTER</Name><LOOP_2><PipelineII>INTERVAL</PipelineII></LOOP_2></OUTER>
        </SummaryOfLoopLatency>
      </PerformanceEstimates>
    </Module>
  </ModuleInformation>
</profile>
"""

HEADING = """\
------------------------------------------------------------------------------------------------
| Design Timing Summary
| ---------------------
------------------------------------------------------------------------------------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)  THS Failing Endpoints  \
THS Total Endpoints     WPWS(ns)     TPWS(ns)  TPWS Failing Endpoints  TPWS Total Endpoints  
    -------      -------  ---------------------  -------------------      -------      -------  ---------------------  \
-------------------     --------     --------  ----------------------  --------------------  
"""  # noqa: W291 - as Vivado writes it
MET = "0.287 0.000 0 42000 0.011 0.000 0 42000 1.458 0.000 0 17000"
MISSED = "-0.342 -1.250 4 42000 0.011 0.000 0 42000 1.458 0.000 0 17000"


def timing(numbers: str) -> str:
    """A timing summary of Vivado."""
    return f"1. checking no_clock (0)\n\n{HEADING}      {'        '.join(numbers.split())}\n\n\nAll user specified\n"


def handoff(*more: str, widths: str = "128", clocks: int = 1) -> str:
    """A hardware handoff: the processor's parameters, and other modules."""
    names = [f"C_SAXIGP{port}_DATA_WIDTH" for port in range(7)] + [f"C_MAXIGP{port}_DATA_WIDTH" for port in range(3)]
    values = dict.fromkeys(names, widths) | {"C_SAXIGP2_DATA_WIDTH": "64", "C_MAXIGP2_DATA_WIDTH": "32"}
    for clock in range(4):
        values[f"C_PL_CLK{clock}_BUF"] = "TRUE" if clock < clocks else "FALSE"
        values[f"PSU__CRL_APB__PL{clock}_REF_CTRL__ACT_FREQMHZ"] = "99.999001"
    return f"<EDKSYSTEM><MODULES>{module('zynq_ultra_ps_e', values)}{''.join(more)}</MODULES></EDKSYSTEM>"


def module(kind: str, values: dict[str, str]) -> str:
    """A module of a handoff."""
    parameters = "".join(f'<PARAMETER NAME="{name}" VALUE="{value}"/>' for name, value in values.items())
    return f'<MODULE MODTYPE="{kind}" INSTANCE="{kind}_0"><PARAMETERS>{parameters}</PARAMETERS></MODULE>'


CONTROLLER = module(
    "axi_intc",
    {
        "C_BASEADDR": "0x00A0030000",
        "C_HIGHADDR": "0x00A003FFFF",
        "C_NUM_INTR_INPUTS": "32",
        "C_KIND_OF_INTR": "0xfffffffe",
    },
)


def install(top: Path) -> tuple[Path, Path]:
    """The tools below `top`; the folder of Vitis, and a platform."""
    tools = {
        f"Vitis/{VERSION}/bin/v++": COMPILER,
        f"Vitis/{VERSION}/bin/platforminfo": PLATFORMINFO,
        f"Vitis/{VERSION}/bin/xclbinutil": XCLBINUTIL,
        f"Vivado/{VERSION}/bin/bootgen": BOOTGEN,
    }
    for name, body in tools.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((PRELUDE + body).format(python=sys.executable, version=VERSION))
        path.chmod(0o755)
    platform = top / "platform" / "kv260_custom.xpfm"
    (platform.parent / "hw").mkdir(parents=True)
    platform.write_text("<platform/>")
    (platform.parent / "hw" / "kv260.xsa").write_bytes(b"design")
    return top / "Vitis" / VERSION, platform


def environment(record: Path) -> dict[str, str]:
    """What the fakes want to know: a build that goes well."""
    return {"RECORD": str(record), "CSYNTH": CSYNTH, "TIMING": timing(MET), "HANDOFF": handoff(), "FAULTS": ""}


def fabric(word: str = "") -> Fabric:
    """Two kernels that say nothing; `word` makes others of them."""
    functions = "\n".join(f'extern "C" void {name}(const int *given, int *made);' for name in KERNELS)
    sources = {
        "network.cpp": f'#include "layer.hpp"\n#include "identity.hpp"\n/* {word} */\n{functions}\n',
        "layer.hpp": '#include "stream.hpp"\n',
        "stream.hpp": "",
        "identity.hpp": "",
    }
    return Fabric({name: text.encode() for name, text in sources.items()}, KERNELS)
