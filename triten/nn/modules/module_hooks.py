"""Hooks of a module's call: before and after `forward`, and around its backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd import Function
from ...dispatch.autograd.node import RemovableHandle
from ...dispatch.tensor import Tensor

HOOK_TABLES = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_pre_hooks",
    "_backward_hooks",
)
"""Dictionaries of a module: the hooks by number, and of the numbers which want more."""


EVERYWHERE: dict[str, dict[int, Any]] = {table: {} for table in HOOK_TABLES}
"""The hooks of all modules, which are called before a module's own."""


REGISTRATIONS: dict[str, dict[int, Any]] = {"_parameters": {}, "_buffers": {}, "_modules": {}}
"""What is called when a module gets a parameter, a buffer or a child, by the module's table."""


def as_registered(module: Any, table: str, name: str, value: Any) -> Any:
    """Run the registration hooks on a value; a hook's result, unless None, replaces it."""
    for hook in [*REGISTRATIONS[table].values()]:
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def hooks_of(module: Any, table: str) -> dict[int, Any]:
    """Return the hooks that a module's call runs, in order: global hooks, then its own."""
    return {**EVERYWHERE[table], **module.__dict__[table]}


def added(hooks: dict[int, Any], hook: Any, prepend: bool = False, *flags: dict[int, Any]) -> RemovableHandle:
    """Register a hook under a new number, as the first where `prepend` says so; `flags` get the number too."""
    handle = RemovableHandle(hooks, extra_dict=list(flags))
    before = dict(hooks) if prepend else {}
    if prepend:
        hooks.clear()
    hooks[handle.id] = hook
    hooks.update(before)
    for flag in flags:
        flag[handle.id] = True
    return handle


class _Boundary(Function):
    """Passes tensors through, so that a node stands between a module and what is around it."""

    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*[o for t, o in zip(inputs, output, strict=True) if not t.requires_grad])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return grads


def through_boundary(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, list[int]]:
    """Pass the tensors among `values` through an identity node.

    Returns:
        The values, the node, and the positions of the tensors. The node is None if no tensor requires grad.
    """
    indices = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if not any(values[i].requires_grad for i in indices):
        return values, None, indices
    passed = _Boundary.apply(*(values[i] for i in indices))
    passed = passed if isinstance(passed, tuple) else (passed,)
    result = list(values)
    for i, tensor in zip(indices, passed, strict=True):
        result[i] = tensor
    node = next(tensor.grad_fn for tensor in passed if tensor.requires_grad)
    return tuple(result), node, indices


class LastOperationHook:
    """A forward hook that puts a backward hook on the operation which made the result."""

    def __init__(self, hook: Any) -> None:
        self.hook = hook

    def __call__(self, module: Any, args: Any, result: Any) -> None:
        while isinstance(result, tuple | list | dict) and result:
            values = list(result.values()) if isinstance(result, dict) else result
            result = next((each for each in values if isinstance(each, Tensor)), values[0])
        if isinstance(result, Tensor) and result.grad_fn is not None:
            result.grad_fn.register_hook(lambda inputs, outputs: self.hook(module, inputs, outputs))


class BackwardHook:
    """One call's backward hooks: ``pre(module, grad_output)``, then ``hook(module, grad_input, grad_output)``."""

    def __init__(self, module: Any, user_hooks: Sequence[Any], user_pre_hooks: Sequence[Any]) -> None:
        self.module = module
        self.hooks = user_hooks
        self.pre_hooks = user_pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_count = 0
        self.reaches_inputs = False
        self.input_places: list[int] = []

    def setup_input_hook(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the inputs through a node whose gradients are the module's input gradients."""
        inputs, node, self.input_places = through_boundary(inputs)
        self.input_count = len(inputs)
        self.reaches_inputs = node is not None
        if node is not None:
            node.register_hook(self._after_inputs)
        return inputs

    def setup_output_hook(self, result: Any) -> Any:
        """Pass the results through a node at which the module's backward begins."""
        outputs = result if isinstance(result, tuple) else (result,)
        outputs, node, indices = through_boundary(outputs)
        if node is not None:
            count = len(outputs)

            def before(grads: tuple[Any, ...]) -> Any:
                grads = spread(grads, indices, count)
                for hook in self.pre_hooks:
                    replaced = hook(self.module, grads)
                    if replaced is not None:
                        grads = checked(replaced, count, "grad_output")
                if self.reaches_inputs:
                    self.grad_outputs = grads
                else:
                    self._without_inputs(grads)
                return tuple(grads[i] for i in indices)

            node.register_prehook(before)
        return outputs if isinstance(result, tuple) else outputs[0]

    def _without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        """Call the hooks where no input requires grad, so that no gradient ever reaches the inputs."""
        for hook in self.hooks:
            replaced = hook(self.module, (None,) * self.input_count, grad_outputs)
            if replaced is not None and not (
                isinstance(replaced, tuple) and all(grad is None for grad in replaced)
            ):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None "
                    "for all gradients."
                )

    def _after_inputs(self, grad_inputs: tuple[Any, ...], _: tuple[Any, ...]) -> Any:
        if self.grad_outputs is None:
            # This gradient passed by the module's results, as in gradients of gradients.
            return None
        grad_outputs, self.grad_outputs = self.grad_outputs, None
        grads = spread(grad_inputs, self.input_places, self.input_count)
        for hook in self.hooks:
            replaced = hook(self.module, grads, grad_outputs)
            if replaced is not None:
                grads = checked(replaced, self.input_count, "grad_input")
        return tuple(grads[i] for i in self.input_places)


