"""Plans of in-place and ``out=`` forms: closures over a kernel that check overlap, compute and bump versions.

Frequent shapes of calls are generated: a loop over the arguments would cost more than many small kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime.float_errors import is_taken, quietly, run_quiet, run_quiet_copy
from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from ..core.kernel_function import Plan
from ..generated import functions as ops
from ..iterator.overlap import check_no_overlap, check_write_overlap, shares_memory
from ..structured.allocation import allocator_of
from ..structured.meta_base import MetaBase
from ..structured.resizing import resize_output
from ..structured.stub import PlannedKernel, StructuredCall, find_kernel, has_kernel
from .functional import PASSED, data_of

_LISTS = (list, tuple)


def compute_nothing(*data: Any) -> None:
    """Do nothing: the kernel of the Meta backend, where only shapes matter."""


def writing_plan(
    kernel: PlannedKernel,
    builder: MetaBase,
    outputs: tuple[TensorSpec, ...],
    are_tensors: Sequence[bool],
    first_out: int,
    result_type: Callable[[Sequence[Any]], Any] | None,
    read_names: Sequence[str],
) -> Plan:
    """Return the plan of an in-place form (the output is the first argument) or an ``out=`` form.

    ``apart_from`` among the builder's extras names the arguments with which an output may not share any element, not
    even all of them. The kernel reads these in another order than it writes the output.
    """
    apart = builder.extra.get("apart_from", ())
    separate = [name in apart for name in read_names]  # type: ignore[operator]
    inplace = builder.form == "inplace"
    direct = not builder.proxy and not builder.resized and not apart and all(are_tensors)
    ufunc = kernel.fresh
    if (
        direct
        and isinstance(ufunc, np.ufunc)
        and ufunc.nout == 1
        and ufunc.nin == len(are_tensors) - (not inplace)
    ):
        return _ufunc_writing(ufunc, len(are_tensors), inplace)
    if (
        not builder.proxy
        and not builder.resized
        and not apart
        and len(outputs) == 1
        and len(are_tensors) <= MANY
        and (inplace or first_out == len(are_tensors) - 1)
    ):
        # The kernel itself if the plan ignores floating-point errors for it.
        alone = getattr(kernel.into, "alone", None)
        quiet = kernel.quiet or alone is not None
        return one_writer(tuple(are_tensors), inplace, quiet)(kernel.into if alone is None else alone)
    into = quietly(kernel.into) if kernel.quiet else kernel.into
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
                for part in value if isinstance(value, _LISTS) else (value,):
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

    iterator = builder.iterator
    is_pointwise = iterator is not None and not iterator.is_reduction

    def writing_resized(*values: Any) -> Any:
        for i, spec in resized.items():
            target = values[first_out + i]
            if is_pointwise and any(value is target for value in values[:first_out]):
                raise RuntimeError(
                    f"output with shape {list(target._spec.sizes)} doesn't match the broadcast shape "
                    f"{list(spec.sizes)}"
                )
            for value in values[:first_out] if is_pointwise else ():
                if isinstance(value, TensorImpl) and shares_memory(target, value):
                    check_write_overlap(target, value)
            # Invalid outputs are rejected below, before anything is read.
            values = tuple(
                [
                    value if index >= first_out or separate[index] else _apart_from(target, value)
                    for index, value in enumerate(values)
                ]
            )
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


def _apart_from(target: Any, value: Any) -> Any:
    """Return an input, or a copy if it is the tensor that is about to be resized."""
    if isinstance(value, _LISTS):
        return [_apart_from(target, part) for part in value]
    return ops.clone(value) if value is target else value


_OUTPUT_BY_NAME: dict[np.ufunc, Callable[..., Any]] = {
    np.maximum: lambda a, b, out: np.maximum(a, b, out=out),
    np.minimum: lambda a, b, out: np.minimum(a, b, out=out),
}
"""Ufuncs that NumPy no longer accepts with a third positional argument."""


def _ufunc_writing(function: np.ufunc, count: int, inplace: bool) -> Plan:
    """Return a plan in which a ufunc of one or two tensors writes its output, ignoring floating-point errors.

    The plan takes `count` tensors.
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
            if self._version_cell is cell and self is not out:
                check_write_overlap(out, self)
            if other._version_cell is cell and other is not out:
                check_write_overlap(out, other)
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
    """Restore a tensor's geometry from before a resize; its storage may stay larger, as after a shrink."""
    if root_of(data).nbytes and root_of(target._data) is not root_of(data):
        # Views have moved to the storage's new memory, which holds the same elements.
        target.set_sizes_and_strides(spec.sizes, spec.strides)
    else:
        target._data = data
    target._spec = spec
    if cell is None:
        target._version_cell = None
    else:
        cell[0] = version or 0


MANY = 6
"""Argument limit of generated plans; longer argument lists use a loop."""


@functools.cache
def one_writer(are_tensors: tuple[bool, ...], inplace: bool, quiet: bool) -> Callable[..., Plan]:
    """Return a function from a kernel to the plan that has it write one output directly.

    Args:
        are_tensors: True for each of the plan's arguments that is a tensor; the others are numbers, lists, or None.
        inplace: True if the output is the first argument, which is also read; otherwise it is the last.
        quiet: If True, ignore floating-point errors.
    """
    count = len(are_tensors)
    out, read = (0, range(count)) if inplace else (count - 1, range(count - 1))
    tensors = [i for i in read if are_tensors[i]]
    arguments = [
        f"v{i}._data" if i in tensors else f"v{i} if v{i}.__class__ in PASSED else data_of(v{i})"
        for i in read
    ]
    called = ", ".join(
        ["data", *["data" if i == out else text for i, text in zip(read, arguments, strict=True)]]
    )
    lines = [f"data = v{out}._data", f"cell = v{out}._version_cell"]
    checks = [i for i in tensors if i != out]
    if checks:
        lines.append("if cell is not None:")
        lines += [
            f"    if v{i}._version_cell is cell and v{i} is not v{out}: check_write_overlap(v{out}, v{i})"
            for i in checks
        ]
    if quiet:
        lines += [
            "try:",
            f"    run_quiet(into, {called})",
            "except RuntimeError as error:",
            "    if not is_taken(error): raise",
            f"    run_quiet_copy(into, {called})",
        ]
    else:
        lines.append(f"into({called})")
    lines += [f"if cell is None: v{out}.bump_version()", "else: cell[0] += 1", f"return v{out}"]
    text = [
        "def make(into):",
        f"    def writing({', '.join([f'v{i}' for i in range(count)])}):",
        *[f"        {line}" for line in lines],
        "    return writing",
        "",
    ]
    names: dict[str, Any] = {
        "PASSED": PASSED,
        "check_write_overlap": check_write_overlap,
        "data_of": data_of,
        "__name__": __name__,
        "is_taken": is_taken,
        "run_quiet": run_quiet,
        "run_quiet_copy": run_quiet_copy,
    }
    made: Callable[..., Plan] = defined("make", "\n".join(text), f"plan that writes v{out}", names)
    return made


def _copy_of(destination: TensorSpec, source: TensorSpec) -> Callable[[Any, Any], Any]:
    """Return the device's copy kernel from one geometry to another."""
    if destination.is_meta:
        return compute_nothing
    if not has_kernel("copy_stub", destination.device.type):
        from ..structured.meta.copy import copier

        return copier(destination, source)
    call = StructuredCall(
        "copy", {"self": destination, "src": source}, ("src",), (destination,), None, destination.device, {}
    )
    return find_kernel("copy_stub", destination.device.type, "copy_")(call).into
