"""`tt.testing`: what tests of tensors need (`torch.testing`): `assert_close`, and `make_tensor` for operands.

Example:
    >>> import triten as tt
    >>> tt.testing.assert_close(tt.ones(2) / 3, tt.tensor([1 / 3, 1 / 3]))
"""

from __future__ import annotations

import cmath
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from .dispatch.generated import functions as _ops
from .dispatch.iterator.type_promotion import promote_types
from .dispatch.tensor import Tensor
from .dispatch.tensor_data import as_tensor
from .runtime import scalar_type as st
from .runtime.device import DeviceLike
from .runtime.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .runtime.memory_format import memory_format as MemoryFormat
from .runtime.traceback_filter import api_boundary
from .runtime.user_frame import levels_to_user

if TYPE_CHECKING:
    from .runtime.scalar_type import Number

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES: dict[st.dtype, tuple[float, float]] = {
    st.float16: (1e-3, 1e-5),
    st.bfloat16: (1.6e-2, 1e-5),
    st.float32: (1.3e-6, 1e-5),
    st.float64: (1e-7, 1e-7),
    st.complex32: (1e-3, 1e-5),
    st.complex64: (1.3e-6, 1e-5),
    st.complex128: (1e-7, 1e-7),
}
"""Relative and absolute tolerance by dtype; others are compared exactly."""

_OF_NUMBERS: dict[type, st.dtype] = {int: st.int64, float: st.float64, complex: st.complex128}
_NUMBERS = (int, float, complex, np.number)


