"""Plans of structured kernels: closures over a kernel and its outputs' specs, which read bytes, compute and wrap.

Frequent shapes of calls are spelt out: a loop over the arguments would cost more than many a small kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime.float_errors import run_quiet, run_quiet_copy
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..iterator.overlap import check_no_overlap, check_write_overlap, shares_memory
from ..tensor import Tensor
from .allocation import allocator_of, numpy_may_allocate
from .meta_base import MetaBase
from .resizing import resize_output
from .stub import PlannedKernel, StructuredCall, find_kernel, has_kernel

_LISTS = (list, tuple)


def compute_nothing(*data: Any) -> None:
    """The kernel of the Meta backend: shapes are all there is."""


def data_of(value: Any) -> Any:
    """What a kernel is called with: a tensor's bytes; numbers and generators as they are; lists opened."""
    if isinstance(value, TensorImpl):
        return value._data
    if value.__class__ is list or value.__class__ is tuple:
        return [None if v is None else v._data for v in value]
    return value


def functional_plan(
    kernel: PlannedKernel,
    outputs: tuple[TensorSpec, ...],
    kinds: Sequence[bool],
    result_type: Callable[[Sequence[Any]], Any] | None,
    one_list: bool = False,
) -> Plan:
    """The plan of a functional form, its frequent shapes spelt out to keep the call short.

    `kinds` says which runtime arguments are tensors; `one_list` that the only one is a list of tensors.
    """
    into, fresh, quiet = kernel.unshared or kernel.into, kernel.fresh, kernel.quiet
    if len(outputs) != 1 or result_type is not None:
        several = _several_outputs(quietly(into) if quiet else into, outputs, result_type)
        if kernel.first is not None and numpy_may_allocate(outputs[0]):
            several.first = _first_output(kernel.first, outputs[0])  # type: ignore[attr-defined]
        return several
    spec = outputs[0]
    if one_list and fresh is not None and not quiet and numpy_may_allocate(spec):
        join = fresh

        def listed(tensors: Any) -> Any:
            out = Tensor()
            out._data = join([t._data for t in tensors])
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return listed
    if quiet and fresh is not None and numpy_may_allocate(spec) and all(kinds):
        compute = fresh
        if len(kinds) == 1:

            def quiet_unary(self: Any) -> Any:
                out = Tensor()
                try:
                    out._data = run_quiet(compute, self._data)
                except RuntimeError:
                    out._data = run_quiet_copy(compute, self._data)
                out._spec = spec
                out._version_cell = out._autograd = out._view_base = None
                return out

            return quiet_unary
        if len(kinds) == 2:

            def quiet_binary(self: Any, other: Any) -> Any:
                out = Tensor()
                try:
                    out._data = run_quiet(compute, self._data, other._data)
                except RuntimeError:
                    out._data = run_quiet_copy(compute, self._data, other._data)
                out._spec = spec
                out._version_cell = out._autograd = out._view_base = None
                return out

            return quiet_binary
        if len(kinds) == 3:

            def quiet_ternary(self: Any, other: Any, third: Any) -> Any:
                out = Tensor()
                try:
                    out._data = run_quiet(compute, self._data, other._data, third._data)
                except RuntimeError:
                    out._data = run_quiet_copy(compute, self._data, other._data, third._data)
                out._spec = spec
                out._version_cell = out._autograd = out._view_base = None
                return out

            return quiet_ternary
    if quiet and len(kinds) == 1 and kinds[0]:
        allocate, write = allocator_of(spec), into

        def quiet_unary_into(self: Any) -> Any:
            out = Tensor()
            out._data = data = allocate()
            try:
                run_quiet(write, data, self._data)
            except RuntimeError:
                run_quiet_copy(write, data, self._data)
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return quiet_unary_into
    if quiet and len(kinds) in (2, 3) and all(kinds):
        return _quiet_into(spec, into, len(kinds))
    if quiet:
        into = quietly(into)
        fresh = None if fresh is None else quietly(fresh)
    if fresh is None or not numpy_may_allocate(spec):
        allocate = allocator_of(spec)

        def fresh(*data: Any) -> Any:
            out = allocate()
            into(out, *data)
            return out

        if len(kinds) == 1 and kinds[0]:

            def unary_into(self: Any) -> Any:
                out = Tensor()
                out._data = data = allocate()
                into(data, self._data)
                out._spec = spec
                out._version_cell = out._autograd = out._view_base = None
                return out

            return unary_into
        if len(kinds) == 2 and all(kinds):

            def binary_into(self: Any, other: Any) -> Any:
                out = Tensor()
                out._data = data = allocate()
                into(data, self._data, other._data)
                out._spec = spec
                out._version_cell = out._autograd = out._view_base = None
                return out

            return binary_into
    if len(kinds) == 1 and kinds[0]:

        def unary(self: Any) -> Any:
            out = Tensor()
            out._data = fresh(self._data)
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return unary
    if len(kinds) == 2 and all(kinds):

        def binary(self: Any, other: Any) -> Any:
            out = Tensor()
            out._data = fresh(self._data, other._data)
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return binary
    if len(kinds) == 2 and kinds[0]:

        def binary_second(self: Any, other: Any) -> Any:
            out = Tensor()
            out._data = fresh(self._data, data_of(other))
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return binary_second
    if len(kinds) == 3 and all(kinds):

        def ternary(self: Any, other: Any, third: Any) -> Any:
            out = Tensor()
            out._data = fresh(self._data, other._data, third._data)
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return ternary
    if len(kinds) == 3 and kinds[0] and kinds[1]:

        def ternary_last(self: Any, other: Any, third: Any) -> Any:
            out = Tensor()
            out._data = fresh(self._data, other._data, data_of(third))
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return ternary_last

    def general(*values: Any) -> Any:
        out = Tensor()
        out._data = fresh(*[data_of(v) for v in values])
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return general


