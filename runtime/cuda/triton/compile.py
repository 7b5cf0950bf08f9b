"""Ahead-of-time compilation of Triton kernels, without GPU, driver, C compiler or PyTorch.

Source: `triton.compile` over an `ASTSource`, or a `GluonASTSource`, with an explicit target.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..tensor_map import ALIGNMENT, NBYTES, descriptor_type, parameter_format
from .architecture import check_architecture
from .assembler import NoAssemblerError, fit_assembler
from .dependent_launch import check_waits
from .library_hash import know_library_hash
from .real_triton import real, real_constants

WARP_SIZE = 32
DIVISIBILITY = 16

_FORMATS = {
    "i1": "?",
    "u1": "?",
    "i8": "b",
    "u8": "B",
    "i16": "h",
    "u16": "H",
    "fp16": "e",
    "bf16": "H",
    "i32": "i",
    "u32": "I",
    "fp32": "f",
    "i64": "q",
    "u64": "Q",
    "fp64": "d",
}


@dataclass(frozen=True)
class KernelBinary:
    """Compiled kernel: its code and launch parameters.

    `num_warps`, `num_ctas` and `shared` are the compiler's values, which may differ from the requested options.
    `tensor_maps` says how each descriptor parameter is encoded (`tensor_map.encode_tiled`). If `ptx_version` is not
    0, `cubin` is PTX of that version, times ten, which the driver compiles on loading.
    """

    name: str
    capability: int
    cubin: bytes
    asm: Mapping[str, str]
    parameter_types: tuple[str, ...]
    num_warps: int
    num_ctas: int
    shared: int
    global_scratch_size: int
    global_scratch_align: int
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    tensor_maps: tuple[Mapping[str, Any], ...] = ()
    ptx_version: int = 0


def compile_kernel(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    divisible: frozenset[str] = frozenset(),
    capability: int = 90,
    options: Mapping[str, object] | None = None,
    cuda: int = 0,
) -> KernelBinary:
    """Compile a `@triton.jit` function for a compute capability (``90`` is sm_90).

    Args:
        kernel: Lazy or real Triton or Gluon kernel, created without ``TRITON_INTERPRET=1``.
        signature: Triton type of each launch parameter.
        constexprs: Values of the other parameters.
        divisible: Parameters known to be multiples of 16, which makes 128-bit accesses possible.
        capability: Compute capability, major times 10 plus minor.
        options: Triton's options. Floating-point fusion and libdevice's flushing of subnormals are off by default.
        cuda: CUDA version of the driver that will load the code, 12080 for 12.8. 0 leaves Triton's `ptxas` as it is.

    Raises:
        NotImplementedError: For a dtype that the architecture does not have.
        RuntimeError: Under the interpreter; if Triton is missing; if a global of a kernel has changed since its first
            compilation; if the driver is too old for the target (`fit_assembler`); if its launches overlap with
            earlier ones and the kernel accesses memory before it waits for them.
        triton.compiler.errors.CompilationError: For a kernel that does not compile.
    """
    check_architecture(kernel.fn.__name__, signature, constexprs.values(), capability)
    try:
        kernel, constexprs = real(kernel), real_constants(constexprs)
    except RuntimeError as error:
        error.add_note(
            f"kernel '{kernel.fn.__name__}' for sm_{capability} is not in the store of compiled kernels"
        )
        raise
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction

    if not isinstance(kernel, JITFunction):
        raise RuntimeError(
            f"compile_kernel(): kernel must be a triton.jit function, got {type(kernel).__name__}; a kernel "
            "that was defined under TRITON_INTERPRET=1 cannot be compiled, do it in a process without it"
        )
    for each in (kernel, *constexprs.values()):
        if isinstance(each, JITFunction):
            check_globals(each)
    names = kernel.arg_names
    full_signature = {name: signature.get(name, "constexpr") for name in names}
    # Triton reads attributes by index path only. It ignores a name or a plain int, and vector accesses vanish.
    constants = {(i,): constexprs[name] for i, name in enumerate(names) if name in constexprs}
    attributes = {
        (i,): [["tt.divisibility", DIVISIBILITY]] for i, name in enumerate(names) if name in divisible
    }
    chosen = chosen_options(options)
    try:
        ptx_version = fit_assembler(capability, cuda)
    except NoAssemblerError as error:
        raise NoAssemblerError(f"kernel '{kernel.fn.__name__}': {error}") from None
    if ptx_version is not None:
        chosen["ptx_version"] = ptx_version
    know_library_hash()
    compiled = triton.compile(
        _source_of(kernel)(kernel, full_signature, constants, attributes),
        target=GPUTarget("cuda", capability, WARP_SIZE),
        options=chosen,
    )
    metadata = compiled.metadata
    if metadata.launch_pdl:
        check_waits(metadata.name, compiled.asm["ptx"])
    return KernelBinary(
        name=metadata.name,
        capability=capability,
        cubin=compiled.asm["cubin"] if ptx_version is None else compiled.asm["ptx"].encode() + b"\0",
        asm={stage: text for stage, text in compiled.asm.items() if isinstance(text, str)},
        parameter_types=tuple(signature[name] for name in names if name in signature),
        num_warps=metadata.num_warps,
        num_ctas=metadata.num_ctas,
        shared=metadata.shared,
        global_scratch_size=metadata.global_scratch_size,
        global_scratch_align=metadata.global_scratch_align,
        launch_cooperative_grid=metadata.launch_cooperative_grid,
        launch_pdl=metadata.launch_pdl,
        tensor_maps=tuple(
            {name: list(v) if isinstance(v, tuple) else v for name, v in each.items()}
            for each in getattr(metadata, "tensordesc_meta", None) or ()
        ),
        ptx_version=ptx_version or 0,
    )


def _source_of(kernel: Any) -> Any:
    """Return the source class for the language of a kernel."""
    if kernel.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def chosen_options(options: Mapping[str, object] | None) -> dict[str, object]:
    """Return Triton's options for a kernel, with defaults for options that triten turns off."""
    return {"enable_fp_fusion": False, "enable_reflect_ftz": False, **(options or {})}


