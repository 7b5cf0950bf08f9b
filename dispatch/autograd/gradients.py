"""`backward` and `grad`: the two entry points to the engine (torch/autograd/__init__.py)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from ...runtime.device import CPU
from ...runtime.local_dispatch_key_set import modes
from ...runtime.memory_format import preserve_format, strides_for
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import api_boundary, hide_inner_frames
from ...runtime.transform_stack import is_differentiating
from ...runtime.transform_stack import stack as transforms
from ...runtime.user_frame import levels_to_user
from ..core.dispatcher import Dispatcher
from ..core.tensor_function import (
    DisableTensorFunctionSubclass,
    handle_tensor_function,
    handles,
    has_tensor_function,
    plain_classes,
)
from . import engine
from .engine import mark_shared
from .node import AccumulateGrad, GradientEdge, edge_of, root_edge
from .reduce_to_spec import reduce_to_spec

if TYPE_CHECKING:
    from ..tensor import Tensor

    Roots: TypeAlias = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]
    """Tensors or edges from which gradients start, or for which gradients are requested."""

_one_plans: dict[TensorSpec, Callable[[], Tensor]] = {}
Dispatcher.singleton().on_change.append(_one_plans.clear)


run_from: Callable[..., None] = engine.run_from
run_backward: Callable[..., Any] = engine.run_backward


def keep_backward_below() -> None:
    """Make the engine's own operators bypass tensor subclasses' overrides from now on.

    The first tensor of such a class calls this, so that no earlier backward pays for it.
    """
    global run_from, run_backward
    if run_from is engine.run_from:
        run_from, run_backward = _below_overrides(engine.run_from), _below_overrides(engine.run_backward)


def _below_overrides(run: Callable[..., Any]) -> Callable[..., Any]:
    def below(*args: Any, **kwargs: Any) -> Any:
        with DisableTensorFunctionSubclass():
            return run(*args, **kwargs)

    return below


def ones_of(spec: TensorSpec) -> Callable[[], Tensor]:
    """Return a function that makes a tensor of ones of this spec."""
    from ..structured.meta.factories import filled
    from ..tensor import blank_tensor

    # Take only the metadata of a subclass or batched tensor: its memory is its own.
    spec = spec.replace(keys=0) if spec.keys else spec
    if spec.device is not CPU:
        return filled(spec, "fill_stub", 1)
    copy = np.ones(spec.sizes, spec.np_dtype).copy

    def one() -> Tensor:
        out = blank_tensor()
        out._data = copy()
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return one


def zeros_of(spec: TensorSpec) -> Tensor:
    """Return zeros of this spec's sizes, dtype and device, with the strides of a clone."""
    from ..structured.meta.factories import filled

    strides = strides_for(preserve_format, spec.sizes, (spec.sizes, spec.strides))
    zeros: Tensor = filled(TensorSpec.of(spec.sizes, strides, spec.dtype, spec.device), "zero_stub", 0)()
    return zeros


def _as_tuple(value: Any) -> tuple[Any, ...]:
    alone = isinstance(value, TensorImpl | str) or value is None or value.__class__ is GradientEdge
    return (value,) if alone else tuple(value)


def _root_gradient(output: Any, grad: Tensor | None) -> Tensor:
    spec = output._spec
    if not spec.requires_grad:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if grad is None:
        if spec.numel != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not spec.dtype.is_floating_point:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {spec.dtype}"
            )
        if modes or spec.keys:
            # Modes and tensor subclasses see its construction.
            from ..generated.functions import ones_like

            seed = ones_like(output)
            return seed if seed._spec.unnamed is seed._spec else _twin_of(seed)
        return _one(spec)
    if not isinstance(grad, TensorImpl):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    if grad._spec.sizes != spec.sizes:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {grad.shape} and output[0] has a shape of "
            f"{output.shape}."
        )
    if grad._spec.unnamed is not grad._spec:
        grad = _ignoring_names(grad)
    mark_shared(grad)
    if grad._spec.dtype is not spec.dtype:
        if grad._spec.dtype.is_complex is not spec.dtype.is_complex:
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                f"dtype: grad_output[0] has a dtype of {grad._spec.dtype} and output[0] has a dtype of {spec.dtype}."
            )
        grad = reduce_to_spec(grad, spec, root_edge(output)[0])
    return grad


