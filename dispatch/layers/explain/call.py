"""`tt.explain`; it imports the modules that do the work when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .explanation import Explanation


def explain(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Call a function once and report the path of its operators: keys, kernels, plans, algorithms and files.

    All plans are rebuilt for the call, and again afterwards, so that other calls have no overhead. The report covers
    only this thread's calls. The function has its usual effects, such as random numbers and in-place writes.

    Args:
        fn: A function of tensors of any shape: `tt.softmax`, an operator of `tt.ops`, a module, or your own function.
        args, kwargs: Its arguments.

    Returns:
        An `Explanation`, which prints as the report. Its `result` is the function's result. Its `calls` are the
        operators that it reached, nested and in order. Each one has the key set, the kernel and the reason for it, the
        plan, the stub, the meta function, the row of the derivative, the algorithms with the sizes that decided, and
        the Triton kernels launched.

    Raises:
        TypeError: if `fn` cannot be called. Errors of `fn` propagate.

    Example:
        >>> import triten as tt
        >>> print(tt.explain(tt.softmax, tt.ones(4, 1000), 1))
        aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
          ...
          aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
            ...
            algorithm: whole arrays, because ...
        ...
    """
    if not callable(fn):
        raise TypeError(f"explain(): argument 'fn' must be callable, not {type(fn).__name__}")
    from .watch import watched_call

    return watched_call(fn, args, kwargs)
