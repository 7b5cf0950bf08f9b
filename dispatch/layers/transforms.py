"""Derivatives of functions: `grad`, `vjp`, `jvp` and functions composed of them (torch/_functorch/eager_transforms.py).

A function is differentiated at aliases of its arguments. They share the arguments' bytes and belong to the surrounding
graph, so that transforms nest in each other, in vmap and in the caller's own graph. Results without outside
dependencies have no graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ...runtime.transform_stack import note_tracked
from ..autograd.creation import unmark
from ..autograd.forward_ad import _set_fwd_grad_enabled, dual_level, make_dual, unpack_dual
from ..autograd.gradients import grad as gradients
from ..autograd.inplace import forget_history
from ..autograd.node import AccumulateGrad, Node, root_edge
from ..autograd.saved_tensors import disable_saved_tensors_hooks
from ..autograd.tangents import depths, set_tangents, tangents_of
from ..generated import functions as ops
from .batched_tensor import BatchedTensor, batched, level_of
from .levels import GradLevel, entered_grad, innermost_vmap, run_below
from .pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

if TYPE_CHECKING:
    from ..tensor import Tensor

Function = Callable[..., Any]
ArgNums = int | tuple[int, ...]

_NO_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case."
)


class _Sources:
    """Tensors that a transform differentiates by: aliases of the leaves of some trees."""

    def __init__(self, tree: Any, name: str) -> None:
        leaves, self.spec = tree_flatten(tree)
        self.tensors: list[Any] = []
        self.fresh: set[int] = set()
        before = set_grad_enabled(
            True
        )  # a tensor differentiated later, outside of a no_grad block, has its history
        try:
            self._take(leaves, name)
        finally:
            set_grad_enabled(before)

    def _take(self, leaves: Sequence[Any], name: str) -> None:
        for value in leaves:
            if not isinstance(value, TensorImpl):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}: {name}")
            dtype = value._spec.dtype
            if not (dtype.is_floating_point or dtype.is_complex):
                raise RuntimeError(
                    f"only Tensors of floating point dtype can require gradients: {name}, got {dtype}"
                )
            tensor: Tensor = _alias(_of_innermost_vmap(value))
            if not tensor._spec.requires_grad:
                tensor._set_requires_grad()
                self.fresh.add(id(tensor))
            self.tensors.append(tensor)

    @property
    def tree(self) -> Any:
        """The trees with the aliases in them."""
        return tree_unflatten(self.tensors, self.spec)

    def depend_on_others(self, outputs: Sequence[Any]) -> bool:
        """Return True if the outputs' graph has a leaf that requires grad but is not a source of this transform."""
        own = {root_edge(t)[0] for t in self.tensors if id(t) in self.fresh}
        seen: set[Node] = set()
        stack = [root_edge(o)[0] for o in outputs if o._spec.requires_grad]
        while stack:
            node = stack.pop()
            if node in seen or node in own:
                continue
            seen.add(node)
            if isinstance(node, AccumulateGrad):
                return True
            stack.extend(edge[0] for edge in node.next_edges if edge is not None)
        return False

    def release(self, level: GradLevel, outputs: Sequence[Any]) -> None:
        """Take captured tensors that the function wrote out of the graph, unless the caller's gradients need it.

        The surrounding transform does so for those that depend on its own sources. Outputs stay in the graph.
        """
        kept = {id(each) for o in outputs for each in (o, o._view_base)}
        for reference in level.tracked:
            tensor = reference()
            if tensor is None or not tensor._spec.requires_grad or id(tensor) in kept:
                continue
            if self.depend_on_others([tensor]):
                note_tracked(tensor)
            else:
                forget_history(tensor)


def _alias(tensor: Any) -> Any:
    alias = tensor.alias()
    unmark(alias)  # in no_grad mode too, the alias is a source or a result of its own
    return alias


def _of_innermost_vmap(tensor: Any) -> Any:
    """Expand the tensor to every example, so that derivatives by it do not belong to outer levels."""
    level = innermost_vmap()
    if level is None or level_of(tensor) is level:
        return tensor
    sizes = (level.batch_size, *tensor._spec.sizes)
    expanded = batched(run_below(level, tensor.expand, sizes), 0, level)
    # The tangents of derivatives inside the vmap have one example's sizes already.
    own = {number: t for number, t in tangents_of(tensor).items() if depths[number] >= level.number}
    set_tangents(expanded, own)
    return expanded


def _primal_of(tensor: Any) -> Any:
    """Return a primal as the innermost `vmap` sees it: a tensor without derivatives is shared by all examples."""
    has_derivatives = tensor._spec.requires_grad or tangents_of(tensor)
    return _of_innermost_vmap(tensor) if has_derivatives else tensor


