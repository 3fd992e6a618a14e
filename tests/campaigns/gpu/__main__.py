"""The tests of this folder, then the benchmarks; what they say is kept as evidence under docs/evidence.

python -m tests.campaigns.gpu [--log FOLDER] [--part tests] [--part dense] ...
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import click

from harness.core.errors import EXIT_INFRASTRUCTURE, HarnessError
from harness.core.installation import ROOT
from tests.campaigns.gpu import device
from tests.campaigns.gpu.device import Device, NoGpu

# Beside each other: most of the time is the processor's.
BESIDE = ("-n", "auto")
TESTS = ("-m", "pytest", "tests/campaigns/gpu", "-v", "--durations=0", "-p", "no:cacheprovider", *BESIDE)
BENCHMARK = "benchmarks/gpu.py"
OF_RESNET_8 = ("--model", "models/resnet8_int8.onnx", "--vectors", "1056")
EFFORT = ("--compilations", "0", "--wait", "spin", "--executions", "5000")
PARTS = {
    "tests": TESTS,
    "dense": (BENCHMARK,),
    "cudnn": ("benchmarks/cudnn.py", *OF_RESNET_8),
    "resnet8": (BENCHMARK, *OF_RESNET_8, *EFFORT),
}
PACKAGES = ("numpy", "onnx", "onnxruntime", "cuda-bindings", "nvidia-cuda-nvrtc-cu11")
BRIEF = ("--simulated", "--vectors", "256", "--launches", "2", "--executions", "100", "--compilations", "1")


def answer(*command: str) -> str:
    """What a tool prints; nothing where it is missing or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    """Of this checkout, and whether it was changed; HARNESS_COMMIT says it where git cannot."""
    if answer("git", "rev-parse", "--show-toplevel") != str(ROOT):
        return os.environ.get("HARNESS_COMMIT", "unknown: this is no git checkout, and HARNESS_COMMIT does not say it")
    changed = answer("git", "status", "--porcelain", "--", ".", ":!docs/evidence")
    return answer("git", "rev-parse", "HEAD") + (", with uncommitted changes" if changed else "")


def head(gpu: Device, now: datetime) -> Iterator[str]:
    """What the log is of."""
    if gpu.simulated:
        yield f"NO EVIDENCE OF ANY GPU: {gpu.name} on this machine's processor"
    yield f"GPU: {gpu.description}"
    kernel_driver = answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    yield f"driver: {kernel_driver or 'nvidia-smi does not tell'}"
    yield f"commit: {commit()}"
    yield f"date: {now:%Y-%m-%d %H:%M} UTC"
    yield f"machine: {platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    yield f"packages: {', '.join(f'{name} {metadata.version(name)}' for name in PACKAGES)}"


def parts_here(gpu: Device) -> tuple[str, ...]:
    """All parts; the comparison with cuDNN if this is a GPU and PyTorch, which no requirement names, is installed."""
    compared = not gpu.simulated and importlib.util.find_spec("torch") is not None
    return tuple(name for name in PARTS if name != "cudnn" or compared)


def commands(parts: Sequence[str], *, simulated: bool) -> Iterator[tuple[str, ...]]:
    """Arguments of Python for each part."""
    for name, command in PARTS.items():
        if name in parts:
            yield (*command, *(BRIEF if simulated and command[0] == BENCHMARK else ()))


class Log:
    """A file, without this machine's paths; it has each line at once, so that an interrupted run has its log, too."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def add(self, *lines: str) -> None:
        """Append lines; without a path nothing is kept."""
        text = "\n".join(lines).replace(sys.executable, "python").replace(f"{sys.prefix}/", "")
        text = text.replace(f"{ROOT}/", "").replace(str(ROOT), ".")
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")


def run(arguments: Sequence[str], log: Log) -> int:
    """Run Python with these; its output is shown and kept."""
    log.add("", f"$ python {' '.join(arguments)}")
    command = [sys.executable, *arguments]
    settings = os.environ | {"COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            print(line, end="", flush=True)  # noqa: T201 - what a user waits for
            log.add(line.rstrip())
    log.add(f"exit status {process.returncode}")
    return process.returncode


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option(
    "--log",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where the log goes: docs/evidence, of a simulation nowhere.",
)
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Default: all.")
def main(folder: Path | None, parts: Sequence[str]) -> None:
    """Run all parts, even if one fails."""
    try:
        gpu = device.find()
    except NoGpu as reason:
        print(f"nothing was run: {reason}", file=sys.stderr)  # noqa: T201 - the one reason
        sys.exit(EXIT_INFRASTRUCTURE)
    except HarnessError as error:
        raise click.ClickException(f"{error.message}\nhint: {error.hint}") from error
    now, folder = datetime.now(UTC), folder or (None if gpu.simulated else ROOT / "docs/evidence")
    log = Log(folder and folder / f"{now:%Y%m%d-%H%M%S}_{device.file_name(gpu)}.log")
    lines = list(head(gpu, now))
    log.add(*lines)
    print("\n".join(lines))  # noqa: T201 - what a user looks for
    failed = [run(command, log) for command in commands(parts or parts_here(gpu), simulated=gpu.simulated)]
    if log.path:
        print(f"\nlog: {log.path}")  # noqa: T201 - what a user looks for
    sys.exit(int(any(failed)))


if __name__ == "__main__":
    main(prog_name="python -m tests.campaigns.gpu")
