"""What a measurement belongs to: the machine and the day."""  # noqa: INP001 - beside the scripts that import it

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, str]:
    """Processor, number of processors, load (which should be near 0), date, and the packages that are measured."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "processor": model[1] if model else platform.machine(),
        "processors": str(os.cpu_count()),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "onnxruntime": version("onnxruntime"),
    }
