"""The launch that sorts short rows."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, next_power_of_2
from .ordered_keys import KeyFormat
from .row_kernels import sort_rows

RANKS = ("first", "last", "median", "nanmedian")
"""Outputs of each row that a program can write, by number."""
LONGEST = 4096
"""Rows up to this length are sorted in registers."""
TILE = 1024
ELEMENTS_PER_WARP = 128
INTERPRETED_TILE = 1 << 14


def plan_rows(
    device: Device,
    rows: int,
    n: int,
    k: int,
    format_: KeyFormat,
    place_dtype: ScalarType,
    *,
    descending: bool = False,
    order_dtype: ScalarType | None = None,
    rank: str = "first",
) -> Callable[..., None]:
    """Return ``(x, [order,] values, places)`` over addresses, which sorts the first `k` of each row of `n`.

    Args:
        format_: Format of the bits of `x`.
        place_dtype: Dtype of the indices that are written.
        order_dtype: Dtype of the numbers that are written instead of indices in a row; None for the indices.
        rank: ``first``, or for one alone of each row: ``last`` of these `k`, ``median``, ``nanmedian``.
    """
    block = max(next_power_of_2(n), 2)
    tile = max(INTERPRETED_TILE if interpreted() else TILE, block)
    if interpreted():
        tile = min(tile, block * next_power_of_2(rows))
    in_tile = tile // block
    kind = integer_type(rows * n + tile)
    signature = {"x": f"*{format_.word}"}
    constants: dict[str, object] = {
        **format_.constants(),
        "DESCENDING": descending,
        "RANK": RANKS.index(rank),
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "ROWS": in_tile,
        "BLOCK": block,
    }
    if order_dtype is None:
        constants["order"] = None
    else:
        signature["order"] = f"*{order_dtype.triton_name}"
    signature |= {"values": f"*{format_.word}", "places": f"*{place_dtype.triton_name}"}
    signature |= dict.fromkeys(("rows", "n", "k"), kind)
    launch = Launch(
        device,
        sort_rows,
        signature,
        constants,
        divisible=[name for name, value in (("n", n), ("k", k)) if value % ALIGNMENT == 0],
        num_warps=8 if interpreted() else tile // ELEMENTS_PER_WARP,
    )
    grid = (cdiv(rows, in_tile), 1, 1)

    def run(*addresses: int) -> None:
        launch(grid, *addresses, rows, n, k)

    return run
