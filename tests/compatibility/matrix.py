"""triten under each version that it says it works with, of Python and of what it needs: `make matrix`.

Each row has a virtual environment of its own, which is kept, and one or more checks:

* base: a choice of tests on the CPU, in about a minute.
* compiled: every kernel compiles for sm_80, sm_90 and sm_100 as the gate wants it, a user's ``kernel[grid](tensors)``
  reaches the driver, over CuPy and the stand-in for libcuda too, and nothing imports a `torch` that is installed.
* interpreted: the tests of the CUDA runtime and of the Triton kernels, in Triton's interpreter.
* emulated: Triton programs and a few operators, compiled and executed by the emulator, in seconds.
* programs: the same programs in Triton's interpreter.

A row is a Python, and packages at the oldest versions that pyproject.toml allows, or at the newest that the index has.
The rows `base-oldest` have neither Triton nor CuPy, the rows `emulated` no CuPy. An interpreter that is not found is a
row that says so: it is looked for in PATH and among those of pyenv and uv, or named
(``--interpreter 3.14=/path/to/python``).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNNING = f"3.{sys.version_info.minor}"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
BASE = (
    "tests/test_operator_docs.py",
    "tests/dispatch/core",
    "tests/dispatch/functions",
    "tests/dispatch/iterator",
    "tests/runtime/test_generator.py",
    "tests/runtime/test_record.py",
    "tests/runtime/test_scalar_type.py",
    "tests/runtime/test_storage.py",
    "tests/serialization",
)
COMPILED = (
    "tests/perf/test_aot.py",
    "tests/runtime/cuda/triton/test_triton_driver.py",
    "tests/runtime/cuda/standin/test_triton_driver.py",
)
EMULATED = ("tests/runtime/cuda/triton/tutorial_programs.py",)
INTERPRETED = ("tests/runtime/cuda", "tests/triton_kernels")
TESTS = {
    "base": BASE,
    "compiled": COMPILED,
    "interpreted": (*INTERPRETED, *(f"--ignore={file}" for file in COMPILED)),
    "emulated": EMULATED,
    "programs": EMULATED,
}
DEVICES = {"emulated": "emulate", "programs": "interpret"}
"""TRITEN_CUDA of checks that do not set it themselves."""
RUNNERS = ("pytest", "pytest-xdist", "hypothesis", "pyyaml")
NEEDED = ("numpy", "scipy", "ml_dtypes")
CUDA = ("triton", "cupy-cuda13x")

# The first releases with wheels for a Python that came after the version that pyproject.toml names.
FIRST_WHEELS = {"3.14": {"numpy": "2.3.2", "scipy": "1.16.1"}}
FIRST_WHEELS["3.14t"] = FIRST_WHEELS["3.14"]


@dataclass(frozen=True)
class Row:
    """An environment: a Python, the packages that it gets, and the checks that it is asked."""

    name: str
    python: str
    packages: tuple[str, ...]
    checks: tuple[str, ...]


@cache
def lower_bounds() -> dict[str, str]:
    """Return the oldest version of each package that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    bounds = {}
    for requirement in (*project["dependencies"], *extras["cuda13"]):
        name, bound = re.fullmatch(r"([\w-]+) >= ([\d.]+)", requirement).groups()
        bounds[name] = bound
    return bounds


def oldest(python: str, *names: str) -> tuple[str, ...]:
    first = FIRST_WHEELS.get(python, {})
    return tuple(f"{name} == {first.get(name, lower_bounds()[name])}" for name in names)


def rows() -> Iterator[Row]:
    for python in PYTHONS:
        yield Row(f"{python}-base-oldest", python, oldest(python, *NEEDED), ("base",))
        yield Row(f"{python}-oldest", python, oldest(python, *NEEDED, *CUDA), ("compiled", "interpreted"))
        yield Row(f"{python}-newest", python, (*NEEDED, *CUDA), ("base", "compiled", "interpreted"))
    # Triton 3.6's interpreter fails with NumPy 2.4 and later.
    for triton, checks in (
        ("3.6.0", ("compiled",)),
        ("3.7.1", ("compiled", "interpreted")),
        ("3.8.0", ("compiled", "interpreted")),
    ):
        packages = (*NEEDED, f"triton == {triton}")
        yield Row(f"{RUNNING}-triton-{triton}", RUNNING, (*packages, "cupy-cuda13x"), checks)
        yield Row(f"{RUNNING}-emulated-{triton}", RUNNING, packages, ("emulated", "programs"))


