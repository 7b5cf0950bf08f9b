"""Anomaly detection: find the forward call of a node whose backward fails or returns nan
(torch/autograd/anomaly_mode.py).

While it is on, nodes remember the stack on which they were created, and their results are checked. While it is off,
neither costs anything: switching it changes the node classes.
"""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.fork_lock import forkable
from ...runtime.tensor_impl import TensorImpl
from .function import FunctionCtx
from .node import Node
from .node_observation import ObservedNodes

_BATCHED = functionality_bit(Functionality.Batched)

_traces: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
_lock = forkable(threading.Lock())


class _Anomaly:
    """State shared by all threads: the observer of the nodes, if any, and whether to check for nan."""

    observed: ObservedNodes | None = None
    check_nan = True


_state = _Anomaly()


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is enabled (`torch.is_anomaly_enabled`).

    Returns:
        A bool, the same in every thread.

    Example:
        >>> import triten as tt
        >>> tt.is_anomaly_enabled()
        False
    """
    return _state.observed is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether nan counts as an anomaly (`torch.is_anomaly_check_nan_enabled`).

    Returns:
        A bool, the same in every thread.

    Example:
        >>> import triten as tt
        >>> with tt.autograd.set_detect_anomaly(True, check_nan=False):
        ...     tt.is_anomaly_check_nan_enabled()
        False
    """
    return _state.check_nan


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly detection on or off (`torch.set_anomaly_enabled`); see `tt.autograd.detect_anomaly` for a
    context manager.

    Args:
        mode: If True, a node remembers the stack on which it was recorded, and an error in backward prints it.
        check_nan: If True, a gradient with nan raises an error.

    Example:
        >>> import triten as tt
        >>> tt.set_anomaly_enabled(True); tt.is_anomaly_enabled()
        True
        >>> tt.set_anomaly_enabled(False)
    """
    with _lock:
        _state.check_nan = check_nan
        if mode and _state.observed is None:
            _state.observed = ObservedNodes(_run)
            Node.on_new_class.append(_cover)
            type.__setattr__(Node, "__init__", _remember)
            type.__setattr__(FunctionCtx, "__init__", _remembering(FunctionCtx.__init__))
        elif not mode and _state.observed is not None:
            type.__delattr__(Node, "__init__")
            type.__setattr__(FunctionCtx, "__init__", FunctionCtx.__init__.__wrapped__)  # type: ignore[attr-defined]
            Node.on_new_class.remove(_cover)
            _state.observed.close()
            _state.observed = None
            _traces.clear()


def _cover(cls: type[Node]) -> None:
    if _state.observed is not None:
        _state.observed.cover()


def _remember(node: Node) -> None:
    _traces[node] = "".join(traceback.format_stack()[:-1])


def _remembering(init: Callable[..., None]) -> Callable[..., None]:
    def remembering(node: Any, *args: Any) -> None:
        init(node, *args)
        _remember(node)

    remembering.__wrapped__ = init  # type: ignore[attr-defined]
    return remembering


def _run(node: Node, backward: Callable[..., Any], grads: tuple[Any, ...]) -> Any:
    try:
        results = backward(node, *grads)
    except Exception:
        _tell(node)
        raise
    if _state.check_nan and results is not None:
        for number, grad in enumerate(results):
            if isinstance(grad, TensorImpl) and _has_nan(grad):
                _tell(node)
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")
    return results


def _has_nan(grad: Any) -> bool:
    while grad._spec.keys & _BATCHED:
        grad = grad._data.value  # the values of all examples under vmap
    dtype = grad._spec.dtype
    inexact = dtype.is_floating_point or dtype.is_complex
    return inexact and not grad.is_meta and bool(grad.detach().isnan().any().item())


def _tell(node: Node) -> None:
    trace = _traces.get(node)
    if trace is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information.",
            stacklevel=2,
        )
    else:
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{trace}",
            stacklevel=2,
        )


class set_detect_anomaly:
    """Function and context manager that switches anomaly detection on or off (`torch.autograd.set_detect_anomaly`).

    Args:
        mode: If True, enable anomaly detection.
        check_nan: If True, a gradient with nan raises an error.

    Example:
        >>> import triten as tt
        >>> with tt.autograd.set_detect_anomaly(True):
        ...     tt.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = is_anomaly_enabled()
        self.prev_check_nan = is_anomaly_check_nan_enabled()
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


class detect_anomaly:
    """Context manager that finds the call whose backward fails or returns nan (`torch.autograd.detect_anomaly`).

    A node remembers the stack on which it was recorded, and a warning prints it. Programs run slowly in this mode.

    Raises:
        RuntimeError: in backward, for a gradient with nan, unless `check_nan` is False.

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(1, requires_grad=True)
        >>> with tt.autograd.set_detect_anomaly(True):
        ...     (x.sqrt() * 0).sum().backward()
        Traceback (most recent call last):
        RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = is_anomaly_enabled()
        self.check_nan = check_nan
        self.prev_check_nan = is_anomaly_check_nan_enabled()
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self.check_nan)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)
