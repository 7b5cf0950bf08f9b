"""Build script of the stand-in: `python build_library.py FOLDER` puts a libcuda.so.1 there."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parent
NAME = "libcuda.so.1"
FLAGS = ["-shared", "-fPIC", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]


def missing() -> str:
    """Return why the stand-in cannot be built or used here, or an empty text."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the stand-in replaces functions of CuPy's by jumps of x86-64, on Linux"
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    return ""


def build(folder: Path) -> Path:
    """Compile the library into the folder, and return its path. Raise RuntimeError with the compiler's
    output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / NAME
    sources = sorted(map(str, SOURCES.glob("*.c")))
    command = ["gcc", *FLAGS, f"-Wl,-soname,{NAME}", "-o", str(library), *sources, "-ldl", "-lpthread"]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{finished.stderr}")
    return library


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
