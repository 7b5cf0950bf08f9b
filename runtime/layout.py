"""Layouts: how a tensor's elements are stored (c10/core/Layout.h)."""

from __future__ import annotations

from . import public_name


class layout:
    """A storage layout, such as ``tt.strided``; compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{public_name.shown}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")  # of nested tensors alone


def spoken(kind: layout) -> str:
    """Return a layout's name in PyTorch's messages."""
    return {"strided": "Strided", "sparse_coo": "Sparse"}.get(
        kind.name, "Sparse" + kind.name.removeprefix("sparse_").capitalize()
    )
