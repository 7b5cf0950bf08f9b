"""`FakeTensorMode`: a context in which operators give tensors without elements (torch/_subclasses/fake_tensor.py).

A fake tensor has shape, strides, dtype and device, but no storage. Operators on fake tensors run their Meta kernels,
which `make_graph` with ``tracing_mode="fake"`` runs too; launches of Triton kernels do nothing.

A fake tensor of one element that a program creates from a number keeps the element as a real tensor, its `constant`.
Operators on constants alone also compute the real result, so that `item` returns it. A write of other values, and a
result with more elements, drop the constants that share its memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Self

from ...runtime.cuda.triton.launch_observer import recording_launches
from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.layout import strided
from ...runtime.quantized_data import QUANTIZED_BIT
from ...runtime.storage import address_of, root_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..autograd.node import leaf_meta
from ..core.bound_arguments import tensors_in
from ..core.dispatcher import Dispatcher
from ..core.op_overload import OpOverload
from ..core.operator_entry import OperatorEntry
from ..structured.meta.indexing import DataDependentShapeError
from .graph.fake_tensor import META, MetaKernels
from .graph.fake_tensor import FakeTensor as TracedFakeTensor
from .python_key import PYTHON_BIT, TensorDispatchMode, active_modes, below_innermost, without_modes
from .pytree import tree_leaves

_NEW_DATA = frozenset({"aten::_to_copy", "aten::lift_fresh", "aten::lift_fresh_copy"})
"""Operators that receive the data of a new tensor, which no mode has seen: `tt.tensor` calls them."""


CONSTANT_NUMEL = 1
"""Maximum number of elements of a constant."""


class DataDependentOutputException(RuntimeError):
    """Error for reading an element of a fake tensor.

    Attributes:
        func: The operator that would have read the element.
    """

    def __init__(self, func: OpOverload) -> None:
        super().__init__(
            f"{func}: a fake tensor has no elements to read; keep the value a tensor, or leave FakeTensorMode"
        )
        self.func = func


class UnsupportedFakeTensorException(RuntimeError):
    """Error for a tensor that has no fake counterpart: one of a sparse layout, or a quantized one.

    Attributes:
        reason: What is not supported.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DynamicOutputShapeException(RuntimeError):
    """Error for an operator whose output size depends on elements of a fake tensor.

    Attributes:
        func: The operator.
    """

    def __init__(self, func: OpOverload) -> None:
        super().__init__(
            f"{func}: the size of its result depends on elements, which a fake tensor does not have"
        )
        self.func = func


