"""Kernel images: the PTX of a cubin, and the resources that its kernels need from a multiprocessor."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..device_properties import DeviceProperties
from ..machine_code import LaunchShape
from ..occupancy import WARP_SIZE
from .ptx import Module

ELF = b"\x7fELF"
SECTION = b".nv_debug_ptx_txt"
SIZED, REGISTER_COUNT, FRAME_SIZE, PARAMETER_BANK = 0x04, 0x2F, 0x11, 0x0A
CLUSTERS_FROM = 90
"""First compute capability with thread block clusters."""
REGISTERS = 65_536
"""Registers of a multiprocessor; a block must fit into one."""


class ImageError(RuntimeError):
    """Error: an image cannot be executed; the message says why."""


def _sections(image: bytes) -> list[tuple[bytes, tuple[int, ...]]]:
    """Yield name and header of each section of an ELF file."""
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count, names_at = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + i * size) for i in range(count)]
    names = headers[names_at][4]
    return [(image[names + header[0] : image.index(b"\0", names + header[0])], header) for header in headers]


def _entries(cubin: bytes, info: tuple[int, ...]) -> Iterator[tuple[int, bytes]]:
    """Yield attribute and payload of the entries in an info section that have a payload."""
    offset, end = info[4], info[4] + info[5]
    while offset < end:
        kind, attribute, nbytes = struct.unpack_from("<BBH", cubin, offset)
        offset += 4
        if kind == SIZED:
            yield attribute, cubin[offset : offset + nbytes]
            offset += nbytes


def ptx_of(image: bytes) -> str:
    """Return the PTX of a cubin, or of a PTX image. Raise ImageError for a cubin without PTX.

    A cubin holds its PTX in the section ``.nv_debug_ptx_txt``, without comments and source lines. ``ptxas -lineinfo``
    writes the section. Triton requests line information unless ``TRITON_DISABLE_LINE_INFO=1`` is set. The executed
    PTX therefore always belongs to the loaded image.
    """
    if not image.startswith(ELF):
        return image.decode()
    for name, header in _sections(image):
        if name == SECTION:
            return image[header[4] : header[4] + header[5]].replace(b"\0", b"\n").decode()
    raise ImageError(
        f"a cubin without the section {SECTION.decode()} has no PTX to execute: it was compiled without line "
        "information (TRITON_DISABLE_LINE_INFO)"
    )


def code_sizes(cubin: bytes, name: str) -> tuple[int, int]:
    """Return the registers per thread of a kernel, and the bytes of its stack frame in local memory.

    The compiler writes them to the section ``.nv.info`` as entries of a format, an attribute and a payload. The
    payload is the number of the kernel's symbol and the size. Source: `cuobjdump -elf`, ``EIATTR_REGCOUNT``,
    ``EIATTR_FRAME_SIZE``.

    Raises:
        ValueError: if the file has no such kernel, or says nothing of its registers.
    """
    sections = dict(_sections(cubin))
    code, info = sections.get(b".text." + name.encode()), sections.get(b".nv.info")
    if code is None or info is None:
        raise ValueError(f"the code of kernel '{name}' is not in the cubin")
    symbol, sizes = code[7] & 0xFFFFFF, {REGISTER_COUNT: 0, FRAME_SIZE: 0}
    for attribute, payload in _entries(cubin, info):
        if attribute in sizes and struct.unpack_from("<I", payload) == (symbol,):
            (sizes[attribute],) = struct.unpack_from("<I", payload, 4)
    if not sizes[REGISTER_COUNT]:
        raise ValueError(f"the cubin does not say how many registers kernel '{name}' has")
    return sizes[REGISTER_COUNT], sizes[FRAME_SIZE]


def parameters_begin(image: bytes, name: str) -> int:
    """Return the offset of a kernel's parameters in the constant bank (``EIATTR_PARAM_CBANK``); 0 for a PTX image."""
    if not image.startswith(ELF):
        return 0
    info = dict(_sections(image)).get(b".nv.info." + name.encode())
    for attribute, payload in _entries(image, info) if info is not None else ():
        if attribute == PARAMETER_BANK:
            return int(struct.unpack_from("<H", payload, 4)[0])
    return 0


def most_threads(registers: int) -> int:
    """Return the maximum number of threads per block with that many registers."""
    return REGISTERS // (registers + -registers % 8) // WARP_SIZE * WARP_SIZE


def check_resources(
    name: str, module: Module, cubin: bytes, shape: LaunchShape, properties: DeviceProperties
) -> None:
    """Raise RuntimeError if a kernel needs more than a device has, or was compiled for another block size."""
    if shape.cluster > 1 and properties.capability < CLUSTERS_FROM:
        raise RuntimeError(
            f"kernel '{name}' wants clusters of {shape.cluster} blocks, {properties.name} (sm_{properties.capability}) "
            f"has no clusters; they exist from sm_{CLUSTERS_FROM} on"
        )
    shared = shape.shared + module.shared_size
    if shared > properties.max_shared_memory:
        raise RuntimeError(
            f"kernel '{name}' needs {shared} bytes of shared memory, {properties.name} has "
            f"{properties.max_shared_memory}: take smaller blocks or fewer stages"
        )
    registers, _ = code_sizes(cubin, name)
    max_threads = most_threads(registers)
    if shape.threads > max_threads:
        raise RuntimeError(
            f"kernel '{name}' wants {shape.threads} threads in a block, its {registers} registers allow "
            f"{max_threads}: take fewer warps"
        )
    kernel = module.kernel(name)
    if kernel.threads and kernel.threads != shape.threads:
        raise RuntimeError(
            f"kernel '{name}' was compiled for {kernel.threads} threads in a block, not for {shape.threads}"
        )
    if kernel.cluster and kernel.cluster != shape.cluster:
        raise RuntimeError(
            f"kernel '{name}' was compiled for clusters of {kernel.cluster} blocks, not of {shape.cluster}"
        )
