"""Meta functions of losses and distances that the host computes at once (see `host_plans`); others are compositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....runtime.scalar_type import float32, float64, int64
from ....runtime.tensor_spec import TensorSpec
from ..host_plans import ComposedError
from ..meta_base import MetaBase
from .loss import NONE

if TYPE_CHECKING:
    from ..meta_base import NumberKind

SMALL = 1 << 12
"""Elements up to which losses by classes, and similarities, are computed at once."""


def _result(meta: MetaBase, spec: TensorSpec, sizes: Sequence[int], reduction: int) -> None:
    meta.set_output_contiguous(0, tuple(sizes) if reduction == NONE else (), dtype=spec.dtype)


def _check_wide(*specs: TensorSpec) -> None:
    """Only tensors of one geometry, contiguous and not empty, of a dtype that is computed in."""
    first = specs[0]
    plain = first.dtype in (float32, float64) and first.numel and first.ndim and first.is_contiguous
    if not plain or any(spec is not first for spec in specs):
        raise ComposedError


def gap_loss(
    meta: MetaBase, self: TensorSpec, target: TensorSpec, reduction: int, number: NumberKind
) -> None:
    """`smooth_l1_loss` and `huber_loss`."""
    _check_wide(self, target)
    if number is not float:
        raise ComposedError
    _result(meta, self, self.sizes, reduction)


def multi_margin_loss(
    meta: MetaBase,
    self: TensorSpec,
    target: TensorSpec,
    p: NumberKind,
    margin: NumberKind,
    weight: TensorSpec | None,
    reduction: int,
) -> None:
    """`multi_margin_loss` of a small matrix."""
    _check_wide(self)
    if self.ndim != 2 or self.numel > SMALL or target.dtype is not int64 or target.sizes != self.sizes[:1]:
        raise ComposedError
    if weight is not None and (weight.dtype is not self.dtype or weight.sizes != self.sizes[1:]):
        raise ComposedError
    _result(meta, self, self.sizes[:1], reduction)


def multilabel_margin_loss(meta: MetaBase, self: TensorSpec, target: TensorSpec, reduction: int) -> None:
    """`multilabel_margin_loss` of a small matrix."""
    _check_wide(self)
    if self.ndim != 2 or self.numel > SMALL or target.dtype is not int64 or target.sizes != self.sizes:
        raise ComposedError
    _result(meta, self, self.sizes[:1], reduction)


def cross_entropy_loss(
    meta: MetaBase,
    self: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: NumberKind,
) -> None:
    """`cross_entropy_loss` with class indices for a small (N, C, d1, ...), without weights."""
    _check_wide(self)
    if weight is not None or self.ndim < 3 or self.numel > SMALL or 0 <= ignore_index < self.sizes[1]:
        raise ComposedError
    sizes = (self.sizes[0], *self.sizes[2:])
    if target.dtype is not int64 or target.sizes != sizes:
        raise ComposedError
    _result(meta, self, sizes, reduction)


def cosine_similarity(meta: MetaBase, x1: TensorSpec, x2: TensorSpec, dim: int, eps: NumberKind) -> None:
    """`cosine_similarity` of small tensors of one geometry."""
    if x1 is not x2 or x1.dtype is not float32 or not 0 < x1.numel <= SMALL or not -x1.ndim <= dim < x1.ndim:
        raise ComposedError
    sizes = tuple([n for d, n in enumerate(x1.sizes) if d != dim % x1.ndim])
    meta.set_output_contiguous(0, sizes, dtype=x1.dtype)
