"""Meta functions of pointwise operators: each builds a TensorIterator for broadcast, promotion and dimension order.

Numbers arrive as their class, which promotes as a wrapped number does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.scalar_type import bool_, dtype_of_number, int32
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ....runtime.user_frame import levels_to_user
from ...iterator.tensor_iterator import TensorIterator, TensorIteratorConfig
from ..meta_base import MetaBase

if TYPE_CHECKING:
    from ...iterator.type_promotion import PromotedOperand
    from ..meta_base import NumberKind


def dtype_of(operand: PromotedOperand) -> ScalarType:
    """Return the dtype of a tensor, or that of a number's class."""
    if isinstance(operand, TensorSpec):
        return operand.dtype
    return dtype_of_number(operand if isinstance(operand, type) else operand.__class__)


def promoting(meta: MetaBase, inputs: Sequence[Any], to_float: bool = False) -> TensorIterator:
    """Return an iterator over any number of inputs, promoted to a common dtype that the output has too."""
    config = TensorIteratorConfig().add_output(meta.maybe_get_output())
    for each in inputs:
        config.add_input(each)
    config.promote_inputs_to_common_dtype(True).cast_common_dtype_to_outputs(True)
    config.enforce_safe_casting_to_output(True).promote_integer_inputs_to_float(to_float)
    return config.build()


def with_output_dtype(meta: MetaBase, inputs: Sequence[TensorSpec], dtype: ScalarType) -> TensorIterator:
    """Return an iterator that keeps the inputs' dtypes, with a new output of `dtype`; a given output keeps its own."""
    out = meta.maybe_get_output()
    config = TensorIteratorConfig().check_all_same_dtype(False).add_output(out)
    for each in inputs:
        config.add_input(each)
    if out is None:
        config.declare_static_dtype_and_device(dtype, inputs[0].device)
    return config.build()