def check_globals(kernel: Any) -> None:
    """Raise RuntimeError if a module constant of a kernel has changed since Triton first read the kernel.

    Triton keeps the old value in its cache key, so that it would confuse two different kernels.
    """
    for (name, _), (value, namespace) in kernel.used_global_vals.items():
        if namespace.get(name) != value:
            raise RuntimeError(
                f"compile_kernel(): kernel '{kernel.fn.__name__}': global variable '{name}' has changed since it was "
                f"first compiled, from {value} to {namespace.get(name)}"
            )


class ParameterLayout:
    """Layout of a kernel's arguments in one buffer: natural alignment, two scratch pointers at the end.

    `struct` packs the whole buffer, `values` the part before the scratch pointers. Tensor maps come first, each
    aligned to 64 bytes and followed by its sizes and strides, as one string of bytes. `maps` has their positions
    among the values. `plain` has the positions of the other values, which are packed after them.

    Example:
        >>> ParameterLayout(("*fp32", "i32", "fp64")).offsets
        (0, 8, 16, 24, 32)
        >>> ParameterLayout(("i32", "tensordesc<fp16[64, 64]>")).offsets
        (192, 0, 128, 132, 136, 144, 200, 208)
    """

    def __init__(self, types: tuple[str, ...]) -> None:
        described = [descriptor_type(type_name) for type_name in types]
        self.maps = tuple(i for i, descriptor in enumerate(described) if descriptor is not None)
        self.plain = tuple(i for i, descriptor in enumerate(described) if descriptor is None)
        front, offsets_of = "", {}
        for i in self.maps:
            descriptor = described[i]
            assert descriptor is not None
            rank, start = len(descriptor.block), struct.calcsize("@" + front)
            nbytes = struct.calcsize(parameter_format(rank))
            front += f"{nbytes}s{-nbytes % ALIGNMENT}x"
            strides = start + nbytes - 8 * rank
            offsets_of[i] = [start, *range(start + NBYTES, start + NBYTES + 4 * rank, 4)]
            offsets_of[i] += range(strides, strides + 8 * rank, 8)
        codes = [format_of(types[i]) for i in self.plain] + ["Q", "Q"]
        self.values = struct.Struct("@" + front + "".join(codes[:-2]))
        self.struct = struct.Struct("@" + front + "".join(codes))
        for i, code in enumerate(codes):
            before = struct.calcsize("@" + front + "".join(codes[:i]))
            before += -before % struct.calcsize("@" + code)
            offsets_of[self.plain[i] if i < len(self.plain) else len(types) + i] = [before]
        self.offsets = tuple(offset for i in sorted(offsets_of) for offset in offsets_of[i])
        self.bfloat16 = tuple(i for i, type_name in enumerate(types) if type_name == "bf16")


def format_of(type_name: str) -> str:
    """Return the `struct` code of a Triton type. Raise ValueError for a type that cannot be packed."""
    if type_name.startswith("*"):
        return "Q"
    code = _FORMATS.get(type_name)
    if code is None:
        raise ValueError(
            f"a kernel's argument of type {type_name!r} is not supported, expected {sorted(_FORMATS)}"
        )
    return code
