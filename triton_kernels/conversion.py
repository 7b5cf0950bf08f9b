"""Numbers from one Triton type to another, as PyTorch converts them."""

from ..runtime.cuda.triton.lazy_triton import tl, triton
from ..runtime.scalar_type import dtype as ScalarType

COMPUTE = {"i1": tl.int1, "fp16": tl.float32, "bf16": tl.float32, "fp8e5": tl.float32, "fp8e4nv": tl.float32}
"""The types that are computed in another one."""


def triton_type(dtype: ScalarType) -> tl.dtype:
    """Return the Triton type of a dtype's elements."""
    return tl.str_to_ty(dtype.triton_name, None)


def compute_type(dtype: ScalarType) -> tl.dtype:
    """Return the compute type of a dtype: float32 for 16-bit and 8-bit floats, else the dtype's own."""
    return COMPUTE.get(dtype.triton_name or "") or triton_type(dtype)


def type_name(type_: tl.dtype) -> str:
    """Return a type's name in a kernel signature: ``i32`` for `tl.int32`."""
    return type_.name.replace("int", "i").replace("ui", "u")


@triton.jit
def convert(x, target: tl.constexpr):
    """Convert `x` to `target`: floats round to nearest even; to integers they truncate and wrap.

    On overflow, 8-bit floats become infinite, or the largest number if the format has no infinity.
    """
    if x.dtype == target:
        return x
    elif target == tl.int1:
        return x != 0
    elif target == tl.float8e4nv:
        # The instruction saturates, infinity too, and keeps NaN.
        return x.to(tl.float32).to(tl.float8e4nv)
    elif target == tl.float8e5:
        x = x.to(tl.float32)
        bits = x.to(tl.float8e5).to(tl.uint8, bitcast=True)
        infinity = tl.where(x < 0, 0xFC, 0x7C).to(tl.uint8)
        return tl.where(tl.abs(x) >= 61440.0, infinity, bits).to(tl.float8e5, bitcast=True)
    elif x.dtype.is_floating() and target.is_int():
        if x.dtype.primitive_bitwidth < 32:
            x = x.to(tl.float32)
        if target == tl.uint64:
            return x.to(tl.uint64)
        elif target.primitive_bitwidth == 64:
            return x.to(tl.int64)
        else:
            return x.to(tl.int64).to(target)
    elif target == tl.bfloat16 or target == tl.float16:
        return x.to(tl.float32).to(target)
    else:
        return x.to(target)
