"""`vmap`: a function of one example as a function of many (torch/_functorch/vmap.py, apis.py).

This module is also `torch._functorch.vmap`. Packages replace the steps of `vmap` in it, to map containers of their own:
the steps have PyTorch's names and parameters, and are looked up here at each call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..tensor import Tensor
from .batched_tensor import batched, level_of, unbatched
from .levels import entered_vmap, run_below, vmap_level_of
from .pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_unflatten

in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[Any, ...] | None
RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: in_dims_t = 0,
    out_dims: out_dims_t = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps `func`, written for one example, over a dimension of its inputs (`torch.func.vmap`).

    Operators inside `func` see tensors without the mapped dimension and compute on all examples at once. Maps nest,
    and compose with autograd inside and outside of them.

    Args:
        func: A function between tensors, or nested tuples, lists and dicts of them. Keyword arguments are passed on
            unchanged.
        in_dims: The dimension of each input to map over, in the inputs' structure or one int for a subtree. None for an
            input that all examples share.
        out_dims: Position of the mapped dimension in the outputs; None for an output that is the same for all.
        randomness: Mode of random operators inside: "error" refuses them, "different" samples for each example, and
            "same" gives all examples the same sample.
        chunk_size: Number of examples to compute at once; None means all. It bounds the memory used.

    Returns:
        A function of the same arguments, whose results have the mapped dimension at `out_dims`.

    Raises:
        ValueError: for dimensions that do not fit the inputs or outputs, and for mapped inputs of different sizes.
        RuntimeError: for an unknown `randomness`; inside, for values of single examples (`item`, `bool`), for sizes
            that depend on them, and for writes of all examples to a tensor that is not mapped.

    Example:
        >>> import triten as tt
        >>> rows, columns = tt.ones(3, 5), tt.ones(5, 3)
        >>> tt.vmap(tt.dot, in_dims=(0, 1))(rows, columns)
        tensor([5., 5., 5.])
        >>> tt.vmap(lambda x: x.sum(), out_dims=0)(tt.ones(2, 3, 4)).shape
        triten.Size([2])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    return _mapping(func, in_dims, out_dims, randomness, lambda size: chunk_size or size)


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: in_dims_t = 0,
    out_dims: out_dims_t = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """Return `vmap` of a function that computes on one of several chunks of the inputs at a time.

    `vmap` with `chunk_size` gives the size of a chunk instead of their number.

    Args:
        func: The function, as in `vmap`.
        in_dims: The mapped dimension of each input, as in `vmap`.
        out_dims: The mapped dimension of each output, as in `vmap`.
        randomness: Mode of random operators inside, as in `vmap`.
        chunks: The number of chunks, which have equal sizes except for the last. Default: 2.

    Raises:
        ValueError: `chunks` is less than 1. Other errors are those of `vmap`.

    Source: functorch.experimental.chunk_vmap.

    Example:
        >>> import triten as tt
        >>> from triten.dispatch.layers.vmap import chunk_vmap
        >>> chunk_vmap(lambda x: x * 2, chunks=3)(tt.arange(5))
        tensor([0, 2, 4, 6, 8])
    """
    if chunks < 1:
        raise ValueError(f"chunk_vmap: chunks should be greater than 0. (got {chunks})")
    return _mapping(func, in_dims, out_dims, randomness, lambda size: -(-size // chunks))


def _mapping(
    func: Callable[..., Any],
    in_dims: in_dims_t,
    out_dims: out_dims_t,
    randomness: str,
    chunk_size_of: Callable[[int], int],
    is_old: bool = False,
) -> Callable[..., Any]:
    """Return the mapped function; `chunk_size_of` gives the size of a chunk for a number of examples."""
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    from .batching.random import start_watching

    start_watching()

    @api_boundary
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(func, out_dims)
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
        chunk_size = chunk_size_of(size)
        if size <= chunk_size:
            return _mapped(func, size, dims, leaves, spec, out_dims, randomness, kwargs, is_old)
        return _in_chunks(func, chunk_size, size, dims, leaves, spec, out_dims, randomness, kwargs)

    return wrapped


def _get_name(func: Callable[..., Any]) -> str:
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return repr(func)


def _check_out_dims(func: Callable[..., Any], out_dims: Any) -> None:
    if not all(d is None or isinstance(d, int) for d in tree_flatten(out_dims)[0]):
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should appear."
        )


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
) -> tuple[int, list[int | None], list[Any], TreeSpec]:
    """Return the number of examples, the mapped dimension of each leaf of the inputs, the leaves and their spec."""
    name = _get_name(func)
    called = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{called}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over "
            "a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{called}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    sizes = []
    for position, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{called}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, TensorImpl):
            raise ValueError(
                f"{called}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        rank = leaf._spec.ndim
        if not -rank <= dim < rank:
            raise ValueError(
                f"{called}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so "
                f"expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        dims[position] = dim % rank
        sizes.append(leaf._spec.sizes[dim % rank])
    if not sizes:
        raise ValueError("vmap: at least one Tensor must be vmapped over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0], dims, leaves, spec


def _mapped(
    func: Callable[..., Any],
    size: int,
    dims: Sequence[int | None],
    leaves: Sequence[Any],
    spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
    is_old: bool = False,
) -> Any:
    """Run all examples at once."""
    with entered_vmap(size, randomness, is_old) as level:
        call_args = _create_batched_inputs(dims, leaves, level.number, spec)
        return _unwrap_batched(func(*call_args, **kwargs), out_dims, level.number, size, func)


def _create_batched_inputs(
    flat_in_dims: Sequence[int | None], flat_args: Sequence[Any], vmap_level: int, args_spec: TreeSpec
) -> Any:
    """Return the arguments, with a tensor of one example for each leaf that has a mapped dimension."""
    batched_leaves = [
        leaf if dim is None else _add_batch_dim(leaf, dim, vmap_level)
        for leaf, dim in zip(flat_args, flat_in_dims, strict=True)
    ]
    return tree_unflatten(batched_leaves, args_spec)


def _unwrap_batched(
    batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable[..., Any]
) -> Any:
    """Return the outputs with all examples, and the mapped dimension of each at its position."""
    flat, spec, dims = _outputs(func, batched_outputs, out_dims)
    name = _get_name(func)
    return tree_unflatten(
        [
            _maybe_remove_batch_dim(name, value, vmap_level, batch_size, dim)
            for value, dim in zip(flat, dims, strict=True)
        ],
        spec,
    )


def _outputs(
    func: Callable[..., Any], outputs: Any, out_dims: Any
) -> tuple[list[Any], TreeSpec, list[int | None]]:
    """Return the leaves of the outputs, their structure, and the mapped dimension of each."""
    flat, spec = tree_flatten(outputs)
    if isinstance(outputs, TensorImpl) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        flat_out_dims: list[Any] | None = list(out_dims)
    else:
        flat_out_dims = _broadcast_to_and_flatten(out_dims, spec)
    if flat_out_dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure "
            f"{spec}."
        )
    return flat, spec, flat_out_dims


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """Return an output of a function of this name with all examples, or as it is if `out_dim` is None.

    Raises:
        ValueError: The output is a tensor of one example and `out_dim` is None, or no tensor and `out_dim` a number.
    """
    if out_dim is None:
        if isinstance(batched_output, TensorImpl):
            level = level_of(batched_output)
            if level is not None and level.number == vmap_level:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
                )
        return batched_output
    if not isinstance(batched_output, TensorImpl):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _add_batch_dim(tensor: Any, in_dim: int, level: int) -> Tensor:
    """Return a tensor of which a `vmap` in progress maps a dimension (`torch._C._functorch._add_batch_dim`).

    Args:
        tensor: The tensor of all examples.
        in_dim: The dimension that is mapped.
        level: The number of the `vmap`, as `maybe_get_level` gives it.

    Raises:
        RuntimeError: No `vmap` in progress has this number.
    """
    return batched(tensor, in_dim % tensor._spec.ndim, vmap_level_of(level))


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return a tensor with the dimension that a `vmap` maps at `out_dim` (`torch._C._functorch._remove_batch_dim`).

    A tensor that the `vmap` does not map is expanded to `batch_size` examples.

    Args:
        tensor: A tensor inside the `vmap`.
        level: The number of the `vmap`, as `maybe_get_level` gives it.
        batch_size: The number of examples.
        out_dim: The position of the mapped dimension in the result.

    Raises:
        RuntimeError: No `vmap` in progress has this number.
    """
    vmap_level = vmap_level_of(level)
    value, dim = unbatched(tensor, vmap_level)
    if dim == out_dim:
        return value  # type: ignore[no-any-return]
    # The moves of dimensions do not concern the level.
    return run_below(vmap_level, _placed, value, dim, batch_size, out_dim)


