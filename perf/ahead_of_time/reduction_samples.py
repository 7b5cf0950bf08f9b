"""Calls of reductions, scans and pooling; see `samples.py`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from .sample import FLOATING, INTEGRAL, NUMBERS, Sample, empty, gradients, tt

WIDE = ("reduce",)


def reductions(capability: int) -> Iterator[Sample]:
    yield Sample("sum float32 rows", lambda: empty(4096, 4096).sum(1), WIDE)
    for dtype in NUMBERS:
        yield Sample(f"sum {dtype} rows", lambda d=dtype: empty(4096, 8192, dtype=d).sum(1), WIDE)
    for dtype in (*FLOATING, "int64"):
        yield Sample(f"sum {dtype} columns", lambda d=dtype: empty(4096, 65536, dtype=d).sum(0), WIDE)
        yield Sample(f"sum {dtype} short rows", lambda d=dtype: empty(65536, 64, dtype=d).sum(1))
        yield Sample(f"sum {dtype} very short rows", lambda d=dtype: empty(1 << 20, 3, dtype=d).sum(1))
    for name in ("amax", "amin", "prod", "any", "all", "mean"):
        yield Sample(f"{name} float32 rows", lambda n=name: getattr(empty(4096, 4096), n)(1), WIDE)
    for dtype in ("float64", "int8"):
        yield Sample(f"amax {dtype} rows", lambda d=dtype: empty(4096, 4096, dtype=d).amax(1), WIDE)
    for dtype in (*FLOATING, "int64", "int8"):
        yield Sample(f"hash_tensor {dtype} rows", lambda d=dtype: empty(4096, 8192, dtype=d).hash_tensor(1))
        yield Sample(f"hash_tensor {dtype} all", lambda d=dtype: empty(1 << 22, dtype=d).hash_tensor())
    for order in (0, 1, 2, float("inf"), -float("inf")):
        for dtype in FLOATING:
            norm = partial(tt.linalg.vector_norm, ord=order, dim=1)
            yield Sample(
                f"norm of order {order:g} {dtype} rows", partial(norm, empty(4096, 8192, dtype=dtype)), WIDE
            )
        yield Sample(
            f"norm of order {order:g} float32 all", partial(tt.linalg.vector_norm, empty(1 << 22), order)
        )
    yield Sample("amax int32 columns", lambda: empty(4096, 65536, dtype="int32").amax(0), WIDE)
    yield Sample("sum float32 all", lambda: empty(1 << 22).sum())
    yield Sample("sum int64 all", lambda: empty(1 << 22, dtype="int64").sum())
    yield Sample("sum float32 columns of few", lambda: empty(1 << 16, 128).sum(0), WIDE)
    for dtype in ("float32", "bfloat16"):
        yield Sample(
            f"sum {dtype} rows of odd length", lambda d=dtype: empty(4096, 4095, dtype=d).sum(1), WIDE
        )
        yield Sample(f"sum {dtype} all, of odd length", lambda d=dtype: empty((1 << 22) - 3, dtype=d).sum())
    yield Sample("sum float32 over two of four", lambda: empty(64, 32, 64, 32).sum((1, 3)))
    yield Sample("sum float32 over the outer two of three", lambda: empty(64, 512, 512).sum((0, 2)), WIDE)


def extremes_and_moments(capability: int) -> Iterator[Sample]:
    """Yield reductions with their own kernels: max, min, argmax and argmin, and variance and related
    functions.
    """
    first = ("extreme_with_index",)
    for name in ("argmax", "argmin"):
        for dtype in NUMBERS[:-1]:
            x = empty(4096, 4096, dtype=dtype)
            yield Sample(f"{name} {dtype} rows", partial(getattr(tt, name), x, 1), first)
    yield Sample("max bool rows", lambda: empty(4096, 4096, dtype="bool").max(1), first)
    for dtype in NUMBERS:
        yield Sample(f"max {dtype} columns", lambda d=dtype: empty(4096, 65536, dtype=d).max(0), first)
    yield Sample("argmax float32 of odd rows", lambda: empty(4096, 4095).argmax(1), first)
    yield Sample("argmax int8 all", lambda: empty(1 << 22, dtype="int8").argmax())
    yield Sample("argmax float32 all", lambda: empty(1 << 22).argmax())
    moments = ("reduce_moments",)
    for dtype in FLOATING:
        for name in ("var", "std", "var_mean", "std_mean"):
            x, long = empty(4096, 4096, dtype=dtype), empty(4096, 16384, dtype=dtype)
            yield Sample(f"{name} {dtype} rows", partial(getattr(tt, name), x, 1), moments)
            if name.startswith("var"):
                yield Sample(f"{name} {dtype} long rows", partial(getattr(tt, name), long, 1), moments)
        tall = empty(4096, 65536, dtype=dtype)
        yield Sample(f"var_mean {dtype} columns", partial(tt.var_mean, tall, 0), moments)
        few = empty(65536, 128, dtype=dtype)
        yield Sample(f"var {dtype} columns of few", partial(tt.var, few, 0), moments)
        yield Sample(f"var {dtype} all", lambda d=dtype: empty(1 << 22, dtype=d).var())
    yield Sample("var float32 of odd rows", lambda: empty(4096, 4095).var(1), moments)
    yield Sample("var_mean float32 of long odd rows", lambda: tt.var_mean(empty(4096, 16383), 1), moments)


def joint_reductions(capability: int) -> Iterator[Sample]:
    wide = ("reduce_jointly",)
    for dtype in FLOATING:
        x, tall = empty(4096, 4096, dtype=dtype), empty(4096, 65536, dtype=dtype)
        yield Sample(f"logsumexp {dtype} rows", partial(tt.logsumexp, x, 1), wide)
        if dtype in ("float32", "float64"):
            yield Sample(f"logsumexp {dtype} columns", partial(tt.logsumexp, tall, 0))
    for dtype in ("float32", "float64", "bfloat16", "int64", "int8", "bool"):
        yield Sample(
            f"aminmax {dtype} rows", lambda d=dtype: tt.aminmax(empty(4096, 4096, dtype=d), dim=1), wide
        )
    yield Sample("aminmax int8 of short rows", lambda: tt.aminmax(empty(65536, 64, dtype="int8"), dim=1))
    for dtype in ("complex32", "complex64", "complex128"):
        for name in ("sum", "prod", "any"):
            x, tall = empty(4096, 4096, dtype=dtype), empty(4096, 1 << 18, dtype=dtype)
            yield Sample(f"{name} {dtype} rows", lambda n=name, x=x: getattr(x, n)(1))
            yield Sample(f"{name} {dtype} columns", lambda n=name, x=tall: getattr(x, n)(0))
        x, tall = empty(4096, 4096, dtype=dtype), empty(4096, 1 << 18, dtype=dtype)
        if dtype != "complex32":
            yield Sample(f"logsumexp {dtype} rows", partial(tt.logsumexp, x, 1))
            yield Sample(f"logsumexp {dtype} columns", partial(tt.logsumexp, tall, 0))
        for name in ("var", "std_mean"):
            x, tall = empty(4096, 4096, dtype=dtype), empty(4096, 1 << 18, dtype=dtype)
            yield Sample(f"{name} {dtype} rows", lambda n=name, x=x: getattr(tt, n)(x, 1))
            yield Sample(f"{name} {dtype} columns", lambda n=name, x=tall: getattr(tt, n)(x, 0))
    yield Sample("logsumexp float32 all", lambda: tt.logsumexp(empty(1 << 22), 0))
    for dtype in ("float32", "float64", "bfloat16"):
        x, y = empty(1 << 22, dtype=dtype), empty(1 << 22, dtype=dtype)
        yield Sample(f"mse_loss {dtype}", lambda x=x, y=y: tt.nn.functional.mse_loss(x, y))


def segments(capability: int) -> Iterator[Sample]:
    """Yield segment reductions: sums and products in float64, max and min in the data's own dtype."""
    for dtype in FLOATING:
        for sizes in ((1 << 20,), (4096, 256)):
            x, lengths = empty(*sizes, dtype=dtype), empty(64, dtype="int64")
            offsets = empty(65, dtype="int32")
            for reduce in ("sum", "mean", "max", "min", "prod"):
                name = f"segment_reduce {reduce} {dtype} of {len(sizes)} dimensions"
                run = partial(tt.segment_reduce, reduce=reduce, lengths=lengths, unsafe=True)
                yield Sample(name, partial(gradients, run, x))
            yield Sample(
                f"segment_reduce of offsets {dtype} of {len(sizes)} dimensions",
                partial(tt.segment_reduce, x, "sum", offsets=offsets, initial=1.0, unsafe=True),
            )