def unary(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of the input's dtype."""
    meta.build(TensorIterator.unary_op(meta.maybe_get_output(), self))


def unary_float(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of the input's dtype; integers and bool give the default floating dtype."""
    meta.build(TensorIterator.unary_float_op(meta.maybe_get_output(), self))


def unary_floating(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of a floating or complex input."""
    refuse_integral(meta, self)
    unary(meta, self)


def refuse_integral(meta: MetaBase, self: TensorSpec) -> None:
    """Raise PyTorch's error of an activation that supports only floating dtypes."""
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise NotImplementedError(
            f"\"{meta.name}_{self.device.type}\" not implemented for '{self.dtype.scalar_name}'"
        )


def rounding(meta: MetaBase, self: TensorSpec) -> None:
    """Infer floor, ceil, round or trunc: integers are unchanged, complex numbers are refused."""
    if self.dtype.is_complex:
        if meta.name == "round":
            raise NotImplementedError(
                f"\"round_vml_{self.device.type}\" not implemented for '{self.dtype.scalar_name}'"
            )
        raise NotImplementedError(f"{meta.name} is not supported for complex inputs")
    if self.dtype is bool_:
        raise NotImplementedError(f"\"{meta.name}_vml_{self.device.type}\" not implemented for 'Bool'")
    unary(meta, self)


def round_decimals(meta: MetaBase, self: TensorSpec, decimals: int) -> None:
    """Infer `round` to a number of decimal places: scaling by a power of ten, which may overflow to infinity."""
    if not self.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"round_{'' if decimals else 'vml_'}{self.device.type}\" not implemented for '{self.dtype.scalar_name}'"
        )
    exponent = -decimals if decimals < 0 else decimals
    meta.extra["power"] = 10.0**exponent if exponent <= 308 else math.inf
    unary(meta, self)


def neg(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of the input's dtype; refuse bool."""
    if self.dtype is bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
    unary(meta, self)


def abs(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of the input's dtype; a complex input gives its real dtype."""
    if not self.dtype.is_complex:
        return unary(meta, self)
    if meta.form == "inplace":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    meta.extra["common_dtype"] = self.dtype
    meta.build(with_output_dtype(meta, [self], self.dtype.to_real()))


def sign(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of a real input."""
    if self.dtype.is_complex:
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. "
            "Please use torch.sgn instead."
        )
    unary(meta, self)


def binary(meta: MetaBase, self: PromotedOperand, other: PromotedOperand) -> None:
    """Infer an output of two inputs promoted to a common dtype."""
    meta.build(TensorIterator.binary_op(meta.maybe_get_output(), self, other))


def binary_float(meta: MetaBase, self: PromotedOperand, other: PromotedOperand) -> None:
    """Infer an output of two inputs promoted to a common dtype; integers give the default floating dtype."""
    meta.build(TensorIterator.binary_float_op(meta.maybe_get_output(), self, other))


def add(meta: MetaBase, self: PromotedOperand, other: PromotedOperand, alpha: NumberKind) -> None:
    """Infer an output of two promoted inputs, and a scale for the second, checked against their common dtype."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output(), self, other)
    check_alpha(iterator.common_dtype, alpha)
    meta.build(iterator)


def sub(meta: MetaBase, self: PromotedOperand, other: PromotedOperand, alpha: NumberKind) -> None:
    """Infer as `add`; refuse bool."""
    refuse_bools(dtype_of(self), dtype_of(other))
    add(meta, self, other, alpha)


def refuse_bools(self: ScalarType | None, other: ScalarType | None) -> None:
    """Raise RuntimeError for a subtraction with a bool operand."""
    if self is bool_ and other is bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if self is bool_ or other is bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. "
            "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


def check_alpha(dtype: ScalarType, alpha: NumberKind) -> None:
    """Raise an error for a scale that the common dtype cannot hold, as ATen's alpha_check does."""
    kind = alpha if isinstance(alpha, type) else alpha.__class__
    if kind is bool and dtype is not bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    alpha_dtype = dtype_of_number(kind)
    inexact = alpha_dtype.is_floating_point or alpha_dtype.is_complex
    if inexact and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if alpha_dtype.is_complex and not dtype.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


div = binary_float


def div_mode(meta: MetaBase, self: TensorSpec, other: PromotedOperand, rounding_mode: str | None) -> None:
    """Infer a division: true division for None; ``trunc`` and ``floor`` keep integers."""
    if rounding_mode is None:
        return binary_float(meta, self, other)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '"
            + rounding_mode
            + "'"
        )
    binary(meta, self, other)


def pow(meta: MetaBase, self: PromotedOperand, exponent: PromotedOperand) -> None:
    """Infer a power. Base or exponent may be a number; two bools need a number as the exponent."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output(), self, exponent)
    if iterator.common_dtype is bool_ and not (isinstance(self, TensorSpec) and isinstance(exponent, type)):
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")
    meta.build(iterator)


def ordered_binary(meta: MetaBase, self: TensorSpec, other: TensorSpec) -> None:
    """Infer the output of `maximum` and similar operators; complex numbers have no order."""
    if self.dtype.is_complex or other.dtype.is_complex:
        raise RuntimeError(f"{meta.name} not implemented for complex tensors.")
    binary(meta, self, other)


def comparison(meta: MetaBase, self: TensorSpec, other: PromotedOperand) -> None:
    """Infer a comparison in the common dtype; a new output is bool, a given one keeps its dtype."""
    meta.build(TensorIterator.comparison_op(meta.maybe_get_output(), self, other))


def ordering(meta: MetaBase, self: TensorSpec, other: PromotedOperand) -> None:
    """Infer a comparison that needs an order."""
    iterator = TensorIterator.comparison_op(meta.maybe_get_output(), self, other)
    if iterator.common_dtype.is_complex:
        name = iterator.common_dtype.scalar_name
        raise NotImplementedError(f"\"{meta.name}_{meta.device.type}\" not implemented for '{name}'")
    meta.build(iterator)


def logical_not(meta: MetaBase, self: TensorSpec) -> None:
    """Infer a bool mask of zero inputs, or a mask of a given output's dtype."""
    meta.extra["common_dtype"] = self.dtype
    meta.build(with_output_dtype(meta, [self], bool_))


def logical(meta: MetaBase, self: TensorSpec, other: TensorSpec) -> None:
    """Infer a logical operator; a new output is bool."""
    meta.build(TensorIterator.comparison_op(meta.maybe_get_output(), self, other))


def bitwise(meta: MetaBase, self: PromotedOperand, other: PromotedOperand) -> None:
    """Infer an output of two integral or bool inputs; shifts refuse bool."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output(), self, other)
    refuse_inexact(meta, iterator.common_dtype)
    meta.build(iterator)


def bitwise_not(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of an integral or bool input."""
    refuse_inexact(meta, self.dtype)
    unary(meta, self)


def refuse_inexact(meta: MetaBase, dtype: ScalarType) -> None:
    """Raise PyTorch's error for a bitwise operator's unsupported dtype."""
    shifts = meta.name.endswith("shift")
    if not dtype.is_integral and (shifts or dtype is not bool_):
        name = {"bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift"}.get(meta.name, meta.name)
        raise NotImplementedError(f"\"{name}_{meta.device.type}\" not implemented for '{dtype.scalar_name}'")


def relu(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of a real input; refuse bool."""
    if self.dtype is bool_:
        raise RuntimeError("Boolean inputs not supported for relu")
    if self.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    unary(meta, self)


def gelu(meta: MetaBase, self: TensorSpec, approximate: str) -> None:
    """Infer an output of a floating input, for the exact or the tanh form."""
    check_approximate(approximate)
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f"\"GeluKernelImpl\" not implemented for '{self.dtype.scalar_name}'")
    unary(meta, self)


def check_approximate(approximate: str) -> None:
    """Refuse another form than gelu's two."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


def softplus(meta: MetaBase, self: TensorSpec, beta: NumberKind, threshold: NumberKind) -> None:
    """Infer an output of a floating input."""
    refuse_integral(meta, self)
    unary(meta, self)


def leaky_relu(meta: MetaBase, self: TensorSpec, negative_slope: NumberKind) -> None:
    """Infer an output of a floating input."""
    refuse_integral(meta, self)
    unary(meta, self)


def threshold_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, threshold: NumberKind
) -> None:
    """Infer the gradient where `self` exceeds the threshold."""
    binary(meta, grad_output, self)


def gelu_backward(meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, approximate: str) -> None:
    """Infer the gradient of `gelu`."""
    check_approximate(approximate)
    binary(meta, grad_output, self)


def softplus_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, beta: NumberKind, threshold: NumberKind
) -> None:
    """Infer the gradient of `softplus`."""
    binary(meta, grad_output, self)


def leaky_relu_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    self: TensorSpec,
    negative_slope: NumberKind,
    self_is_result: bool,
) -> None:
    """Infer the gradient of `leaky_relu`, from its input or its result."""
    binary(meta, grad_output, self)


def clamp(meta: MetaBase, self: TensorSpec, min: PromotedOperand | None, max: PromotedOperand | None) -> None:
    """Infer an output of an input and optional bounds, promoted together."""
    bounds = [b for b in (min, max) if b is not None]
    if not bounds:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    clamp_to(meta, self, bounds)


def clamp_one(meta: MetaBase, self: TensorSpec, bound: PromotedOperand) -> None:
    """Infer an output of an input and one bound."""
    if isinstance(bound, TensorSpec) and (self.dtype.is_complex or bound.dtype.is_complex):
        kernel = "maximum" if meta.name == "clamp_min" else "minimum"
        name = TensorIterator.binary_op(None, self, bound).common_dtype.scalar_name
        raise NotImplementedError(f"\"{kernel}_{self.device.type}\" not implemented for '{name}'")
    clamp_to(meta, self, [bound])


def clamp_to(meta: MetaBase, self: TensorSpec, bounds: Sequence[Any]) -> None:
    """Infer an output of an input and its bounds, promoted together; complex numbers have no order.

    With numbers for bounds it is an operator of one input, whose output has its promoted dtype.
    """
    if any(dtype_of(o).is_complex for o in (self, *bounds)):
        raise NotImplementedError("clamp is not supported for complex types")
    iterator = promoting(meta, [self, *bounds])
    out = meta.maybe_get_output()
    if out is not None and not any(isinstance(o, TensorSpec) for o in bounds):
        common = iterator.common_dtype
        if out.dtype is not common:
            raise RuntimeError(f"Found dtype {out.dtype.scalar_name} but expected {common.scalar_name}")
    meta.build(iterator)


def where(meta: MetaBase, condition: TensorSpec, self: PromotedOperand, other: PromotedOperand) -> None:
    """Infer an output of two values, which are promoted without the mask."""
    if condition.dtype is not bool_ and condition.dtype.name != "uint8":
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype.scalar_name}"
        )
    if condition.dtype is not bool_:
        warnings.warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead.",
            UserWarning,
            stacklevel=levels_to_user(),
        )
    scalar = TensorSpec.contiguous((), bool_, condition.device)
    values = [scalar.replace(dtype=dtype_of(o)) if both_numbers(self, other) else o for o in (self, other)]
    dtype = TensorIterator.binary_op(None, *values).common_dtype
    specs = [condition, *[o for o in (self, other) if isinstance(o, TensorSpec)]]
    meta.extra["common_dtype"] = dtype
    meta.build(with_output_dtype(meta, specs, dtype))
    out = meta.outputs[0]
    if out.dtype is not dtype:
        raise RuntimeError(f"Expected out type to be {dtype} but got {out.dtype}")


