"""A sample's arguments as ours: the same values, strides and offsets, and memory shared where theirs is."""

from typing import Any

import ml_dtypes
import numpy as np
import torch

import triten as tt

from .operators import MissingError

# NumPy has no such numbers: their bits travel as integers.
BITS = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.complex32: (torch.int32, ml_dtypes.complex32),
}


NUMPY_DIMENSIONS = 64


class OutsideError(Exception):
    """The sample needs what no dense runtime is asked for: sparse or nested tensors, an object of PyTorch's own."""


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Copy a tensor's values to a new array: PyTorch does not resize a storage that an array uses."""
    plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    if plain.dtype in BITS:
        bits, narrow = BITS[plain.dtype]
        return plain.view(bits).numpy().view(narrow)
    return plain.numpy()


def array_of_ours(tensor: Any) -> np.ndarray:
    """Copy the values of triten's tensor to a host array."""
    return np.asarray(tensor.detach().cpu().numpy())


class Conversion:
    """Arguments of one sample; tensors over one storage stay so.

    `leaves` has, in order, each tensor that requires grad, theirs and ours, if `gradients` says to keep them.
    """

    def __init__(self, device: str, *, gradients: bool = False, largest: int = 0) -> None:
        self.device = device
        self.gradients = gradients
        self.largest = largest
        self.leaves: list[tuple[torch.Tensor, Any]] = []
        self._storages: dict[tuple[int, torch.dtype], Any] = {}
        self._kept: list[Any] = []

    def __call__(self, value: Any) -> Any:
        """Convert `value` to triten's. Raises OutsideError, and MissingError for a missing dtype."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.Size):
            return tuple(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            name = str(value).removeprefix("torch.")
            if not hasattr(tt, name):
                raise MissingError(name)
            return getattr(tt, name)
        if isinstance(value, torch.device):
            return tt.device(self.device if value.type == "cpu" else str(value))
        if isinstance(value, torch.Generator | torch.nn.Module) or (
            callable(value) and not isinstance(value, type)
        ):
            raise OutsideError(type(value).__name__)
        return value

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            raise OutsideError(str(tensor.layout))
        if self.largest and tensor.numel() > self.largest:
            raise OutsideError("large")
        if tensor.dim() > NUMPY_DIMENSIONS:
            raise OutsideError(f"{tensor.dim()} dimensions")
        if tensor.device.type == "meta":
            return tt.empty_strided(tensor.shape, tensor.stride(), dtype=self(tensor.dtype), device="meta")
        plain = tensor.detach().resolve_conj().resolve_neg()
        whole = self._storage(plain)
        ours = whole.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset()).detach()
        if self.gradients and tensor.requires_grad:
            ours = ours.requires_grad_()
            self.leaves.append((tensor, ours))
        return ours

    def _storage(self, tensor: torch.Tensor) -> Any:
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype)
        if key not in self._storages:
            self._kept.append(storage)  # an address is not given again while the storage lives
            elements = storage.nbytes() // tensor.element_size()
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (elements,), (1,))
            whole = tt.from_numpy(array_of(flat))
            self._storages[key] = whole if self.device == "cpu" else whole.to(self.device)
        return self._storages[key]


def flat(value: Any) -> list[Any]:
    """Return the leaves of nested lists, tuples and mappings, in order."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flat(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat(item)]
    return [value]


def copied(value: Any, memo: dict[int, torch.Tensor] | None = None) -> Any:
    """Copy a sample's value to new memory; strides, offsets and sharing stay the same."""
    memo = {} if memo is None else memo
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.device.type == "meta":
            return value
        storage = value.untyped_storage()
        if storage._cdata not in memo:
            memo[storage._cdata] = storage.clone()
        again = torch.empty(0, dtype=value.dtype)
        again.set_(memo[storage._cdata], value.storage_offset(), value.shape, value.stride())
        again = torch._neg_view(again) if value.is_neg() else again
        again = again.conj() if value.is_conj() else again
        return again.requires_grad_() if value.requires_grad else again
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(copied(item, memo) for item in value))
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(copied(item, memo) for item in value)
    if isinstance(value, dict):
        return {key: copied(item, memo) for key, item in value.items()}
    return value
