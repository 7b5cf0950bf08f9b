"""`vmap` of the time before `torch.func`, which packages import by its private name (`torch._vmap_internals`).

It also maps the gradients of `tt.autograd.grad` and `gradcheck`. It differs from `tt.vmap`: outputs are a tensor or a
tuple of tensors, and dimensions are not negative. There are no keyword arguments, random operators are refused, and an
`autograd.Function` needs no `setup_context`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from .pytree import _broadcast_to_and_flatten, tree_flatten
from .vmap import _get_name, _mapping

__all__ = ["_vmap", "vmap"]

Dims = int | tuple[Any, ...]


def vmap(func: Callable[..., Any], in_dims: Dims = 0, out_dims: Dims = 0) -> Callable[..., Any]:
    """Return a function that maps `func` over a dimension of its inputs, like `tt.vmap`; it warns that it is old."""
    warnings.warn(
        "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2
    )
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """Return a function that maps `func` over a dimension of its inputs.

    Args:
        func: A function of tensors, or of nested tuples, lists and dicts of tensors.
        in_dims: The mapped dimension of each input, None for one that all examples share. Default: 0.
        out_dims: The mapped dimension of each output. Default: 0.
        allow_none_pass_through: If True, outputs may be None. Default: False.

    Raises:
        ValueError: for outputs that are not tensors, and for dimensions that do not fit the inputs or outputs.
    """
    name = _get_name(func)

    @api_boundary
    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        if not isinstance(out_dims, int) and not (
            isinstance(out_dims, tuple) and all(isinstance(d, int) for d in out_dims)
        ):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int representing "
                "where in the outputs the vmapped dimension should appear."
            )
        _check_in_dims(name, in_dims, args)
        is_single = False
        is_none: list[bool] = []

        @functools.wraps(func)
        def tensors_of(*values: Any) -> tuple[Any, ...]:
            nonlocal is_single
            outputs = func(*values)
            is_single = not isinstance(outputs, tuple | list if allow_none_pass_through else tuple)
            flat = (outputs,) if is_single else outputs
            if not allow_none_pass_through:
                _check_are_tensors(name, flat, is_single)
            is_none[:] = [each is None for each in flat]
            return tuple([each for each in flat if each is not None])

        mapped = iter(_mapping(tensors_of, in_dims, 0, "error", lambda size: size, is_old=True)(*args))
        positions = (out_dims,) * len(is_none) if isinstance(out_dims, int) else out_dims
        if len(positions) != len(is_none):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must have one dim per output (got {len(is_none)} "
                f"outputs) of {name}."
            )
        made = [
            None if absent else _moved(next(mapped), position)
            for absent, position in zip(is_none, positions, strict=True)
        ]
        return made[0] if is_single else tuple(made)

    return wrapped


def _check_in_dims(name: str, in_dims: Any, args: tuple[Any, ...]) -> None:
    """Raise ValueError for a negative dimension, which `tt.vmap` counts from the end."""
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec) if isinstance(in_dims, int | tuple) else None
    for leaf, dim in zip(leaves, dims or (), strict=False):
        if isinstance(dim, int) and dim < 0 and isinstance(leaf, TensorImpl):
            rank = leaf._spec.ndim
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is "
                f"a Tensor of dimensionality {rank} so expected in_dim to satisfy 0 <= in_dim < {rank}."
            )


def _moved(output: Any, dim: int) -> Any:
    return output.movedim(0, dim) if dim else output


def _check_are_tensors(name: str, outputs: Sequence[Any], is_single: bool) -> None:
    for position, output in enumerate(outputs):
        if not isinstance(output, TensorImpl):
            where = "as the return" if is_single else f"for return {position}"
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)} {where}."
            )