def spread(grads: tuple[Any, ...], indices: list[int], count: int) -> tuple[Any, ...]:
    """Return `count` values with the gradients at `indices`, and None elsewhere."""
    result: list[Any] = [None] * count
    for i, grad in zip(indices, grads, strict=True):
        result[i] = grad
    return tuple(result)


def checked(grads: Any, count: int, noun: str) -> tuple[Any, ...]:
    """Return a hook's gradients as a tuple.

    Raises:
        RuntimeError: The number of gradients is not `count`.
    """
    replacement: tuple[Any, ...] = grads if isinstance(grads, tuple) else (grads,)
    if len(replacement) != count:
        raise RuntimeError(
            f"Backward hook returned an invalid number of {noun}, got {len(replacement)}, but expected {count}"
        )
    return replacement


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``module.forward(*args, **kwargs)`` with the module's hooks.

    Raises:
        RuntimeError: A forward pre-hook with kwargs returns neither None nor a tuple (args, kwargs).
    """
    with _always_called(module) as pending:
        with_kwargs = hooks_of(module, "_forward_pre_hooks_with_kwargs")
        for number, hook in hooks_of(module, "_forward_pre_hooks").items():
            if number in with_kwargs:
                replaced = hook(module, args, kwargs)
                if replaced is not None:
                    if not isinstance(replaced, tuple) or len(replaced) != 2:
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                            f"{replaced}."
                        )
                    args, kwargs = replaced
            else:
                replaced = hook(module, args)
                if replaced is not None:
                    args = replaced if isinstance(replaced, tuple) else (replaced,)
        pending.arguments = (args, kwargs)
        around = None
        backward, before = hooks_of(module, "_backward_hooks"), hooks_of(module, "_backward_pre_hooks")
        if backward or before:
            around = BackwardHook(module, [*backward.values()], [*before.values()])
            args = around.setup_input_hook(args)
        result = module.forward(*args, **kwargs)
        with_kwargs = hooks_of(module, "_forward_hooks_with_kwargs")
        for number, hook in hooks_of(module, "_forward_hooks").items():
            pending.called.add(number)
            hook_args = (args, kwargs) if number in with_kwargs else (args,)
            replaced = hook(module, *hook_args, result)
            if replaced is not None:
                result = replaced
        return result if around is None else around.setup_output_hook(result)


class _Pending:
    """Which forward hooks have been called, and with what the others are if `forward` raises."""

    def __init__(self) -> None:
        self.called: set[int] = set()
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})


@contextmanager
def _always_called(module: Any) -> Iterator[_Pending]:
    """Call the hooks registered with ``always_call`` after an exception; add notes on errors that they raise."""
    pending = _Pending()
    try:
        yield pending
    except BaseException as error:
        always = hooks_of(module, "_forward_hooks_always_called")
        with_kwargs = hooks_of(module, "_forward_hooks_with_kwargs")
        for number, hook in hooks_of(module, "_forward_hooks").items():
            if number in always and number not in pending.called:
                args, kwargs = pending.arguments
                hook_args = (args, kwargs) if number in with_kwargs else (args,)
                try:
                    hook(module, *hook_args, None)
                except Exception as second:
                    error.add_note(f"the forward hook {hook!r}, always called, raised {second!r}")
        raise
