"""cffi builder of `parlora._native`: every C file beside this one, declared to Python by parlora.cdef.

setup.py names this file's `ffi`, so `pip install` and `setup.py build_ext --inplace` both compile it.
Paths are relative to the project's root, which is where setuptools runs.
"""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("*.c"))
HEADERS = sorted(HERE.glob("*.h"))
INTERNAL = ("ring_layout.h", "pump_internal.h")

ffi = FFI()
ffi.cdef((HERE / "parlora.cdef").read_text(encoding="utf-8"))
ffi.set_source(
    "parlora._native",
    "\n".join(f'#include "{header.name}"' for header in HEADERS if header.name not in INTERNAL),
    sources=[f"native/{source.name}" for source in SOURCES],
    depends=[f"native/{path.name}" for path in (*HEADERS, HERE / "parlora.cdef")],
    include_dirs=["native"],
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"],
    libraries=["m"],
)

if __name__ == "__main__":
    ffi.compile(verbose=True)
