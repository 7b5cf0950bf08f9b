"""Calls of elementwise operators over operands that are not dense: slices, broadcasts, transposes, many dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...triton_kernels.budget import MIN_CAPABILITY
from .sample import NUMBERS, Sample, empty, tt

ROWS, TILES = ("rows",), ("tiles",)
SIZES = (512, 1024)
FLOATS8 = (("float8_e5m2", "fp8e5"), ("float8_e4m3fn", "fp8e4nv"))


def layouts(capability: int) -> Iterator[Sample]:
    for dtype in NUMBERS:
        x, row, column = (empty(*sizes, dtype=dtype) for sizes in (SIZES, SIZES[1:], (SIZES[0], 1)))
        yield Sample(f"add {dtype} of a row", lambda x=x, row=row: x + row, ROWS)
        yield Sample(f"add {dtype} of a column", lambda x=x, column=column: x + column)
        yield Sample(f"add {dtype} of slices", lambda x=x: x[:, :512] + x[:, 512:], ROWS)
        yield Sample(
            f"add {dtype} of every second element",
            lambda d=dtype: empty(1 << 17, dtype=d)[::2] + empty(1 << 16, dtype=d),
        )
        yield Sample(
            f"add {dtype} transposed",
            lambda d=dtype: empty(512, 1024, dtype=d).t() + empty(1024, 512, dtype=d),
            TILES,
        )
        yield Sample(f"transpose {dtype}", lambda x=x: x.t().contiguous(), TILES)
    for dtype, name in FLOATS8:
        refused = capability < MIN_CAPABILITY.get(name, 0)
        for label, cut in (
            ("a slice", lambda x: x[:, :512].contiguous()),
            ("every second element", lambda x: x.view(-1)[::2].contiguous()),
            ("transposed", lambda x: x.t().contiguous()),
        ):
            yield Sample(f"copy {dtype}, {label}", lambda d=dtype, c=cut: c(eight_bits(d)), (), refused)
        yield Sample(
            f"copy float32 to {dtype} transposed",
            lambda d=dtype: empty(*SIZES).t().to(getattr(tt, d)),
            (),
            refused,
        )
    for dtype in ("float32", "bfloat16", "int8"):
        x, image = empty(*SIZES, dtype=dtype), empty(8, 64, 56, 56, dtype=dtype)
        yield Sample(f"copy {dtype}, every second column", lambda x=x: x[:, ::2].contiguous())
        yield Sample(f"copy {dtype}, every third column", lambda x=x: x[:, ::3].contiguous())
        yield Sample(f"copy {dtype}, an odd slice", lambda x=x: x[:, :1001].contiguous())
        yield Sample(
            f"copy {dtype} to channels last", lambda x=image: x.permute(0, 2, 3, 1).contiguous(), TILES
        )
        yield Sample(
            f"copy {dtype}, heads before tokens",
            lambda x=image: x.transpose(1, 2).contiguous(),
            () if dtype == "int8" else ROWS,
        )
        yield Sample(f"add {dtype} of a bias", lambda x=image, d=dtype: x + empty(64, 1, 1, dtype=d))
    yield Sample("copy float32 to bfloat16, a slice", lambda: empty(*SIZES)[:, :512].to(tt.bfloat16), ROWS)
    yield Sample(
        "copy float32 to bfloat16 transposed", lambda: empty(*SIZES).t().contiguous().to(tt.bfloat16), TILES
    )
    yield Sample("where float32 of slices and a row", where_of_slices, ())
    yield Sample(
        "addcmul float32 of four dimensions",
        lambda: tt.addcmul(
            empty(7, 5, 3, 2).permute(3, 1, 2, 0),
            empty(5, 3, 1).expand(2, 5, 3, 7),
            empty(2, 5, 3, 7, dtype="float64")[..., :].permute(0, 1, 2, 3),
            value=2.0,
        ),
    )
    yield Sample(
        "add float32 of six dimensions",
        lambda: empty(2, 3, 4, 5, 6, 7).permute(5, 3, 1, 0, 2, 4) + empty(7, 5, 3, 2, 4, 6),
    )
    yield Sample(
        "copy int8 of six dimensions",
        lambda: empty(6, 5, 64, 3, 2, 64, dtype="int8").permute(0, 3, 5, 4, 1, 2).contiguous(),
    )
    yield Sample(
        "add uint8 of 2**33", lambda: empty(1 << 17, 1 << 16, dtype="uint8") + empty(1 << 16, dtype="uint8")
    )
    yield Sample("transpose uint8 of 2**33", lambda: empty(1 << 17, 1 << 16, dtype="uint8").t().contiguous())


def eight_bits(dtype: str) -> Any:
    """Return a matrix of 8-bit floats."""
    return tt.empty(SIZES, dtype=getattr(tt, dtype), device="cuda")


def where_of_slices() -> Any:
    """Four operands with the output, of three kinds."""
    x = empty(*SIZES)
    return tt.where(empty(SIZES[0], 1, dtype="bool"), x[:, :512], empty(512))
