"""Tensors over foreign memory: DLPack (torch/utils/dlpack.py) and the buffer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.errors import not_a_tensor
from ...runtime.grad_mode import is_inference_mode_enabled
from ...runtime.layout import strided
from ...runtime.quantized_data import QUANTIZED_BIT
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ..core.tensor_function import overridable

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

NUMPYS_OWN = 1
"""`numpy.dtype.isbuiltin` of dtypes that NumPy itself defines."""
KDL_CPU, KDL_CUDA = 1, 2
"""DLPack's kinds of devices."""
LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, NO_ORDER = 1, 2, -1
"""Values of ``stream`` for the default streams, and for no synchronization: the caller orders the work."""


class InterchangeMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __dlpack__(
        self,
        *,
        stream: int | None = NO_ORDER,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule over this tensor's memory, for another library's ``from_dlpack``
        (`torch.Tensor.__dlpack__`).

        Args:
            stream: On CUDA, the stream whose later work may use the memory; it waits for the current stream of the
                tensor's device. None and 1 are the default stream; -1, like the omitted argument, means no
                synchronization.
            max_version: The newest version of DLPack that the caller reads; None is a version before 1.0, which has no
                flag for read-only memory.
            dl_device: Device of the exported memory, as DLPack's type and ordinal; memory elsewhere is copied there.
            copy: If True, export a copy; None copies only if needed, False never.

        Raises:
            BufferError: The tensor requires grad, is sparse or quantized, has a device or dtype that DLPack does not
                support, or is read-only and the caller's version has no flag for it; `stream` is 2.
            AssertionError: `stream` is 0, or names a stream for memory of the CPU.
            ValueError: `copy` is False and `dl_device` another device.
            TypeError: `stream` is not an int.
        """
        tensor: Tensor = self  # type: ignore[assignment]
        _check_exportable(tensor)
        source = tensor._spec.device
        _check_stream(stream, source)
        target = _device_of(dl_device, source)
        if target.type != source.type or target.resolved_index != source.resolved_index:
            if copy is False:
                raise ValueError(
                    f"cannot move (i.e. copy=False) tensor from {source} to {target} without copying."
                )
            copied = tensor.detach().to(device=target, copy=True)
        else:
            copied = tensor.detach().clone() if copy else tensor
        return _capsule(copied, stream, max_version, copied is not tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type of the tensor's device, an `utils.dlpack.DLDeviceType`, and its ordinal.

        Raises ValueError for devices that DLPack lacks. Simulated devices are of type kDLCUDA, too.
        """
        from ...runtime.dlpack.device_type import DLDeviceType

        return _dl_device(self._spec.device, DLDeviceType.kDLCPU, DLDeviceType.kDLCUDA)


def _check_exportable(tensor: Tensor) -> None:
    spec = tensor._spec
    if spec.requires_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach(): the capsule would lose the history"
        )
    if spec.layout is not strided:
        raise BufferError(f"Can't export tensors with layout other than strided, got {spec.layout}")
    if spec.keys & QUANTIZED_BIT:
        raise BufferError(f"QUInt/QInt types are not supported by dlpack, got {spec.dtype}")
    if spec.device.type not in ("cpu", "cuda"):
        raise BufferError(f"Cannot pack tensors on {spec.device}: expected one on the CPU or a CUDA device")


def _check_stream(stream: Any, device: Device) -> None:
    if stream is not None and type(stream) is not int:
        raise TypeError(f"stream must be ``int`` or ``none``, got {type(stream).__name__}")
    if device.type == "cpu":
        if stream is not None and stream != NO_ORDER:
            raise AssertionError(f"stream should be None on cpu, got {stream}.")
    elif stream == PER_THREAD_DEFAULT_STREAM:
        raise BufferError("per-thread default stream is not supported.")
    elif stream is not None and (stream == 0 or stream < NO_ORDER):
        raise AssertionError(f"unsupported stream on CUDA: {stream}.")