def version_of(python: Path | str) -> str | None:
    """ "3.14" or, of an interpreter without the global lock, "3.14t"; None if it does not run."""
    program = (
        "import sys, sysconfig; "
        "print(f'3.{sys.version_info[1]}' + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
    )
    try:
        done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def interpreter(version: str) -> Path | None:
    """Return the newest interpreter of a version, or None: from PATH, then from pyenv and uv."""
    homes = (
        (Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions", f"{version}*/bin/python"),
        (Path("~/.local/share/uv/python").expanduser(), "cpython-3*/bin/python"),
    )
    found = [sys.executable, shutil.which(f"python{version}")]
    for folder, pattern in homes:
        found += sorted(folder.glob(pattern), reverse=True)
    return next((Path(python) for python in found if python and version_of(python) == version), None)


def environment(row: Row, python: Path, folder: Path) -> Path:
    """Return the row's Python, with its packages. Raises CalledProcessError if installing them fails."""
    home = folder / row.name
    inside = home / "bin" / "python"
    ready = home / ".installed"
    wanted = "\n".join((str(python), *row.packages))
    if not ready.exists() or ready.read_text() != wanted:
        # Without pip, which not every Python brings: the one that runs this program installs.
        subprocess.run([python, "-m", "venv", "--clear", "--without-pip", home], check=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            inside,
            "install",
            "-q",
            "--no-compile",
            "--disable-pip-version-check",
        ]
        extra = ("rich",) if len(row.packages) > len(NEEDED) else ()
        binary = ["--only-binary", ":all:"]
        subprocess.run([*pip, *binary, *row.packages, *RUNNERS, *extra], check=True)
        ready.write_text(wanted)
    return inside


def run(row: Row, check: str, python: Path, folder: Path, workers: str) -> tuple[bool, str]:
    """Return the check's success and pytest's own count; print a failure's output."""
    hidden = ("PYTHONPATH", "TRITEN_CUDA", "TRITON_INTERPRET", "PYTEST_ADDOPTS")
    variables = {k: v for k, v in os.environ.items() if k not in hidden}
    variables |= {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(folder / row.name / "cache")}
    if check in DEVICES:
        variables["TRITEN_CUDA"] = DEVICES[check]
    settings = ("-o", f"cache_dir={folder / row.name / 'pytest'}", "-n", workers)
    command = [python, "-P", "-m", "pytest", "-q", *settings, *TESTS[check]]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
    return done.returncode == 0, (done.stdout.strip().splitlines() or ["nothing was printed"])[-1].strip("= ")


def versions(python: Path) -> str:
    program = (
        "import sys, importlib.metadata as m\n"
        "print('Python ' + sys.version.split()[0])\n"
        f"for name in {(*NEEDED, *CUDA)}:\n"
        "    try: print(name.split('-')[0], m.version(name))\n"
        "    except m.PackageNotFoundError: pass\n"
    )
    done = subprocess.run([python, "-P", "-c", program], check=True, capture_output=True, text=True)
    return ", ".join(done.stdout.splitlines())


def ask(row: Row, checks: list[str], folder: Path, workers: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield each check's result for a row: its success, the environment, the check, and the count."""
    python = interpreter(row.python)
    if python is None:
        yield "missing", f"Python {row.python}", row.name, "no interpreter of this version was found"
        return
    try:
        inside = environment(row, python, folder)
    except subprocess.CalledProcessError:
        yield "missing", f"Python {row.python}", row.name, f"no wheels: {', '.join(row.packages)}"
        return
    for check in checks:
        begun = time.monotonic()
        passed, summary = run(row, check, inside, folder, workers)
        seconds = time.monotonic() - begun
        summary = re.sub(r" in [\d.]+s.*", "", summary)
        yield "passed" if passed else "FAILED", versions(inside), check, f"{summary} ({seconds:.0f} s)"


def named_interpreter(text: str) -> Path:
    version, _, path = text.partition("=")
    found = version_of(path)
    if found != version:
        raise argparse.ArgumentTypeError(f"{path} is Python {found}, not {version}")
    return Path(path).absolute()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".matrix", help="where the environments are kept"
    )
    parser.add_argument(
        "--rows", nargs="*", default=[""], help="only rows whose names have one of these in them"
    )
    parser.add_argument("--running", action="store_true", help="only rows of the Python that runs this")
    parser.add_argument("--check", nargs="*", choices=[*TESTS], default=[*TESTS], help="these checks only")
    parser.add_argument("--interpreter", action="append", default=[], help="VERSION=PATH of a Python")
    parser.add_argument("--workers", default="auto", help="processes of pytest")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    named = {text.partition("=")[0]: named_interpreter(text) for text in chosen.interpreter}
    if named:
        global interpreter
        search = interpreter
        interpreter = lambda version: named.get(version) or search(version)  # noqa: E731
    lines, verdicts = [], set()
    for row in rows():
        if chosen.running and row.python != version_of(sys.executable):
            continue
        checks = [check for check in row.checks if check in chosen.check]
        if checks and any(name in row.name for name in chosen.rows):
            for cells in ask(row, checks, folder, chosen.workers):
                lines.append(f"| {' | '.join(cells)} |")
                verdicts.add(cells[0])
                print(lines[-1], flush=True)
    print("\n".join(["", "| | environment | check | |", "|---|---|---|---|", *lines]))
    return int("FAILED" in verdicts or verdicts <= {"missing"})


if __name__ == "__main__":
    sys.exit(main())
