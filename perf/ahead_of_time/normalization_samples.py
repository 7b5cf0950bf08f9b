"""Calls of normalisations that reach every declared configuration of their kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ...triton_kernels.normalization.clusters import MIN_DESIGN
from .sample import FLOATING, Sample, empty, gradients, tt

F = tt.nn.functional
ROWS = ("normalise_rows", "normalise_rows_backward")
SOFTMAX = ("softmax", "softmax_backward")
GROUPS = ("normalise_groups", "group_gradients")
CHANNELS = ("channel_moments", "normalise_channels", "channel_gradient_sums", "channel_gradients")


def normalizations(capability: int) -> Iterator[Sample]:
    """Yield all samples, the main configurations first."""
    yield from rows(capability)
    yield from channels(capability)
    yield from long_rows(capability)
    yield from rows_of_any_length(capability)


def rows(capability: int) -> Iterator[Sample]:
    for dtype in ("float32", "bfloat16", "float16", "float64"):
        few = (512,) if dtype == "float64" else ()
        for length in (4096, 8192, 2048, 1024, *few, 64, 16384, 32768, 65536):
            x, w, b = (empty(*s, dtype=dtype) for s in ((2048, length), (length,), (length,)))
            yield Sample(
                f"layer_norm {dtype} rows of {length}",
                partial(gradients, lambda *a, n=length: F.layer_norm(a[0], [n], *a[1:]), x, w, b),
                (*ROWS, "weight_gradients"),
            )
            yield Sample(
                f"rms_norm {dtype} rows of {length}",
                partial(gradients, lambda *a, n=length: F.rms_norm(a[0], [n], *a[1:]), x, w),
                (*ROWS, "weight_gradients"),
            )
        # Longer than the registers of a cluster hold.
        x, w, b = (empty(*s, dtype=dtype) for s in ((256, 69632), (69632,), (69632,)))
        longest = partial(gradients, lambda *a: F.layer_norm(a[0], [69632], *a[1:]), x, w, b)
        yield Sample(f"layer_norm {dtype} rows of 69632", longest)
        x = empty(2048, 16384, dtype=dtype)
        yield Sample(
            f"layer_norm {dtype} without weights",
            partial(gradients, lambda a: F.layer_norm(a, [16384]), x),
            ROWS,
        )
        for length in (1023, 4095, 8191, 16383, 32767):
            x, w = empty(2048, length, dtype=dtype), empty(length, dtype=dtype)
            yield Sample(
                f"layer_norm {dtype} of odd length, {length}",
                partial(gradients, lambda *a, n=length: F.layer_norm(a[0], [n], *a[1:]), x, w, w),
            )
    x, w = empty(2048, 4096, dtype="bfloat16"), empty(4096)
    yield Sample(
        "layer_norm bfloat16 with float32 weights",
        partial(gradients, lambda a, w, b: F.layer_norm(a, [4096], w, b), x, w, w),
        ROWS,
    )


def long_rows(capability: int) -> Iterator[Sample]:
    for dtype in ("float32", "float16", "bfloat16"):
        for length in (16384, 32768):
            for function in (tt.softmax, tt.log_softmax) if dtype == "float32" else (tt.softmax,):
                yield Sample(
                    f"{function.__name__} {dtype} rows of {length}",
                    partial(gradients, partial(function, dim=1), empty(512, length, dtype=dtype)),
                    SOFTMAX,
                )
    if capability < MIN_DESIGN:
        return
    for dtype in ("float32", "bfloat16"):
        for length in (262144, 100001):
            yield Sample(
                f"softmax {dtype} rows of {length}",
                partial(gradients, partial(tt.softmax, dim=1), empty(512, length, dtype=dtype)),
                SOFTMAX,
            )


def rows_of_any_length(capability: int) -> Iterator[Sample]:
    """Rows that begin and end within a vector of 16 bytes, or are whole vectors but no multiple of 16 elements."""
    for dtype in ("bfloat16", "float16", "float32"):
        for length in (2049, 4097, 8193, 16385, 50257, 1000, 4008, 8):
            x = empty(512, length, dtype=dtype)
            yield Sample(
                f"softmax {dtype} rows of {length}",
                partial(gradients, partial(tt.softmax, dim=1), x),
                SOFTMAX,
            )
            for norm in (F.layer_norm, F.rms_norm):
                yield Sample(
                    f"{norm.__name__} {dtype} rows of {length} without weights",
                    partial(gradients, lambda a, f=norm, n=length: f(a, [n]), x),
                    ROWS,
                )
        for length in (1000, 4008):
            x, w = empty(2048, length, dtype=dtype), empty(length, dtype=dtype)
            yield Sample(
                f"layer_norm {dtype} rows of {length}",
                partial(gradients, lambda *a, n=length: F.layer_norm(a[0], [n], *a[1:]), x, w, w),
                ROWS,
            )
        x, w = empty(2048, 50257, dtype=dtype), empty(50257, dtype=dtype)
        for weight in (w, empty(50257)):
            yield Sample(
                f"layer_norm {dtype} rows of 50257, {weight.dtype} weights",
                partial(gradients, lambda *a: F.layer_norm(a[0], [50257], *a[1:]), x, weight, weight),
            )
    for length in (2049, 4097, 8191):
        x, w = empty(2048, length, dtype="bfloat16"), empty(length)
        yield Sample(
            f"layer_norm bfloat16 rows of {length} with float32 weights",
            partial(gradients, lambda *a, n=length: F.layer_norm(a[0], [n], *a[1:]), x, w, w),
        )
    yield Sample(
        "softmax float32 of float16 rows of 50257",
        lambda: tt.softmax(empty(512, 50257, dtype="float16"), 1, dtype=tt.float32),
    )


def _batch_norm(x: Any, w: Any, b: Any, running: Any = None, training: bool = True) -> Any:
    return F.batch_norm(x, running, running, w, b, training)


def channels(capability: int) -> Iterator[Sample]:
    for dtype in FLOATING:
        w = empty(128, dtype=dtype)
        for last in (False, True):
            x = empty(64, 128, 64, 64, dtype=dtype, last=last)
            layout = " channels last" if last else ""
            yield Sample(f"batch_norm {dtype}{layout}", partial(gradients, _batch_norm, x, w, w), CHANNELS)
            yield Sample(
                f"batch_norm {dtype}{layout} in evaluation",
                partial(gradients, partial(_batch_norm, running=w, training=False), x, w, w),
                ("normalise_channels",),
            )
        x = empty(32, 128, 64, 64, dtype=dtype)
        yield Sample(
            f"group_norm {dtype}",
            partial(gradients, lambda a, w, b: F.group_norm(a, 8, w, b), x, w, w),
            CHANNELS,
        )
        for last in (False, True):
            for group, height, width in (
                (8, 16, 32),
                (8, 16, 16),
                (16, 16, 16),
                (8, 32, 32),
                (8, 8, 16),
                (16, 8, 16),
                (8, 7, 7),
            ):
                x = empty(32, 128, height, width, dtype=dtype, last=last)
                yield Sample(
                    f"group_norm {dtype}{' channels last' if last else ''} of {group} groups, {height}x{width}",
                    partial(gradients, lambda a, w, b, g=group: F.group_norm(a, g, w, b), x, w, w),
                    GROUPS if width > 7 and (group == 8 or not last) else (),
                )
    x, w = empty(64, 128, 7, 7), empty(128)
    yield Sample("batch_norm float32 of small planes", partial(gradients, _batch_norm, x, w, w))
    yield Sample("batch_norm float32 with running statistics", lambda: _batch_norm(x, w, w, w))
