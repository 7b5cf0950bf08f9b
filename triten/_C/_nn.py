"""Operators of neural networks, and how modules read their arguments (`torch._C._nn`).

Each operator of `tt.ops.aten` is a name here, whose overload its arguments choose.
"""

from typing import Any

from ..dispatch.core.op_overload import Ops
from ..nn.modules.conversion import destination_of
from ..runtime.device import device as Device
from ..runtime.memory_format import memory_format as MemoryFormat
from ..runtime.scalar_type import dtype as ScalarType

__all__ = ["_parse_to"]


def _parse_to(
    *args: Any, **kwargs: Any
) -> tuple[Device | None, ScalarType | None, bool, MemoryFormat | None]:
    """Device, dtype, whether not to wait, and memory format, of the arguments that `Tensor.to` takes.

    Raises:
        TypeError: the arguments are none of its forms.

    Example:
        >>> import triten as tt
        >>> tt._C._nn._parse_to("cpu", tt.float64)[:2]
        (device(type='cpu'), triten.float64)
    """
    return destination_of(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        packet = getattr(Ops().aten, name, None)
        if packet is not None:
            return packet
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