def lowered(tensor: Any) -> Any:
    """Return the tensor outside of the graph: over the same bytes, tangents and batch dimensions kept."""
    if not isinstance(tensor, TensorImpl) or not tensor._spec.requires_grad:
        return tensor
    before = set_grad_enabled(False)
    try:
        return _alias(tensor)
    finally:
        set_grad_enabled(before)


def _outputs_of(outputs: Any, name: str) -> tuple[list[Any], TreeSpec]:
    leaves, spec = tree_flatten(outputs)
    if not leaves or leaves == [None]:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = {outputs})"
        )
    for each in leaves:
        if not isinstance(each, TensorImpl):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(each)}"
            )
    return leaves, spec


def _split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True, got "
            f"{type(result).__name__}"
        )
    for each in tree_flatten(result[1])[0]:
        if not isinstance(each, TensorImpl):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(each)} in aux of {name}")
    return result


def chosen_arguments(args: tuple[Any, ...], argnums: ArgNums, name: str) -> tuple[int, ...]:
    """Return the positions of the arguments to differentiate by."""
    if not isinstance(argnums, int | tuple) or isinstance(argnums, bool):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if isinstance(argnums, tuple) and not argnums:
        raise RuntimeError("argnums must be non-empty")
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    positions: list[int] = []
    for number in chosen:
        if not isinstance(number, int) or isinstance(number, bool):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs: {name}")
        positions.append(number % len(args))
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {tuple(positions)}")
    return tuple(positions)


def slice_argnums(args: tuple[Any, ...], argnums: ArgNums, as_tuple: bool = True) -> Any:
    """Return the arguments at these positions, for an int one argument or, with `as_tuple`, a tuple of it."""
    chosen = tuple([args[position] for position in chosen_arguments(args, argnums, "grad")])
    return chosen[0] if isinstance(argnums, int) and not as_tuple else chosen


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a tuple as it is, and another value as a tuple of one element."""
    return value if isinstance(value, tuple) else (value,)


def with_chosen(args: tuple[Any, ...], positions: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with others at some positions."""
    replaced = list(args)
    for position, value in zip(positions, values, strict=True):
        replaced[position] = value
    return tuple(replaced)


