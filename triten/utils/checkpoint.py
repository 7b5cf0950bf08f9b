"""Activation checkpointing: recomputes in backward what forward did not save (`torch.utils.checkpoint`)."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Never, TypeVar

from .. import nn
from ..autograd import Function, backward, enable_grad, no_grad
from ..cuda.random import get_rng_state, set_rng_state
from ..dispatch.autograd.graph import current_task, know_tasks
from ..dispatch.autograd.saved_tensors import saved_tensors_hooks
from ..dispatch.generated import functions as _ops
from ..dispatch.layers.autocast.mode import autocast
from ..dispatch.layers.autocast.state import (
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)
from ..dispatch.random import fork_rng
from ..dispatch.tensor import Tensor
from ..runtime import generator as _streams
from ..runtime.grad_mode import is_grad_enabled
from ..runtime.traceback_filter import api_boundary, hide_inner_frames
from .selective_checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    RecordedOperators,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

if TYPE_CHECKING:
    from ..nn.modules.module import Module

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Result = TypeVar("Result")
Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

PASSED_EXPLICITLY = (
    "{}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, but if you need "
    "to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
    "differences between the two variants."
)


class CheckpointError(RuntimeError):
    """Error: recomputation gave other results than the first call (`torch.utils.checkpoint.CheckpointError`)."""


class _StopRecomputation(BaseException):
    """Signal that all saved tensors have been recomputed."""


class _Surroundings:
    """Snapshot of the thread state that affects a function's results: generators and autocast."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self._states = (
            [(g, g.state_bytes()) for g in _streams.generators_in_use()] if preserve_rng_state else None
        )
        self._autocast = [
            (device, is_autocast_enabled(device), get_autocast_dtype(device), is_autocast_cache_enabled())
            for device in ("cpu", "cuda")
        ]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore the captured state for a block, and the current state after it."""
        with ExitStack() as stack:
            if self._states is not None:
                stack.enter_context(fork_rng())
                for generator, state in self._states:
                    generator.set_state_bytes(state)
            for device, enabled, dtype, cached in self._autocast:
                stack.enter_context(autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cached))
            yield


def noop_context_fn() -> Contexts:
    """Return two context managers that do nothing (`torch.utils.checkpoint.noop_context_fn`)."""
    return nullcontext(), nullcontext()


class _EarlyStop:
    """Override of early stopping of recomputation; None leaves the choice to each call."""

    override: bool | None = None


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set for a block whether recomputation stops once all needed tensors are available
    (`torch.utils.checkpoint.set_checkpoint_early_stop`).
    """
    before = _EarlyStop.override
    _EarlyStop.override = enable
    try:
        yield
    finally:
        _EarlyStop.override = before


