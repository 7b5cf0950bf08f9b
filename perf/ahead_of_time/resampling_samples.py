"""Calls that reach the kernels of padding, interpolation, sampling at places, and windows as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .sample import FLOATING, Sample, empty, gradients, tt

MOVED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def _operator(name: str) -> Any:
    return getattr(tt.ops.aten, name)


def _last(x: Any) -> Any:
    return x.contiguous(memory_format=tt.channels_last)


def resampling(capability: int) -> Iterator[Sample]:
    """Yield one sample of each kernel and dtype first, then the other resampling modes."""
    pad = tt.nn.functional.pad
    wide = ("map_lines",)
    for dtype in FLOATING:
        x, last = empty(8, 64, 64, 64, dtype=dtype), _last(empty(4, 256, 32, 32, dtype=dtype))
        # Columns of whole vectors on both sides: channels are the fastest dimension.
        yield Sample(f"constant_pad_nd {dtype} channels last", lambda x=last: pad(x, (1, 2, 3, 1)), wide)
        yield Sample(f"constant_pad_nd {dtype}", lambda x=x: pad(x, (1, 2, 3, 1), value=1.5))
        for mode in ("reflect", "replicate"):
            yield Sample(
                f"{mode} {dtype}", lambda x=x, m=mode: gradients(lambda y: pad(y, (1, 2, 3, 1), m), x)
            )
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
            for align in (None,) if mode.startswith("nearest") else (False, True):
                options = {"mode": mode, "align_corners": align}
                yield Sample(
                    f"{mode} {align} {dtype}",
                    lambda x=x, o=options: gradients(
                        lambda y: tt.nn.functional.interpolate(y, scale_factor=2.0, **o), x
                    ),
                )
            yield Sample(
                f"{mode} {dtype} channels last",
                lambda x=last, m=mode: gradients(
                    lambda y: tt.nn.functional.interpolate(y, scale_factor=2.0, mode=m), x
                ),
            )
        # Lines as long as the widest tile, which shorter ones do not fill.
        long = empty(2, 8, 64, 512, dtype=dtype)
        yield Sample(
            f"replicate long lines {dtype}",
            lambda x=long: gradients(lambda y: pad(y, (1, 2, 3, 1), "replicate"), x),
        )
        for mode in ("bilinear", "bicubic"):
            yield Sample(
                f"{mode} antialiased {dtype}",
                lambda x=x, m=mode: gradients(
                    lambda y: tt.nn.functional.interpolate(y, scale_factor=0.4, mode=m, antialias=True), x
                ),
            )
        volume = empty(2, 16, 16, 32, 64, dtype=dtype)
        yield Sample(
            f"trilinear {dtype}",
            lambda x=volume: gradients(
                lambda y: tt.nn.functional.interpolate(y, scale_factor=2.0, mode="trilinear"), x
            ),
        )
        yield Sample(
            f"replicate a volume {dtype}",
            lambda x=volume: gradients(lambda y: pad(y, (1, 2, 3, 1, 1, 1), "replicate"), x),
        )
    for dtype in (*MOVED, "float8_e5m2", *(("float8_e4m3fn",) if capability >= 89 else ())):
        x = empty(8, 8, 64, 512, dtype=dtype)
        yield Sample(f"constant_pad_nd {dtype}", lambda x=x: pad(x, (1, 2, 3, 1)))
    yield Sample(
        "nearest uint8 backward",
        lambda: _operator("upsample_nearest2d_backward")(
            empty(8, 8, 128, 512, dtype="uint8"), (128, 512), (8, 8, 64, 256)
        ),
    )


def sampling(capability: int) -> Iterator[Sample]:
    """Grid samplers and windows as columns."""
    sample = tt.nn.functional.grid_sample
    for dtype in FLOATING:
        x, grid = empty(8, 64, 64, 64, dtype=dtype), empty(8, 128, 128, 2, dtype=dtype)
        for mode in ("bilinear", "nearest", "bicubic"):
            for border in ("zeros", "border", "reflection"):
                if border != "zeros" and dtype in ("float16", "bfloat16"):
                    continue
                yield Sample(
                    f"grid_sample {mode} {border} {dtype}",
                    lambda x=x, g=grid, m=mode, b=border: gradients(
                        lambda y, h: sample(y, h, m, b, align_corners=False), x, g
                    ),
                )
        yield Sample(
            f"grid_sample of a volume {dtype}",
            lambda d=dtype: gradients(
                lambda y, h: sample(y, h, align_corners=True),
                empty(2, 16, 16, 32, 64, dtype=d),
                empty(2, 16, 32, 32, 3, dtype=d),
            ),
        )
        long = empty(8, 8, 64, 256, dtype=dtype)
        yield Sample(
            f"unfold {dtype}",
            lambda x=long: gradients(lambda y: tt.nn.functional.unfold(y, 3, padding=1, stride=2), x),
        )
    x = empty(8, 8, 64, 256, dtype="bool")
    yield Sample("unfold bool", lambda: tt.nn.functional.fold(tt.nn.functional.unfold(x, 3), (64, 256), 3))
