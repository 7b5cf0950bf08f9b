"""Checks of composites on a library's routines: supported dtypes, and success."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.dispatcher import Dispatcher
from ..structured.library_routine import LIBRARY_DTYPES, raise_failure

if TYPE_CHECKING:
    from ..tensor import Tensor


def _linalg_check_errors(info: Tensor, api_name: str, is_matrix: bool) -> None:
    """Raise an error for the first matrix whose `info` is not zero; this synchronizes with the device."""
    if not info.is_meta:
        raise_failure(api_name, np.array(info.tolist(), np.int64))


def check_errors(info: Tensor, name: str) -> None:
    """Run `_linalg_check_errors` on an operator's flags."""
    operator = Dispatcher.singleton().find_schema_or_throw("aten::_linalg_check_errors")
    operator.call(info, name, info._spec.ndim == 0)


def check_routine_dtype(kernel: str, x: Tensor) -> None:
    """Raise an error for dtypes that the libraries do not support, with PyTorch's kernel name."""
    if x.dtype.scalar_name not in LIBRARY_DTYPES:
        raise NotImplementedError(f"\"{kernel}_{x.device.type}\" not implemented for '{x.dtype.scalar_name}'")
