"""`DataPtr`: an address on a device, with the owner of its memory (c10/core/Allocator.h)."""

from __future__ import annotations

from collections.abc import Callable

from .device import device as Device


class DataPtr:
    """Device address. A root owns its memory and frees it through `deleter`; a view keeps its root alive.

    `nbytes` counts from `address` to the end of the usable memory. `context` is the allocator's record of the block.
    The host cannot read device memory through it.
    """

    __slots__ = ("__weakref__", "address", "base", "context", "deleter", "device", "nbytes")

    def __init__(
        self,
        address: int,
        nbytes: int,
        device: Device,
        base: DataPtr | None = None,
        deleter: Callable[[DataPtr], None] | None = None,
        context: object = None,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self.base = base
        self.deleter = deleter
        self.context = context

    def offset_by(self, nbytes: int) -> DataPtr:
        """Return a pointer `nbytes` further into the same memory, which it keeps alive."""
        root = self.base if self.base is not None else self
        return DataPtr(self.address + nbytes, self.nbytes - nbytes, self.device, root)

    @property
    def root(self) -> DataPtr:
        """Pointer that owns the memory."""
        return self.base if self.base is not None else self

    def __del__(self) -> None:
        try:
            deleter = self.deleter
        except AttributeError:  # an interrupt came before its creation
            return
        if deleter is not None:
            self.deleter = None
            deleter(self)

    def __repr__(self) -> str:
        return f"DataPtr({self.address:#x}, nbytes={self.nbytes}, device='{self.device}')"
