"""The named tuples that operators with several results return (`torch.return_types`), by the operator's name.

Example:
    >>> import triten as tt
    >>> values, indices = tt.sort(tt.tensor([2.0, 1.0]))
    >>> isinstance(tt.sort(tt.tensor([2.0, 1.0])), tt.return_types.sort)
    True
    >>> tt.return_types.sort((values, indices)).indices
    tensor([1, 0])
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .dispatch.core.op_overload import Ops as _Ops
from .dispatch.core.result_types import class_of_results as _class_of_results

if _TYPE_CHECKING:
    from .dispatch.generated.return_types import *  # noqa: F403


def __getattr__(name: str) -> _Any:
    if not name.startswith("_"):
        try:
            # Calls with ``out=`` return the class of calls without.
            operator = getattr(_Ops().aten, name.removesuffix("_out"))
        except AttributeError:
            operator = None
        for overload in operator.overloads() if operator else ():
            cls = _class_of_results(getattr(operator, overload)._schema)
            if cls is not None:
                return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
