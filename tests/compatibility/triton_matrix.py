"""triten under each version of Triton that it says it works with: `make triton-matrix`.

For each row a virtual environment of its own is made, kept for the next time, and asked:

* compiled: every kernel compiles for sm_80, sm_90 and sm_100 as the gate wants it, a user's ``kernel[grid](tensors)``
  reaches the driver, over CuPy and the stand-in for libcuda too, and nothing imports a `torch` that is installed;
* interpreted: the tests of the CUDA runtime and of the Triton kernels, in Triton's interpreter.

Triton 3.6's interpreter fails with NumPy 2.4 and later, so that it has a row with an older one.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPILED = (
    "tests/perf/test_aot.py",
    "tests/runtime/cuda/triton/test_triton_driver.py",
    "tests/runtime/cuda/standin/test_triton_driver.py",
)
INTERPRETED = ("tests/runtime/cuda", "tests/triton_kernels")
CHECKS = ("compiled", "interpreted")
PACKAGES = ("scipy", "ml_dtypes", "pytest", "pytest-xdist", "hypothesis", "pyyaml", "rich", "cupy-cuda13x")


@dataclass(frozen=True)
class Row:
    """A version of Triton, with what it needs of NumPy, and what it is asked."""

    triton: str
    numpy: str = "numpy"
    checks: tuple[str, ...] = CHECKS

    @property
    def name(self) -> str:
        return f"triton-{self.triton}" + ("" if self.numpy == "numpy" else "-older-numpy")


ROWS = (
    Row("3.6.0", checks=("compiled",)),
    Row("3.6.0", "numpy < 2.4", ("interpreted",)),
    Row("3.7.1"),
    Row("3.8.0"),
    Row("3.9.0"),
)


def environment(row: Row, folder: Path) -> Path:
    """The row's Python, with its packages. Raises CalledProcessError if they cannot be had."""
    home = folder / row.name
    python = home / "bin" / "python"
    ready = home / ".installed"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        wanted = [f"triton == {row.triton}", row.numpy, *PACKAGES]
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], check=True
        )
        ready.touch()
    return python


def run(row: Row, check: str, folder: Path, workers: str) -> tuple[bool, str]:
    """Whether a check passed, and pytest's own count; what failed is printed."""
    python = environment(row, folder)
    path = folder / "path"
    path.mkdir(exist_ok=True)
    if not (path / "triten").exists():
        (path / "triten").symlink_to(ROOT)
    hidden = ("PYTHONPATH", "TRITEN_CUDA", "TRITON_INTERPRET", "PYTEST_ADDOPTS")
    variables = {k: v for k, v in os.environ.items() if k not in hidden}
    variables |= {"PYTHONPATH": str(path), "TRITON_CACHE_DIR": str(folder / row.name / "cache")}
    tests = [*COMPILED] if check == "compiled" else [*INTERPRETED, *(f"--ignore={file}" for file in COMPILED)]
    command = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, *tests]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
    return done.returncode == 0, (done.stdout.strip().splitlines() or ["nothing was printed"])[-1]


def versions(row: Row, folder: Path) -> str:
    program = (
        "import sys, triton, numpy; print(f'Python {sys.version_info[0]}.{sys.version_info[1]}, '"
        "f'Triton {triton.__version__}, NumPy {numpy.__version__}')"
    )
    command = [environment(row, folder), "-P", "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".matrix", help="where the environments are kept"
    )
    parser.add_argument("--triton", nargs="*", default=None, help="these versions only")
    parser.add_argument("--check", choices=CHECKS, default=None, help="this check only")
    parser.add_argument("--workers", default="auto", help="processes of pytest")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lines, failed = [], False
    for row in ROWS:
        if chosen.triton is not None and row.triton not in chosen.triton:
            continue
        for check in row.checks:
            if chosen.check not in (None, check):
                continue
            begun = time.monotonic()
            passed, summary = run(row, check, folder, chosen.workers)
            failed |= not passed
            verdict = "passed" if passed else "FAILED"
            lines.append(
                f"{verdict}  {versions(row, folder)}, {check}: {summary} ({time.monotonic() - begun:.0f} s)"
            )
            print(lines[-1], flush=True)
    print("\n".join(["", *lines]))
    return int(failed or not lines)


if __name__ == "__main__":
    sys.exit(main())
