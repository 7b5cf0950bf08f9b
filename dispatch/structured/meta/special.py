"""Meta functions of special functions."""

from __future__ import annotations

from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .pointwise import binary_float, same_floating, unary_float

__all__ = ["binary_float", "polygamma", "same_floating", "unary_float"]


def polygamma(meta: MetaBase, n: int, self: TensorSpec) -> None:
    """Infer an output from the derivative order of `digamma` and its argument."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    unary_float(meta, self)
