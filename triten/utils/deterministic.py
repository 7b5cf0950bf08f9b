"""Setting of `tt.use_deterministic_algorithms` for uninitialized memory (`torch.utils.deterministic`).

Example:
    >>> import triten as tt
    >>> tt.use_deterministic_algorithms(True); tt.empty(2)
    tensor([nan, nan])
    >>> tt.utils.deterministic.fill_uninitialized_memory = False
    >>> tt.utils.deterministic.fill_uninitialized_memory = True
    >>> tt.use_deterministic_algorithms(False)
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..runtime.determinism import get_fill_uninitialized_memory, set_fill_uninitialized_memory

__all__ = ["fill_uninitialized_memory"]  # noqa: F822 - a property of the module's class


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """If True, fill uninitialized memory while deterministic algorithms are requested. Default: True."""
        return get_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