class _Comparison:
    """Comparison settings, and the current item of a collection."""

    def __init__(
        self,
        tolerances: tuple[float, float] | None,
        equal_nan: bool,
        attributes: Sequence[str],
        check_dtype: bool,
        allow_subclasses: bool,
        message: str | Callable[[str], str] | None,
    ) -> None:
        self.tolerances = tolerances
        self.equal_nan = equal_nan
        self.attributes = attributes
        self.check_dtype = check_dtype
        self.allow_subclasses = allow_subclasses
        self.message = message
        self.path: list[object] = []

    def fail(self, text: str) -> Never:
        """Raise AssertionError with PyTorch's message, or the caller's."""
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{each!r}]' for each in self.path)}"
        if self.message is not None:
            text = self.message if isinstance(self.message, str) else self.message(text)
        raise AssertionError(text)

    def compare(self, actual: Any, expected: Any) -> None:
        """Raise AssertionError where two values are not close, TypeError where they cannot be compared."""
        collections = [
            kind
            for kind in (Mapping, Sequence)
            if isinstance(actual, kind) and isinstance(expected, kind) and not isinstance(actual, str)
        ]
        if collections:
            self._items(actual, expected, collections[0] is Mapping)
        elif actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual} is not {expected}")
        elif isinstance(actual, bool | np.bool_) and isinstance(expected, bool | np.bool_):
            if bool(actual) is not bool(expected):
                self.fail(f"Booleans mismatch: {actual} is not {expected}")
        elif isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS):
            self._numbers(actual, expected)
        elif self._comparable(actual, expected):
            self._tensors(as_tensor(actual), as_tensor(expected))
        else:
            raise TypeError(
                f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
            )

    def _comparable(self, actual: Any, expected: Any) -> bool:
        if not all(isinstance(each, Tensor | np.ndarray) for each in (actual, expected)):
            return False
        if type(actual) is type(expected):
            return True
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        return related and self.allow_subclasses

    def _items(self, actual: Any, expected: Any, is_mapping: bool) -> None:
        if is_mapping:
            missing = sorted(set(expected) - set(actual), key=str)
            additional = sorted(set(actual) - set(expected), key=str)
            if missing or additional:
                self.fail(
                    "The keys of the mappings do not match:\n"
                    f"Missing keys in the actual mapping: {missing}\n"
                    f"Additional keys in the actual mapping: {additional}"
                )
        elif len(actual) != len(expected):
            self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for key in sorted(expected, key=str) if is_mapping else range(len(actual)):
            self.path.append(key)
            self.compare(actual[key], expected[key])
            self.path.pop()

    def _numbers(self, actual: Any, expected: Any) -> None:
        actual, expected = (x.item() if isinstance(x, np.number) else x for x in (actual, expected))
        if self.check_dtype and type(actual) is not type(expected):
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        pairs = [_TOLERANCES.get(_OF_NUMBERS.get(type(x), st.int64), (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = self.tolerances or (max(r for r, _ in pairs), max(a for _, a in pairs))
        difference, size = abs(actual - expected), abs(expected)
        if actual == expected or (cmath.isfinite(difference) and difference <= atol + rtol * size):
            return
        if self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected):
            return
        relative = difference / size if size else math.inf
        self.fail(_of_scalars(actual, expected, difference, relative, rtol, atol))

    def _tensors(self, actual: Tensor, expected: Tensor) -> None:
        self._attributes(actual, expected)
        is_quantized = actual.is_quantized
        dtypes = [st.float32 if is_quantized else x.dtype for x in (actual, expected)]
        pairs = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        rtol, atol = self.tolerances or (max(r for r, _ in pairs), max(a for _, a in pairs))
        actual, expected = actual.detach(), expected.detach()
        if actual.is_meta or expected.is_meta:
            return
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if is_quantized:
            self._values(
                actual.dequantize(), expected.dequantize(), rtol, atol, identifier="Quantized tensor-likes"
            )
            return
        if actual.dtype is not expected.dtype:
            common = promote_types(actual.dtype, expected.dtype)
            actual, expected = actual.to(common), expected.to(common)
        if actual.layout is not expected.layout:
            actual, expected = (x if x.layout is strided else x.to_dense() for x in (actual, expected))
        if actual.layout is strided:
            self._values(actual, expected, rtol, atol)
        else:
            self._sparse(actual, expected, rtol, atol)

    def _attributes(self, actual: Tensor, expected: Tensor) -> None:
        for name in self.attributes:
            if name == "stride()" and not actual.layout is expected.layout is strided:
                continue
            if name == "qscheme()" and not actual.is_quantized:
                continue
            actual_value, expected_value = (_attribute(x, name) for x in (actual, expected))
            if actual_value != expected_value:
                self.fail(
                    f"The values for attribute '{name}' do not match: {actual_value} != {expected_value}."
                )

    def _sparse(self, actual: Tensor, expected: Tensor, rtol: float, atol: float) -> None:
        kind, indices = _SPARSE_LAYOUTS[actual.layout]
        if kind == "COO" and actual.sparse_dim() != expected.sparse_dim():
            self.fail(
                f"The number of sparse dimensions in sparse COO tensors does not match: "
                f"{actual.sparse_dim()} != {expected.sparse_dim()}"
            )
        if actual._nnz() != expected._nnz():
            self.fail(
                f"The number of specified values in sparse {kind} tensors does not match: "
                f"{actual._nnz()} != {expected._nnz()}"
            )
        for name in indices:
            actual_part, expected_part = (getattr(x, name)() for x in (actual, expected))
            self._values(actual_part, expected_part, 0.0, 0.0, identifier=f"Sparse {kind} {name.lstrip('_')}")
        values = "_values" if kind == "COO" else "values"
        actual_part, expected_part = (getattr(x, values)() for x in (actual, expected))
        self._values(actual_part, expected_part, rtol, atol, identifier=f"Sparse {kind} values")

    def _values(
        self, actual: Tensor, expected: Tensor, rtol: float, atol: float, identifier: str = "Tensor-likes"
    ) -> None:
        common = promote_types(actual.dtype, expected.dtype)
        if common.itemsize == 1 and common.is_floating_point:
            common = st.float32
        actual, expected = actual.to(common), expected.to(common)
        matches = _ops.isclose(actual, expected, rtol, atol, self.equal_nan)
        if matches.all().item():
            return
        if not (common.is_floating_point or common.is_complex):
            actual, expected = actual.to(st.int64), expected.to(st.int64)
        difference = _ops.abs(actual - expected)
        relative = difference / _ops.abs(expected)
        if not matches.ndim:
            self.fail(
                _of_scalars(actual.item(), expected.item(), difference.item(), relative.item(), rtol, atol)
            )
        count, total = int((~matches).sum().item()), matches.numel()
        exact = rtol == 0 and atol == 0
        lines = [f"Mismatched elements: {count} / {total} ({count / total:.1%})"]
        for kind, values, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
            greatest = _ops.masked_fill(values, matches, 0).reshape(-1)
            flat_index = int(greatest.argmax().item())
            index = tuple(int(i) for i in np.unravel_index(flat_index, tuple(matches.shape)))
            lines.append(
                f"Greatest {kind} difference: {greatest[flat_index].item()} at index {index}"
                f"{'' if exact else f' (up to {allowed} allowed)'}"
            )
        self.fail("\n".join([f"{identifier} are not {'equal' if exact else 'close'}!\n", *lines]))


_ROWS, _COLUMNS = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
_SPARSE_LAYOUTS = {
    sparse_coo: ("COO", ("_indices",)),
    sparse_csr: ("CSR", _ROWS),
    sparse_bsr: ("BSR", _ROWS),
    sparse_csc: ("CSC", _COLUMNS),
    sparse_bsc: ("BSC", _COLUMNS),
}
"""The name of each sparse layout, and the methods that return its indices."""


def _attribute(tensor: Tensor, name: str) -> object:
    return getattr(tensor, name[:-2])() if name.endswith("()") else getattr(tensor, name)


def _of_scalars(
    actual: Number, expected: Number, difference: Number, relative: Number, rtol: float, atol: float
) -> str:
    exact = rtol == 0 and atol == 0
    lines = [
        f"Scalars are not {'equal' if exact else 'close'}!\n",
        f"Expected {expected} but got {actual}.",
        f"Absolute difference: {difference}{'' if exact else f' (up to {atol} allowed)'}",
        f"Relative difference: {relative}{'' if exact else f' (up to {rtol} allowed)'}",
    ]
    return "\n".join(lines)


def _default_tolerances(
    *inputs: Tensor | st.dtype, dtype_precisions: Mapping[st.dtype, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """Return the largest relative and absolute tolerance of tensors and dtypes.

    Raises:
        TypeError: An input is neither a tensor nor a dtype.
    """
    pairs = []
    for each in inputs:
        dtype = each.dtype if isinstance(each, Tensor) else each
        if not isinstance(dtype, st.dtype):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(each)} instead.")
        pairs.append((dtype_precisions or _TOLERANCES).get(dtype, (0.0, 0.0)))
    rtols, atols = zip(*pairs, strict=True)
    return max(rtols), max(atols)


def _get_tolerances(
    *inputs: Tensor | st.dtype, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """Return the given tolerances, or without any those of the inputs.

    Raises:
        ValueError: Only one tolerance is given.
    """
    if rtol is not None and atol is not None:
        return rtol, atol
    if rtol is not None or atol is not None:
        absent = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}.")
    return _default_tolerances(*inputs)


@api_boundary
def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Check that ``|actual - expected| <= atol + rtol * |expected|`` everywhere (`torch.testing.assert_close`).

    Args:
        actual, expected: tensors, arrays, numbers, None, or sequences and mappings of such, which are compared item
            by item.
        allow_subclasses: If True, allow a tensor to be compared with one of a subclass. Default: True.
        rtol, atol: both or none; none is PyTorch's for the dtype, the greater where dtypes differ, 0 for integers.
        equal_nan: If True, NaN equals NaN. Default: False.
        check_device, check_dtype, check_layout, check_stride: which attributes must be the same beside the shape.
            Where they may differ, elements are compared on the CPU and in the promoted dtype.
        msg: the message of a failure, or a function that makes it of the one that there would be.

    Raises AssertionError where values are not close, TypeError for values that cannot be compared, ValueError for one
    tolerance without the other.

    Example:
        >>> import triten as tt
        >>> tt.testing.assert_close([1.0, tt.zeros(2)], [1.0, tt.zeros(2)])
        >>> tt.testing.assert_close(tt.tensor([1, 2]), tt.tensor([1, 4]))
        Traceback (most recent call last):
        ...
        AssertionError: Tensor-likes are not equal!
        <BLANKLINE>
        Mismatched elements: 1 / 2 (50.0%)
        Greatest absolute difference: 2 at index (1,)
        Greatest relative difference: 0.5 at index (1,)
    """
    if (rtol is None) is not (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    checks = {"layout": check_layout, "device": check_device, "dtype": check_dtype, "stride()": check_stride}
    attributes = [
        "shape",
        "is_quantized",
        "qscheme()",
        *(name for name, is_checked in checks.items() if is_checked),
    ]
    tolerances = None if rtol is None or atol is None else (rtol, atol)
    _Comparison(tolerances, equal_nan, attributes, check_dtype, allow_subclasses, msg).compare(
        actual, expected
    )


@api_boundary
def make_tensor(
    *shape: int | Sequence[int],
    dtype: st.dtype,
    device: DeviceLike,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Return a tensor of random elements, uniform in [low, high) (`torch.testing.make_tensor`).

    Args:
        shape: sizes, as numbers or as one sequence.
        low, high: -9 and 9 by default, for integers -9 and 10, from 0 for unsigned ones, 0 and 2 for bools. They are
            clamped to what the dtype holds.
        noncontiguous: leave gaps between elements.
        exclude_zero: put the smallest positive number instead of zeros, 1 for integers.
        memory_format: as in `Tensor.to`; not with `noncontiguous`.

    Raises ValueError for an empty, unordered or unsupported range, for NaN, and for `requires_grad` of a dtype without
    gradients.

    Example:
        >>> import triten as tt
        >>> x = tt.testing.make_tensor(2, 3, dtype=tt.float32, device="cpu", low=0, high=1)
        >>> x.shape, bool((x < 1).all())
        (triten.Size([2, 3]), True)
    """
    sizes: Any = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    has_gradients = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not has_gradients:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got noncontiguous=True "
            f"and memory_format={memory_format}"
        )
    min_value, max_value = _range(dtype)
    start = (-9 if min_value < 0 else 0) if low is None else low
    end = (9 if has_gradients else 2 if dtype is st.bool_ else 10) if high is None else high
    if start != start or end != end:
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={start} and high={end}")
    if start == end and has_gradients:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since "
            "2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=levels_to_user(),
        )
    elif start >= end:
        raise ValueError(f"`low` must be less than `high`, but got {start} >= {end}")
    elif end < min_value or start >= max_value:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{start}, {end}), but {dtype} only supports "
            f"[{min_value}, {max_value})"
        )
    start, end = min(max(start, min_value), max_value), min(max(end, min_value), max_value)
    if has_gradients:
        real = dtype.to_real() if dtype.is_complex else dtype
        # An interval longer than the largest number is drawn at half its length.
        factor = 2 if end - start > st.finfo(real).max else 1
        parts = [
            _ops.empty(sizes, dtype=real, device=device).uniform_(start / factor, end / factor).mul_(factor)
            for _ in range(2 if dtype.is_complex else 1)
        ]
        result = (_ops.complex(*parts) if dtype.is_complex else parts[0]).to(dtype)
    else:
        result = _ops.randint(math.ceil(start), math.ceil(end), sizes, dtype=st.int64, device=device).to(
            dtype
        )
    if exclude_zero:
        smallest = float(st.finfo(dtype).tiny) if has_gradients else 1
        result = _ops.masked_fill(result, result == 0, smallest)
    if noncontiguous and result.numel() > 1:
        result = result.repeat_interleave(2, dim=-1)[..., ::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result._set_requires_grad(requires_grad)


def _range(dtype: st.dtype) -> tuple[float, float]:
    """Return the minimum of a dtype and the exclusive upper bound of its values."""
    if dtype is st.bool_:
        return 0, 2
    if dtype.is_integral:
        limits = st.iinfo(dtype)
        return limits.min, min(limits.max + 1, 2**63 - 1)
    limit = st.finfo(dtype).max
    return -limit, limit


_FORMER_TOLERANCES = {st.float16: (1e-3, 1e-3), st.float32: (1e-4, 1e-5), st.float64: (1e-5, 1e-8)}


@api_boundary
def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Call `assert_close` with its initial tolerances (`torch.testing.assert_allclose`).

    dtypes may differ. PyTorch has deprecated it, and says so by a FutureWarning.

    Args:
        actual, expected: tensors, or what `tt.tensor` makes one of.
        rtol, atol: both or none; none is (1e-3, 1e-3) for float16, (1e-4, 1e-5) for float32 and (1e-5, 1e-8) for
            float64, the greater of both tensors', and 0 for other dtypes.
        equal_nan: If True, NaN equals NaN. Default: True.
        msg: the message of a failure, instead of what differs.

    Raises AssertionError where values are not close, ValueError for one tolerance without the other.

    Example:
        >>> import triten as tt, warnings
        >>> warnings.simplefilter("ignore")
        >>> tt.testing.assert_allclose(tt.ones(2), [1.0, 1.00001])
    """
    warnings.warn(
        "`testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
        "`testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual_tensor, expected_tensor = (
        each if isinstance(each, Tensor) else as_tensor(each) for each in (actual, expected)
    )
    if rtol is None and atol is None:
        tolerances = [
            _FORMER_TOLERANCES.get(each.dtype, (0.0, 0.0)) for each in (actual_tensor, expected_tensor)
        ]
        rtol, atol = max(each[0] for each in tolerances), max(each[1] for each in tolerances)
    assert_close(
        actual_tensor,
        expected_tensor,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
