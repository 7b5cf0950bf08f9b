"""Pointwise composites. Names imported from generated functions serve as aliases and overloads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import complex32, complex128, float16, float64, get_default_dtype, int32, int64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..generated.functions import (
    _conj_physical,
    _conj_physical_,
    abs,
    acos,
    acosh,
    add,
    add_,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_and_,
    bitwise_left_shift,
    bitwise_left_shift_,
    bitwise_or,
    bitwise_or_,
    bitwise_right_shift,
    bitwise_right_shift_,
    bitwise_xor,
    bitwise_xor_,
    clamp,
    clamp_,
    copysign,
    copysign_,
    div,
    div_,
    eq,
    floor_divide,
    fmod,
    ge,
    gt,
    le,
    lt,
    mul,
    mul_,
    ne,
    neg,
    pow,
    remainder,
    rsub,
    sub,
    sub_,
    trunc,
    where,
    xlogy,
    xlogy_,
)
from ..plans.delegated import plan_of_part
from ..plans.host_kernel import host_kernel
from ..plans.register import planned_by
from .forms import check_overlap, named, outermost_first, restored, write_out
from .indexing import nonzero_numpy

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor

INFINITY = float("inf")


__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_and_",
    "bitwise_left_shift",
    "bitwise_left_shift_",
    "bitwise_or",
    "bitwise_or_",
    "bitwise_right_shift",
    "bitwise_right_shift_",
    "bitwise_xor",
    "bitwise_xor_",
    "clamp",
    "clamp_",
    "copysign",
    "copysign_",
    "div",
    "div_",
    "eq",
    "floor_divide",
    "fmod",
    "ge",
    "gt",
    "le",
    "lt",
    "mul",
    "mul_",
    "ne",
    "neg",
    "remainder",
    "trunc",
    "where",
    "xlogy",
    "xlogy_",
]


def add_scalar(self: Tensor, other: Number, alpha: Number) -> Tensor:
    """Compute ``add.Scalar``: the second operand is a number."""
    return add(self, other, alpha=alpha)


def add__scalar(self: Tensor, other: Number, alpha: Number) -> Tensor:
    """Run ``add_.Scalar``."""
    return add_(self, other, alpha=alpha)


def sub_scalar(self: Any, other: Tensor | Number, alpha: Number) -> Tensor:
    """Compute ``sub.Scalar``."""
    return sub(self, other, alpha=alpha)


def sub__scalar(self: Tensor, other: Number, alpha: Number) -> Tensor:
    """Run ``sub_.Scalar``."""
    return sub_(self, other, alpha=alpha)


def rsub_scalar(self: Tensor, other: Number, alpha: Number) -> Tensor:
    """Compute ``rsub.Scalar``."""
    return rsub(self, other, alpha=alpha)


def div_scalar_mode(self: Tensor, other: Tensor | Number, rounding_mode: str | None) -> Tensor:
    """Compute ``div.Scalar_mode``."""
    return div(self, other, rounding_mode=rounding_mode)


def positive(self: Tensor) -> Tensor:
    """Return the tensor itself. Raises RuntimeError for bool."""
    if self.dtype.name == "bool":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


@host_kernel("square", "pow.Tensor_Scalar")
def square(self: Tensor) -> Tensor:
    """Compute the square."""
    return pow(self, 2)


def square_(self: Tensor) -> Tensor:
    """Compute the square in place."""
    return self.pow_(2)


def square_out(self: Tensor, out: Tensor) -> Tensor:
    """Compute the square into `out`."""
    return pow(self, 2, out=out)


def _itself(self: Tensor) -> Tensor:
    return self


def _plan_conj_physical(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    if not args[0].dtype.is_complex:
        return _itself
    part = plan_of_part(op, key_set, args, "aten::_conj_physical", args)
    return op.rebind(conj_physical, args) if part is None else part


@planned_by(_plan_conj_physical)
def conj_physical(self: Tensor) -> Tensor:
    """Compute the complex conjugate; return a real tensor itself."""
    return _conj_physical(self) if self.dtype.is_complex else self


def conj_physical_(self: Tensor) -> Tensor:
    """Compute the complex conjugate in place."""
    return _conj_physical_(self)


def conj_physical_out(self: Tensor, out: Tensor) -> Tensor:
    """Compute the complex conjugate into `out`."""
    return _conj_physical(self, out=out)


conj = conj_physical


def unresolved(self: Tensor) -> Tensor:
    """Return the tensor itself: conjugates and negatives are always materialized."""
    return self


def isnan(self: Tensor) -> Tensor:
    """Return a mask of NaN: elements that are not equal to themselves."""
    return ne(self, self)


def isinf(self: Tensor) -> Tensor:
    """Return a mask of elements that are infinite, or have an infinite part."""
    if self.dtype.is_complex:
        return ops.logical_or(isinf(ops.real(self)), isinf(ops.imag(self)))
    if self.dtype.is_floating_point:
        return eq(abs(self), INFINITY)
    return ne(self, self)


def isfinite(self: Tensor) -> Tensor:
    """Return a mask of elements that are neither infinite nor NaN."""
    if self.dtype.is_complex:
        return ops.logical_and(isfinite(ops.real(self)), isfinite(ops.imag(self)))
    if not self.dtype.is_floating_point:
        return eq(self, self)
    if sees_whole():
        bounded = ne(abs(self), INFINITY)
        return mul(eq(self, self), bounded)
    return lt(abs(self), INFINITY)


def frexp(self: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mantissa in [0.5, 1) with the number's sign, and the exponent of two, as int32."""
    results: tuple[Tensor, Tensor] = named(
        "frexp", mantissa=ops._frexp_mantissa(self), exponent=ops._frexp_exponent(self)
    )
    return results