def _quiet_into(spec: TensorSpec, write: Callable[..., Any], count: int) -> Plan:
    """The plan that has `write` fill new memory from two or three tensors, with floating-point errors ignored."""
    allocate = allocator_of(spec)
    if count == 2:

        def binary_into(self: Any, other: Any) -> Any:
            out = Tensor()
            out._data = data = allocate()
            try:
                run_quiet(write, data, self._data, other._data)
            except RuntimeError:
                run_quiet_copy(write, data, self._data, other._data)
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return binary_into

    def ternary_into(self: Any, other: Any, third: Any) -> Any:
        out = Tensor()
        out._data = data = allocate()
        try:
            run_quiet(write, data, self._data, other._data, third._data)
        except RuntimeError:
            run_quiet_copy(write, data, self._data, other._data, third._data)
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return ternary_into


def quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called with floating-point errors ignored."""

    def called(*data: Any) -> Any:
        try:
            return run_quiet(function, *data)
        except RuntimeError:
            return run_quiet_copy(function, *data)

    return called


def _several_outputs(
    into: Callable[..., Any],
    outputs: tuple[TensorSpec, ...],
    result_type: Callable[[Sequence[Any]], Any] | None,
) -> Plan:
    allocators = [(spec, allocator_of(spec)) for spec in outputs]
    if len(outputs) == 2:
        (first, allocate_first), (second, allocate_second) = allocators

        def two(*values: Any) -> Any:
            one, other = Tensor(), Tensor()
            one._data, other._data = allocate_first(), allocate_second()
            one._spec, other._spec = first, second
            one._version_cell = one._autograd = one._view_base = None
            other._version_cell = other._autograd = other._view_base = None
            into(one._data, other._data, *[data_of(v) for v in values])
            return (one, other) if result_type is None else result_type((one, other))

        return two

    def several(*values: Any) -> Any:
        results = [Tensor.from_data(allocate(), spec) for spec, allocate in allocators]
        into(*[r._data for r in results], *[data_of(v) for v in values])
        return tuple(results) if result_type is None else result_type(results)

    return several


def _first_output(compute: Callable[..., Any], spec: TensorSpec) -> Plan:
    """The plan of the first output alone, for those who want no other."""

    def first(*values: Any) -> Any:
        out = Tensor()
        inputs = [
            v._data if v.__class__ is Tensor else v if v is None or v.__class__ is float else data_of(v)
            for v in values
        ]
        try:
            out._data = run_quiet(compute, *inputs)
        except RuntimeError:
            out._data = run_quiet_copy(compute, *inputs)
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return first


def writing_plan(
    kernel: PlannedKernel,
    builder: MetaBase,
    outputs: tuple[TensorSpec, ...],
    kinds: Sequence[bool],
    first_out: int,
    result_type: Callable[[Sequence[Any]], Any] | None,
    read_names: Sequence[str],
) -> Plan:
    """The plan of an in-place form (the output is the first argument) or an ``out=`` form.

    ``apart_from`` among the builder's extras names the arguments that an output may not share an element with, not
    even all of them: those that are read in another order than the output is written.
    """
    apart = builder.extra.get("apart_from", ())
    separate = [name in apart for name in read_names]  # type: ignore[operator]
    into = quietly(kernel.into) if kernel.quiet else kernel.into
    inplace = builder.form == "inplace"
    direct = not builder.proxy and not builder.resized and not apart and all(kinds)
    ufunc = kernel.fresh
    if direct and isinstance(ufunc, np.ufunc) and ufunc.nout == 1 and ufunc.nin == len(kinds) - (not inplace):
        return _ufunc_writing(ufunc, len(kinds), inplace)
    if inplace and not builder.proxy and not apart and len(kinds) <= 2 and all(kinds):
        if len(kinds) == 1:

            def unary_(self: Any) -> Any:
                data = self._data
                into(data, data)
                cell = self._version_cell
                if cell is None:
                    self.bump_version()
                else:
                    cell[0] += 1
                return self

            return unary_

        def binary_(self: Any, other: Any) -> Any:
            data = self._data
            cell = self._version_cell
            if cell is None:
                into(data, data, other._data)
                self.bump_version()
            else:
                if other._version_cell is cell and other is not self:
                    check_write_overlap(self, other)
                into(data, data, other._data)
                cell[0] += 1
            return self

        return binary_
    if not builder.proxy and not builder.resized and not apart and len(outputs) == 1 and len(kinds) <= 4:
        plan = _writing_one(into, kinds, inplace)
        if plan is not None:
            return plan
    resized = {i: outputs[i] for i in builder.resized}
    proxies = {i: (spec, allocator_of(spec)) for i, spec in builder.proxy.items()}
    copy_back = {i: _copy_of(outputs[i], spec) for i, (spec, _) in proxies.items()}

    def writing(*values: Any) -> Any:
        written = values[:1] if inplace else values[first_out:]
        read = values if inplace else values[:first_out]
        for i, spec in resized.items():
            resize_output(written[i], spec.sizes, spec.strides)
        for target in written:
            cell = target._version_cell
            for value, is_apart in zip(read, separate, strict=False) if apart else ():
                for part in value if value.__class__ in _LISTS else (value,):
                    if is_apart and isinstance(part, TensorImpl) and shares_memory(target, part):
                        check_no_overlap(target, part)
            if cell is not None:
                for value in read:
                    if isinstance(value, TensorImpl) and value._version_cell is cell and value is not target:
                        check_write_overlap(target, value)
        buffers = [target._data for target in written]
        for i, (_, allocate) in proxies.items():
            buffers[i] = allocate()
        into(*buffers, *[data_of(v) for v in read])
        for i, copy in copy_back.items():
            copy(written[i]._data, buffers[i])
        for target in written:
            target.bump_version()
        if result_type is not None:
            return result_type(written)
        return written[0] if len(written) == 1 else tuple(written)

    if not resized:
        return writing

    def writing_resized(*values: Any) -> Any:
        before = [
            (t, t._data, t._spec, t._version_cell, t._version_cell and t._version_cell[0])
            for t in values[first_out:]
        ]
        try:
            return writing(*values)
        except BaseException:
            for state in before:
                _restore(*state)
            raise

    return writing_resized


_OUTPUT_BY_NAME: dict[np.ufunc, Callable[..., Any]] = {
    np.maximum: lambda a, b, out: np.maximum(a, b, out=out),
    np.minimum: lambda a, b, out: np.minimum(a, b, out=out),
}
"""Ufuncs that NumPy no longer lets be called with a third positional argument."""


def _ufunc_writing(function: np.ufunc, count: int, inplace: bool) -> Plan:
    """The plan that has a ufunc of one or two tensors write its output, with floating-point errors ignored.

    `count` is the number of tensors that the plan is called with.
    """
    ufunc = _OUTPUT_BY_NAME.get(function, function)
    if inplace and count == 1:

        def unary_(self: Any) -> Any:
            data = self._data
            try:
                run_quiet(ufunc, data, data)
            except RuntimeError:
                run_quiet_copy(ufunc, data, data)
            cell = self._version_cell
            if cell is None:
                self.bump_version()
            else:
                cell[0] += 1
            return self

        return unary_
    if inplace:

        def binary_(self: Any, other: Any) -> Any:
            data = self._data
            cell = self._version_cell
            if cell is not None and other._version_cell is cell and other is not self:
                check_write_overlap(self, other)
            try:
                run_quiet(ufunc, data, other._data, data)
            except RuntimeError:
                run_quiet_copy(ufunc, data, other._data, data)
            if cell is None:
                self.bump_version()
            else:
                cell[0] += 1
            return self

        return binary_
    if count == 2:

        def unary_out(self: Any, out: Any) -> Any:
            cell = out._version_cell
            if cell is not None and self._version_cell is cell and self is not out:
                check_write_overlap(out, self)
            try:
                run_quiet(ufunc, self._data, out._data)
            except RuntimeError:
                run_quiet_copy(ufunc, self._data, out._data)
            if cell is None:
                out.bump_version()
            else:
                cell[0] += 1
            return out

        return unary_out

    def binary_out(self: Any, other: Any, out: Any) -> Any:
        cell = out._version_cell
        if cell is not None:
            for value in (self, other):
                if value._version_cell is cell and value is not out:
                    check_write_overlap(out, value)
        try:
            run_quiet(ufunc, self._data, other._data, out._data)
        except RuntimeError:
            run_quiet_copy(ufunc, self._data, other._data, out._data)
        if cell is None:
            out.bump_version()
        else:
            cell[0] += 1
        return out

    return binary_out


def _restore(target: Any, data: Any, spec: TensorSpec, cell: list[int] | None, version: int | None) -> None:
    """Give a tensor back the geometry that it had before a resize; its storage may stay larger, as after a shrink."""
    if root_of(data).nbytes and root_of(target._data) is not root_of(data):
        # Views have moved to the storage's new bytes, which hold the same elements.
        target.set_sizes_and_strides(spec.sizes, spec.strides)
    else:
        target._data = data
    target._spec = spec
    if cell is None:
        target._version_cell = None
    else:
        cell[0] = version or 0


def _writing_one(into: Callable[..., Any], kinds: Sequence[bool], inplace: bool) -> Plan | None:
    """The plan that writes one output as it is, from tensors first and numbers after them; None for other calls."""
    if inplace:
        if list(kinds) == [True, False]:

            def number_(self: Any, number: Any) -> Any:
                data = self._data
                into(data, data, data_of(number))
                cell = self._version_cell
                if cell is None:
                    self.bump_version()
                else:
                    cell[0] += 1
                return self

            return number_
        if list(kinds) == [True, True, False]:

            def binary_scaled_(self: Any, other: Any, number: Any) -> Any:
                data = self._data
                cell = self._version_cell
                if cell is not None and other._version_cell is cell and other is not self:
                    check_write_overlap(self, other)
                into(data, data, other._data, data_of(number))
                if cell is None:
                    self.bump_version()
                else:
                    cell[0] += 1
                return self

            return binary_scaled_
        return None
    if list(kinds) == [True, True]:

        def unary_out(self: Any, out: Any) -> Any:
            cell = out._version_cell
            if cell is not None and self._version_cell is cell and self is not out:
                check_write_overlap(out, self)
            into(out._data, self._data)
            if cell is None:
                out.bump_version()
            else:
                cell[0] += 1
            return out

        return unary_out
    if list(kinds) == [True, True, True]:

        def binary_out(self: Any, other: Any, out: Any) -> Any:
            cell = out._version_cell
            if cell is not None:
                for value in (self, other):
                    if value._version_cell is cell and value is not out:
                        check_write_overlap(out, value)
            into(out._data, self._data, other._data)
            if cell is None:
                out.bump_version()
            else:
                cell[0] += 1
            return out

        return binary_out
    return None


def _copy_of(destination: TensorSpec, source: TensorSpec) -> Callable[[Any, Any], Any]:
    """The device's copy kernel from one geometry to another."""
    if destination.is_meta:
        return compute_nothing
    if not has_kernel("copy_stub", destination.device.type):
        from .native.copy import copier

        return copier(destination, source)
    call = StructuredCall(
        "copy", {"self": destination, "src": source}, ("src",), (destination,), None, destination.device, {}
    )
    return find_kernel("copy_stub", destination.device.type, "copy_")(call).into
