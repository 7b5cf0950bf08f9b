"""`NamedSpec`: the spec of a tensor with named dimensions (c10/core/TensorImpl.h, NamedTensorMeta).

Names are metadata like sizes, so they are interned in the spec: a spec's names never change. The names of an
operator's results follow from its operands' specs. Tensors have no slot for names, and other specs have no field for
them.
"""

from __future__ import annotations

import warnings

from .device import device as Device
from .dimname import Names, describe
from .dispatch_key import Functionality, functionality_bit
from .scalar_type import dtype as ScalarType
from .tensor_spec import MAX_SPECS, TensorSpec
from .user_frame import levels_to_user

NAMED_BIT = functionality_bit(Functionality.Named)

_COPIED = (
    "sizes",
    "strides",
    "dtype",
    "device",
    "layout",
    "requires_grad",
    "is_inference",
    "read_only",
    "ndim",
    "numel",
    "is_contiguous",
    "itemsize",
    "nbytes",
    "np_dtype",
)

_table: dict[tuple[TensorSpec, Names], NamedSpec] = {}
_has_warned: list[bool] = []


class NamedSpec(TensorSpec):
    """Spec with names, at least one of which is no wildcard. Only `named` creates it.

    `unnamed` is the same spec without names. The key sets have the Named functionality, so that calls dispatch to its
    kernel and never use a plan for unnamed tensors.
    """

    __slots__ = ("names", "unnamed")

    names: Names
    unnamed: TensorSpec

    def replace(
        self,
        *,
        sizes: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        dtype: ScalarType | None = None,
        device: Device | None = None,
        requires_grad: bool | None = None,
        is_inference: bool | None = None,
        read_only: bool | None = None,
        keys: int | None = None,
    ) -> TensorSpec:
        """Return `TensorSpec.replace`, with the names if the number of dimensions is unchanged."""
        made = self.unnamed.replace(
            sizes=sizes,
            strides=strides,
            dtype=dtype,
            device=device,
            requires_grad=requires_grad,
            is_inference=is_inference,
            read_only=read_only,
            keys=None if keys is None else keys & ~NAMED_BIT,
        )
        return named(made, self.names) if made.ndim == self.ndim else made

    def __repr__(self) -> str:
        return f"{TensorSpec.__repr__(self)[:-1]}, names={self.names})"


def named(spec: TensorSpec, names: Names) -> TensorSpec:
    """Return the interned spec with these names, or the unnamed one if all of them are wildcards.

    The number of names fits the spec, and they are valid (`dimname.checked_names`). The first named spec of a process
    warns.
    """
    unnamed = spec.unnamed
    if names.count(None) == len(names):
        return unnamed
    spec_with_names = _table.get((unnamed, names))
    if spec_with_names is not None:
        return spec_with_names
    if not _has_warned:
        _has_warned.append(True)
        warnings.warn(
            "Named tensors and all their associated APIs are an experimental feature and subject to change. Please do "
            "not use them for anything important until they are released as stable.",
            UserWarning,
            stacklevel=levels_to_user(),
        )
    if len(_table) >= MAX_SPECS:
        _table.clear()
    return _table.setdefault((unnamed, names), _make(unnamed, names))


def _make(unnamed: TensorSpec, names: Names) -> NamedSpec:
    spec = NamedSpec()
    for field in _COPIED:
        setattr(spec, field, getattr(unnamed, field))
    spec.keys = unnamed.keys | NAMED_BIT
    spec.call_keys = unnamed.call_keys | NAMED_BIT
    dtype, device, flags = unnamed.kind
    spec.kind = (dtype, device, flags | NAMED_BIT << 11)
    spec.names = names
    spec.unnamed = unnamed
    return spec


def check_written(spec: TensorSpec, names: Names) -> None:
    """Raise RuntimeError for a write of results with these names to a tensor with different ones."""
    if spec.__class__ is NamedSpec and spec.names != names and len(names) == spec.ndim:
        raise RuntimeError(
            f"Name mismatch: specified out tensor with names {describe(spec.names)} are not the same as the computed "
            f"output names {describe(names)}. Please rename the out tensor's dims with `Tensor.rename`."
        )


def check_resize(spec: TensorSpec, sizes: tuple[int, ...]) -> None:
    """Raise RuntimeError for a resize of a tensor with names."""
    if spec.__class__ is NamedSpec and spec.sizes != sizes:
        raise RuntimeError(
            f"Cannot resize named tensor with resize_ or resize_as_ (tried to resize Tensor{describe(spec.names)} with "
            f"size {list(spec.sizes)} to {list(sizes)}). This may be caused by passing a named tensor as an `out=` "
            "argument; please ensure that the sizes are the same. "
        )
