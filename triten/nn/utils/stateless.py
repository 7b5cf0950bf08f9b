"""Modules called with other parameters (`torch.nn.utils.stateless`), which is `tt.func.functional_call` today."""

from __future__ import annotations

import warnings
from typing import Any

from ..modules.functional_call import functional_call as _functional_call
from ..modules.functional_call import reparametrize_module
from ..modules.module import Module

__all__ = ["functional_call"]

_reparametrize_module = reparametrize_module


def functional_call(
    module: Module, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, **options: Any
) -> Any:
    """Call `tt.func.functional_call`, whose former name this is, with a FutureWarning.

    Example:
        >>> import triten as tt, warnings
        >>> from triten.nn.utils.stateless import functional_call
        >>> warnings.simplefilter("ignore", FutureWarning)
        >>> functional_call(tt.nn.Linear(1, 1, bias=False), {"weight": tt.full((1, 1), 3.0)}, tt.ones(1))
        tensor([3.])
    """
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated. Please use `func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, **options)
