"""The functions of the CUDA driver's API, called one by one from Python."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Array


class Gpu:
    """A stand-in with a state of its own.  `call` gives the function's error, `make` what it writes first."""

    def __init__(self, library: Path) -> None:
        folder = tempfile.mkdtemp(dir=library.parent)  # a library is loaded once by its file
        self.library = ctypes.CDLL(shutil.copy(library, folder))
        self.module = 0
        self.stream = 0
        self.context = 0
        self.room = 0  # an allocation, for who needs one

    def call(self, function: str, *arguments: Any) -> int:
        """Integers go as 64 bits, whatever the function takes of them."""
        given = [ctypes.c_uint64(each) if isinstance(each, int) else each for each in arguments]
        return int(getattr(self.library, function)(*given))

    def do(self, function: str, *arguments: Any) -> None:
        assert (function, self.call(function, *arguments)) == (function, 0)

    def make(self, function: str, *arguments: Any) -> int:
        made = ctypes.c_uint64()
        self.do(function, ctypes.byref(made), *arguments)
        return made.value

    def open(self, image: bytes) -> Gpu:
        """With a context, a module and a stream."""
        self.do("cuInit", 0)
        self.context = self.make("cuCtxCreate_v2", 0, 0)
        self.module = self.make("cuModuleLoadData", image)
        self.stream = self.new_stream()
        return self

    def new_stream(self) -> int:
        return self.make("cuStreamCreate", 1)

    def function(self, name: str) -> int:
        return self.make("cuModuleGetFunction", self.module, name.encode())

    def allocate(self, size: int) -> int:
        return self.make("cuMemAlloc_v2", size)

    def pinned(self, size: int) -> Array:
        """Pinned memory of the host, uint8 (size,)."""
        address = self.make("cuMemAllocHost_v2", size)
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))

    def put(self, address: int, values: Array, stream: int | None = None) -> int:
        return self.call("cuMemcpyHtoDAsync_v2", address, values.ctypes.data, values.nbytes, self._stream_or(stream))

    def get(self, values: Array, address: int, stream: int | None = None) -> int:
        return self.call("cuMemcpyDtoHAsync_v2", values.ctypes.data, address, values.nbytes, self._stream_or(stream))

    def launch(
        self,
        function: int,
        parameters: Sequence[Any],
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (32, 1, 1),
        shared: int = 0,
        stream: int | None = None,
    ) -> int:
        """Addresses and ctypes values as parameters."""
        values = [ctypes.c_uint64(each) if isinstance(each, int) else each for each in parameters]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        return self.call(
            "cuLaunchKernel", function, *grid, *block, shared, self._stream_or(stream), addresses, ctypes.c_void_p()
        )

    def synchronize(self, stream: int | None = None) -> int:
        return self.call("cuStreamSynchronize", self._stream_or(stream))

    def _stream_or(self, stream: int | None) -> int:
        return self.stream if stream is None else stream
