"""``softmax`` and ``log_softmax`` as users call them: with a dtype to convert to first."""

from __future__ import annotations

from typing import Any

from ...runtime.scalar_type import dtype as ScalarType
from ..generated import functions as ops
from .dimnames import by_name


def softmax(self: Any, dim: int, dtype: ScalarType | None) -> Any:
    """`torch.softmax`."""
    return ops._softmax(self if dtype is None else self.to(dtype), dim, False)


def softmax_out(self: Any, dim: int, dtype: ScalarType | None, out: Any) -> Any:
    """`torch.softmax` into `out`."""
    return ops._softmax(self if dtype is None else self.to(dtype), dim, False, out=out)


def log_softmax(self: Any, dim: int, dtype: ScalarType | None) -> Any:
    """`torch.log_softmax`."""
    return ops._log_softmax(self if dtype is None else self.to(dtype), dim, False)


def log_softmax_out(self: Any, dim: int, dtype: ScalarType | None, out: Any) -> Any:
    """`torch.log_softmax` into `out`."""
    return ops._log_softmax(self if dtype is None else self.to(dtype), dim, False, out=out)


softmax_by_name = by_name("softmax.int")
log_softmax_by_name = by_name("log_softmax.int")
