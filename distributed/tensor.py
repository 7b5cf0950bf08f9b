"""`DTensor`, for programs that ask whether a tensor is one (`torch.distributed.tensor`)."""

from __future__ import annotations

from typing import Any, NoReturn

from ..dispatch.tensor import Tensor

__all__ = ["DTensor"]


class DTensor(Tensor):
    """A tensor of which each process has a part (`torch.distributed.tensor.DTensor`).

    Raises:
        RuntimeError: always: there are no other processes.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "DTensor: triten has no distributed communication; distributed.is_available() is False"
        )