def frexp_out(self: Tensor, mantissa: Tensor, exponent: Tensor) -> tuple[Tensor, Tensor]:
    """Run `frexp` into `mantissa` and `exponent`."""
    if mantissa._spec.dtype is not self._spec.dtype:
        raise RuntimeError(
            f"torch.frexp() expects mantissa to have dtype {self._spec.dtype} but got {mantissa._spec.dtype}"
        )
    if exponent._spec.dtype is not int32:
        raise RuntimeError(f"torch.frexp() expects exponent to have int dtype but got {exponent._spec.dtype}")
    check_overlap((self,), (mantissa, exponent))
    fraction, power = frexp(self)
    results: tuple[Tensor, Tensor] = named(
        "frexp",
        mantissa=write_out("frexp", mantissa, fraction),
        exponent=write_out("frexp", exponent, power),
    )
    return results


EXPONENTS = 2200
"""Powers of two beyond which every double overflows or underflows."""
MIN_STEP, MAX_STEP = -900, 1000
"""Powers of two that are normal doubles, and leave the rest of `EXPONENTS` for a second step."""


def ldexp(self: Tensor, other: Tensor) -> Tensor:
    """Compute self * 2 ** other, rounded once; no power of two over- or underflows for integer exponents."""
    dtype = self._spec.dtype if self._spec.dtype.is_floating_point else get_default_dtype()
    if other._spec.dtype.is_floating_point or other._spec.dtype.is_complex or self._spec.dtype.is_complex:
        return mul(self, pow(2.0, other))
    power = ops.clamp(other.to(int64), -EXPONENTS, EXPONENTS)
    if dtype is float64:
        # Multiply the mantissa first: underflow then occurs only in the last multiplication.
        mantissa, exponent = frexp(self.to(dtype))
        power = ops.add(power, exponent)
    else:
        mantissa = self.to(float64)
    step = ops.clamp(power, MIN_STEP, MAX_STEP)
    rest = ops.clamp(ops.sub(power, step), MIN_STEP, MAX_STEP)
    scaled = mul(mul(mantissa, ops.exp2(step.to(float64))), ops.exp2(rest.to(float64)))
    return scaled.to(dtype)


def deg2rad(self: Tensor) -> Tensor:
    """Convert degrees to radians. Raises RuntimeError for complex numbers."""
    if self._spec.dtype.is_complex:
        raise RuntimeError("deg2rad is not supported for complex tensors.")
    return mul(self, math.pi / 180)


def rad2deg(self: Tensor) -> Tensor:
    """Convert radians to degrees. Raises RuntimeError for complex numbers."""
    if self._spec.dtype.is_complex:
        raise RuntimeError("rad2deg is not supported for complex tensors.")
    return mul(self, 180 / math.pi)


def float_power(self: Any, exponent: Tensor | Number) -> Tensor:
    """Compute a power in float64, or in complex128 if a complex number is involved."""
    dtype = _widest(self, exponent)
    return pow(_operand_in(dtype, self), _operand_in(dtype, exponent))