class FakeTensor(TracedFakeTensor):
    """Tensor without elements that reports a device. `FakeTensorMode` makes fake tensors.

    Attributes:
        fake_mode: The mode that made the tensor. It also runs operators on the tensor outside of the mode's block.
        constant: The real tensor of the element, if it is known; else None.
    """

    __slots__ = ()  # `functionalize` makes its handles fake tensors by their class.

    constant: TensorImpl | None
    fake_mode: FakeTensorMode | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Raise RuntimeError."""
        raise RuntimeError(
            "FakeTensor: make fake tensors by FakeTensorMode().from_tensor(x), or in the mode's block"
        )

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operands = tensors_in([*args, *(kwargs or {}).values()])
        modes = [t.fake_mode for t in operands if isinstance(t, FakeTensor) and t.fake_mode is not None]
        if not modes:
            raise RuntimeError(
                f"{func}: the FakeTensorMode of a fake tensor is not known; call it in the mode's block"
            )
        with modes[0]:
            return func(*args, **(kwargs or {}))

    @classmethod
    def _blank(cls) -> Self:
        made: Self = super()._blank()
        made.constant = None
        modes = [mode for mode in active_modes() if isinstance(mode, FakeTensorMode)]
        made.fake_mode = modes[-1] if modes else None
        return made

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise RuntimeError("pickle: a fake tensor has no elements to save")

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def host_array(self) -> Any:
        if self.constant is not None:
            return self.constant.host_array()  # type: ignore[attr-defined]
        entry = Dispatcher.singleton().find_schema_or_throw("aten::_local_scalar_dense")
        raise DataDependentOutputException(OpOverload(entry))

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise RuntimeError("numpy(): a fake tensor has no elements; make the array outside of FakeTensorMode")

    def data_ptr(self) -> NoReturn:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: it is a FakeTensor"
        )

    def __repr__(self) -> str:
        spec = self._spec
        grad = ", requires_grad=True" if spec.requires_grad else ""
        return f"FakeTensor(..., device='{spec.device}', size={tuple(spec.sizes)}, dtype={spec.dtype}{grad})"


class FakeTensorMode(MetaKernels, TensorDispatchMode):
    """Context manager in which operators and factories return fake tensors (`torch._subclasses.FakeTensorMode`).

    Sizes are numbers, also with a `ShapeEnv`. Launches of Triton kernels on fake tensors do nothing.

    Args:
        allow_non_fake_inputs: If True, operators take real tensors in addition to fake ones, and read no elements of
            them. Default: False.
        shape_env: The `ShapeEnv` of a program. It specializes every size to its number. Default: None.
        static_shapes: Accepted as in PyTorch; sizes are static in either case. Default: True without a `shape_env`.
        allow_fallback_kernels: Accepted as in PyTorch; no operator runs on real zeros in either case. Default: True.

    Attributes:
        shape_env: The `ShapeEnv`, or None.
        static_shapes: The argument, or its default.

    Example:
        >>> import triten as tt
        >>> from triten._subclasses.fake_tensor import FakeTensorMode
        >>> with FakeTensorMode() as mode:
        ...     layer = tt.nn.Linear(10_000, 100_000)
        ...     y = layer(mode.from_tensor(tt.ones(3, 10_000)))
        >>> y.shape, y.device
        (triten.Size([3, 100000]), device(type='cpu'))
    """

    sees_parts = True

    def __init__(
        self,
        *,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        allow_fallback_kernels: bool = True,
    ) -> None:
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self._constants: dict[int, weakref.ref[FakeTensor]] = {}
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self._fakes: dict[int, tuple[weakref.ref[Any], FakeTensor]] = {}
        self._roots: dict[int, tuple[weakref.ref[Any], DataPtr]] = {}
        self._recordings: list[AbstractContextManager[None]] = []

    def __enter__(self) -> FakeTensorMode:
        super().__enter__()
        recording = recording_launches()
        recording.__enter__()
        self._recordings.append(recording)
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._recordings.pop().__exit__(*error)

    def blank(self) -> FakeTensor:
        made = FakeTensor._blank()
        made.fake_mode = self
        return made

    def from_tensor(self, tensor: TensorImpl, *, static_shapes: bool | None = None) -> FakeTensor:
        """Return a fake tensor like a real one: the same for the same tensor, and over shared memory for its views.

        Args:
            tensor: A tensor. A fake tensor of this mode is returned as it is.
            static_shapes: Accepted as in PyTorch; sizes are static in either case. Default: None.

        Raises:
            AssertionError: The tensor is a fake one of another mode.
            UnsupportedFakeTensorException: The tensor is sparse or quantized.
        """
        if isinstance(tensor, FakeTensor):
            self._check_mode(tensor)
            return tensor
        if tensor._spec.layout is not strided or tensor._spec.keys & QUANTIZED_BIT:
            raise UnsupportedFakeTensorException(
                f"FakeTensorMode has no fake tensors of layout {tensor._spec.layout} and dtype {tensor._spec.dtype}; "
                "convert the tensor by to_dense() or dequantize()"
            )
        known = self._fakes.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        spec, root = tensor._spec, root_of(tensor._data)
        base = self._roots.get(id(root))
        if base is None or base[0]() is not root:
            base = self._roots[id(root)] = weakref.ref(root), DataPtr(0, root.nbytes, META)
        made = self.blank()
        made._spec = spec.replace(keys=PYTHON_BIT)
        made._data = base[1].offset_by(address_of(tensor._data) - address_of(root))
        made._version_cell = None if spec.is_inference else [0]
        made._autograd = leaf_meta() if spec.requires_grad else None
        made._view_base = None
        self._fakes[id(tensor)] = weakref.ref(tensor), made
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the mode itself: copies of its tensors stay its tensors."""
        return self

    def __tensor_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return self._answered(func, func.bind(args, kwargs or {}))

    def handle_bound(self, op: OperatorEntry, values: Sequence[Any]) -> Any:
        """Handle an operator with all its arguments."""
        with below_innermost():
            return self._answered(OpOverload(op), values)

    def _answered(self, func: OpOverload, values: Sequence[Any]) -> Any:
        tensors = tensors_in(values)
        makes_data = func.name() in _NEW_DATA
        if not makes_data:
            for tensor in tensors:
                self._check(func, tensor)
        if makes_data or self._constants:
            if _is_constant(func, values, tensors):
                return self._with_constants(func, values, tensors)
            if func._entry.schema.is_mutable:
                self._forget_written(func, values)
        return self._computed(func, values)

    def _computed(self, func: OpOverload, values: Sequence[Any]) -> Any:
        if "dynamic_output_shape" in func._entry.tags:
            raise DynamicOutputShapeException(func)
        if "data_dependent_output" in func._entry.tags:
            raise DataDependentOutputException(func)
        try:
            return self.computed(func, values)
        except DataDependentShapeError:
            raise DynamicOutputShapeException(func) from None

    def _with_constants(self, func: OpOverload, values: Sequence[Any], tensors: Sequence[TensorImpl]) -> Any:
        """Return the results of an operator whose operands are constants; they are constants unless they are large."""
        if "data_dependent_output" in func._entry.tags:
            with without_modes():
                return func._entry.call(*_real(values))
        fakes = self._computed(func, values)
        roots = [root_of(_constant_of(t)._data) for t in tensors]
        with without_modes():
            reals = func._entry.call(*_real(values))
            for fake, real in zip(tree_leaves(fakes), tree_leaves(reals), strict=True):
                if not isinstance(fake, FakeTensor):
                    continue
                if real._spec.numel <= CONSTANT_NUMEL:
                    # `lift_fresh` returns the caller's own tensor.
                    self._keep(fake, real.clone() if any(real is t for t in tensors) else real)
                    continue
                for tensor, root in zip(tensors, roots, strict=True):
                    if real is tensor or real is _constant_of(tensor) or root_of(real._data) is root:
                        self._forget(root)
                        self._forget(root_of(real._data))
        return fakes

    def _keep(self, fake: FakeTensor, constant: TensorImpl) -> None:
        fake.constant = constant
        key = id(fake)
        self._constants[key] = weakref.ref(fake, lambda _: self._constants.pop(key, None))

    def _forget(self, root: Any) -> None:
        """Drop the constants over a storage."""
        for reference in list(self._constants.values()):
            fake = reference()
            if fake is not None and fake.constant is not None and root_of(fake.constant._data) is root:
                fake.constant = None
                del self._constants[id(fake)]

    def _forget_written(self, func: OpOverload, values: Sequence[Any]) -> None:
        """Drop the constants that share memory with the arguments that an operator writes."""
        for argument, value in zip(func._entry.schema.arguments, values, strict=True):
            if argument.is_write:
                for tensor in tensors_in([value]):
                    if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                        self._forget(root_of(tensor.constant._data))

    def _check(self, func: OpOverload, tensor: TensorImpl) -> None:
        if isinstance(tensor, FakeTensor):
            self._check_mode(tensor)
        elif not self.allow_non_fake_inputs:
            raise AssertionError(
                f"{func}: Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                f"'allow_non_fake_inputs'. Found {_described(tensor._spec)}"
            )

    def _check_mode(self, tensor: FakeTensor) -> None:
        if tensor.fake_mode is None:
            tensor.fake_mode = self
        if tensor.fake_mode is not self:
            raise AssertionError(
                "Mixing fake modes NYI: a fake tensor of another FakeTensorMode reached this one"
            )


def _is_constant(func: OpOverload, values: Sequence[Any], tensors: Sequence[TensorImpl]) -> bool:
    """Return True if an operator may compute real results: from constants on the CPU, without random numbers."""
    if not tensors or "nondeterministic_seeded" in func._entry.tags:
        return False
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            if tensor.constant is None:
                return False
        elif tensor._spec.numel > CONSTANT_NUMEL or tensor._spec.device is not CPU or tensor._spec.keys:
            return False
    return all(value is CPU or not isinstance(value, Device) for value in values)


def _constant_of(tensor: TensorImpl) -> TensorImpl:
    if isinstance(tensor, FakeTensor):
        assert tensor.constant is not None
        return tensor.constant
    return tensor


def _real(values: Sequence[Any]) -> list[Any]:
    """Return arguments with the constants of fake tensors."""
    return [
        _constant_of(value)
        if isinstance(value, TensorImpl)
        else [_constant_of(each) if isinstance(each, TensorImpl) else each for each in value]
        if isinstance(value, list | tuple)
        else value
        for value in values
    ]


def _described(spec: TensorSpec) -> str:
    return f"a tensor of {spec.dtype}{list(spec.sizes)} on {spec.device}"