def _ignoring_names(grad: Tensor) -> Any:
    """Return a gradient without its dimension names, with PyTorch's warning."""
    warnings.warn(
        f"Autograd was passed a named grad tensor with dims {list(grad._spec.names)}. Autograd does not yet support "
        "named tensor semantics, so all names will be ignored. In practice all computed gradients will still be "
        "correct according to regular tensor semantics.",
        UserWarning,
        stacklevel=levels_to_user(),
    )
    return _twin_of(grad)


def _twin_of(tensor: Tensor) -> Any:
    from ..layers.named.key import twin_of

    return twin_of(tensor)


def _one(spec: TensorSpec) -> Tensor:
    """Return the gradient of a scalar with respect to itself."""
    make = _one_plans.get(spec)
    if make is None:
        if spec.keys:
            spec = spec.replace(keys=0)
        if len(_one_plans) > 64:
            _one_plans.clear()
        make = _one_plans[spec] = ones_of(spec.detached.unnamed)
    return make()


def backward(
    tensors: Roots,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Roots | None = None,
) -> None:
    """Accumulate gradients of `tensors` into the leaves of their graphs (`torch.autograd.backward`).

    Args:
        tensors: One or several outputs; a scalar needs no gradient of its own.
        grad_tensors: Gradients of the outputs, with their shapes.
        retain_graph: If True, keep saved tensors for another backward. Default: `create_graph`.
        create_graph: If True, record the backward itself, for higher derivatives.
        inputs: If given, only these tensors get gradients, leaves or not.

    Raises:
        RuntimeError: where nothing requires grad, for a second backward over a freed graph, and inside a function that
            `tt.func.grad` or a similar transform differentiates.
    """
    try:
        if transforms.levels and is_differentiating():
            raise RuntimeError(
                "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
                "functorch.vjp instead or call backward() outside of functorch transforms."
            )
        if create_graph:
            warnings.warn(
                "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
                "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
                "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters "
                "to None after use to break the cycle and avoid the leak.",
                UserWarning,
                stacklevel=levels_to_user(),
            )
        if grad_tensors is None and inputs is None and isinstance(tensors, TensorImpl):
            make = None if modes else _one_plans.get(tensors._spec)
            if make is not None:
                seed = make()
            elif has_tensor_function((tensors,)):
                return _handled_backward((tensors,), tensors, None, retain_graph, create_graph, None)
            else:
                seed = _root_gradient(tensors, None)
            run_from(
                root_edge(tensors), seed, create_graph if retain_graph is None else retain_graph, create_graph
            )
            return
        relevant = (tensors, grad_tensors, inputs)
        if not plain_classes.issuperset(map(type, relevant)) and has_tensor_function(relevant):
            return _handled_backward(relevant, tensors, grad_tensors, retain_graph, create_graph, inputs)
        outputs = _as_tuple(tensors)
        root_grads = _as_tuple(grad_tensors) if grad_tensors is not None else (None,) * len(outputs)
        if len(root_grads) != len(outputs):
            raise RuntimeError(f"got {len(outputs)} tensors and {len(root_grads)} gradients")
        grads = [_root_gradient(o, g) for o, g in zip(outputs, root_grads, strict=True)]
        keep = create_graph if retain_graph is None else retain_graph
        roots = [root_edge(o) for o in outputs]
        if inputs is None:
            run_backward(roots, grads, retain_graph=keep, create_graph=create_graph)
            return
        targets = list({id(t): t for t in _as_tuple(inputs)}.values())
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        if not all(t._spec.requires_grad for t in targets):
            raise RuntimeError(
                "One of the differentiated Tensors given as 'inputs' to backward does not require grad"
            )
        for target in targets:
            if target.__class__ is not GradientEdge:
                target.retain_grad()
        run_backward(
            roots,
            grads,
            retain_graph=keep,
            create_graph=create_graph,
            inputs=[root_edge(t) for t in targets],
            accumulate_inputs=True,
        )
    except BaseException:
        hide_inner_frames()
        raise


def _handled_backward(
    relevant: Sequence[Any],
    tensors: Roots,
    grad_tensors: Tensor | Sequence[Tensor | None] | None,
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Roots | None,
) -> None:
    handle_tensor_function(
        backward,
        relevant,
        tensors,
        grad_tensors=grad_tensors,
        retain_graph=retain_graph,
        create_graph=create_graph,
        inputs=inputs,
    )


