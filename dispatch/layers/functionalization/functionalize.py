"""Functionalization: programs without writes, and without views (aten/src/ATen/FunctionalizeFallbackKernel.cpp).

One fallback at the Functionalize key, below autograd and above the Python key. At the end of a call, writes to inputs
are copied to them, and every live handle becomes a plain tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.cuda.triton.launch_observer import recording_launches
from ....runtime.dispatch_key_set import DispatchKeySet
from ....runtime.tensor_impl import TensorImpl
from ....runtime.traceback_filter import api_boundary
from ...core.bound_arguments import tensors_in
from ...core.operator_entry import OperatorEntry
from ..batched_tensor import level_of
from ..pytree import tree_flatten, tree_unflatten
from .layer import FUNCTIONALIZE_BIT, FunctionalTensor, Layer, layers

REMOVE = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that computes `func` without operators that write (`torch.func.functionalize`).

    Results and writes to arguments are those of `func`: a written argument gets its new value by one ``copy_`` at the
    end. So ``make_graph(functionalize(func))`` is a program of functional operators. In-place operators, ``out=``,
    views and writes to views are rewritten, those of backward too where `func` takes gradients; gradients flow through
    the function as through `func`.

    Args:
        func: A function of tensors, nested in tuples, lists and dicts.
        remove: ``"mutations"`` leaves views in place; ``"mutations_and_views"`` makes them copies (``view_copy``,
            ``select_copy``). Results that were views then have memory of their own, and strides of results may be
            other ones.

    Raises (the function returned):
        RuntimeError: for a write to a tensor that `func` closes over (make it an argument); for ``resize_``, ``set_``
            and other changes of a tensor's memory; for an operator that writes and has no functional form.
        ValueError: for an unknown `remove`.

    Example:
        >>> import triten as tt
        >>> def f(x):
        ...     y = x.clone()
        ...     y[0].add_(1)
        ...     return y
        >>> tt.func.functionalize(f)(tt.zeros(2, 2))
        tensor([[1., 1.],
                [0., 0.]])
        >>> print(tt.func.make_graph(tt.func.functionalize(f))(tt.zeros(2, 2)).graph)
        graph(%x : float32[2, 2]):
            %clone : float32[2, 2] = aten.clone(%x)
            %select : float32[2] = aten.select.int(%clone, 0, 0)
            %add : float32[2] = aten.add.Tensor(%select, 1)
            %select_scatter : float32[2, 2] = aten.select_scatter(%clone, %add, 0, 0)
            return [%select_scatter]
    """
    if remove not in REMOVE:
        raise ValueError(
            f"functionalize(f, remove): Valid options for remove are {', '.join(map(repr, REMOVE))}, got {remove!r}"
        )
    if not callable(func):
        raise TypeError(f"functionalize(): func must be callable, got {type(func).__name__}")

    @api_boundary
    def functionalized(*args: Any, **kwargs: Any) -> Any:
        return call_functionalized(Layer(remove == "mutations_and_views"), func, args, kwargs)

    functionalized.__name__ = getattr(func, "__name__", "functionalized")
    functionalized.__doc__ = getattr(func, "__doc__", None)
    functionalized.__wrapped__ = func  # type: ignore[attr-defined]
    return functionalized


def call_functionalized(
    layer: Layer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function with its operators in a layer, and apply its writes to inputs at its end."""
    leaves, spec = tree_flatten((args, kwargs))
    # The larger first, of which the smaller may be views.
    tensors = sorted((v for v in leaves if isinstance(v, TensorImpl)), key=lambda t: -t._spec.numel)
    handles = {id(t): layer.enter(t) for t in tensors}
    call_args, named = tree_unflatten([handles.get(id(v), v) for v in leaves], spec)
    try:
        with layer.active(), recording_launches():
            result = func(*call_args, **named)
    except BaseException:
        layer.abandon()
        raise
    return layer.leave(result)


def functionalize_fallback(op: OperatorEntry, key_set: DispatchKeySet, stack: list[Any]) -> None:
    """Serve every operator at the Functionalize key."""
    values = list(stack)
    stack.clear()
    layer = layers.active[-1] if layers.active else None
    if layer is not None and any(
        layer.contains(level) for level in map(level_of, tensors_in(values)) if level
    ):
        # A `vmap` inside of the function comes first: its rules run on handles.
        result = op.call_with_keys(key_set.raw_repr() & ~FUNCTIONALIZE_BIT, values)
    elif layer is not None:
        result = layer.run(op, values)
    elif any(isinstance(tensor, FunctionalTensor) for tensor in tensors_in(values)):
        raise RuntimeError(
            f"{op.name} got a functional tensor outside of the functionalize() call, or the thread, that made it"
        )
    else:
        # A caller has included the key for tensors that are not functional.
        result = op.call_with_keys(key_set.raw_repr() & ~FUNCTIONALIZE_BIT, values)
    returns = len(op.schema.returns)
    if returns == 1:
        stack.append(result)
    elif returns:
        stack.extend(result)
