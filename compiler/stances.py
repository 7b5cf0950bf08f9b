"""Stance of compiled functions (`torch.compiler.set_stance`): compiled, eager, or without recompilation."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile",
    "fail_on_recompile",
)  # fmt: skip


class _State(threading.local):
    stance: str = "default"
    backend: Any = None


state = _State()


class set_stance:
    """Stance of compiled functions: set at once, or for a block or a function (`torch.compiler.set_stance`).

    The stance holds for the thread:

    - ``"force_eager"`` runs functions eagerly.
    - ``"eager_on_recompile"`` runs a call eagerly if there is no graph for its arguments yet.
    - ``"fail_on_recompile"`` raises in this case.
    - ``"eager_then_compile"`` runs the first call of each function eagerly.

    Args:
        stance: One of PyTorch's stances.
        skip_guard_eval_unsafe: No effect: guards are always checked.
        force_backend: The backend of functions that are compiled meanwhile.

    Raises:
        RuntimeError: `stance` is unknown, or `force_backend` is given with another than the default.

    Example:
        >>> import triten as tt
        >>> double = tt.compile(lambda x: x * 2)
        >>> with tt.compiler.set_stance("force_eager"):
        ...     double(tt.ones(2))
        tensor([2., 2.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in STANCES:
            raise RuntimeError(
                f"invalid torch.compile stance {stance!r}, should be one of: {', '.join(STANCES)}"
            )
        self._before = [(state.stance, state.backend)]
        self._own = (stance, force_backend)
        state.stance, state.backend = self._own

    def __call__(self, fn: Function) -> Function:
        """Return a function that runs under the stance, and end the stance for other code."""
        state.stance, state.backend = self._before.pop()

        @functools.wraps(fn)
        def under_stance(*args: Any, **kwargs: Any) -> Any:
            before = state.stance, state.backend
            state.stance, state.backend = self._own
            try:
                return fn(*args, **kwargs)
            finally:
                state.stance, state.backend = before

        return under_stance  # type: ignore[return-value]

    def __enter__(self) -> None:
        """Do nothing: the constructor has set the stance."""

    def __exit__(self, *_: object) -> None:
        state.stance, state.backend = self._before.pop()
