"""`vmap`: a function of one example as a function of many (torch/_functorch/vmap.py, apis.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from .batched_tensor import batched, unbatched
from .levels import VmapLevel, entered_vmap
from .pytree import TreeSpec, children_of, tree_flatten, tree_unflatten

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
    """`func`, written for one example, as a function that maps it over a dimension of its inputs (`torch.func.vmap`).

    Operators inside `func` see tensors without the mapped dimension and compute on all examples at once. Maps nest,
    and compose with autograd inside and outside of them.

    Args:
        func: takes tensors, or nested tuples, lists and dicts of them, and returns such. Keyword arguments are passed
            on as they are.
        in_dims: the dimension of each input to map over, of the inputs' structure or one for a part of it; None for
            an input that all examples share.
        out_dims: where the mapped dimension appears in the outputs; None for one that is the same for all.
        randomness: what random operators do inside: "error" refuses them, with "different" each example draws for
            itself, with "same" all get the same draw.
        chunk_size: how many examples to compute at once; None means all. It bounds the memory used.

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
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    from .batching.random import start_watching

    start_watching()

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(func, out_dims)
        size, dims, leaves, spec = _inputs(func, in_dims, args)
        if chunk_size is None or size <= chunk_size:
            return _mapped(func, size, dims, leaves, spec, out_dims, randomness, kwargs)
        return _in_chunks(func, chunk_size, size, dims, leaves, spec, out_dims, randomness, kwargs)

    return wrapped


def _name_of(func: Callable[..., Any]) -> str:
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({_name_of(func.func)}, ...)"
    return repr(func)


def spread(dims: Any, tree: Any) -> list[Any] | None:
    """One dimension for each leaf of `tree`; a dimension in the place of a subtree counts for all its leaves.

    None where the structure of `dims` is another.
    """
    kind, context, children = children_of(dims)
    if kind is None:
        return [dims] * len(tree_flatten(tree)[0])
    of_tree = children_of(tree)
    if of_tree[:2] != (kind, context) or len(of_tree[2]) != len(children):
        return None
    flat: list[Any] = []
    for each, subtree in zip(children, of_tree[2], strict=True):
        part = spread(each, subtree)
        if part is None:
            return None
        flat += part
    return flat


def _check_out_dims(func: Callable[..., Any], out_dims: Any) -> None:
    if not all(d is None or isinstance(d, int) for d in tree_flatten(out_dims)[0]):
        raise ValueError(
            f"vmap({_name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
            "collection of ints representing where in the outputs the vmapped dimension should appear."
        )


def _inputs(
    func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]
) -> tuple[int, list[int | None], list[Any], TreeSpec]:
    """The number of examples; the mapped dimension of each leaf of the inputs; the leaves and their structure."""
    name = _name_of(func)
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
    dims = spread(in_dims, args)
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
) -> Any:
    """All examples at once."""
    with entered_vmap(size, randomness) as level:
        given = [
            leaf if dim is None else batched(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)
        ]
        outputs = func(*tree_unflatten(given, spec), **kwargs)
        flat, out_spec, places = _outputs(func, outputs, out_dims)
        results = [_merged(func, value, place, level) for value, place in zip(flat, places, strict=True)]
    # Outside of the level, which the moves of dimensions do not concern.
    return tree_unflatten([make() for make in results], out_spec)


def _outputs(
    func: Callable[..., Any], outputs: Any, out_dims: Any
) -> tuple[list[Any], TreeSpec, list[int | None]]:
    """The leaves of the outputs, their structure, and the place of the mapped dimension in each."""
    flat, spec = tree_flatten(outputs)
    if isinstance(outputs, TensorImpl) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        places: list[Any] | None = list(out_dims)
    else:
        places = spread(out_dims, outputs)
    if places is None:
        raise ValueError(
            f"vmap({_name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            f"structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure "
            f"{spec}."
        )
    return flat, spec, places


def _merged(func: Callable[..., Any], output: Any, place: int | None, level: VmapLevel) -> Callable[[], Any]:
    """What makes an output with all examples, the mapped dimension in its place."""
    name = _name_of(func)
    if place is None:
        if isinstance(output, TensorImpl) and unbatched(output, level)[1] is not None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return lambda: output
    if not isinstance(output, TensorImpl):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    value, dim = unbatched(output, level)
    if dim is not None:
        return lambda: value if place == dim else value.movedim(dim, place)

    def repeated() -> Any:
        widened = value.unsqueeze(place)
        sizes = list(widened._spec.sizes)
        sizes[place] = level.batch_size
        return widened.expand(sizes)

    return repeated


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
    """Some examples at a time, and the outputs joined. With randomness "same" every chunk draws the same."""
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
        flat, out_spec, places = _outputs(func, made, out_dims)
        chunks.append(flat)
    joined = [
        column[0] if place is None else cat(column, place)
        for column, place in zip(map(list, zip(*chunks, strict=True)), places, strict=True)
    ]
    return tree_unflatten(joined, out_spec)
