"""`Function`: user-defined forward and backward (torch/autograd/function.py)."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import with_room
from ...runtime.traceback_filter import hide_inner_frames
from ...runtime.transform_stack import is_transforming
from ...runtime.transform_stack import stack as transforms
from ..core.mode_stack import sees_whole
from .creation import Creation, creation_of, unmark
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


def _references(value: object) -> int:
    """Return the reference count of an argument, as this function sees it."""
    return sys.getrefcount(value)


def _references_of_one_holder() -> tuple[int, int]:
    """Return the counts for an object in one local variable, and for one that a tuple holds too."""
    value = object()
    alone = _references(value)
    results = (object(),)
    for position in (0,):
        value = results[position]
    return alone, _references(value)


_ALONE, _ALONE_IN_TUPLE = _references_of_one_holder()


class FunctionCtx(Node):
    """Context of one call and its node: state that `forward` passes to `backward`."""

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
        self.sequence = next_sequence()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors (or None) for `backward`, which checks that they were not modified in between."""
        for position, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, TensorImpl):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {position} is of type "
                    f"{type(tensor).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors (or None) for `jvp`, which reads them from `saved_tensors` and `saved_for_forward`."""
        self._to_save_forward = tensors

    @property
    def saved_for_forward(self) -> tuple[Tensor | None, ...]:
        """The tensors saved by `save_for_forward`, as `saved_tensors` has them in `jvp`."""
        return self._to_save_forward

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the inputs that `forward` wrote to."""
        self._written = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare the outputs that carry no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` gets zeros rather than None for outputs without gradient."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors saved by `save_for_backward`, without names. Raises RuntimeError if freed or modified."""
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

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """Old name of `saved_tensors`; it warns."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        """The places of the tensors saved by `save_for_backward`, for hooks."""
        from .node_attributes import SavedTensor

        return tuple([SavedTensor(self, self._saved, index) for index in range(len(self._saved))])

    def maybe_clear_saved_tensors(self) -> bool:
        """Free the saved tensors during `backward`, unless the graph is retained. Return whether they were freed.

        Tensors read from `saved_tensors` before then belong to the caller alone, which can free them as backward
        proceeds.
        """
        if graph_task.keeps_graph:
            return False
        self.release()
        return True

    def name(self) -> str:
        return f"{self._function.__name__}Backward"

    def backward(self, *grads: Any) -> Sequence[Any]:
        filled_grads = list(grads)
        for position, grad in enumerate(filled_grads):
            if grad is None:
                if self._materialize:
                    filled_grads[position] = zeros_of(self.specs[position])
            elif not grad._spec.is_contiguous and 0 in grad._spec.strides and not sees_whole():
                # Formulas of reductions expand one element; a user's kernel may count on the strides of the output.
                filled_grads[position] = grad.contiguous()
        if not all(self._outputs):
            arrived = iter(filled_grads)
            filled_grads = [next(arrived) if is_tensor else None for is_tensor in self._outputs]
        results = with_room(self._function._gradient_formula(), self, *filled_grads)
        is_shared = _references(results) > _ALONE
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
            is_held = is_shared or _references(grad) > _ALONE_IN_TUPLE
            if grad is not None and is_held and not self._function._marks_shared_gradients:
                grad.version_cell()  # like `mark_shared`: user code keeps a reference
            out.append(grad)
        return out

    def output_kinds(self) -> Sequence[bool] | None:
        return None if all(self._outputs) else self._outputs

    def release(self) -> None:
        self._saved = [(FREED, 0, -1) for _ in self._saved]


def _creation_of_result(results: Sequence[Any]) -> Creation:
    """Return the mark of a view that a function returned as one of its results."""
    count = sum(isinstance(result, TensorImpl) for result in results)
    return Creation.ONE_OF_SEVERAL if count > 1 else Creation.CUSTOM_FUNCTION


def _mark_unrecorded_views(results: Sequence[Any]) -> None:
    """Mark the views among a function's results, made by a call in which no input required grad."""
    for result in results:
        if (
            isinstance(result, TensorImpl)
            and result._view_base is not None
            and creation_of(result) is Creation.NO_GRAD
        ):
            result._creation = _creation_of_result(results)


