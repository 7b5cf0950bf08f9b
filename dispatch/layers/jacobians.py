"""Jacobians and Hessians: `vjp` and `jvp` of a basis, mapped by `vmap` (torch/_functorch/eager_transforms.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..generated import functions as ops
from .pytree import tree_flatten, tree_map, tree_unflatten
from .transforms import ArgNums, chosen_arguments, jvp, vjp, with_chosen
from .vmap import vmap

if TYPE_CHECKING:
    from ..tensor import Tensor

Function = Callable[..., Any]


def _basis_of(tensors: Sequence[Any]) -> list[Any]:
    """Return the standard basis of the tensors' joint space: for each tensor, its parts of all unit vectors,
    stacked.
    """
    total = sum(t._spec.numel for t in tensors)
    made = []
    start = 0
    for tensor in tensors:
        count = tensor._spec.numel
        block = tensor.new_zeros((total, count))
        block.diagonal(-start).fill_(1)
        made.append(block.reshape((total, *tensor._spec.sizes)))
        start += count
    return made


def _check_are_tensors(values: Sequence[Any], name: str, noun: str) -> None:
    for value in values:
        if not isinstance(value, TensorImpl):
            raise RuntimeError(f"{name}: Expected all {noun} to be Tensors, got {type(value).__name__}")


def _check_are_real(values: Sequence[Any], name: str, noun: str, each: str) -> None:
    """Refuse complex tensors, whose derivatives are not single complex numbers. Raises RuntimeError."""
    for position, value in enumerate(values):
        if isinstance(value, TensorImpl) and value._spec.dtype.is_complex:
            raise RuntimeError(
                f"{name}: Expected all {noun} to be real but received complex tensor at flattened {each} idx: "
                f"{position}"
            )


def jacrev(
    func: Function,
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return a function that computes the Jacobian of `func` by reverse mode (`torch.func.jacrev`).

    It is best if there are fewer outputs than inputs. For an output of shape O and an input of shape I the Jacobian has
    the shape O + I. Trees of outputs give trees of them, and tuples of `argnums` tuples within those.

    Args:
        func: A function from tensors to tensors, or trees of them. With `has_aux`, it returns a pair of outputs and
            auxiliary data.
        argnums: Positions of the arguments to differentiate by. An int or a tuple of ints.
        has_aux: If True, `func` also returns auxiliary data.
        chunk_size: Number of rows to compute at a time; with 1, the pull-back runs without `vmap` and its limits.
            Default: None, all of them.
        _preallocate_and_copy: If True, allocate the rows first and copy each chunk into them, which needs less memory
            than joining the chunks. Default: False.

    Raises:
        RuntimeError: for outputs or inputs that are not tensors.
        ValueError: for a `chunk_size` that is not positive.

    Example:
        >>> import triten as tt
        >>> tt.func.jacrev(lambda x: x * x.sum())(tt.tensor([1.0, 2.0]))
        tensor([[4., 1.],
                [2., 5.]])
    """

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0. (got {chunk_size})")

    @api_boundary
    @functools.wraps(func)
    def wrapper(*args: Tensor, **kwargs: Any) -> Any:
        positions = chosen_arguments(args, argnums, "jacrev")
        primals = tuple(args[p] for p in positions)
        _check_are_real(tree_flatten(primals)[0], "jacrev", "inputs", "input")

        def of_chosen(*values: Tensor) -> Any:
            return func(*with_chosen(args, positions, values), **kwargs)

        result = vjp(of_chosen, *primals, has_aux=has_aux)
        output, pull_back = result[:2]
        outputs, spec = tree_flatten(output)
        _check_are_real(outputs, "jacrev", "outputs", "output")
        basis = _basis_of(outputs)

        def row(*cotangents: Tensor) -> Any:
            return pull_back(tree_unflatten(list(cotangents), spec))

        def computed(parts: Sequence[Any]) -> Any:
            is_single = chunk_size == 1 and parts[0].shape[0] > 0
            return _looped(row, parts) if is_single else vmap(row, chunk_size=chunk_size)(*parts)

        rows = (
            _copied(computed, basis, chunk_size)
            if _preallocate_and_copy and chunk_size is not None
            else computed(basis)
        )
        jacobians = []
        start = 0
        for out in outputs:
            count, sizes = out._spec.numel, out._spec.sizes
            own = tree_map(functools.partial(_rows, start=start, count=count, sizes=sizes), rows)
            jacobians.append(own[0] if isinstance(argnums, int) else own)
            start += count
        result_tree = tree_unflatten(jacobians, spec)
        return (result_tree, result[2]) if has_aux else result_tree

    return wrapper