class _Debugging:
    """Override of `debug`, with which errors list the operators of both calls; None leaves the choice to each call."""

    override: bool | None = None


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set `debug` for the checkpoints of a block; None leaves the choice to each call
    (`torch.utils.checkpoint.set_checkpoint_debug_enabled`).
    """
    before = _Debugging.override
    _Debugging.override = enabled
    try:
        yield
    finally:
        _Debugging.override = before


class GraphExecGroup:
    """Context in which several backwards recompute a checkpoint only once (`torch.utils.checkpoint.GraphExecGroup`).

    They go through different parts of the graph. It is for checkpoints with ``use_reentrant=False``.

    Raises:
        RuntimeError: inside another one.

    Example:
        >>> import triten as tt
        >>> from triten.utils.checkpoint import GraphExecGroup, checkpoint
        >>> calls = []
        >>> def two(x):
        ...     calls.append("two")
        ...     return x.sin(), x.cos()
        >>> x = tt.ones(1, requires_grad=True)
        >>> sin, cos = checkpoint(two, x, use_reentrant=False, early_stop=False)
        >>> with GraphExecGroup():
        ...     sin.backward(); cos.backward()
        >>> calls
        ['two', 'two']
    """

    _current: GraphExecGroup | None = None

    def __enter__(self) -> None:
        if GraphExecGroup._current is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested.")
        GraphExecGroup._current = self

    def __exit__(self, *error: object) -> None:
        GraphExecGroup._current = None


def checkpoint(
    function: Callable[..., Result],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Result:
    """Call a function so that backward computes again what the graph would keep (`torch.utils.checkpoint.checkpoint`;
    Chen et al., 2016).

    Args:
        function: called with `args` and `kwargs`; in backward again, with the same random numbers and autocast.
        use_reentrant: If False, record the graph, but save the call instead of its tensors. If True, call without
            recording and run a nested backward, which `tt.autograd.grad` does not support.
        context_fn: Returns two context managers, for the first and the second call.
        determinism_check: ``"default"`` compares shapes, dtypes and devices of saved tensors, ``"none"`` nothing.
        debug: If True, a `CheckpointError` lists the operators of both calls. Default: False.
        early_stop: If True, the second call stops once all needed tensors are recomputed. Default: True.
        preserve_rng_state: If True, restore the random state for the second call. Default: True.

    Raises:
        CheckpointError: In backward, if the second call saves other tensors than the first.
        ValueError: Options conflict.

    Example:
        >>> import triten as tt
        >>> from triten.utils.checkpoint import checkpoint
        >>> x = tt.ones(3, requires_grad=True)
        >>> checkpoint(lambda x: (x.exp() * x).sum(), x, use_reentrant=False).backward()
        >>> tt.allclose(x.grad, 2 * x.exp())
        True
    """
    try:
        if use_reentrant is None:
            warnings.warn(PASSED_EXPLICITLY.format("checkpoint"), stacklevel=2)
            use_reentrant = True
        if not use_reentrant:
            return _recorded(
                function,
                args,
                kwargs,
                context_fn,
                determinism_check,
                early_stop,
                preserve_rng_state,
                debug if _Debugging.override is None else _Debugging.override,
            )
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        know_tasks()
        result: Result = CheckpointFunction.apply(function, preserve_rng_state, *args)
        return result
    except BaseException:
        hide_inner_frames()
        raise


@api_boundary
def checkpoint_sequential(
    functions: Module | Iterable[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Checkpoint all but the last segment of a chain (`torch.utils.checkpoint.checkpoint_sequential`).

    Args:
        functions: A `tt.nn.Sequential`, or a list of functions.
        segments: The number of segments.
        input: The argument of the first function.
        use_reentrant: As for `checkpoint`. Default: True, with a warning.
        kwargs: `preserve_rng_state`, as for `checkpoint`.

    Raises:
        ValueError: Another keyword argument is given.

    Example:
        >>> import triten as tt
        >>> net = tt.nn.Sequential(*(tt.nn.Linear(2, 2) for _ in range(4)))
        >>> tt.utils.checkpoint.checkpoint_sequential(net, 2, tt.ones(1, 2), use_reentrant=False).shape
        triten.Size([1, 2])
    """
    if use_reentrant is None:
        warnings.warn(PASSED_EXPLICITLY.format("checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    parts = list(functions.children()) if isinstance(functions, nn.Sequential) else list(functions)
    size = len(parts) // segments

    def chain(some: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for part in some:
                value = part(value)
            return value

        return run

    # The last segment is kept, since backward begins with it.
    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        segment = chain(parts[start : start + size])
        input = checkpoint(segment, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return chain(parts[last:])(input)


class CheckpointFunction(Function):
    """Reentrant checkpoint: one node whose backward calls the function again and runs a nested backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.inputs = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        task = current_task()
        if task is not None and task.has_inputs:
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() "
                "without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for index, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[index] = tensor.detach()._set_requires_grad(tensor.requires_grad)
        with ctx.surroundings.again(), enable_grad():
            outputs = ctx.run_function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return None, None, *(each.grad if isinstance(each, Tensor) else None for each in inputs)


class _Saved:
    """Placeholder in the graph for a tensor that is recomputed."""

    __slots__ = ("__weakref__", "described")

    def __init__(self, described: object) -> None:
        self.described = described


class _Inputs(Function):
    """Node that saves the call's tensors, so that an enclosing checkpoint recomputes them too."""

    @staticmethod
    def forward(anchor: Tensor, *tensors: Tensor) -> Tensor:
        return anchor.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Never:
        raise AssertionError("nothing is differentiated by what only keeps tensors")


def _described(tensor: Tensor) -> object:
    return tensor.shape, tensor.dtype, tensor.device


DETERMINISM_CHECKS: dict[str, Callable[[Tensor], object]] = {
    "default": _described,
    "none": lambda tensor: None,
}


class _Call:
    """Recorded call, which is repeated when backward first needs a tensor that it saved."""

    def __init__(
        self, again: Callable[[], None], early_stop: bool, describe: Callable[[Tensor], object]
    ) -> None:
        self._again = again
        self._early_stop = early_stop
        self._describe = describe
        self._saved: list[weakref.ref[_Saved]] = []
        # Tensors leave with the node that they are for.
        self._computed: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self._owner: weakref.ref[Any] | None = None
        self.is_complete = False
        self.explain: Callable[[], str] = lambda: ""
        """What is added to errors."""

    def hooks(self) -> saved_tensors_hooks:
        """Around the first call: remember that something was saved, and not what."""

        def pack(tensor: Tensor) -> _Saved:
            saved = _Saved(self._describe(tensor))
            self._saved.append(weakref.ref(saved))
            return saved

        return saved_tensors_hooks(pack, self._unpack)

    def _unpack(self, saved: _Saved) -> Tensor:
        owner: Any = GraphExecGroup._current or current_task()
        if saved not in self._computed or owner is not (self._owner() if self._owner else None):
            self._computed.clear()
            self._compute()
            self._owner = None if owner is None else weakref.ref(owner)
        value = self._computed[saved]
        if owner is None:
            self._computed.clear()  # a read outside of a backward keeps nothing
        return value

    def _compute(self) -> None:
        count = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            index, count = count, count + 1
            plain = tensor.detach() if tensor.requires_grad else tensor
            if index >= len(self._saved):
                if not self.is_complete:
                    return plain
                raise CheckpointError(
                    "checkpoint: trying to save more tensors during recomputation than during the original forward "
                    f"pass.{self.explain()}"
                )
            saved = self._saved[index]()
            if saved is not None:
                if self._describe(tensor) != saved.described:
                    raise CheckpointError(
                        "checkpoint: Recomputed values for the following tensors have different metadata than during "
                        f"the forward pass. tensor at position {index}: saved metadata: {saved.described}; recomputed "
                        f"metadata: {self._describe(tensor)}{self.explain()}"
                    )
                self._computed[saved] = plain
            if self._early_stop and count == len(self._saved):
                raise _StopRecomputation
            return plain

        try:
            with saved_tensors_hooks(pack, lambda tensor: tensor), enable_grad():
                self._again()
        except _StopRecomputation:
            return
        if count < len(self._saved):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self._saved)}\n"
                f"Number of tensors saved during recomputation: {count}.{self.explain()}"
            )


def _recorded(
    function: Callable[..., Result],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    context_fn: Callable[[], Contexts],
    determinism_check: str,
    early_stop: bool,
    preserve_rng_state: bool,
    debug: bool,
) -> Result:
    """Run a non-reentrant checkpoint."""
    if debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        first_operators, second_operators = RecordedOperators(), RecordedOperators()

        def context_fn() -> Contexts:
            return first_operators, second_operators

    if determinism_check not in DETERMINISM_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(DETERMINISM_CHECKS)}, but got {determinism_check}"
        )
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    know_tasks()
    surroundings = _Surroundings(preserve_rng_state)
    names = [*range(len(args)), *kwargs]
    values = [*args, *kwargs.values()]
    tensors = [value for value in values if isinstance(value, Tensor)]
    non_tensors = [None if isinstance(value, Tensor) else value for value in values]
    tensor_flags = [isinstance(value, Tensor) for value in values]
    input_node: Any = _Inputs.apply(_ops.empty(0)._set_requires_grad(), *tensors).grad_fn

    def again() -> None:
        saved = iter(input_node.saved_tensors)
        arguments = [
            next(saved) if is_tensor else other
            for is_tensor, other in zip(tensor_flags, non_tensors, strict=True)
        ]
        with surroundings.again(), second:
            function(
                *arguments[: len(args)], **dict(zip(names[len(args) :], arguments[len(args) :], strict=True))
            )

    chosen = early_stop if _EarlyStop.override is None else _EarlyStop.override
    call = _Call(again, chosen, DETERMINISM_CHECKS[determinism_check])
    if debug:
        call.explain = lambda: (
            "\nOperators of the original forward:\n  "
            + "\n  ".join(first_operators.names)
            + "\nOperators of the recomputation:\n  "
            + "\n  ".join(second_operators.names)
        )
    with call.hooks(), first:
        result = function(*args, **kwargs)
    call.is_complete = True
    return result


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detach each tensor but keep its `requires_grad`; return other values unchanged
    (`torch.utils.checkpoint.detach_variable`).

    Raises:
        RuntimeError: `inputs` is not a tuple.

    Example:
        >>> import triten as tt
        >>> from triten.utils.checkpoint import detach_variable
        >>> y = tt.ones(1, requires_grad=True) * 2
        >>> y.is_leaf, detach_variable((y,))[0].is_leaf
        (False, True)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(
        each.detach()._set_requires_grad(each.requires_grad) if isinstance(each, Tensor) else each
        for each in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no tensor among `inputs` requires grad (`torch.utils.checkpoint.check_backward_validity`)."""
    if not any(isinstance(each, Tensor) and each.requires_grad for each in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the CUDA devices of the tensors, nested ones too, and their generators' states
    (`torch.utils.checkpoint.get_device_states`).

    The CPU is excluded.
    """
    devices = list(dict.fromkeys(_cuda_devices(args)))
    return devices, [get_rng_state(device) for device in devices]


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Give generators of CUDA devices states back (`torch.utils.checkpoint.set_device_states`)."""
    for device, state in zip(devices, states, strict=False):
        set_rng_state(state, device)


def _cuda_devices(value: Any) -> Iterator[int]:
    if isinstance(value, Tensor):
        if value.is_cuda:
            yield value.get_device()
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _cuda_devices(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _cuda_devices(each)