def grad_and_value(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """Return a function that computes the gradient of `func` and its value (`torch.func.grad_and_value`).

    Args and errors are those of `grad`. The result is ``(gradient, value)``, with `has_aux`
    ``(gradient, (value, aux))``.

    Example:
        >>> import triten as tt
        >>> tt.func.grad_and_value(lambda x: x**2)(tt.tensor(3.0))
        (tensor(6.), tensor(9.))
    """

    @api_boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        positions = chosen_arguments(args, argnums, "grad")
        outer = is_grad_enabled()
        with disable_saved_tensors_hooks(_NO_HOOKS), entered_grad() as level:
            sources = _Sources(tuple(args[p] for p in positions), "grad")
            level.sources = sources.tensors
            set_grad_enabled(True)
            try:
                result = func(*with_chosen(args, positions, sources.tree), **kwargs)
                output, aux = _split_aux(result, has_aux, "grad_and_value(f)(*args)")
                _check_scalar(output)
                linked = outer and sources.depend_on_others([output])
                grads = _gradients([output], sources, None, linked, retain_graph=linked)
            finally:
                set_grad_enabled(outer)
        if not linked:
            output, aux = lowered(output), tree_map(lowered, aux)
        sources.release(level, [output])
        inputs = tree_unflatten(grads, sources.spec)
        inputs = inputs[0] if isinstance(argnums, int) else inputs
        return inputs, ((output, aux) if has_aux else output)

    return wrapper


def _check_scalar(output: Any) -> None:
    if not isinstance(output, TensorImpl):
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
        )
    if output._spec.ndim != 0:
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{output._spec.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def _gradients(
    outputs: Sequence[Any], sources: _Sources, cotangents: Any, create_graph: bool, retain_graph: bool
) -> list[Any]:
    """Return the gradients of outputs by the sources, zeros where an output does not depend on one."""
    from ..generated.functions import zeros_like

    pairs = [
        (o, None if cotangents is None else c)
        for o, c in zip(outputs, cotangents or outputs, strict=True)
        if o._spec.requires_grad
    ]
    grads: Sequence[Any] = [None] * len(sources.tensors)
    if pairs:
        grads = gradients(
            [o for o, _ in pairs],
            sources.tensors,
            None if cotangents is None else [c for _, c in pairs],
            retain_graph=retain_graph or create_graph,
            create_graph=create_graph,
            allow_unused=True,
        )
    before = set_grad_enabled(False)
    try:
        return [zeros_like(s) if g is None else g for s, g in zip(sources.tensors, grads, strict=True)]
    finally:
        set_grad_enabled(before)


def grad(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """Return a function that computes the gradient of `func`, which returns a scalar (`torch.func.grad`).

    Args:
        func: A function from tensors or trees of them to a 0-d tensor. With `has_aux`, it returns a pair of that tensor
            and a tree of auxiliary data.
        argnums: Positions of the arguments to differentiate by; a tuple gives a tuple of gradients.
        has_aux: If True, `func` also returns auxiliary data.

    Raises:
        RuntimeError: for a result of another form, for positions that do not exist, and for hooks on saved tensors
            (`tt.autograd.graph.saved_tensors_hooks`) around the call or in `func`.

    Example:
        >>> import triten as tt
        >>> tt.func.grad(lambda x: x.sin())(tt.tensor(0.0))
        tensor(1.)
        >>> tt.func.grad(tt.func.grad(lambda x: x**3))(tt.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @api_boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


@api_boundary
def vjp(func: Function, *primals: Tensor, has_aux: bool = False) -> Any:
    """Return the value of `func`, and the function from its cotangents to cotangents of `primals` (`torch.func.vjp`).

    The second may be called any number of times; it takes cotangents in the structure of the value and gives a tuple,
    or one tree where there is one primal. With `has_aux` the result has the auxiliary tree as its third part.

    Raises:
        RuntimeError: for a value that is not made of tensors, for cotangents of another structure, and for hooks on
            saved tensors (`tt.autograd.graph.saved_tensors_hooks`) around the call or in `func`.

    Example:
        >>> import triten as tt
        >>> value, pull_back = tt.func.vjp(lambda x: x * x, tt.tensor([1.0, 2.0]))
        >>> pull_back(tt.tensor([1.0, 10.0]))
        (tensor([ 2., 40.]),)
    """
    outer = is_grad_enabled()
    with disable_saved_tensors_hooks(_NO_HOOKS), entered_grad() as level:
        sources = _Sources(primals, "vjp(f, *primals)")
        level.sources = sources.tensors
        set_grad_enabled(True)
        try:
            result = func(*sources.tree)
        finally:
            set_grad_enabled(outer)
        output, aux = _split_aux(result, has_aux, "vjp(f, *primals)")
        outputs, spec = _outputs_of(output, "vjp(f, *primals)")
    linked = sources.depend_on_others(outputs)

    @api_boundary
    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        flat, structure = tree_flatten(cotangents)
        if structure != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {structure}, primal output: {spec}"
            )
        for number, (cotangent, out) in enumerate(zip(flat, outputs, strict=True)):
            if not isinstance(cotangent, TensorImpl):
                raise TypeError(
                    f"gradients can be either Tensors or None, but got {type(cotangent).__name__}"
                )
            shape: Any = cotangent.shape
            if shape != out.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{number}] has a shape of {shape} and output[{number}] has a shape "
                    f"of {out.shape}."
                )
        graph = is_grad_enabled() and (linked or any(c._spec.requires_grad for c in flat))
        with entered_grad(level.depth):
            grads = _gradients(
                outputs, sources, flat, graph if create_graph is None else create_graph, retain_graph
            )
        return tree_unflatten(grads, sources.spec)

    if not (linked and outer):
        outputs_for_caller, aux = [lowered(o) for o in outputs], tree_map(lowered, aux)
    else:
        outputs_for_caller = outputs
    sources.release(level, outputs)
    value = tree_unflatten(outputs_for_caller, spec)
    return (value, pull_back, aux) if has_aux else (value, pull_back)


@api_boundary
def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """Return the value of `func`, and the linear function that is its derivative there (`torch.func.linearize`).

    The derivative may be called any number of times, with one tangent for each primal. It does not call `func` again;
    it uses the stored results of the first call. For one direction `jvp` takes less memory.

    Args:
        func: A function from `primals` to tensors.
        primals: Trees of tensors.

    Returns:
        The value, and the function from tangents in the structure of `primals` to tangents of the value.

    Raises:
        RuntimeError: for a value that is not made of tensors, and for tangents of another structure, shape or dtype.

    Example:
        >>> import triten as tt
        >>> value, derivative = tt.func.linearize(lambda x: x**3, tt.tensor([1.0, 2.0]))
        >>> value, derivative(tt.tensor([1.0, 10.0]))
        (tensor([1., 8.]), tensor([  3., 120.]))
    """
    value, pull_back = vjp(func, *primals)
    points, spec = tree_flatten(primals)
    outputs, out_spec = tree_flatten(value)
    is_linked = any(each.requires_grad for each in outputs)
    # The pull-back is linear in the cotangents, so that its own pull-back pushes forward for any cotangents.
    zeros = tree_unflatten([ops.zeros_like(each) for each in outputs], out_spec)
    _, push_forward = vjp(lambda cotangents: pull_back(cotangents, create_graph=True), zeros)

    @api_boundary
    def derivative(*tangents: Any) -> Any:
        directions, structure = tree_flatten(tangents)
        if structure != spec:
            raise RuntimeError(
                f"Expected the tangents {structure} to have the same argspec as the primals {spec}"
            )
        for number, (direction, point) in enumerate(zip(directions, points, strict=True)):
            for attribute in ("shape", "dtype"):
                mine, expected = getattr(direction, attribute, None), getattr(point, attribute)
                if mine != expected:
                    raise RuntimeError(
                        f"tangent:{number} with {attribute} {mine} in flattened pytree doesn't match the {attribute} "
                        f"{expected} of the corresponding primal."
                    )
        (pushed,) = push_forward(tree_unflatten(directions, spec))
        if is_linked or (is_grad_enabled() and any(each.requires_grad for each in directions)):
            return pushed
        # The inner pull-back was recorded, but none of its graph belongs to the caller.
        return tree_map(_lowered_throughout, pushed)

    return value, derivative


def _lowered_throughout(tensor: Any) -> Any:
    """Run `lowered` on the tensor of all examples behind a mapped tensor."""
    if isinstance(tensor, BatchedTensor):
        mapped = tensor._data
        return batched(_lowered_throughout(mapped.value), mapped.dim, mapped.level)
    return lowered(tensor)


@api_boundary
def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the tensor of all examples behind a mapped tensor, for inspection (`torch.func.debug_unwrap`).

    Computing with it inside of the mapped function is not defined. A tensor that is not mapped is returned unchanged.

    Args:
        tensor: The tensor.
        recurse: If True, unwrap all levels of `vmap`. If False, unwrap only the innermost.

    Example:
        >>> import triten as tt
        >>> shapes = []
        >>> _ = tt.func.vmap(lambda x: shapes.append(tt.func.debug_unwrap(x).shape) or x)(tt.ones(2, 3))
        >>> shapes
        [triten.Size([2, 3])]
    """
    value: Any = tensor
    while isinstance(value, BatchedTensor):
        value = value._data.value
        if not recurse:
            break
    return value  # type: ignore[no-any-return]


@api_boundary
def jvp(
    func: Function,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return the value of `func` and its derivative in a direction, by forward mode (`torch.func.jvp`).

    Args:
        func: A function from `primals` to tensors.
        primals: A tuple of trees of tensors.
        tangents: A tuple of the same structure.
        strict: If True, refuse an output that does not depend on the inputs; otherwise its tangent is zero. Default:
            False.
        has_aux: If True, `func` also returns auxiliary data. Default: False.

    Raises:
        RuntimeError: for arguments that are not tuples, have different structures, or do not consist of tensors.

    Example:
        >>> import triten as tt
        >>> tt.func.jvp(lambda x: x * x, (tt.tensor(3.0),), (tt.tensor(1.0),))
        (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    points, spec = tree_flatten(primals)
    directions, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{spec} and tangents with structure {other}"
        )
    if not points:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to contain at least one Tensor.")
    for noun, values in (("primals", points), ("tangents", directions)):
        for each in values:
            if not isinstance(each, TensorImpl):
                raise RuntimeError(
                    f"jvp(f, primals, tangents): Expected {noun} to only contain Tensors, got {type(each)}"
                )
    with entered_grad(), _set_fwd_grad_enabled(True), dual_level() as level:
        duals = [make_dual(_primal_of(p), t, level=level) for p, t in zip(points, directions, strict=True)]
        result = func(*tree_unflatten(duals, spec))
        output, aux = _split_aux(result, has_aux, "jvp(f, primals, tangents)")
        outputs, out_spec = _outputs_of(output, "jvp(f, primals, tangents)")
        parts = [unpack_dual(o, level=level) for o in outputs]
        aux = tree_map(
            lambda a: unpack_dual(a, level=level).primal if isinstance(a, TensorImpl) else a,  # type: ignore[arg-type]
            aux,
        )
    if strict and any(tangent is None for _, tangent in parts):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    values = tree_unflatten([p for p, _ in parts], out_spec)
    moved = tree_unflatten([_zeros(p) if t is None else t for p, t in parts], out_spec)
    return (values, moved, aux) if has_aux else (values, moved)


def _zeros(tensor: Tensor) -> Tensor:
    from ..generated.functions import zeros_like

    return zeros_like(tensor)
