"""What setup.py compiles: `parlora._native`, by cffi, and `parlora._native_frames`, the calls made once per frame.

The first is every C file beside this one but python_frames.c, declared to Python by parlora.cdef. The second is
python_frames.c and the ring it calls. Paths are relative to the project's root, which is where setuptools runs.
"""

from pathlib import Path

from cffi import FFI
from setuptools import Extension

HERE = Path(__file__).parent
FRAMES = HERE / "python_frames.c"
SOURCES = sorted(set(HERE.glob("*.c")) - {FRAMES})
HEADERS = sorted(HERE.glob("*.h"))
INTERNAL = ("ring_layout.h", "pump_internal.h")

FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-fvisibility=hidden"]
FLAGS += ["-Werror=implicit-function-declaration"]  # as from outside the stable interface
DEPENDS = [f"native/{path.name}" for path in (*HEADERS, HERE / "parlora.cdef")]

ffi = FFI()
ffi.cdef((HERE / "parlora.cdef").read_text(encoding="utf-8"))
ffi.set_source(
    "parlora._native",
    "\n".join(f'#include "{header.name}"' for header in HEADERS if header.name not in INTERNAL),
    sources=[f"native/{source.name}" for source in SOURCES],
    depends=DEPENDS,
    include_dirs=["native"],
    extra_compile_args=FLAGS,
    libraries=["m"],
)

frames = Extension(
    "parlora._native_frames",
    [f"native/{source.name}" for source in (FRAMES, *SOURCES) if source == FRAMES or source.name.startswith("ring_")],
    depends=DEPENDS,
    include_dirs=["native"],
    extra_compile_args=FLAGS,
    py_limited_api=True,
)

if __name__ == "__main__":
    ffi.compile(verbose=True)
