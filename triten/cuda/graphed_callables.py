"""`make_graphed_callables`: functions whose forward and backward are captured graphs (torch/cuda/graphs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dispatch.autograd.function import Function
from ..dispatch.autograd.gradients import grad
from ..dispatch.generated.functions import empty_like, zeros_like
from ..dispatch.layers.autocast.state import is_autocast_cache_enabled, is_autocast_enabled
from ..dispatch.layers.pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten
from ..dispatch.tensor import Tensor
from ..runtime.cuda.device_guard import device_guard
from ..runtime.cuda.driver import driver
from ..runtime.cuda.graph import CUDAGraph, PoolHandle, graph, graph_pool_handle
from ..runtime.cuda.stream import Stream, StreamContext
from ..runtime.grad_mode import is_grad_enabled

if TYPE_CHECKING:
    from ..dispatch.autograd.function import FunctionCtx


class Captured(NamedTuple):
    """A callable's two graphs and the tensors through which they take and give values; None stands for no gradient."""

    forward: CUDAGraph
    backward: CUDAGraph | None
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    structure: TreeSpec
    output_grads: tuple[Any, ...]
    input_grads: tuple[Any, ...]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: PoolHandle | None = None,
) -> Any:
    """Return functions that replay captured graphs of the given ones, with support for autograd.

    A returned function copies its arguments into those of the capture, replays, and returns the capture's outputs:
    the next call overwrites them. It has first derivatives only, and takes arguments of the same shapes, dtypes and
    `requires_grad` as the samples, which must not be used otherwise.

    Args:
        callables: A function of tensors, or a tuple of functions in the order in which they run. The parameters of a
            function that has `parameters()` get gradients too.
        sample_args: The tuple of the function's arguments, CUDA tensors or trees of them. For several functions, a
            tuple of these tuples.
        num_warmup_iters: The number of warm-up iterations, forward and backward, before each capture.
        allow_unused_input: If True, an input that requires grad may have no effect on the outputs. Default: False.
        pool: A memory pool to share; see `graph_pool_handle`. Default: a new pool.

    Raises:
        RuntimeError: The call is inside autocast with its cache on, an input is unused, or a function cannot be
            captured.
        AssertionError: A sample argument is not a tensor.
        TypeError: A function is not callable, or the samples are not a tuple.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(3, device="cuda", requires_grad=True)
        >>> cube = tt.cuda.make_graphed_callables(lambda x: x * x * x, (tt.rand_like(x).requires_grad_(),))
        >>> cube(x).sum().backward(); x.grad.tolist()
        [3.0, 3.0, 3.0]
    """
    if is_autocast_enabled("cuda") and is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    just_one = not isinstance(callables, tuple)
    functions = (callables,) if just_one else callables
    samples = (sample_args,) if just_one else sample_args
    surfaces = checked_inputs(functions, samples)
    device = next((t.device.index for surface in surfaces for t in surface), driver().current_device())
    with device_guard(device):
        handle = graph_pool_handle() if pool is None else pool
        warm_up(functions, samples, surfaces, num_warmup_iters, allow_unused_input)
        captured = capture(functions, samples, surfaces, handle, allow_unused_input)
    made = tuple(
        graphed(each, len(tree_leaves(args)), parameters_of(function))
        for each, args, function in zip(captured, samples, functions, strict=True)
    )
    return made[0] if just_one else made


def parameters_of(function: Any) -> tuple[Any, ...]:
    """Return the parameters of a callable, if it has any."""
    parameters = getattr(function, "parameters", None)
    return () if parameters is None else tuple(parameters())


def checked_inputs(functions: Sequence[Any], samples: Any) -> list[tuple[Any, ...]]:
    """Return, for each function, the tensors that may get a gradient: those of its arguments, then its parameters.

    Raises:
        TypeError: An element of `functions` is not callable, or `samples` is not a tuple of tuples of the same length.
        AssertionError: A sample argument is not a tensor.
        RuntimeError: A tensor is not on CUDA.
    """
    if not isinstance(samples, tuple) or len(samples) != len(functions):
        raise TypeError(
            f"make_graphed_callables: expected a tuple of arguments for each of {len(functions)} callables, got "
            f"{type(samples).__name__}"
        )
    surfaces = []
    for function, args in zip(functions, samples, strict=True):
        if not callable(function):
            raise TypeError(f"make_graphed_callables: expected callables, got {type(function).__name__}")
        if not isinstance(args, tuple):
            raise TypeError(f"make_graphed_callables: sample_args must be a tuple, got {type(args).__name__}")
        leaves = tree_leaves(args)
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            raise AssertionError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other types are not "
                "allowed."
            )
        surface = (*leaves, *parameters_of(function))
        for tensor in surface:
            if not tensor.is_cuda:
                raise RuntimeError(
                    f"make_graphed_callables: expected CUDA tensors as arguments and parameters, got one on "
                    f"{tensor.device}"
                )
        surfaces.append(surface)
    return surfaces


def gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], output_grads: Sequence[Any], allow_unused: bool
) -> tuple[Any, ...]:
    """Compute the gradient of each input; None for inputs that require no grad."""
    differentiable = tuple(i for i in inputs if i.requires_grad)
    pairs = [(o, g) for o, g in zip(outputs, output_grads, strict=True) if g is not None]
    if not differentiable or not pairs:
        return (None,) * len(inputs)
    computed = iter(
        grad(
            tuple(o for o, _ in pairs),
            differentiable,
            grad_outputs=tuple(g for _, g in pairs),
            allow_unused=allow_unused,
        )
    )
    return tuple(next(computed) if i.requires_grad else None for i in inputs)


def grads_like(outputs: Sequence[Any], make: Callable[[Any], Any] = empty_like) -> tuple[Any, ...]:
    """Allocate a gradient for each output that requires one; None for the others."""
    return tuple(make(o) if isinstance(o, Tensor) and o.requires_grad else None for o in outputs)


def warm_up(
    functions: Sequence[Any], samples: Sequence[Any], surfaces: Sequence[Any], times: int, allow_unused: bool
) -> None:
    """Run forward and backward on a new stream, so that everything is compiled and loaded before the capture."""
    cuda = driver()
    cuda.synchronize()
    with StreamContext(Stream()):
        for function, args, surface in zip(functions, samples, surfaces, strict=True):
            for _ in range(times):
                outputs = tree_leaves(function(*args))
                gradients(outputs, surface, grads_like(outputs, zeros_like), allow_unused)
    cuda.synchronize()


def capture(
    functions: Sequence[Any],
    samples: Sequence[Any],
    surfaces: Sequence[Any],
    pool: PoolHandle,
    allow_unused: bool,
) -> list[Captured]:
    """Capture all forwards, then the backwards in reverse order: the order of replays, so that they share memory."""
    forwards = []
    for function, args in zip(functions, samples, strict=True):
        forward = CUDAGraph()
        with graph(forward, pool=pool):
            result = function(*args)
        outputs, structure = tree_flatten(result)
        forwards.append((forward, tuple(outputs), structure))
    captured = []
    for (forward, outputs, structure), surface in zip(reversed(forwards), reversed(surfaces), strict=True):
        output_grads = grads_like(outputs)
        backward, input_grads = None, (None,) * len(surface)
        if any(g is not None for g in output_grads):
            backward = CUDAGraph()
            with graph(backward, pool=pool):
                input_grads = gradients(outputs, surface, output_grads, allow_unused)
        captured.append(Captured(forward, backward, surface, outputs, structure, output_grads, input_grads))
    return captured[::-1]


class OnceDifferentiable(Function):
    """The identity, for gradients that have none themselves (torch.autograd.function.once_differentiable)."""

    @staticmethod
    def forward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        return gradient.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


def graphed(captured: Captured, argument_count: int, parameters: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the function that replays the captured graphs."""

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            for static, argument in zip(
                captured.inputs[:argument_count], inputs[:argument_count], strict=True
            ):
                if static.data_ptr() != argument.data_ptr():
                    static.copy_(argument)
            captured.forward.replay()
            outputs = tuple(o.detach() if isinstance(o, Tensor) else o for o in captured.outputs)
            ctx.mark_non_differentiable(
                *(o for o, g in zip(outputs, captured.output_grads, strict=True) if g is None)
            )
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            for static, output_grad in zip(captured.output_grads, grads, strict=True):
                if static is not None and static.data_ptr() != output_grad.data_ptr():
                    static.copy_(output_grad)
            if captured.backward is not None:
                captured.backward.replay()
            input_grads = tuple(None if g is None else g.detach() for g in captured.input_grads)
            if is_grad_enabled() and any(g is not None and g.requires_grad for g in grads):
                return tuple(
                    None if g is None else OnceDifferentiable.apply(g.requires_grad_()) for g in input_grads
                )
            return input_grads

    def functionalized(*args: Any) -> Any:
        leaves = tree_leaves(args)
        check_arguments(captured.inputs[:argument_count], leaves)
        return tree_unflatten(Graphed.apply(*leaves, *parameters), captured.structure)

    return functionalized


def check_arguments(expected: Sequence[Any], arguments: Sequence[Any]) -> None:
    """Check that the arguments have the metadata of those in the capture.

    Raises:
        TypeError: The number of arguments differs, or an argument is not a tensor.
        RuntimeError: A shape, dtype or device differs.
    """
    if len(expected) != len(arguments):
        raise TypeError(
            f"graphed callable: expected {len(expected)} tensors as arguments, got {len(arguments)}"
        )
    for position, (static, tensor) in enumerate(zip(expected, arguments, strict=True)):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"graphed callable: argument {position} must be Tensor, not {type(tensor).__name__}"
            )
        for name in ("shape", "dtype", "device"):
            expected_value, value = getattr(static, name), getattr(tensor, name)
            if expected_value != value:
                raise RuntimeError(
                    f"graphed callable: argument {position}: expected {name} {expected_value} as in the capture, "
                    f"got {value}"
                )
