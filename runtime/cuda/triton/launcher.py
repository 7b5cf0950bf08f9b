"""Launcher of a kernel that Triton compiled for its caller: ``kernel[grid](x, n)`` on a GPU.

Triton builds a launcher in C, with gcc at run time. This launcher packs the arguments by the same rules
(`ParameterLayout`) and passes them to the driver. A tensor must be on the kernel's device. Triton's launcher asks the
driver for the device; this one reads it from the tensor.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from triton.runtime import _allocation
from triton.tools.tensor_descriptor import TensorDescriptor

from ...device import device as Device
from ...tensor_impl import TensorImpl
from ..driver import MAX_GRID, Driver, check_grid
from ..machine_code import LaunchShape, MachineCode
from ..memory.caching_allocator import CUDA_ALLOCATOR
from ..tensor_map import ALIGNMENT, NBYTES, encode_tiled
from .compile import WARP_SIZE, ParameterLayout

CONSTANT = "constexpr"
TENSOR_MAP = "nvTmaDesc"
HAS_TF32_FLAG = "round_f32_to_tf32" in TensorDescriptor.__dataclass_fields__
"""True from Triton 3.7 on: a descriptor without a tensor map passes its TF32 flag to the kernel."""

_NO_MEMORY: tuple[int, object] = (0, None)

Type = str | tuple["Type", ...]


class TritonLauncher:
    """Callable that launches one compiled kernel: the `launcher_cls` of Triton's driver.

    Args:
        owner: Driver that allocates and counts launches.
        code: Machine-code interface that launches.
        source: Compiled source; `signature` has the type of each parameter, `constexpr` for constants.
        metadata: The compiler's metadata of the result.
    """

    def __init__(self, owner: Driver, code: MachineCode, source: Any, metadata: Any) -> None:
        if "gsan" in getattr(metadata, "instrumentation_mode", ""):
            raise NotImplementedError("kernels instrumented by Triton's sanitizer are not supported")
        self._owner = owner
        self._code = code
        self._device = owner.current_device()
        self._place = Device("cuda", self._device)
        self.name = metadata.name
        self._signature: tuple[Type, ...] = tuple(source.signature.values())
        # Sources in Triton's IR have no function.
        function = getattr(source, "fn", None)
        self._constants: frozenset[int] = frozenset() if function is None else frozenset(function.constexprs)
        self._maps: Sequence[Any] = getattr(metadata, "tensordesc_meta", None) or ()
        self._shape = LaunchShape(
            WARP_SIZE * metadata.num_warps,
            metadata.shared,
            metadata.num_ctas,
            bool(metadata.launch_cooperative_grid),
            bool(metadata.launch_pdl),
        )
        self._scratch = (metadata.global_scratch_size, metadata.global_scratch_align)
        self._profile = (metadata.profile_scratch_size, metadata.profile_scratch_align)
        self._wants_memory = bool(self._scratch[0] or self._profile[0])
        self._cubin: bytes | None = None
        self._function = 0
        # Types of the passed arguments in order: without constants, with tuples and descriptors flattened.
        self.types = tuple(self._flatten_types(self._signature))
        # Free buffers. Taking one and putting it back are atomic, so no other thread and no finalizer overwrites it.
        self._idle = [PackedArguments(self.types, code)]
        self._is_flat = all(isinstance(t, str) and not t.startswith("tensordesc") for t in self._signature)
        self._kept = [(i, t[0] == "*") for i, t in enumerate(self._signature) if t != CONSTANT]

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: int | None,
        kernel_metadata: object,
        launch_metadata: object,
        enter: Any,
        leave: Any,
        *args: Any,
    ) -> None:
        """Enqueue the kernel on a stream of its device, between the two hooks."""
        if enter is not None:
            enter(launch_metadata)
        if not (0 < x <= MAX_GRID[0] and 0 < y <= MAX_GRID[1] and 0 < z <= MAX_GRID[2]):
            check_grid(self.name, (x, y, z))
        if len(args) != len(self._signature):
            args = self._with_constants(args)
        values: list[Any] = []
        maps: list[Any] = []
        if self._is_flat:
            for i, is_pointer in self._kept:
                values.append(self._address(i, args[i]) if is_pointer else args[i])
        else:
            left = iter(self._maps)
            for i, (type_, value) in enumerate(zip(self._signature, args, strict=True)):
                self._flatten(i, type_, value, values, maps, left)
        if x and y and z:
            if function is None:
                function = self._load_again()
            scratch = profile = _NO_MEMORY
            if self._wants_memory:
                count = x * y * z * self._shape.cluster
                scratch = self._allocate(self._scratch, count, stream, _allocation._allocator.get(), False)
                profile = self._allocate(
                    self._profile, count, stream, _allocation._profile_allocator.get(), True
                )
            try:
                arguments = self._idle.pop()
            except IndexError:
                arguments = PackedArguments(self.types, self._code)
            try:
                arguments.pack(values, maps, scratch[0], profile[0])
            except (struct.error, OverflowError) as error:
                raise TypeError(
                    f"kernel '{self.name}': arguments {values} do not fit {self.types}: {error}"
                ) from error
            self._code.launch(function, (x, y, z), self._shape, stream, arguments.pointers)
            self._idle.append(arguments)
            self._owner.launches += 1
        if leave is not None:
            leave(launch_metadata)

    def _with_constants(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Insert a None for each `constexpr` parameter into arguments that lack them, as Triton 3.1 took them.

        Raises:
            TypeError: If the arguments match neither the number of all parameters nor that of the passed ones.
        """
        count = len(self._signature)
        if len(args) != count - len(self._constants):
            raise TypeError(
                f"kernel '{self.name}' takes {count} arguments, or {count - len(self._constants)} without its "
                f"constants, got {len(args)}"
            )
        passed = iter(args)
        return tuple(None if i in self._constants else next(passed) for i in range(count))

    def keep(self, cubin: bytes) -> None:
        """Keep code that failed to load. Triton loads only once; the next launch tries this again."""
        self._cubin = cubin

    def _load_again(self) -> int:
        if not self._function:
            if self._cubin is None:
                raise RuntimeError(f"kernel '{self.name}' was never loaded")
            self._function = self._code.load(self.name, self._cubin, self._shape.shared).function
        return self._function

    def _address(self, position: int, value: Any) -> int:
        """Return the address of an argument. Raise ValueError for memory that the device cannot access."""
        if isinstance(value, TensorImpl):
            spec = value._spec
            if not spec.numel:
                return 0
            if spec.device is not self._place:
                raise self._out_of_reach(position, f"a tensor on {spec.device}")
            return int(value._data.address)
        if value is None:
            return 0
        if isinstance(value, int):
            return value
        base = getattr(value, "base", None)
        if isinstance(base, TensorImpl):
            return self._address(position, base)
        if not hasattr(value, "data_ptr"):
            raise TypeError("Pointer argument must be either uint64 or have data_ptr method")
        address = value.data_ptr()
        if not isinstance(address, int):
            raise TypeError("data_ptr method of Pointer object must return 64-bit int")
        if address and not self._code.reaches(address):
            raise self._out_of_reach(position, f"a {type(value).__name__}")
        return address

    def _out_of_reach(self, position: int, actual: str) -> ValueError:
        return ValueError(
            f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?): kernel '{self.name}': "
            f"expected a tensor on cuda:{self._device}, got {actual}"
        )

    def _flatten_types(self, types: Iterable[Type]) -> Iterable[str]:
        for type_ in types:
            if isinstance(type_, tuple):
                yield from self._flatten_types(type_)
            elif type_.startswith("tensordesc"):
                element, rank = _parse_descriptor(type_)
                sizes, strides = ["i32"] * rank, ["i64"] * rank
                if self._maps:
                    yield from (TENSOR_MAP, *sizes, *strides)
                else:
                    flags = ["i1"] * (1 + HAS_TF32_FLAG)
                    yield from (f"*{element}", *["i64"] * rank, *strides, *flags, *sizes, *strides)
            elif type_ != CONSTANT:
                yield type_

    def _flatten(
        self, position: int, type_: Type, value: Any, values: list[Any], maps: list[Any], left: Any
    ) -> None:
        if isinstance(type_, tuple):
            for each, item in zip(type_, value, strict=True):
                self._flatten(position, each, item, values, maps, left)
        elif type_.startswith("tensordesc"):
            address = self._address(position, value.base)
            sizes, strides = value.shape, value.strides
            if self._maps:
                maps.append((address, value, next(left)))
                values += (*sizes, *strides)
            else:
                flags = [value.padding == "nan"]
                if HAS_TF32_FLAG:
                    flags.append(value.round_f32_to_tf32)
                values += (address, *sizes, *strides, *flags, *sizes, *strides)
        elif type_ != CONSTANT:
            values.append(self._address(position, value) if type_[0] == "*" else value)

    def _allocate(
        self, size_and_alignment: tuple[int, int], count: int, stream: int, allocator: Any, zeroed: bool
    ) -> tuple[int, object]:
        """Return the address of the kernel's scratch memory for all its blocks, and the object that keeps it alive.

        It comes from the allocator that `triton.set_allocator` set in this context, else from triten's own.
        """
        each, alignment = size_and_alignment
        if not each:
            return _NO_MEMORY
        nbytes = each * count
        if not isinstance(allocator, _allocation.NullAllocator):
            buffer = allocator(nbytes, alignment, stream)
            return (0 if buffer is None else self._address(-1, buffer)), buffer
        owner = self._owner
        block = CUDA_ALLOCATOR.allocate(nbytes, self._place)
        if owner.current_stream(self._device) != stream:
            CUDA_ALLOCATOR.record_stream(block, stream)
        if zeroed:
            owner.memset(block.address, 0, nbytes, stream)
        return block.address, block