def refuse_without_setup(function: type[Function]) -> NoReturn:
    """Raise RuntimeError for a function whose `forward` takes the context, inside a transform."""
    raise RuntimeError(
        "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
        f"override the setup_context staticmethod: {function.__name__} does not."
    )


class FunctionMeta(type):
    """Metaclass of functions. A metaclass of a program's own functions extends it."""


class Function(metaclass=FunctionMeta):
    """User-defined differentiable function: subclass it, write `forward` and `backward`, call `apply`.

    `forward(ctx, *args)` may save tensors with ``ctx.save_for_backward``. Alternatively, write `forward(*args)` and
    `setup_context(ctx, inputs, output)`. `backward(ctx, *grad_outputs)` returns one gradient, or None, for each
    argument of `forward`. Its other name is `vjp`. For forward mode, also write `jvp(ctx, *tangents)`.

    Under `tt.vmap` and the transforms of `tt.func`, use the second form. For `tt.vmap`, set `generate_vmap_rule = True`
    to map forward and backward, or write a static method `vmap(info, in_dims, *args)` that returns an output and its
    mapped dimension.

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
    """True if `backward` marks the gradients that have other holders; leaves take ownership of all others."""

    _backward_cls: ClassVar[type[FunctionCtx]] = FunctionCtx
    """The class of the contexts, which are the nodes: named after the function."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = {"__slots__": (), "__module__": cls.__module__, "_forward_cls": cls}
        cls._backward_cls = type(f"{cls.__name__}Backward", (FunctionCtx,), names)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """Compute the function for a batch of examples; override it. `info` has batch_size and randomness."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; override it."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Save values for backward if `forward` takes no context; override it."""

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs; override it."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward
    """Another name for `backward`. A subclass overrides one of the two."""

    @classmethod
    def _gradient_formula(cls) -> Callable[..., Any]:
        """Return `backward` or `vjp`, the one that the class overrides. Raise RuntimeError if it overrides both."""
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(
                f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                f"implement one of them. {cls.__name__} has both."
            )
        return cls.vjp

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: Any) -> Any:
        """Compute the outputs' tangents, None for zero, from those of `forward`'s arguments; override it."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call `forward`, and record for backward if an argument requires grad.

        Raises RuntimeError for dual tensors if no `jvp` is defined, and inside `tt.vmap` or a transform of `tt.func`
        if `forward` takes the context.
        """
        try:
            if transforms.levels and cls.setup_context is Function.setup_context and is_transforming():
                refuse_without_setup(cls)
            if any(isinstance(a, TensorImpl) and a._spec.keys & _BATCHED for a in args):
                from ..layers.batching.function import apply_batched

                return apply_batched(cls, args)
            return cls._apply(args)
        except BaseException:
            hide_inner_frames()
            raise

    @classmethod
    def _apply(cls, args: tuple[Any, ...]) -> Any:
        """Run `apply` at this level, with tensors as they are, batched or not."""
        tensors = [i for i, a in enumerate(args) if isinstance(a, TensorImpl)]
        if any(args[i]._spec.keys & FORWARD_BIT for i in tensors):
            from .function_jvp import apply_forward

            return apply_forward(cls, args)
        return cls._run(cls._backward_cls, args, tensors)

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
            # Forward may have written to the memory directly, without an operator.
            if isinstance(written, TensorImpl):
                written.bump_version()
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if recording:
            outputs = cls._record(ctx, args, tensors, edges, outputs)
        else:
            if is_grad_enabled():
                _mark_unrecorded_views(outputs)
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
                        out._creation = _creation_of_result(made)
            number += 1
        for tensor in ctx._to_save:
            position = next((i for i, o in enumerate(made) if o is tensor), -1)
            if tensor is None:
                ctx._saved.append((None, 0, -1))
            elif position >= 0 and isinstance(tensor, TensorImpl):
                saved = save_result(tensor)
                ctx._saved.append((pack_as_hooked(saved), saved_version(saved), position))
            else:
                ctx._saved.append((pack_as_hooked(tensor), saved_version(tensor), -1))
        ctx._to_save = ()
        return made
