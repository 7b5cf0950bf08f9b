"""Results for the tests of the store, the gate and the server: runs of numbered commits with lognormal noise."""

import math
import random
from collections.abc import Mapping
from pathlib import Path

from triten.perf.history import History
from triten.perf.suite.results import Bar, Limits, Result, Row

MACHINE = {"host": "h", "processor": "AMD EPYC", "cores": 2, "python": "CPython 3.11.7", "gpu": None}
NOISE = 0.02


def commit(number: int) -> str:
    return f"{number:040x}"


def row(name: str, samples: list[float], **more: object) -> Row:
    fields = {"size": "64x64", "dtype": "float32", "device": "cpu", "bytes": 48_000, "flops": 4096, **more}
    return Row(
        "overhead", "pointwise", name, samples={"triten": samples, "torch": [1.0] * len(samples)}, **fields
    )


def a_result(
    number: int, rows: Mapping[str, list[float]], *, day: int | None = None, dirty: bool = False
) -> Result:
    """Return a run of a commit, made on the day of its number; `day` is that of the measurement."""
    moment = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T00:00:00+00:00"
    measured = moment if day is None else f"2026-12-{day:02d}T00:00:00+00:00"
    return Result(
        MACHINE, {"triten": commit(number), "numpy": "2.3"}, {"device": "cpu", "threads": 2, "confidence": 0.95},
        {"hash": commit(number), "time": moment, "dirty": dirty}, ["run"], Limits(1e10, {"float32": 1e11}, 1e-7),
        [row(name, samples) for name, samples in rows.items()], True, started=measured, updated=measured,
    )  # fmt: skip


def noisy(generator: random.Random, level: float, noise: float = NOISE, count: int = 7) -> list[float]:
    """Return samples whose level also varies from run to run, as it does between processes."""
    level *= math.exp(generator.gauss(0, noise))
    return [level * math.exp(generator.gauss(0, noise / 2)) for _ in range(count)]


def a_history(path: Path, results: list[Result]) -> Path:
    with History(path, create=True) as history:
        for result in results:
            history.add(result)
    return path


def barred(result: Result) -> Result:
    result.rows[0] = Row(**{**result.rows[0].__dict__, "bar": Bar("torch", 2.0), "note": "remark"})
    return result