def sequences(capability: int) -> Iterator[Sample]:
    """Connectionist temporal classification of few, of some and of many labels."""
    for dtype in ("float32", "float64"):
        for labels in (100, 400, 2000 if dtype == "float32" else 1000):
            x, targets = empty(64, 4, 1024, dtype=dtype), empty(4, labels, dtype="int64")
            run = partial(
                tt.nn.functional.ctc_loss,
                targets=targets,
                input_lengths=(64,) * 4,
                target_lengths=(labels,) * 4,
                reduction="none",
            )
            yield Sample(f"ctc_loss {dtype} of {labels} labels", partial(gradients, run, x))


def scans(capability: int) -> Iterator[Sample]:
    for dtype in NUMBERS:
        yield Sample(
            f"cumsum {dtype} rows", lambda d=dtype: empty(4096, 4096, dtype=d).cumsum(1), ("prefix_scan",)
        )
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        for dtype in ("float32", "float64", "int64")[: 2 if name == "logcumsumexp" else 3]:
            scan = getattr(tt, name)
            yield Sample(f"{name} {dtype} columns", partial(scan, empty(512, 65536, dtype=dtype), 0))
            yield Sample(f"{name} {dtype} all", partial(scan, empty(1 << 22, dtype=dtype), 0))
            yield Sample(f"{name} {dtype} rows", partial(scan, empty(4096, 4096, dtype=dtype), 1))
    yield Sample("cumsum float32 long rows", lambda: empty(4096, 16384).cumsum(1), ("prefix_scan",))
    for dtype in NUMBERS:
        yield Sample(f"cummax {dtype} rows", lambda d=dtype: empty(4096, 2048, dtype=d).cummax(1))
    for dtype in ("complex64", "complex128"):
        yield Sample(f"cumprod {dtype} rows", partial(tt.cumprod, empty(4096, 2048, dtype=dtype), 1))
        yield Sample(f"cumprod {dtype} columns", partial(tt.cumprod, empty(512, 65536, dtype=dtype), 0))
        yield Sample(f"cumprod {dtype} all", partial(tt.cumprod, empty(1 << 22, dtype=dtype), 0))
        yield Sample(f"logcumsumexp {dtype} rows", partial(tt.logcumsumexp, empty(512, 1024, dtype=dtype), 1))
        yield Sample(
            f"logcumsumexp {dtype} columns", partial(tt.logcumsumexp, empty(512, 1024, dtype=dtype), 0)
        )
    for dtype in ("float32", "float64", "int64"):
        for name in ("cummax", "cummin"):
            scan = getattr(tt, name)
            yield Sample(f"{name} {dtype} columns", partial(scan, empty(512, 65536, dtype=dtype), 0))
            yield Sample(f"{name} {dtype} all", partial(scan, empty(1 << 22, dtype=dtype), 0))


