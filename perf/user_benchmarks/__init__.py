"""Benchmarks in a user's own files: `@tt.perf.benchmark`, run by `python -m triten.perf run FILE.py`.

- `declaration` is the decorator, which only keeps what it is given.
- `loading` imports files and makes workloads of their benchmarks.
- `measurement` times functions in the suite's machinery.

The package imports `declaration` alone; the others are imported by the command `run`.
"""

from .declaration import Benchmark, benchmark

__all__ = ["Benchmark", "benchmark"]