def _parse_descriptor(type_: str) -> tuple[str, int]:
    """Return element type and rank of ``tensordesc<fp16[64, 64]>``."""
    match = re.match(r"tensordesc(?:_im2col)?<([^\[>]*)\[([^\]]*)\](?:.*,input_rank=(\d+))?", type_)
    if match is None:
        raise ValueError(f"a tensor descriptor's type is expected, got {type_!r}")
    element, block, rank = match.groups()
    return element, int(rank) if rank else block.count(",") + 1


class PackedArguments:
    """Parameter buffer of one launch, and its pointer table."""

    __slots__ = ("_buffer", "_code", "_map_memory", "_maps", "_pack", "_special", "_table", "pointers")

    def __init__(self, types: Sequence[str], code: MachineCode) -> None:
        packed_types = [type_ for type_ in types if type_ != TENSOR_MAP]
        layout = ParameterLayout(tuple(packed_types))
        self._code = code
        self._special = [(i, t) for i, t in enumerate(packed_types) if t in ("bf16", "fp16", "fp32")]
        self._pack = layout.struct.pack_into
        self._buffer = ctypes.create_string_buffer(layout.struct.size)
        base = ctypes.addressof(self._buffer)
        packed = iter(layout.offsets)
        count = sum(type_ == TENSOR_MAP for type_ in types)
        self._map_memory = ctypes.create_string_buffer(count * NBYTES + ALIGNMENT)
        start = ctypes.addressof(self._map_memory)
        start += -start % ALIGNMENT
        self._maps = [start + i * NBYTES for i in range(count)]
        free = iter(self._maps)
        addresses = [next(free) if type_ == TENSOR_MAP else base + next(packed) for type_ in types]
        addresses += [base + offset for offset in packed]
        self._table = (ctypes.c_void_p * len(addresses))(*addresses)
        self.pointers = ctypes.addressof(self._table)

    def pack(self, values: list[Any], maps: Sequence[Any], scratch: int, profile: int) -> None:
        """Write the parameters. Raise struct.error or OverflowError for integers that do not fit."""
        for i, type_ in self._special:
            values[i] = _rounded(type_, values[i])
        self._pack(self._buffer, 0, *values, scratch, profile)
        for target, (address, descriptor, meta) in zip(self._maps, maps, strict=True):
            encode_tiled(
                self._code,
                target,
                address,
                descriptor.shape,
                descriptor.strides,
                meta,
                nan_outside=descriptor.padding == "nan",
                round_to_tf32=getattr(descriptor, "round_f32_to_tf32", False),
            )


_LARGEST = {"fp16": 65504.0, "fp32": 3.4028234663852886e38}


def _rounded(type_: str, value: Any) -> Any:
    """Return a number for `struct`: the bits of a bfloat16, and infinity for a number that overflows its type."""
    if type_ == "bf16":
        with np.errstate(over="ignore"):
            return int(np.array(value, ml_dtypes.bfloat16).view(np.uint16))
    if -_LARGEST[type_] <= value <= _LARGEST[type_]:
        return value
    with np.errstate(over="ignore"):
        return float(np.float16(value) if type_ == "fp16" else np.float32(value))
