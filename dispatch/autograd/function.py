"""`Function`: a user's own forward and backward (torch/autograd/function.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import with_room
from ...runtime.traceback_filter import hide_inner_frames
from .creation import Creation, unmark
from .engine import graph_task
from .gradients import zeros_of
from .inplace import check_inplace, rebase_history
from .node import (
    FREED,
    Node,
    edge_of,
    next_sequence,
    save_result,
    saved_version,
    set_history,
    unpack,
    unpack_result,
)
from .saved_tensors import pack_as_hooked
from .tangents import FORWARD_BIT

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .node import Edge

_BATCHED = functionality_bit(Functionality.Batched)


class FunctionCtx(Node):
    """The context of one call, and its node: what `forward` leaves for `backward`."""

    __slots__ = (
        "__dict__",
        "_function",
        "_materialize",
        "_non_differentiable",
        "_outputs",
        "_saved",
        "_tensor_positions",
        "_to_save",
        "_to_save_forward",
        "_written",
        "needs_input_grad",
    )

    def __init__(self, function: type[Function], needs: tuple[bool, ...]) -> None:
        self._function = function
        self._materialize = True
        self._non_differentiable: tuple[Any, ...] = ()
        self._outputs: list[bool] = []
        self._saved: list[tuple[Any, int, int]] = []
        self._to_save: tuple[Any, ...] = ()
        self._to_save_forward: tuple[Any, ...] = ()
        self._written: tuple[Any, ...] = ()
        self._tensor_positions: list[int] = []
        self.needs_input_grad = needs
        self.hooks = None
        self.specs = ()
        self.next_edges = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for `backward`, with a check that nobody writes to them in between."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, TensorImpl):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for `jvp`, which finds them in `saved_tensors` and `saved_for_forward`."""
        self._to_save_forward = tensors

    @property
    def saved_for_forward(self) -> tuple[Tensor | None, ...]:
        """What `save_for_forward` was given, as `saved_tensors` has it in `jvp`."""
        return self._to_save_forward

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` wrote to."""
        self._written = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs carry no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros for outputs without gradient, rather than None."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept, without names. Raises RuntimeError once freed or written to."""
        out = []
        for tensor, version, number in self._saved:
            if number < 0:
                out.append(unpack(self, tensor, version))
            else:
                out.append(unpack_result(self, tensor, version, number))
        if any(t is not None and t._spec.unnamed is not t._spec for t in out):
            from ..layers.named.key import without_names

            return without_names(tuple(out))  # type: ignore[no-any-return]
        return tuple(out)

    def maybe_clear_saved_tensors(self) -> bool:
        """In `backward`: let go of what `save_for_backward` kept, unless the graph is retained. Returns whether it was.

        What `saved_tensors` gave before is then the caller's alone, and can be freed as backward goes.
        """
        if graph_task.keeps_graph:
            return False
        self.release()
        return True

    def name(self) -> str:
        return f"{self._function.__name__}Backward"

    def backward(self, *grads: Any) -> Sequence[Any]:
        given = list(grads)
        if self._materialize:
            for position, grad in enumerate(given):
                if grad is None:
                    given[position] = zeros_of(self.specs[position])
        if not all(self._outputs):
            arrived = iter(given)
            given = [next(arrived) if is_tensor else None for is_tensor in self._outputs]
        results = with_room(self._function.backward, self, *given)
        results = results if isinstance(results, tuple | list) else (results,)
        inputs = len(self.needs_input_grad)
        if len(results) != inputs and not (
            len(results) > inputs and all(r is None for r in results[inputs:])
        ):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {inputs}, "
                f"got {len(results)})"
            )
        for position in range(inputs):
            if results[position] is not None and position not in self._tensor_positions:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position {position + 1}, but "
                    "the corresponding forward input was not a Variable"
                )
        out = []
        for position in self._tensor_positions:
            grad = results[position]
            if grad is not None and not isinstance(grad, TensorImpl):
                raise RuntimeError(f"{self.name()}: expected Variable or None (got {type(grad).__name__})")
            if grad is not None and not self._function._marks_shared_gradients:
                grad.version_cell()  # as `mark_shared`: the user's code may hold it
            out.append(grad)
        return out

    def release(self) -> None:
        self._saved = [(FREED, 0, -1) for _ in self._saved]


class Function:
    """A differentiable function of your own: subclass it, write `forward` and `backward`, call `apply`.

    `forward(ctx, *args)` may keep tensors by ``ctx.save_for_backward``; or write `forward(*args)` and
    `setup_context(ctx, inputs, output)`. `backward(ctx, *grad_outputs)` returns one gradient, or None, for each
    argument of `forward`. For forward mode write `jvp(ctx, *tangents)` too.

    Inside `tt.vmap` it takes the second form, and either `generate_vmap_rule = True`, which maps forward and backward,
    or a static method `vmap(info, in_dims, *args)` that returns an output and its mapped dimension.

    Example:
        >>> import triten as tt
        >>> class Double(tt.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x + x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad + grad
        >>> x = tt.ones(2, requires_grad=True)
        >>> Double.apply(x).sum().backward(); x.grad
        tensor([2., 2.])
    """

    generate_vmap_rule = False
    _marks_shared_gradients = False
    """Whether `backward` marks those gradients that somebody else holds; leaves take the others for their own."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """The function of many examples at once; to be overridden. `info` has batch_size and randomness."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute; to be overridden."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what backward needs, where `forward` takes no context; to be overridden."""

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """Gradients of the inputs; to be overridden."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: Any) -> Any:
        """The outputs' tangents, None for zero, from those of `forward`'s arguments; to be overridden."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward`, recording for backward where an argument requires grad.

        Raises RuntimeError for dual tensors where no `jvp` is written.
        """
        try:
            if any(isinstance(a, TensorImpl) and a._spec.keys & _BATCHED for a in args):
                from ..layers.batching.function import apply_batched

                return apply_batched(cls, args)
            return cls._apply(args)
        except BaseException:
            hide_inner_frames()
            raise

    @classmethod
    def _apply(cls, args: tuple[Any, ...]) -> Any:
        """`apply` at this level: the tensors are taken for what they are, batched or not."""
        tensors = [i for i, a in enumerate(args) if isinstance(a, TensorImpl)]
        if any(args[i]._spec.keys & FORWARD_BIT for i in tensors):
            from .function_jvp import apply_forward

            return apply_forward(cls, args)
        return cls._run(FunctionCtx, args, tensors)

    @classmethod
    def _run(cls, context: Callable[..., FunctionCtx], args: tuple[Any, ...], tensors: list[int]) -> Any:
        needs = tuple(isinstance(a, TensorImpl) and a._spec.requires_grad for a in args)
        recording = is_grad_enabled() and any(needs)
        ctx = context(cls, needs)
        edges = [edge_of(args[i]) if needs[i] else None for i in tensors]
        before = set_grad_enabled(False)
        try:
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args)
        finally:
            set_grad_enabled(before)
        for written in ctx._written:
            # Forward may have written with no operator, to the bytes themselves.
            if isinstance(written, TensorImpl):
                written.bump_version()
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if recording:
            outputs = cls._record(ctx, args, tensors, edges, outputs)
        else:
            ctx._saved = [
                (t, 0 if t is None or t._spec.is_inference else saved_version(t), -1) for t in ctx._to_save
            ]
        return type(result)(outputs) if isinstance(result, tuple | list) else outputs[0]

    @classmethod
    def _record(
        cls,
        ctx: FunctionCtx,
        args: Sequence[Any],
        tensors: list[int],
        edges: Sequence[Edge | None],
        outputs: list[Any],
    ) -> list[Any]:
        ctx._tensor_positions = tensors
        ctx.next_edges = tuple(edges)
        ctx.sequence = next_sequence()
        for written in ctx._written:
            check_inplace(written)
            if not any(out is written for out in outputs):
                raise RuntimeError(
                    "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                    "that are modified inplace must all be outputs of the Function."
                )
        made: list[Any] = []
        specs = []
        for out in outputs:
            if not isinstance(out, TensorImpl):
                made.append(out)
                continue
            specs.append(out._spec.detached)
            is_input = any(out is args[i] for i in tensors)
            dirty = any(out is w for w in ctx._written)
            if is_input and not dirty:
                before = set_grad_enabled(False)
                try:
                    out = out.alias()  # type: ignore[attr-defined]  # every tensor of this package has it
                finally:
                    set_grad_enabled(before)
            made.append(out)
        ctx.specs = tuple(specs)
        ctx._outputs = [isinstance(out, TensorImpl) for out in outputs]
        number = 0
        for out in made:
            if not isinstance(out, TensorImpl):
                continue
            floating = out._spec.dtype.is_floating_point or out._spec.dtype.is_complex
            if floating and not any(out is n for n in ctx._non_differentiable):
                if any(out is w for w in ctx._written):
                    rebase_history(out, ctx)
                    number += 1
                    continue
                if out._view_base is not None:
                    unmark(out)
                if not out._spec.requires_grad:
                    set_history(out, ctx, number)
                    if out._view_base is not None:
                        out._creation = Creation.CUSTOM_FUNCTION
            number += 1
        for tensor in ctx._to_save:
            position = next((i for i, o in enumerate(made) if o is tensor), -1)
            if tensor is None:
                ctx._saved.append((None, 0, -1))
            elif position >= 0 and isinstance(tensor, TensorImpl):
                kept = save_result(tensor)
                ctx._saved.append((pack_as_hooked(kept), saved_version(kept), position))
            else:
                ctx._saved.append((pack_as_hooked(tensor), saved_version(tensor), -1))
        ctx._to_save = ()
        return made
