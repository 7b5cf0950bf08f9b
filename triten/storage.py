"""`tt.storage`: the bytes of tensors, and the bytes as elements of a dtype (`torch.storage`).

`UntypedStorage` is what `Tensor.untyped_storage` gives. PyTorch has deprecated `TypedStorage`; its classes by dtype,
`torch.FloatStorage` and so on, are here, and in the root for programs of `tt.as_torch`.
"""

from typing import Any

from .dispatch.methods.typed_storage import TypedStorage, UntypedStorage
from .dispatch.methods.typed_storage import legacy as _legacy

__all__ = ["TypedStorage", "UntypedStorage"]


def __getattr__(name: str) -> Any:
    if name in _legacy:
        return _legacy[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
