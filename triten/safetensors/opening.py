"""Reading of safetensors files: `safe_open`, `load_file`, `load`."""

from __future__ import annotations

import math
import mmap
import os
from types import TracebackType
from typing import Any, Self

import numpy as np
import safetensors

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import from_numpy
from ..runtime.device import DeviceLike
from ..runtime.device import device as Device
from ..runtime.regular_file import open_regular
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_spec import MAX_BYTES
from ..runtime.traceback_filter import api_boundary
from .dtypes import geometry_of, size_of

_package: Any = safetensors  # which has annotations of some functions only
LENGTH_BYTES = 8
"""Size of the header's length field, at the start of a file."""
MAX_DIMS = 64
"""Maximum number of dimensions of a NumPy array."""


def _geometry(name: str, shape: tuple[int, ...]) -> tuple[ScalarType, tuple[int, ...]]:
    """Return triten's dtype and shape, as `geometry_of`. Raise SafetensorError for a shape that no tensor can have.

    The package checks the sizes against the file's length, which bounds no size of a tensor without elements.
    """
    dtype, shape = geometry_of(name, shape)
    if len(shape) > MAX_DIMS or math.prod(max(each, 1) for each in shape) * dtype.itemsize > MAX_BYTES:
        raise safetensors.SafetensorError(
            f"Error while deserializing header: expected at most {MAX_DIMS} sizes whose product fits 64 bits, got "
            f"{len(shape)}: {list(shape[:8])}"
        )
    return dtype, shape


class safe_open:
    """Safetensors file and context manager that reads tensors on demand (`safetensors.safe_open`).

    On the CPU a tensor is a copy-on-write memory map of the file. Opening reads the header only, and the bytes of a
    tensor are read at first access. Writes to a tensor do not reach the file. No other program may write to the file
    while tensors use it; `save_file` to the same path creates a new file. Tensors stay valid after the file is closed.

    Args:
        filename: The path of the file.
        framework: ``"pt"``, as PyTorch programs pass, or a synonym: ``"pytorch"``, ``"torch"``, ``"triten"``.
        device: The device of the tensors. Default: CPU.
        backend: ``"mmap"``, or ``"pread"``, which copies each tensor to its own memory.

    Raises:
        FileNotFoundError: The file does not exist.
        SafetensorError: The file is not in the format, or is truncated.
        ValueError: `framework` or `backend` is not one of those above.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.safetensors import safe_open, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"weight": tt.arange(6.0).view(3, 2)}, path, {"format": "pt"})
        >>> with safe_open(path) as file:
        ...     print(file.keys(), file.metadata(), file.get_slice("weight")[1:, 0])
        ['weight'] {'format': 'pt'} tensor([2., 4.])
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str = "pt",
        device: DeviceLike = "cpu",
        *,
        backend: str = "mmap",
    ) -> None:
        if framework not in ("pt", "pytorch", "torch", "triten"):
            raise ValueError(f"safe_open: expected the framework 'pt', got {framework!r}")
        if backend not in ("mmap", "pread"):
            raise ValueError(f"safe_open: expected the backend 'mmap' or 'pread', got {backend!r}")
        self._device = Device("cpu" if device is None else device)
        with open_regular(filename) as file:
            self._header: Any = _package.safe_open(filename, framework="np")
            start = LENGTH_BYTES + int.from_bytes(file.read(LENGTH_BYTES), "little")
            self._mapped: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._in_place = backend == "mmap"
        self._tensors: dict[str, tuple[int, str, tuple[int, ...]]] = {}
        for name in self._header.offset_keys():
            part = self._header.get_slice(name)
            dtype, shape = part.get_dtype(), tuple(part.get_shape())
            self._tensors[name] = start, dtype, shape
            # The package has checked that tensors follow each other without gaps in the order of their offsets.
            start += size_of(dtype, shape)
        if start != len(self._mapped):
            raise safetensors.SafetensorError(
                f"Error while deserializing header: the file has changed, expected {start} bytes and got "
                f"{len(self._mapped)}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._header.__exit__(kind, error, trace)
        self._mapped = None

    def keys(self) -> list[str]:
        """Return the sorted names of the tensors."""
        return list(self._header.keys())

    def offset_keys(self) -> list[str]:
        """Return the names of the tensors in the order of the file."""
        return list(self._header.offset_keys())

    def metadata(self) -> dict[str, str] | None:
        """Return the header's metadata, or None if there are none."""
        metadata: dict[str, str] | None = self._header.metadata()
        return metadata

    @api_boundary
    def get_tensor(self, name: str) -> Tensor:
        """Return a tensor by name.

        Raises:
            SafetensorError: The file has no tensor of this name, or is closed.
            TypeError: triten does not have the tensor's dtype.
        """
        made = self._mapped_tensor(name)
        return made.to(device=self._device, copy=not self._in_place)

    def get_tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        return {name: self.get_tensor(name) for name in self.keys()}

    def get_slice(self, name: str) -> SafeSlice:
        """Return an object whose subscripts read parts of a tensor.

        Raises:
            SafetensorError: The file has no tensor of this name, or is closed.
        """
        self._placed(name)
        return SafeSlice(self, name)

    def _placed(self, name: str) -> tuple[int, str, tuple[int, ...]]:
        if self._mapped is None:
            raise safetensors.SafetensorError("File is closed")
        entry = self._tensors.get(name)
        if entry is None:
            raise safetensors.SafetensorError(f"File does not contain tensor {name}")
        return entry

    def _mapped_tensor(self, name: str) -> Tensor:
        """Return a tensor over the memory map, or over a copy if the bytes are not aligned for the dtype."""
        start, dtype_name, sizes = self._placed(name)
        dtype, shape = _geometry(dtype_name, sizes)
        if 0 in shape:
            return ops.empty(shape, dtype=dtype, device="cpu")
        # With the mapping as the array's base the tensor's storage has only its own bytes, not the whole file.
        array: np.ndarray[Any, Any] = np.ndarray(shape, dtype.np, self._mapped, start)
        return from_numpy(array if array.flags.aligned else array.copy())


