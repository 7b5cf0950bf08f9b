"""Writing of safetensors files: `save_file`, `save`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import safetensors

from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from ..runtime.traceback_filter import api_boundary
from .dtypes import SAVED


@api_boundary
def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors to a file (`safetensors.torch.save_file`).

    The new file replaces an old one only when it is complete. Tensors that are mapped to the old file stay valid.

    Args:
        tensors: Contiguous dense tensors by name, no two of which share memory.
        filename: The path of the file.
        metadata: Strings to store in the header, by key.

    Raises:
        ValueError: `tensors` is no dict of tensors, or a tensor is sparse, not contiguous, on the meta device, or of a
            dtype that the format does not have.
        RuntimeError: Two tensors share memory; see `save_model`.
        SafetensorError: The file cannot be written.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.safetensors import load_file, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"weight": tt.ones(2)}, path)
        >>> load_file(path)["weight"]
        tensor([1., 1.])
    """
    held: list[Any] = []
    described = _described(tensors, held)
    # The package writes a temporary file and renames it over the old one.
    safetensors.serialize_file(described, filename, metadata=metadata)


@api_boundary
def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Serialize tensors to the bytes of a safetensors file (`safetensors.torch.save`).

    Args:
        tensors: Contiguous dense tensors by name, no two of which share memory.
        metadata: Strings to store in the header, by key.

    Returns:
        The bytes.

    Raises:
        ValueError: As for `save_file`.
        RuntimeError: Two tensors share memory.

    Example:
        >>> import triten as tt
        >>> from triten.safetensors import load, save
        >>> load(save({"weight": tt.ones(2)}))["weight"]
        tensor([1., 1.])
    """
    held: list[Any] = []
    return bytes(safetensors.serialize(_described(tensors, held), metadata=metadata))


def _described(tensors: Any, held: list[Any]) -> dict[str, Any]:
    """Return the package's spec of each tensor. Specs hold addresses, so the arrays are appended to `held`."""
    _check(tensors)
    described = {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either means you "
                "are trying to save tensors which are reference of each other in which case it's recommended to save "
                "only the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to "
                "pack it before saving."
            )
        array = tensor.detach().cpu().host_array()
        held.append(array)
        described[name] = safetensors.TensorSpec(
            dtype=tensor.dtype.name,
            shape=tuple(tensor.shape),
            data_ptr=array.__array_interface__["data"][0],
            data_len=array.nbytes,
        )
    return described


def _check(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, triten.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected triten.Tensor but received {type(tensor)}")
        if tensor.layout is not strided:
            raise ValueError(
                f"You are trying to save a sparse tensors: `{[name]}` which this library does not support. You can "
                "make it a dense tensor before saving with `.to_dense()` but be aware this might make a much larger "
                "file than needed."
            )
        if tensor.dtype not in SAVED or tensor.is_meta:
            raise ValueError(f"`{name}`: safetensors has no tensors of {tensor.dtype} on {tensor.device}")
    failing = [names for names in sharing(tensors) if len(names) > 1]
    if failing:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
            f"loading them again: {failing}. A potential way to correctly save your model is to use `save_model`."
        )


def sharing(tensors: Mapping[str, Tensor]) -> list[set[str]]:
    """Return sets of names whose tensors overlap in memory. A tensor without overlap has a set of its own."""
    by_storage: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for name, tensor in tensors.items():
        storage = None if tensor.is_meta else tensor.untyped_storage()
        if storage is not None and storage.nbytes():
            by_storage[tensor.device, storage.data_ptr(), storage.nbytes()].append(name)
    groups: list[set[str]] = []
    for names in by_storage.values():
        last = -1
        for start, stop, name in sorted((*_extent(tensors[name]), name) for name in names):
            if start >= last or not groups:
                groups.append({name})
            else:
                groups[-1].add(name)
            last = max(last, stop)
    return groups


def _extent(tensor: Tensor) -> tuple[int, int]:
    """Return the address range of a tensor: that of its first byte, and the end, exclusive."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return start, start + span * tensor.itemsize


def covers_storage(tensor: Tensor) -> bool:
    """Return whether a tensor covers all bytes of its storage."""
    storage = tensor.untyped_storage()
    return tensor.data_ptr() == storage.data_ptr() and tensor.nbytes == storage.nbytes()