def _looped(row: Function, basis: Sequence[Any]) -> Any:
    """Return the results of a function for each example, stacked along the first dimension."""
    made = [row(*parts) for parts in zip(*[each.unbind(0) for each in basis], strict=True)]
    leaves, spec = zip(*[tree_flatten(each) for each in made], strict=True)
    return tree_unflatten([ops.stack(column) for column in zip(*leaves, strict=True)], spec[0])


def _copied(computed: Function, basis: Sequence[Any], chunk_size: int) -> Any:
    """Return the results of a function of a basis, whose chunks are copied into memory that is allocated once."""
    total = basis[0].shape[0]
    first = computed([each[:chunk_size] for each in basis])
    leaves, spec = tree_flatten(first)
    made = [each.new_empty((total, *each.shape[1:])) for each in leaves]
    for start in range(0, total, chunk_size):
        end = min(start + chunk_size, total)
        chunk = leaves if start == 0 else tree_flatten(computed([each[start:end] for each in basis]))[0]
        for whole, part in zip(made, chunk, strict=True):
            whole[start:end] = part
    return tree_unflatten(made, spec)


def _rows(block: Tensor, start: int, count: int, sizes: tuple[int, ...]) -> Tensor:
    """Return the rows of one output, with the output's dimensions in front of the input's."""
    return block.narrow(0, start, count).reshape((*sizes, *block._spec.sizes[1:]))


def jacfwd(
    func: Function, argnums: ArgNums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """Return a function that computes the Jacobian of `func` by forward mode (`torch.func.jacfwd`).

    It is best if there are fewer inputs than outputs. Shapes and errors are those of `jacrev`; `randomness` is
    `vmap`'s.

    Example:
        >>> import triten as tt
        >>> tt.func.jacfwd(lambda x: x * x.sum())(tt.tensor([1.0, 2.0]))
        tensor([[4., 1.],
                [2., 5.]])
    """

    @api_boundary
    @functools.wraps(func)
    def wrapper(*args: Tensor, **kwargs: Any) -> Any:
        positions = chosen_arguments(args, argnums, "jacfwd")
        primals = tuple(args[p] for p in positions)
        inputs, spec = tree_flatten(primals)
        _check_are_tensors(inputs, "jacfwd", "inputs")
        _check_are_real(inputs, "jacfwd", "inputs", "input")
        basis = _basis_of(inputs)

        def of_chosen(*values: Tensor) -> Any:
            return func(*with_chosen(args, positions, values), **kwargs)

        def push(*tangents: Tensor) -> Any:
            _, *moved = jvp(of_chosen, primals, tree_unflatten(list(tangents), spec), has_aux=has_aux)
            return tuple(moved)

        columns = vmap(push, randomness=randomness)(*basis)
        moved, out_spec = tree_flatten(columns[0])
        _check_are_real(moved, "jacfwd", "outputs", "output")
        jacobians = []
        for block in moved:
            parts = []
            start = 0
            for value in inputs:
                parts.append(_columns(block, start, value._spec.numel, value._spec.sizes))
                start += value._spec.numel
            own = tree_unflatten(parts, spec)
            jacobians.append(own[0] if isinstance(argnums, int) else own)
        result_tree = tree_unflatten(jacobians, out_spec)
        if not has_aux:
            return result_tree
        return result_tree, tree_map(_first, columns[1])

    return wrapper


def _first(value: Tensor) -> Tensor:
    """Return the auxiliary value of the first column, which is the same for every direction."""
    return value.select(0, 0) if hasattr(value, "select") else value


def _columns(block: Tensor, start: int, count: int, sizes: tuple[int, ...]) -> Tensor:
    """Return the columns of one input, with the input's dimensions after the output's."""
    return block.narrow(0, start, count).movedim(0, -1).reshape((*block._spec.sizes[1:], *sizes))


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """Return a function that computes the Hessian of `func`, forward over reverse mode (`torch.func.hessian`).

    Example:
        >>> import triten as tt
        >>> tt.func.hessian(lambda x: (x**3).sum())(tt.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