def both_numbers(self: PromotedOperand, other: PromotedOperand) -> bool:
    """Return True if no operand is a tensor; an iterator needs one."""
    return not (isinstance(self, TensorSpec) or isinstance(other, TensorSpec))


def lerp(meta: MetaBase, self: TensorSpec, end: TensorSpec, weight: PromotedOperand) -> None:
    """Infer an output of start, end and weight of one floating or complex dtype; a 0-d weight may have any dtype."""
    if self.dtype is not end.dtype:
        raise RuntimeError(f"expected dtype {self.dtype.name} for `end` but got dtype {end.dtype.name}")
    if isinstance(weight, TensorSpec):
        if weight.dtype is not self.dtype and (weight.ndim or weight.dtype.is_complex):
            raise RuntimeError(
                f"expected dtype {self.dtype.name} for `weight` but got dtype {weight.dtype.name}"
            )
        operands = [self, end, weight]
    else:
        operands = [self, end]
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise NotImplementedError(f"\"lerp_kernel_scalar\" not implemented for '{self.dtype.scalar_name}'")
    meta.build(promoting(meta, operands))


def addcmul(
    meta: MetaBase, self: TensorSpec, tensor1: TensorSpec, tensor2: TensorSpec, value: NumberKind
) -> None:
    """Infer an output of three inputs promoted together."""
    meta.build(promoting(meta, [self, tensor1, tensor2]))


