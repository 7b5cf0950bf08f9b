"""Giving a tensor that was passed as ``out=`` the result's shape (aten/src/ATen/native/Resize.cpp)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ...runtime.memory_format import contiguous_strides
from ...runtime.user_frame import levels_to_user
from .meta.storage import resized

if TYPE_CHECKING:
    from ..tensor import Tensor


def resize_output(out: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Resize `out` where its shape is another, with PyTorch's warning unless it is empty.

    It is contiguous then, or has `strides`, under which the elements fill one block. Its version stays: the write that
    follows counts for both.
    """
    spec, cell = out._spec, out._version_cell
    if spec.sizes == sizes:
        return
    version = 0 if cell is None else cell[0]
    if spec.numel:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(spec.sizes)}, which does not "
            f"match the required output shape {list(sizes)}. This behavior is deprecated, and in a future release "
            "outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            "resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=levels_to_user(),
        )
    if spec.requires_grad:  # which `resize_` alone refuses
        resized(out, spec.replace(sizes=sizes, strides=contiguous_strides(sizes)))
    else:
        out.resize_(sizes)
    if strides is not None and strides != contiguous_strides(sizes):
        out.set_sizes_and_strides(sizes, strides)
    if out._version_cell is not None:
        out._version_cell[0] = version