def float_power_(self: Tensor, exponent: Tensor | Number) -> Tensor:
    """Compute `float_power` in place; the tensor must be float64 or complex128."""
    dtype = _widest(self, exponent)
    if self._spec.dtype is not dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self._spec.dtype.scalar_name} but the operation's result "
            f"requires dtype {dtype.scalar_name}"
        )
    return self.pow_(_operand_in(dtype, exponent))


def _widest(*operands: Any) -> ScalarType:
    complexes = (
        x._spec.dtype.is_complex if isinstance(x, TensorImpl) else x.__class__ is complex for x in operands
    )
    return complex128 if any(complexes) else float64


def _operand_in(dtype: ScalarType, value: Any) -> Any:
    """Return a tensor or a number in a dtype."""
    if isinstance(value, TensorImpl):
        tensor: Any = value
        return tensor.to(dtype)
    return complex(value) if dtype.is_complex else float(value)


@host_kernel("angle", "ne.Tensor", "lt.Scalar", "mul.Tensor", "where.self")
def angle(self: Tensor) -> Tensor:
    """Compute the argument of a complex number; a real number gives 0 or pi, and NaN for NaN."""
    dtype = self._spec.dtype
    if dtype.is_complex:
        if dtype is complex32 and self._spec.device.type == "cpu":
            raise NotImplementedError("\"angle_cpu\" not implemented for 'ComplexHalf'")
        return atan2(self.imag, self.real)
    if not dtype.is_floating_point:
        return where(lt(self, 0), math.pi, 0.0)
    return where(ne(self, self), self, mul(lt(self, 0).to(dtype), math.pi))


@host_kernel("complex", "stack", "view_as_complex")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """Combine real and imaginary parts of one floating dtype to complex numbers."""
    check_parts("complex", real, imag)
    parts = list(ops.broadcast_tensors([real, imag]))
    leading = imag if real._spec.numel < parts[0]._spec.numel else real
    order = outermost_first(leading._spec) if leading._spec.ndim == parts[0]._spec.ndim else None
    if order is None:
        made = ops.view_as_complex(ops.stack(parts, -1))
    else:
        made = restored(ops.view_as_complex(ops.stack([part.permute(order) for part in parts], -1)), order)
    made._view_base = None  # hide the pairs behind the complex view
    return made


def complex_out(real: Tensor, imag: Tensor, out: Tensor) -> Tensor:
    """Run `complex_` into `out`, which must have the result's dtype."""
    return write_exactly("complex", complex_(real, imag), out)


@host_kernel("polar", "stack", "view_as_complex", "mul.Tensor", "cos", "sin")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Combine absolute values and angles of one floating dtype to complex numbers."""
    check_parts("polar", abs, angle)
    if abs._spec.dtype is float16:
        raise NotImplementedError(f"\"polar_{abs._spec.device.type}\" not implemented for 'Half'")
    made: Tensor = complex_(mul(abs, ops.cos(angle)), mul(abs, ops.sin(angle)))
    return made


def polar_out(abs: Tensor, angle: Tensor, out: Tensor) -> Tensor:
    """Run `polar` into `out`, which must have the result's dtype."""
    return write_exactly("polar", polar(abs, angle), out)


def write_exactly(name: str, result: Tensor, out: Tensor) -> Tensor:
    """Write a result into `out`, whose dtype must be the result's."""
    if out._spec.dtype is not result._spec.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {result._spec.dtype.scalar_name} but got scalar type "
            f"{out._spec.dtype.scalar_name} for argument 'out'"
        )
    return write_out(name, out, result)


def check_parts(name: str, first: Tensor, second: Tensor) -> None:
    """Raise an error for parts that are not Half, Float or Double, or have different dtypes."""
    a, b = first._spec.dtype, second._spec.dtype
    if not all(dtype.is_floating_point and dtype.name in PARTS for dtype in (a, b)):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {a.scalar_name} and {b.scalar_name}"
        )
    if a is not b:
        raise RuntimeError(
            f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} for second argument"
        )


PARTS = ("float16", "float32", "float64")


def where_nonzero(condition: Tensor) -> tuple[Tensor, ...]:
    """Return the positions of true elements, one tensor for each dimension: `where` of a condition alone."""
    return nonzero_numpy(condition)
