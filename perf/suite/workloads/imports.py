"""Cost of `import triten` beyond `import numpy`: fresh interpreters, interleaved libraries."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...interleaved import Slice
from ..libraries import Library
from ..results import OURS, Bar
from ..workload import Scale, Workload

SECONDS_OVER_NUMPY = 0.15
# The folder in which the imported package lies; the program is told where, whatever the working folder is.
FOLDER = str(Path(__file__).parents[4])


def import_seconds(statement: str, setup: str, python: str) -> float:
    """Seconds that the statement takes in a new interpreter; neither its start nor `setup` counts.

    Raises:
        OSError: if there is no such interpreter.
        RuntimeError: if it cannot import the modules; with the last line that it said.

    Example:
        >>> import sys
        >>> from triten.perf.suite.workloads.imports import import_seconds
        >>> 0 < import_seconds("import colorsys", "import math", sys.executable) < 10
        True
    """
    program = (
        f"import sys, time; sys.path.append({FOLDER!r}); {setup}; start = time.perf_counter(); {statement}; "
        "print(time.perf_counter() - start)"
    )
    # A session of its own: Ctrl-C is ours to answer, and ends it.
    run = subprocess.run(
        [python, "-I", "-c", program], capture_output=True, text=True, start_new_session=True
    )
    if run.returncode:
        raise RuntimeError(f"{python}: {' '.join(run.stderr.splitlines()[-1:])}")
    return float(run.stdout)


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield the import after NumPy's, and together with NumPy's; each sample is a new interpreter.

    A quick run leaves out the slow imports: PyTorch, and NumPy itself.
    """
    for name, setup, seconds in (
        ("import, NumPy being there", "import numpy", SECONDS_OVER_NUMPY), ("import with NumPy", "pass", None)
    ):  # fmt: skip
        yield Workload(
            "import", "import", name, "", "", host=True, processes=True, compared=False, repetitions=1,
            bar=None if seconds is None else Bar(None, seconds), prepare=partial(_prepare, setup, scale),
        )  # fmt: skip
        if scale.quick or scale.rehearsal:
            return


def _prepare(setup: str, scale: Scale, library: Library) -> Slice | None:
    if library.is_arrays and setup == "import numpy":
        return None
    if scale.quick and library.name != OURS:
        return None
    statement = f"import {library.module.__name__}"

    def work(count: int) -> float:
        return sum(import_seconds(statement, setup, scale.python) for _ in range(count))

    return work
