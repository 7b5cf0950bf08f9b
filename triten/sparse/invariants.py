"""When the parts of a sparse tensor are looked at (`torch.sparse.check_sparse_tensor_invariants`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from ..dispatch.functions.sparse import invariants

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class check_sparse_tensor_invariants:
    """Switch for index checks in sparse constructors (`torch.sparse.check_sparse_tensor_invariants`).

    By default constructors check indices on the CPU, where checks are cheap, but not on a GPU, where they would
    synchronize. As a context manager or decorator, the switch applies inside. `enable` and `disable` apply from then
    on. A constructor's argument `check_invariants` takes precedence.

    Args:
        enable: If True, indices are read. Default: True.

    Example:
        >>> import triten as tt
        >>> with tt.sparse.check_sparse_tensor_invariants():
        ...     tt.sparse_coo_tensor([[5]], [1.0], (2,))
        Traceback (most recent call last):
            ...
        RuntimeError: size is inconsistent with indices: for dim 0, size is 2 but found index 5
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: list[bool | None] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether index checks were enabled.

        Returns:
            A bool; False as long as nothing was decided.

        Example:
            >>> import triten as tt
            >>> tt.sparse.check_sparse_tensor_invariants.is_enabled()
            False
        """
        return bool(invariants.enabled)

    @staticmethod
    def enable() -> None:
        """Have indices read from now on, on every device.

        Example:
            >>> import triten as tt
            >>> with tt.sparse.check_sparse_tensor_invariants(False):
            ...     tt.sparse.check_sparse_tensor_invariants.enable()
            ...     tt.sparse.check_sparse_tensor_invariants.is_enabled()
            True
        """
        invariants.enabled = True

    @staticmethod
    def disable() -> None:
        """Have no indices read from now on, on no device.

        Example:
            >>> import triten as tt
            >>> with tt.sparse.check_sparse_tensor_invariants():
            ...     tt.sparse.check_sparse_tensor_invariants.disable()
            ...     tt.sparse.check_sparse_tensor_invariants.is_enabled()
            False
        """
        invariants.enabled = False

    def __enter__(self) -> None:
        self._before.append(invariants.enabled)
        invariants.enabled = self.state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        invariants.enabled = self._before.pop()

    def __call__(self, function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        """Decorate a function so that the switch applies inside it."""

        @functools.wraps(function)
        def within(*args: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
            with type(self)(self.state):
                return function(*args, **named)

        return within