WINDOW = {"kernel_size": 3, "stride": 2, "padding": 1}


def pools(capability: int) -> Iterator[Sample]:
    """Yield samples of pooling with gradients, whose memory format is that of the results."""
    functions = importlib.import_module("...dispatch.generated.functions", __package__)

    def gradient(pool: Any, x: Any, last: bool) -> None:
        leaf = x.detach().requires_grad_()
        result = pool(leaf)
        result = result[0] if isinstance(result, tuple) else result
        result.backward(empty(*result.shape, dtype=str(result.dtype).removeprefix("triten."), last=last))

    kernels = (("max_pool2d", "max_pool"), ("avg_pool2d", "average_pool"))
    for dtype in FLOATING:
        for name, kernel in kernels:
            pool = partial(getattr(functions, name), **WINDOW)
            for last in (True, False) if dtype in ("float32", "bfloat16", "float16") else (False,):
                x = empty(32, 64, 56, 56, dtype=dtype, last=last)
                label = f"{name} {dtype}{' channels last' if last else ''}"
                wide = (kernel, f"{kernel}_backward") if last else ()
                yield Sample(label, partial(gradient, pool, x, last), wide)
    for name, dtypes in (("max_pool2d", INTEGRAL[:5]), ("avg_pool2d", ("int64",))):
        for dtype in dtypes:
            x = empty(32, 64, 56, 56, dtype=dtype)
            yield Sample(f"{name} {dtype}", partial(getattr(functions, name), x, **WINDOW))
    x, volume = empty(32, 64, 57, 57), empty(4, 64, 16, 28, 28)
    few, last = empty(32, 24, 57, 57, dtype="bfloat16", last=True), empty(32, 64, 57, 57, last=True)
    for pool in (functions._adaptive_avg_pool2d, functions.adaptive_max_pool2d):
        for images in (x, few, last):
            yield Sample(
                f"{pool.__name__} {images.dtype}",
                partial(gradient, partial(pool, output_size=(7, 6)), images, False),
            )
    for dtype in FLOATING:
        for name, sizes, out in (
            ("fractional_max_pool2d", (32, 64, 57, 57), (28, 28)),
            ("fractional_max_pool3d", (4, 64, 16, 28, 28), (8, 14, 14)),
        ):
            whole, samples = empty(*sizes, dtype=dtype), empty(*sizes[:2], len(out), dtype=dtype)
            pool = partial(getattr(functions, name), whole, (2,) * len(out), out, samples)
            yield Sample(f"{name} {dtype}", pool)
    for name in ("max_pool3d_with_indices", "avg_pool3d"):
        pool = partial(getattr(functions, name), kernel_size=2)
        yield Sample(f"{name} float32", partial(gradient, pool, volume, False))
    for pool in (functions._adaptive_avg_pool3d, functions.adaptive_max_pool3d):
        yield Sample(
            f"{pool.__name__} float32", partial(gradient, partial(pool, output_size=(4, 7, 6)), volume, False)
        )
