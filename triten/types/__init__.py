"""`tt.types`: names for annotations (`torch.types`).

Example:
    >>> import triten as tt
    >>> def scaled(x: tt.Tensor, factor: tt.types.Number, device: tt.types.Device = None) -> tt.Tensor:
    ...     return x.to(device or x.device) * factor
"""

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from ..dispatch.tensor import Tensor
from ..runtime.device import device as _device
from ..runtime.layout import layout as _layout
from ..runtime.scalar_type import dtype as _dtype
from ..runtime.size import Size
from ..runtime.storage import Storage

_int, _float, _bool, _complex, _bytes, _str = int, float, bool, complex, bytes, str
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = Size | Sequence[int]

IntLikeType, FloatLikeType, BoolLikeType = int, float, bool

Number: TypeAlias = int | float | bool
"""A Python number where a schema has `Scalar`."""

Device: TypeAlias = _device | str | int | None
"""What names a device: one, its text, the index of a GPU, or None for the current one."""

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
"""Where `tt.save` writes and `tt.load` reads."""

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]
__all__ += [
    "_bool",
    "_bytes",
    "_complex",
    "_device",
    "_dtype",
    "_float",
    "_int",
    "_layout",
    "_size",
    "_str",
    "_symsize",
]
