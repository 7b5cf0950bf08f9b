"""Selective activation checkpointing: save the results of some operators, recompute the others
(`torch.utils.checkpoint`).

The first call runs under a mode that asks a policy about each operator and saves the selected results. The second
call runs under a mode that returns those results in the same order.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dispatch.core.op_overload import OpOverload, OpOverloadGroup, Ops
from ..dispatch.layers.python_key import TensorDispatchMode
from ..dispatch.layers.pytree import tree_map
from ..dispatch.tensor import Tensor

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

_aten = Ops().aten
SAC_IGNORED_OPS = {_aten.detach.default}
"""Operators that no policy is asked about: the two calls may make them a different number of times."""


class CheckpointPolicy(enum.Enum):
    """Decision of a policy about an operator's results (`torch.utils.checkpoint.CheckpointPolicy`).

    ``SAVE`` saves them, ``RECOMPUTE`` recomputes them. The two policies that offload to the host also recompute in a
    program that is not compiled. MUST and PREFER behave the same here.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class SelectiveCheckpointContext:
    """Context passed to a policy besides the operator and its arguments.

    Attributes:
        is_recompute: Always False: policies are called only in the first call.
        op_output: The operator's result.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """A result that is kept, and the version that it had."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()
        self.version = tensor._version

    def value(self, may_be_changed: bool) -> Tensor:
        if self.tensor._version != self.version and not may_be_changed:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.tensor


_RECOMPUTE, _CONSUMED = object(), object()
_CAUSE = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)


class _Results:
    """The results of the first call, by operator and by how often it had been called before."""

    def __init__(self) -> None:
        self.of: dict[OpOverload, list[Any]] = defaultdict(list)


class _Keeping(TensorDispatchMode):
    """Mode of the first call, which saves the results that the policy selects."""

    def __init__(self, policy: Callable[..., Any], results: _Results) -> None:
        super().__init__()
        self._policy = policy
        self._results = results

    def __tensor_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        if func in SAC_IGNORED_OPS:
            return out
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        decision = self._policy(context, func, *args, **named)
        is_saved = decision if isinstance(decision, bool) else decision in _SAVED
        self._results.of[func].append(tree_map(_kept, out) if is_saved else _RECOMPUTE)
        return out


class _GivingBack(TensorDispatchMode):
    """Mode of the second call, which returns the saved results."""

    def __init__(self, results: _Results, may_be_changed: bool) -> None:
        super().__init__()
        self._results = results
        self._may_be_changed = may_be_changed
        self._counts: dict[OpOverload, int] = defaultdict(int)

    def __enter__(self) -> Any:
        # A second backward begins with the first operator again, and finds that its result is gone.
        self._counts.clear()
        return super().__enter__()

    def __tensor_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        call_index = self._counts[func]
        self._counts[func] += 1
        entries = self._results.of.get(func)
        if entries is None:
            raise RuntimeError(f"{func} encountered during backward but not found in storage. {_CAUSE}")
        if call_index >= len(entries):
            raise RuntimeError(
                f"{func} invocation index {call_index} encountered during backward but not found in storage. {_CAUSE}"
            )
        entry = entries[call_index]
        if entry is _RECOMPUTE:
            return func(*args, **(kwargs or {}))
        if entry is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        entries[call_index] = _CONSUMED
        may = self._may_be_changed
        return tree_map(lambda each: each.value(may) if isinstance(each, _Kept) else each, entry)


def _kept(value: Any) -> Any:
    return _Kept(value) if isinstance(value, Tensor) else value


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., CheckpointPolicy | bool] | list[Any],
    allow_cache_entry_mutation: bool = False,
) -> tuple[TensorDispatchMode, TensorDispatchMode]:
    """Return two contexts for a checkpoint that keeps some operators' results
    (`create_selective_checkpoint_contexts`).

    They are for the `context_fn` of `tt.utils.checkpoint.checkpoint` with ``use_reentrant=False``. Backward may go
    through the call once.

    Args:
        policy_fn_or_list: the operators whose results are kept, each with its overload (``tt.ops.aten.mm.default``); or
            a function of a `SelectiveCheckpointContext`, the operator and its arguments, which gives a
            `CheckpointPolicy`, or whether to keep the result.
        allow_cache_entry_mutation: If True, what is kept may be changed in place meanwhile. Default: False.

    Raises:
        ValueError: An element of the list is not an `OpOverload`.
        TypeError: `policy_fn_or_list` is neither a list nor a function.
        RuntimeError: in backward, where the second call makes other calls than the first; for a second backward; and
            where what was kept has been changed.

    Example:
        >>> import functools, triten as tt
        >>> from triten.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> x = tt.ones(2, 2, requires_grad=True)
        >>> keep = functools.partial(create_selective_checkpoint_contexts, [tt.ops.aten.mm.default])
        >>> checkpoint(lambda x: (x @ x).sigmoid().sum(), x, use_reentrant=False, context_fn=keep).backward()
        >>> x.grad.shape
        triten.Size([2, 2])
    """
    if isinstance(policy_fn_or_list, list):
        saved_ops = policy_fn_or_list
        for op in saved_ops:
            if not isinstance(op, OpOverload):
                hint = (
                    " Please update the OpOverloadPacket to a specific OpOverload, for example ops.aten.mm.default "
                    "instead of ops.aten.mm."
                    if isinstance(op, OpOverloadGroup)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{hint}"
                )

        def policy(ctx: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> Any:
            return op in saved_ops

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    results = _Results()
    return _Keeping(policy, results), _GivingBack(results, allow_cache_entry_mutation)


class RecordedOperators(TensorDispatchMode):
    """Mode that records a call's operators, for the error message if the second call differs."""

    sees_parts = True

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __tensor_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        shapes = [tuple(each.shape) for each in args if isinstance(each, Tensor)]
        self.names.append(f"{func}{shapes}")
        return func(*args, **(kwargs or {}))
