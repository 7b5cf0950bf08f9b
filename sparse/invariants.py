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
    """Decides whether constructors of sparse tensors read indices (`torch.sparse.check_sparse_tensor_invariants`).

    As long as nobody says, they read those on the CPU, where that is quick, and not those on a GPU, where the host
    would have to wait. As a context manager, or a decorator of a function, it decides within; `enable` and `disable`
    decide from then on. The argument `check_invariants` of a constructor goes before.

    Args:
        enable: Whether indices are read.

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
        """Whether it was decided that indices are read.

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
        """The function, inside of which this decides."""

        @functools.wraps(function)
        def within(*args: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
            with type(self)(self.state):
                return function(*args, **named)

        return within