@overload
def grad(
    outputs: Roots,
    inputs: Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Roots,
    inputs: Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@api_boundary
def grad(
    outputs: Roots,
    inputs: Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return gradients of `outputs` with respect to `inputs` without accumulating them (`torch.autograd.grad`).

    With `is_grads_batched`, the first dimension of every `grad_outputs` is a batch of gradients, sent back in one
    pass of `tt.vmap`; the results have the same batch dimension. An unused input is an error, unless `allow_unused`
    (its gradient is None) or `materialize_grads` (zeros).

    Raises:
        RuntimeError: where an input does not require grad, or is not used and `allow_unused` is false.
        ValueError: for `materialize_grads` with ``allow_unused=False``.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([3.0], requires_grad=True)
        >>> tt.autograd.grad((x * x).sum(), x)
        (tensor([6.]),)
    """
    relevant = (outputs, inputs, grad_outputs)
    if not plain_classes.issuperset(map(type, relevant)) and has_tensor_function(relevant):
        return handle_tensor_function(  # type: ignore[no-any-return]
            grad,
            relevant,
            *(
                _as_tuple(v) if isinstance(v, Iterable) and not handles(type(v)) else (v,)
                for v in relevant[:2]
            ),
            grad_outputs=grad_outputs,
            retain_graph=retain_graph,
            create_graph=create_graph,
            only_inputs=only_inputs,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        raise ValueError("only_inputs=False is not supported; use backward() to accumulate into all leaves")
    if is_grads_batched:
        _check_batched(_as_tuple(outputs), _as_tuple(grad_outputs) if grad_outputs is not None else ())
        return _batched_grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
        )
    results = _as_tuple(outputs)
    sources: Sequence[Any] = _as_tuple(inputs)
    root_grads = _as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(results)
    if not sources:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for source in sources:
        if not source._spec.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    grads = [_root_gradient(o, g) for o, g in zip(results, root_grads, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    input_grads = run_backward(
        [root_edge(o) for o in results],
        grads,
        retain_graph=keep,
        create_graph=create_graph,
        inputs=[edge_of(s) or (AccumulateGrad(s), 0) for s in sources],  # reaches no unrecorded view
    )
    out = []
    for position, (source, value) in enumerate(zip(sources, input_grads, strict=True)):
        if value is None:
            if materialize_grads:
                value = zeros_of(source._spec)
                if create_graph:
                    value._set_requires_grad()
            elif not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {position} appears to not have been used in the graph. Set "
                    "allow_unused=True if this is the desired behavior."
                )
        out.append(value)
    return tuple(out)


def mapped(function: Callable[..., Any], *args: Any) -> Any:
    """Return the results of a function mapped over the first dimension of tensors."""
    from ..layers.old_vmap import _vmap

    return _vmap(function)(*args)


def _check_batched(outputs: Sequence[Any], grad_outputs: Sequence[Any]) -> None:
    """Raise RuntimeError unless each gradient is a batch of tensors of its output's shape."""
    for i, (output, grad) in enumerate(zip(outputs, grad_outputs, strict=False)):
        if grad is None or not isinstance(output, TensorImpl):
            continue
        if grad.dim() == 0 or grad.shape[1:] != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {grad.shape} and output[{i}] "
                f"has a shape of {output.shape}. If you only want some tensors in `grad_output` to be considered "
                "batched, consider using vmap."
            )


def _batched_grad(
    outputs: Roots,
    inputs: Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """Run `grad` over the batch of gradients along the first dimension of `grad_outputs`."""
    used: list[int] = []
    sources = _as_tuple(inputs)

    def grads_of_example(*example_grads: Tensor) -> tuple[Any, ...]:
        input_grads = grad(
            outputs,
            inputs,
            example_grads,
            retain_graph,
            create_graph,
            True,
            allow_unused or materialize_grads,
        )
        used[:] = [position for position, value in enumerate(input_grads) if value is not None]
        return tuple(value for value in input_grads if value is not None)

    root_grads = _as_tuple(grad_outputs)
    results: list[Any] = [None] * len(sources)
    for position, value in (
        zip(used, mapped(grads_of_example, *root_grads), strict=True) if root_grads else ()
    ):
        results[position] = value
    if materialize_grads:
        batch = root_grads[0].shape[0]
        results = [
            zeros_of(source._spec).expand(batch, *source.shape) if value is None else value
            for source, value in zip(sources, results, strict=True)
        ]
    return tuple(results)