def _dl_device(device: Device, cpu: int = KDL_CPU, cuda: int = KDL_CUDA) -> tuple[int, int]:
    if device.type == "cpu":
        return cpu, 0
    if device.type == "cuda":
        return cuda, device.resolved_index
    raise ValueError(f"Unknown device type {device.type} for Dlpack")


def _device_of(dl_device: tuple[int, int] | None, own: Device) -> Device:
    if dl_device is None:
        return own
    kind, index = dl_device
    if kind == KDL_CPU:
        return CPU
    if kind == KDL_CUDA:
        return Device("cuda", index)
    raise BufferError(f"__dlpack__: expected dl_device of the CPU (1) or of CUDA (2), got {dl_device!r}")


def _capsule(tensor: Tensor, stream: int | None, max_version: tuple[int, int] | None, is_copied: bool) -> Any:
    from ...runtime.dlpack.exported import capsule
    from ...runtime.dlpack.structures import IS_COPIED, READ_ONLY

    spec = tensor._spec
    flags = IS_COPIED if is_copied else 0
    strides = spec.strides
    if spec.device.type == "cpu":
        # Classes that store their values elsewhere, or forbid reads, override `host_array`.
        owner: Any = tensor.host_array()
        if owner.dtype.isbuiltin == NUMPYS_OWN and not (is_copied or spec.read_only):
            # The same capsule in a third of the time.
            return owner.__dlpack__(max_version=max_version)
        address = owner.__array_interface__["data"][0]
        if spec.numel:
            strides = tuple(step // spec.itemsize for step in owner.strides)
    else:
        owner = tensor._data
        if not isinstance(owner, DataPtr):
            raise BufferError(f"Cannot pack a {type(tensor).__name__}, which has no memory")
        address = owner.address
        if stream != NO_ORDER:
            _order(spec.device, 0 if stream in (None, LEGACY_DEFAULT_STREAM) else stream)
    if spec.read_only:
        flags |= READ_ONLY
    versioned = max_version is not None and max_version[0] >= 1
    device = _dl_device(spec.device)
    return capsule(owner, address, device, spec.dtype, tuple(spec.sizes), strides, flags, versioned)


def _order(device: Device, waiting: int | None) -> None:
    """Make a stream wait for a device's current stream."""
    from ...runtime.cuda.driver import driver
    from ...runtime.cuda.stream_order import wait_for_stream

    index = device.resolved_index
    wait_for_stream(index, driver().current_stream(index), waiting)


@api_boundary
def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of another library's array (`torch.from_dlpack`).

    Args:
        ext_tensor: An object with ``__dlpack__`` and ``__dlpack_device__``, one with ``__cuda_array_interface__``, or
            a capsule, which can be taken once. On CUDA the device's current stream waits for the other library's.
        device: Device of the result. Default: the memory's device. A capsule's memory stays on its device.
        copy: If True, copy; None copies only if needed, False never. A capsule is not copied.

    Returns:
        A tensor of the same shape and dtype; writes to one are seen in the other. Memory that the other library marks
        as read-only gives a tensor that refuses writes.

    Raises:
        TypeError: `ext_tensor` is anything else.
        RuntimeError: A capsule was taken before.
        BufferError: The array has an unknown device, dtype or version.
        ValueError: Strides are negative, or `copy` is False and a copy is necessary.
        AssertionError: `device` or `copy` is given for a capsule.

    Example:
        >>> import numpy as np, triten as tt
        >>> array = np.zeros(3)
        >>> tt.from_dlpack(array)[1] = 5
        >>> array
        array([0., 5., 0.])
    """
    from ..tensor_data import as_tensor, from_numpy, shows_device_memory

    made: Tensor
    if type(ext_tensor).__name__ == "PyCapsule":
        if device is not None or copy is not None:
            raise AssertionError(
                "device and copy kwargs not supported when ext_tensor is already a DLPack capsule."
            )
        return _taken(ext_tensor)
    if isinstance(ext_tensor, np.ndarray):
        # NumPy's own capsules support fewer dtypes.
        made = from_numpy(ext_tensor)
    elif hasattr(ext_tensor, "__dlpack__"):
        made = _taken(_asked(ext_tensor, copy))
    elif shows_device_memory(ext_tensor):
        made = as_tensor(ext_tensor)
    else:
        raise TypeError(
            f"from_dlpack(): expected an object with __dlpack__ or a capsule, but got {type(ext_tensor).__name__}"
        )
    if device is None:
        return made.to(copy=True) if copy else made
    target, source = Device(device), made._spec.device
    if copy is False and (target.type, target.resolved_index) != (source.type, source.resolved_index):
        raise ValueError(
            f"cannot move DLPack tensor from device {source} to {target} without copying. Set copy=None or copy=True."
        )
    return made.to(device=target, copy=bool(copy))


def _asked(producer: Any, copy: bool | None) -> Any:
    """Return the capsule of another library, which may support fewer options.

    Copies are made here, by triten's allocators. With ``copy=False``, the library is told not to copy.
    """
    kind, index = producer.__dlpack_device__()
    options: dict[str, Any] = {"max_version": (1, 0)}
    if copy is False:
        options["copy"] = False
    if kind == KDL_CUDA:
        options["stream"] = _current_stream(index)
    for unknown in ("max_version", "copy"):
        try:
            return producer.__dlpack__(**options)
        except TypeError:
            options.pop(unknown, None)
    return producer.__dlpack__(**options)


def _taken(capsule: Any) -> Tensor:
    from ...runtime.dlpack.imported import taken
    from ..tensor import Tensor

    return Tensor.from_data(*taken(capsule, is_inference=is_inference_mode_enabled()))


def _current_stream(index: int) -> int:
    from ...runtime.cuda.driver import driver

    return driver().current_stream(index) or LEGACY_DEFAULT_STREAM


@overridable
def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule over a tensor's memory, which can be consumed once (`torch.to_dlpack`).

    Args:
        tensor: A tensor that does not require grad.

    Returns:
        The capsule, for another library's ``from_dlpack``.

    Raises:
        BufferError: `tensor` requires grad.

    Example:
        >>> import triten as tt
        >>> tt.from_dlpack(tt.to_dlpack(tt.ones(2)))
        tensor([1., 1.])
    """
    if not isinstance(tensor, TensorImpl):
        raise not_a_tensor(tensor, "to_dlpack", "tensor")
    made: Any = tensor
    return made.__dlpack__()


@api_boundary
def frombuffer(
    buffer: Any, *, dtype: ScalarType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a vector that shares the memory of a buffer (`torch.frombuffer`).

    Args:
        buffer: An object with the buffer protocol: bytes, bytearray, array.array, memoryview, mmap. A read-only
            object gives a tensor that rejects writes.
        dtype: The dtype of the elements.
        count: Number of elements; a negative number stands for all.
        offset: Number of bytes to skip at the beginning.
        requires_grad: If True, autograd records operations on the result.

    Returns:
        A tensor of one dimension over the same memory.

    Raises:
        ValueError: `buffer` has no buffer protocol, `offset` is outside of it, or it has too few or excess bytes.

    Example:
        >>> import triten as tt
        >>> tt.frombuffer(bytearray(b"abcd"), dtype=tt.uint8, offset=2)
        tensor([ 99, 100], dtype=triten.uint8)
    """
    from ..tensor_data import from_numpy

    try:
        view = memoryview(buffer)
    except TypeError as error:
        raise ValueError("object does not implement Python buffer protocol.") from error
    length, size = view.nbytes, dtype.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({size})"
        )
    elements = (length - offset) // size if count < 0 else count
    if offset + elements * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    made = from_numpy(np.frombuffer(buffer, dtype.np, elements, offset))
    return made._set_requires_grad() if requires_grad else made
