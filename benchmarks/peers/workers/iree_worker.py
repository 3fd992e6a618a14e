"""IREE: compiled for this processor, on the driver without threads.  Arguments: float or model.

A run is one invocation through the Python binding of IREE's virtual machine, the cheapest single call there is: IREE's
own benchmark tool tells means of many calls only.
"""  # noqa: INP001 - a script

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import worker

FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3")


class Iree:
    """One function of one compiled module."""

    def __init__(self, module: bytes, vectors: worker.Floats, computes: str) -> None:
        import iree.runtime as iree

        self.version = f"iree {version('iree-base-compiler')}"
        self.computes = computes
        self._iree = iree
        self._device = iree.get_driver("local-sync").create_default_device()
        instance = iree.VmInstance()
        program = iree.VmModule.copy_buffer(instance, module)
        self._context = iree.VmContext(instance, [iree.create_hal_module(instance, self._device), program])
        self._function = program.lookup_function("network")
        self._inputs = [self._arguments(vector) for vector in vectors]
        self.put(0)

    def _arguments(self, vector: worker.Floats) -> object:
        """Return a list of one argument, in memory of the device."""
        iree = self._iree
        view = self._device.allocator.allocate_buffer_copy(
            memory_type=iree.MemoryType.DEVICE_LOCAL,
            allowed_usage=iree.BufferUsage.DEFAULT,
            device=self._device,
            buffer=np.ascontiguousarray(vector[None]),
            element_type=iree.HalElementType.FLOAT_32,
        )
        arguments = iree.VmVariantList(1)
        arguments.push_ref(view)
        return arguments

    def put(self, index: int) -> None:
        """Choose the vector's argument; the results are a new list, because an invocation appends to it."""
        self._input, self._results = self._inputs[index], self._iree.VmVariantList(1)

    def run(self) -> None:
        """One invocation, which allocates its results."""
        self._context.invoke(self._function, self._input, self._results)

    def output(self) -> worker.Floats:
        """Return the scores, float32 (width,)."""
        iree = self._iree
        view = self._results.get_as_object(0, iree.HalBufferView)
        return np.asarray(iree.DeviceArray(self._device, view, implicit_host_transfer=True))[0]


def compiled(path: Path) -> bytes:
    """Return the module of the function `network` of an ONNX file; RuntimeError for an unknown operator."""
    from iree.compiler import CompilerToolError, compile_str

    importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(path)]
    text = subprocess.run(importer, check=True, capture_output=True, text=True).stdout
    try:
        return compile_str(text, input_type="onnx", target_backends=["llvm-cpu"], extra_args=list(FLAGS))
    except CompilerToolError as error:
        operator = re.search(r"onnx\.\w+", str(error))
        raise RuntimeError(f"cannot compile {operator[0] if operator else path.name}") from error


def open_contender(folder: Path, vectors: worker.Floats, arguments: list[str]) -> Iree:
    """Compile the float network or the model itself."""
    import onnx  # noqa: F401 - which IREE's importer needs without saying so

    return Iree(compiled(folder / f"{arguments[0]}.onnx"), vectors, arguments[0])


worker.main("iree-base-compiler iree-base-runtime onnx", open_contender)
