"""Changes of a tensor's geometry, for example of an ``out=`` tensor (aten/src/ATen/native/Resize.cpp)."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import TYPE_CHECKING

from ...runtime.allocator import storage_size
from ...runtime.layout import strided
from ...runtime.memory_format import contiguous_strides
from ...runtime.storage import Storage, root_of, view_at
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.user_frame import levels_to_user
from .allocation import allocator_of

if TYPE_CHECKING:
    from ..tensor import Tensor


def resize_output(out: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Resize `out` if its shape differs, with PyTorch's warning unless it is empty.

    It is contiguous then, or has `strides`, which must be dense. Its version is unchanged: the write that follows
    counts for both.
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
    if spec.requires_grad:  # only `resize_` refuses these
        resized(out, spec.replace(sizes=sizes, strides=contiguous_strides(sizes)))
    else:
        out.resize_(sizes)
    if strides is not None and strides != contiguous_strides(sizes):
        out.set_sizes_and_strides(sizes, strides)
    if out._version_cell is not None:
        out._version_cell[0] = version


def resize_to_length(out: Tensor, length: int) -> None:
    """Make `out` a vector of `length` elements unless it has as many, with PyTorch's warning unless it is empty."""
    if out.numel() == length:
        return
    if out.numel():
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not "
            f"match the computed number of elements {length}. Note that this may occur as a result of rounding "
            f"error. The out tensor will be resized to a tensor of shape ({length},).",
            UserWarning,
            stacklevel=levels_to_user(),
        )
    out.resize_((length,))


def set_geometry(self: Tensor, storage: Storage, spec: TensorSpec, offset: int) -> None:
    """Make `self` a tensor of this spec, `offset` elements into a storage that grows if it is too small."""
    needed = (storage_size(spec.sizes, spec.strides) + offset) * spec.itemsize if spec.numel else 0
    if needed > storage.nbytes():
        storage.resize_(needed)
    self._data = view_at(storage, offset * spec.itemsize, spec)
    self._spec = spec
    storage.follow(self)
    self.bump_version()


def _views_follow(self: Tensor, storage: Storage) -> None:
    """Update the views of `self` after a resize; they are the other holders of its version cell."""
    cell = self._version_cell
    if cell is not None and sys.getrefcount(cell) > 3:
        root = storage.root
        for holder in gc.get_referrers(cell):
            if isinstance(holder, TensorImpl) and holder is not self and root_of(holder._data) is root:
                storage.follow(holder)


def resized(self: Tensor, spec: TensorSpec) -> Tensor:
    """Set the geometry of `self`, and grow its storage if needed; elements in memory are kept."""
    if self._spec.layout is not strided:
        raise RuntimeError(
            f"resize: expected a tensor of layout strided, but got {self._spec.layout} (sizes {list(self._spec.sizes)})"
        )
    if root_of(self._data).nbytes == 0:
        self._data, self._spec = allocator_of(spec)(), spec
        self.bump_version()
        return self
    storage = self.untyped_storage()
    _views_follow(self, storage)
    set_geometry(self, storage, spec, self.storage_offset())
    return self
