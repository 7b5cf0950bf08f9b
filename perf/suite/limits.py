"""Limits of the machine, measured in the same run: a copy, a large matmul, an empty call."""

from __future__ import annotations

import statistics

import numpy as np

from ..interleaved import calibrate, statement_slice
from .cores import Cores
from .device_work import DeviceWork
from .libraries import Library, tt
from .results import Limits
from .workload import Scale

ROUNDS = 7
COPY_BYTES, QUICK_COPY_BYTES, DEVICE_COPY_BYTES = 1 << 28, 1 << 26, 1 << 30
PRODUCT_DTYPES = {"cpu": ("float32", "float64"), "cuda": ("float32", "float64", "float16", "bfloat16")}


def measure_limits(scale: Scale, ours: Library, device: DeviceWork | None, cores: Cores) -> Limits:
    """Measure all limits of the device with triten's number of threads; the best of a few rounds counts."""
    if device is not None:
        nbytes = 1 << 12 if scale.rehearsal else DEVICE_COPY_BYTES
        return Limits(
            device.copy_bytes_per_second(nbytes, ROUNDS),
            {dtype: _product_rate(scale, ours, dtype, cores) for dtype in PRODUCT_DTYPES["cuda"]},
            device.empty_seconds(ROUNDS),
        )
    return Limits(
        _copy_rate(scale.side(COPY_BYTES, QUICK_COPY_BYTES, 1 << 12), cores),
        {dtype: _product_rate(scale, ours, dtype, cores) for dtype in PRODUCT_DTYPES["cpu"]},
        _empty_call_seconds(cores),
    )


def _best(statement: str, names: dict[str, object], cores: Cores, seconds: float = 0.002) -> float:
    work = statement_slice(statement, names)
    count = calibrate(work, seconds)
    cores.hold_new_threads()
    return min(work(count) for _ in range(ROUNDS)) / count


def _copy_rate(nbytes: int, cores: Cores) -> float:
    # triten's copy runs on all threads, as its operators do; NumPy's on one. The faster is the limit.
    source = np.ones(nbytes, np.uint8)
    names = {"np": np, "a": np.empty_like(source), "b": source}
    tensors = {"a": tt.from_numpy(np.empty_like(source)), "b": tt.from_numpy(source)}
    return 2 * nbytes / min(_best("np.copyto(a, b)", names, cores), _best("a.copy_(b)", tensors, cores))


def _product_rate(scale: Scale, ours: Library, dtype: str, cores: Cores) -> float:
    full = 8192 if scale.device == "cuda" else 2048
    side = scale.side(full, full // 2, 16)
    # CPU: NumPy's product, the BLAS itself. CUDA: triten's, the only one that is always there.
    if scale.device == "cpu":
        names: dict[str, object] = {name: np.ones((side, side), dtype) for name in "ab"} | {"np": np}
        names["c"] = np.empty((side, side), dtype)
        return 2 * side**3 / _best("np.matmul(a, b, out=c)", names, cores)
    made = {name: tt.ones(side, side, dtype=getattr(tt, dtype), device="cuda") for name in "ab"}
    names = made | {"wait": ours.synchronize}
    return 2 * side**3 / _best("a @ b; wait()", names, cores, 0.0)


def _empty_call_seconds(cores: Cores) -> float:
    names: dict[str, object] = {"f": lambda a, b: a, "a": 1, "b": 2}
    return statistics.median(_best("f(a, b)", names, cores) for _ in range(3))
