"""Checks of an operand's rank, sizes and dtype; their messages name the argument."""

from __future__ import annotations

from collections.abc import Sequence

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec


def check_sizes(name: str, argument: str, spec: TensorSpec | None, sizes: Sequence[int]) -> None:
    """Raise RuntimeError for an operand of other sizes; None, an absent operand, is accepted."""
    if spec is not None and spec.sizes != tuple(sizes):
        raise RuntimeError(
            f"{name}: expected {argument} to have shape {list(sizes)}, but got {list(spec.sizes)}"
        )


def check_ranks(name: str, argument: str, spec: TensorSpec | None, *ranks: int) -> None:
    """Raise RuntimeError for an operand of another rank."""
    if spec is not None and spec.ndim not in ranks:
        expected = " or ".join(map(str, ranks))
        raise RuntimeError(
            f"{name}: expected {argument} to have {expected} dimensions, but got shape {list(spec.sizes)}"
        )


def check_dtype(name: str, argument: str, spec: TensorSpec | None, *dtypes: ScalarType) -> None:
    """Raise RuntimeError for an operand of another dtype."""
    if spec is not None and spec.dtype not in dtypes:
        expected = " or ".join([dtype.scalar_name for dtype in dtypes])
        raise RuntimeError(
            f"{name}: expected {argument} to have dtype {expected}, but got {spec.dtype.scalar_name}"
        )


def check_sizes_given(name: str, argument: str, sizes: Sequence[int]) -> None:
    """Raise RuntimeError if any size is negative."""
    if any(size < 0 for size in sizes):
        raise RuntimeError(
            f"{name}: expected {argument} of sizes that are not negative, but got {list(sizes)}"
        )


def check_multiply(
    left: Sequence[int], right: Sequence[int], left_name: str = "mat1", right_name: str = "mat2"
) -> None:
    """Raise RuntimeError unless matrices, or batches of them, have the same K dimension."""
    (m, k), (rows, n) = left[-2:], right[-2:]
    if k != rows:
        remedy = f"; {right_name}.mT would fit" if k == n else ""
        raise RuntimeError(
            f"{left_name} and {right_name} shapes cannot be multiplied ({m}x{k} and {rows}x{n}): "
            f"the K dimensions, {k} and {rows}, must be equal{remedy}"
        )
