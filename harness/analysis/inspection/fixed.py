"""The objects that the fixed sources of the board program may write, and their functions without other effects.

A new static variable in kernels/*/*.c or *.cpp is added here with its bytes.
"""

from __future__ import annotations

OBJECTS: dict[str, dict[str, int]] = {
    "clock.c": {"measured": 4, "counter": 4},
    "device_times.c": {"path": 4096, "file": 8},
    "stdout_redirect.c": {"begun": 4, "standard_output": 4},
    "record.c": {
        "dumps": 8, "times": 4136, "trace": 4136, "fault": 256, "rows": 8, "columns": 8, "warmup": 8, "repeat": 8,
        "block": 8, "scope": 4, "first_to_last": 1, "buffer": 8192,
    },
    "schedule.c": {"schedule": 168},
    "cuda.c": {"device": 256},
    "gpu.c": {"gpu": 32, "results": 228, "entered": 1},
    "module.c": {"published": 96},
    "tiovx.c": {"tiovx": 32},
    "watchdog.c": {"watches": 8},
    "xrt.cpp": {"_ZN12_GLOBAL__N_14fpgaE": 8},
    "crtstuff.c": {"completed": 1},
}  # fmt: skip
"""Bytes of each object that can be written, by source file; compilers may leave one out or divide it."""

GLOBALS = {
    "cuda": 296, "status_at_end": 4, "__aarch64_have_lse_atomics": 1,
    "DW.ref.__gxx_personality_v0": 8, "DW.ref._ZTISt9bad_alloc": 8, "DW.ref._ZTISt9exception": 8,
}  # fmt: skip
"""Those with external linkage, and those that C++ compilers add."""

START_BYTES = {".data": 16}
"""Bytes that C start files put first into a section: __data_start and __dso_handle, whose symbols have no size."""

START_CODE = frozenset({"frame_dummy", "__do_global_dtors_aux", "init_have_lse_atomics"})
"""Functions of the C start files that run before main and after it."""

CONSTRUCTORS = frozenset({"xrt.cpp"})
"""Fixed sources that C++ initialises before main."""

PURE = {"memcpy": 3, "memmove": 3, "memset": 3, "memcmp": 3, "rintf": 0, "fminf": 0, "fmaxf": 0}
"""Library functions whose results follow from their arguments alone, with the number of those in general registers.

Only an import has these properties by its name: a function of the program is read."""

POINTERS = {"memcpy": 2, "memmove": 2, "memset": 1, "memcmp": 2}
"""Number of the first arguments that are pointers, for each of these functions."""

NEVER_RETURN = frozenset({"exit", "_exit", "abort", "__assert_fail", "pthread_exit", "quick_exit", "__stack_chk_fail"})
"""Library functions that never return."""

WRITTEN_BY_LIBRARY = {"memcpy": 0, "memmove": 0, "memset": 0}
"""The argument through which a library function writes, and which it returns."""
