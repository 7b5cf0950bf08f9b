"""opt_einsum on tensors: it contracts them by these functions, which `import triten` tells it of when it is imported.

Source: https://optimized-einsum.readthedocs.io/en/stable/backends.html.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import _public as tt
from ..dispatch.tensor import Tensor

__all__ = ["einsum", "register", "tensordot", "transpose"]


def transpose(a: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a permuted view: its dimension i is the operand's dimension ``axes[i]``."""
    return a.permute(*axes)


def tensordot(x: Tensor, y: Tensor, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Contract dimensions of two tensors."""
    return tt.tensordot(x, y, axes)


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Compute `tt.einsum`. Symbols other than letters, which opt_einsum uses for many dimensions, become letters."""
    from opt_einsum.parser import convert_to_valid_einsum_chars

    return tt.einsum(convert_to_valid_einsum_chars(equation), *operands)


def register() -> None:
    """Tell opt_einsum where the functions are."""
    from opt_einsum.backends import dispatch

    dispatch._aliases[__name__.partition(".")[0]] = __name__