def _placed(value: Any, dim: int | None, batch_size: int, out_dim: int) -> Tensor:
    if dim is not None:
        return value.movedim(dim, out_dim)  # type: ignore[no-any-return]
    widened = value.unsqueeze(out_dim)
    sizes = list(widened._spec.sizes)
    sizes[out_dim] = batch_size
    return widened.expand(sizes)  # type: ignore[no-any-return]


def _in_chunks(
    func: Callable[..., Any],
    chunk_size: int,
    size: int,
    dims: Sequence[int | None],
    leaves: Sequence[Any],
    spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    """Run some examples at a time, and join the outputs. With randomness "same" every chunk has the same numbers."""
    from ..generated.functions import cat
    from ..random import get_rng_state, set_rng_state

    state = get_rng_state() if randomness == "same" else None
    chunks: list[list[Any]] = []
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        part = [
            leaf if dim is None else leaf.narrow(dim, start, count)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        if state is not None:
            set_rng_state(state)
        made = _mapped(func, count, dims, part, spec, out_dims, randomness, kwargs)
        flat, out_spec, flat_out_dims = _outputs(func, made, out_dims)
        chunks.append(flat)
    joined = [
        column[0] if out_dim is None else cat(column, out_dim)
        for column, out_dim in zip(map(list, zip(*chunks, strict=True)), flat_out_dims, strict=True)
    ]
    return tree_unflatten(joined, out_spec)
