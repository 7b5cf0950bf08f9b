"""Rebuilding of sparse tensors from a file (torch/_utils.py), with checks of their parts.

A file's indices are untrusted, and kernels must not access memory out of bounds. So indices are checked on every
device, once the file's bytes are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pickle import UnpicklingError
from typing import Any

from ..dispatch.core.op_overload import find_overload
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import layout as Layout
from ..runtime.layout import sparse_coo
from ..runtime.size import Size
from ..runtime.sparse_data import COMPRESSED
from .rebuild import Load, arguments, of_kind


def rebuild_sparse_tensor(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a sparse tensor: ``torch._utils._rebuild_sparse_tensor``, or its CSR form of older files.

    Raises:
        UnpicklingError: The layout is not sparse, or a size is invalid.
    """
    name = "_rebuild_sparse_tensor"
    layout, parts = arguments(name, args, 2)
    of_kind(name, "layout", layout, Layout)
    of_kind(name, "data", parts, tuple)
    if layout is sparse_coo:
        indices, values, size, *rest = arguments(name, parts, 3, 4)
        _check(name, size, indices, values)
        is_coalesced = of_kind(name, "is_coalesced", rest[0], bool) if rest else None
        made: Any = _ops._sparse_coo_tensor_unsafe(indices, values, tuple(size), is_coalesced=is_coalesced)
        check = partial(_ops._validate_sparse_coo_tensor_args, indices, values, tuple(size), is_coalesced)
    elif layout in COMPRESSED:
        compressed, plain, values, size = arguments(name, parts, 4)
        _check(name, size, compressed, plain, values)
        make = find_overload("aten::_sparse_compressed_tensor_unsafe")
        made = make(compressed, plain, values, tuple(size), layout=layout)
        validate = find_overload("aten::_validate_sparse_compressed_tensor_args")
        check = partial(validate, compressed, plain, values, tuple(size), layout)
    else:
        raise UnpicklingError(f"{name}: {layout} is no sparse layout")
    if load.pending is None:
        check()
    else:
        load.pending.append(check)
    return made.detach()  # type: ignore[no-any-return]


def _check(name: str, size: object, *parts: object) -> None:
    for part in parts:
        of_kind(name, "part", part, Tensor)
    if not isinstance(size, Size | tuple | list) or not _are_sizes(size):
        raise UnpicklingError(f"{name}: expected sizes, got {size!r:.100}")


def _are_sizes(size: Sequence[Any]) -> bool:
    return all(n.__class__ is int and 0 <= n < 2**63 for n in size)


def rebuild_semi_structured(load: Load, args: tuple[Any, ...]) -> Tensor:
    """Rebuild a 2:4 semi-structured sparse matrix.

    The sizes of its parts are checked; any metadata words are safe to read.

    Raises:
        UnpicklingError: The sizes are invalid, or the parts do not match them.
    """
    from ..sparse.semi_structured import rebuilt

    name = "semi-structured tensor"
    kind, shape, parts, settings, requires_grad, is_parameter = arguments(name, args, 6)
    of_kind(name, "class", kind, str)
    for flag, value in (("requires_grad", requires_grad), ("is_parameter", is_parameter)):
        of_kind(name, flag, value, bool)
    sizes = arguments(name, of_kind(name, "shape", shape, tuple), 2)
    if not _are_sizes(sizes):
        raise UnpicklingError(f"{name}: expected sizes, got {sizes!r:.100}")
    for part in of_kind(name, "parts", parts, tuple):
        if part is not None:
            of_kind(name, "part", part, Tensor)
    fuse, algorithm = arguments(name, of_kind(name, "settings", settings, tuple), 2)
    of_kind(name, "fuse_transpose_cusparselt", fuse, bool)
    of_kind(name, "alg_id_cusparselt", algorithm, int)
    try:
        return rebuilt(kind, sizes, parts, settings, requires_grad, is_parameter)
    except ValueError as error:
        raise UnpicklingError(str(error)) from None