class SafeSlice:
    """A tensor in an open file, whose subscripts read parts of it (see `safe_open.get_slice`)."""

    __slots__ = ("_file", "_name")

    def __init__(self, file: safe_open, name: str) -> None:
        self._file = file
        self._name = name

    def get_shape(self) -> list[int]:
        """Return the sizes of the whole tensor, as the file's header has them."""
        return list(self._file._placed(self._name)[2])

    def get_dtype(self) -> str:
        """Return the format's name of the dtype, such as ``"BF16"``."""
        return self._file._placed(self._name)[1]

    @api_boundary
    def __getitem__(self, index: Any) -> Tensor:
        """Return a part of the tensor; `index` is any subscript that tensors accept."""
        file = self._file
        part = file._mapped_tensor(self._name)[index]
        return part.to(device=file._device, copy=not file._in_place)


def load_file(
    filename: str | os.PathLike[str], device: DeviceLike = "cpu", *, backend: str = "mmap"
) -> dict[str, Tensor]:
    """Read all tensors of a file (`safetensors.torch.load_file`); see `safe_open` for their memory.

    Args:
        filename: The path of the file.
        device: The device of the tensors. Default: CPU.
        backend: ``"mmap"``, or ``"pread"``, which copies each tensor to its own memory.

    Returns:
        The tensors by name.

    Raises:
        FileNotFoundError: The file does not exist.
        SafetensorError: The file is not in the format, or is truncated.
        TypeError: triten does not have the dtype of a tensor.
        ValueError: `backend` is neither ``"mmap"`` nor ``"pread"``.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.safetensors import load_file, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"weight": tt.ones(2, dtype=tt.bfloat16)}, path)
        >>> load_file(path)
        {'weight': tensor([1., 1.], dtype=triten.bfloat16)}
    """
    with safe_open(filename, device=device, backend=backend) as file:
        return file.get_tensors()


@api_boundary
def load(data: bytes) -> dict[str, Tensor]:
    """Read all tensors from the bytes of a file, as CPU tensors (`safetensors.torch.load`).

    Args:
        data: The result of `save`, or the contents of a file.

    Returns:
        The tensors by name.

    Raises:
        SafetensorError: The bytes are not in the format, or are truncated.
        TypeError: triten does not have the dtype of a tensor.

    Example:
        >>> import triten as tt
        >>> from triten.safetensors import load, save
        >>> load(save({"weight": tt.ones(2)}))
        {'weight': tensor([1., 1.])}
    """
    made: dict[str, Tensor] = {}
    for name, row in _package.deserialize(data):
        dtype, shape = _geometry(row["dtype"], tuple(row["shape"]))
        if 0 in shape:
            made[name] = ops.empty(shape, dtype=dtype, device="cpu")
            continue
        array = np.frombuffer(row["data"], dtype.np).reshape(shape)
        made[name] = from_numpy(array if array.flags.aligned and array.flags.writeable else array.copy())
    return made
