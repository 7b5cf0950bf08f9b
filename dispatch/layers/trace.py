"""The dispatch trace: every hop of a call, printed (c10, TORCH_SHOW_DISPATCH_TRACE)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from ...runtime.dispatch_key import DispatchKey
from ...runtime.fork_lock import forkable
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry, observers


class _Hops(threading.local):
    """The operators that this thread is running, outermost first."""

    def __init__(self) -> None:
        self.operators: list[OperatorEntry] = []
        self.files: list[TextIO | None] = []


_hops = inherited(_Hops())
_everywhere: list[TextIO | None] = []


def describe(value: Any) -> str:
    """Describe an argument in a line of the trace: a tensor by dtype, shape and device, others by value."""
    if isinstance(value, TensorImpl):
        spec = value._spec
        return f"{spec.dtype.name}{list(spec.sizes)}@{spec.device}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(describe(v) for v in value)}]"
    return repr(value)


def _observe(op: OperatorEntry, key: DispatchKey, args: Sequence[Any], plan: Plan) -> Plan:
    text = f"op=[{op.name}], key=[{key}] ({', '.join(describe(v) for v in args)})"

    def traced(*values: Any) -> Any:
        files = _hops.files or _everywhere
        if not files:
            return plan(*values)
        operators = _hops.operators
        how = "redispatch" if operators and operators[-1] is op else "call"
        print(f"{' ' * (len(operators) + 1)}[{how}] {text}", file=files[-1] or sys.stderr)
        operators.append(op)
        try:
            return plan(*values)
        finally:
            operators.pop()

    return traced


@contextmanager
def show_trace(file: TextIO | None = None) -> Iterator[None]:
    """Print every hop of this thread's calls: ``call`` for an operator, ``redispatch`` for its next kernel.

    A hop is indented below the one that it belongs to. The environment variable ``TRITEN_SHOW_DISPATCH_TRACE=1`` does
    the same for a whole program. Plans are rebuilt at its start and end, so that calls pay for the trace only while it
    lasts.

    Args:
        file: Text stream to print to. Default: None, standard error.

    Example:
        >>> import sys
        >>> import triten as tt
        >>> w = tt.ones(2, requires_grad=True)
        >>> with tt.dispatch.show_trace(sys.stdout):
        ...     y = w * 2.0
         [call] op=[aten::mul.Tensor], key=[AutogradCPU] (float32[2]@cpu, 2.0)
          [redispatch] op=[aten::mul.Tensor], key=[CPU] (float32[2]@cpu, 2.0)
    """
    _hops.files.append(file)
    _start()
    try:
        yield
    finally:
        _hops.files.pop()
        _stop()


def trace_everything() -> None:
    """Print the hops of all threads to standard error from now on."""
    _everywhere.append(None)
    _start()


_lock = forkable(threading.Lock())
_users: list[None] = []


def _start() -> None:
    with _lock:
        _users.append(None)
        if len(_users) == 1:
            observers.append(_observe)
            Dispatcher.singleton().forget_all()


def _stop() -> None:
    with _lock:
        _users.pop()
        if not _users:
            observers.remove(_observe)
            Dispatcher.singleton().forget_all()
