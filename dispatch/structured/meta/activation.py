"""Meta functions of activations: one floating input, an output of its dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .pointwise import refuse_integral, unary

if TYPE_CHECKING:
    from ..meta_base import NumberKind


def activation(meta: MetaBase, self: TensorSpec, *numbers: NumberKind) -> None:
    """Infer an output of the input and any number of other arguments."""
    if meta.name.rstrip("_") != "threshold":
        refuse_integral(meta, self)
    unary(meta, self)


def shrink(meta: MetaBase, self: TensorSpec, lambd: NumberKind) -> None:
    """Infer the output of `softshrink` or `hardshrink`."""
    refuse_integral(meta, self)
    unary(meta, self)