def addcdiv(
    meta: MetaBase, self: TensorSpec, tensor1: TensorSpec, tensor2: TensorSpec, value: NumberKind
) -> None:
    """Infer an output of three inputs promoted together; raise an error for integer division."""
    if not any(dtype_of(t).is_floating_point or dtype_of(t).is_complex for t in (tensor1, tensor2)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
            "perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
            "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer "
            "inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv "
            "behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )
    meta.build(promoting(meta, [self, tensor1, tensor2]))


def signbit(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of a real input; a new output is bool."""
    if self.dtype.is_complex:
        raise NotImplementedError("signbit is not implemented for complex tensors.")
    meta.extra["common_dtype"] = self.dtype
    out = meta.maybe_get_output()
    if out is not None and out.dtype is not bool_:
        raise RuntimeError("signbit does not support non-boolean outputs.")
    meta.build(with_output_dtype(meta, [self], bool_))


def frac(meta: MetaBase, self: TensorSpec) -> None:
    """Infer an output of a floating input."""
    if not self.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"frac_{self.device.type}\" not implemented for '{self.dtype.scalar_name}'"
        )
    unary(meta, self)


def heaviside(meta: MetaBase, self: TensorSpec, values: TensorSpec) -> None:
    """Infer an output of an input and its values at zero, of one real dtype."""
    out = meta.maybe_get_output()
    if self.dtype.is_complex or values.dtype.is_complex or (out is not None and out.dtype.is_complex):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype is not values.dtype or (out is not None and out.dtype is not self.dtype):
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    binary(meta, self, values)


def same_floating(meta: MetaBase, self: TensorSpec, other: TensorSpec) -> None:
    """Infer an output of two inputs promoted to a common dtype, which must be floating."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output(), self, other)
    refuse_inexact_only(meta, iterator.common_dtype, complexes=False)
    meta.build(iterator)


def logaddexp(meta: MetaBase, self: TensorSpec, other: TensorSpec) -> None:
    """Infer as `same_floating`; complex numbers are allowed too."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output(), self, other)
    refuse_inexact_only(meta, iterator.common_dtype, complexes=True)
    meta.build(iterator)


def refuse_inexact_only(meta: MetaBase, dtype: ScalarType, complexes: bool) -> None:
    """Raise PyTorch's error for a dtype that is not floating-point, nor complex if `complexes` is true."""
    if not (dtype.is_floating_point or (complexes and dtype.is_complex)):
        raise NotImplementedError(
            f"\"{meta.name.rstrip('_')}_{meta.device.type}\" not implemented for '{dtype.scalar_name}'"
        )


def nan_to_num(
    meta: MetaBase, self: TensorSpec, nan: float | None, posinf: float | None, neginf: float | None
) -> None:
    """Infer an output of one input and the replacements of its NaN and infinities."""
    unary(meta, self)


def logit(meta: MetaBase, self: TensorSpec, eps: float | None) -> None:
    """Infer an output of one input, clamped to [eps, 1 - eps]; integers and bool give the default floating dtype."""
    unary_float(meta, self)


def logit_backward(meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, eps: float | None) -> None:
    """Infer the gradient of `logit`."""
    binary(meta, grad_output, self)


def frexp_mantissa(meta: MetaBase, self: TensorSpec) -> None:
    """Infer the first result of `frexp`, of a floating input's dtype."""
    refuse_for_frexp(self)
    unary(meta, self)


def frexp_exponent(meta: MetaBase, self: TensorSpec) -> None:
    """Infer the second result of `frexp`, int32."""
    refuse_for_frexp(self)
    meta.extra["common_dtype"] = self.dtype
    meta.build(with_output_dtype(meta, [self], int32))


def refuse_for_frexp(self: TensorSpec) -> None:
    """Raise PyTorch's error for dtypes without an exponent."""
    if not self.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
