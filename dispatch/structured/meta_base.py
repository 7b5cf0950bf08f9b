"""`MetaBase`: the outputs that a structured operator's meta function declares (ATen/TensorMeta.h).

A meta function is a pure function of specs. It checks its arguments and calls one of the ``set_output``
methods for each output; an iterator operator builds a `TensorIterator`, which does both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...runtime.device import device as Device
from ...runtime.errors import internal_assert, two_devices
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..iterator.tensor_iterator import TensorIterator
from ..iterator.type_promotion import can_cast

NumberKind: TypeAlias = type | int
"""Number of a meta function: its class, or an int equal to its schema default, such as alpha=1."""


def out_on_another_device(name: str, device: Device, out_device: Device) -> RuntimeError:
    """Return the error for an ``out=`` tensor that is not on the result's device."""
    if "meta" in (device.type, out_device.type):
        return RuntimeError(
            f"{name}(): Expected out tensor to have device {device}, but got {out_device} instead"
        )
    return RuntimeError(two_devices(device, out_device, f"argument for argument out in method {name}"))


def uncastable_out(name: str, part: str, dtype: ScalarType, out_dtype: ScalarType) -> RuntimeError:
    """Return the error for an ``out=`` tensor of a dtype that the result named `part` cannot be cast to."""
    return RuntimeError(
        f"{name}: Expected {part} to be safely castable from {dtype.scalar_name} dtype, "
        f"but got {part} with dtype {out_dtype.scalar_name}"
    )


class MetaBase:
    """Outputs of one call during planning.

    Args:
        name: The operator's name, for messages.
        form: ``functional``, ``inplace`` or ``out``.
        given: The specs of the tensors that an in-place or ``out=`` call writes to.
        device: Device of the outputs if the meta function names none.
    """

    __slots__ = (
        "built",
        "casts",
        "device",
        "extra",
        "form",
        "given",
        "iterator",
        "may_overlap",
        "name",
        "outputs",
        "proxy",
        "resized",
        "rule",
    )

    def __init__(self, name: str, form: str, out_specs: Sequence[TensorSpec], device: Device) -> None:
        self.name = name
        self.form = form
        self.given = tuple(out_specs)
        self.device = device
        self.outputs: dict[int, TensorSpec] = {}
        self.proxy: dict[int, TensorSpec] = {}
        self.resized: set[int] = set()
        self.iterator: TensorIterator | None = None
        self.built = False
        self.casts: Sequence[str] = ()
        """Names of the outputs, if an output of another dtype receives the result cast; empty if it is refused."""
        self.may_overlap = False
        """True if elements of an output may share memory, because every one gets the same value."""
        self.extra: dict[str, object] = {}
        self.rule: Callable[[Sequence[Any]], TensorSpec | None] | None = None
        """Function that returns the output of similar calls on other shapes; None for calls that need the meta
        function.
        """

    def maybe_get_output(self, index: int = 0) -> TensorSpec | None:
        """Return the tensor given to an in-place or ``out=`` call; None for a functional call."""
        return self.given[index] if index < len(self.given) else None

    def set_output_raw_strided(
        self,
        index: int,
        sizes: Sequence[int],
        strides: Sequence[int] = (),
        dtype: ScalarType | None = None,
        device: Device | None = None,
    ) -> None:
        """Declare an output that the kernel writes in its current strides."""
        self._set(index, sizes, strides, dtype, device, exact=False)

    def set_output_strided(
        self,
        index: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: ScalarType | None = None,
        device: Device | None = None,
    ) -> None:
        """Declare an output that the kernel writes only in these strides; any other layout needs a copy back."""
        self._set(index, sizes, strides, dtype, device, exact=True)

    def set_output_contiguous(
        self, index: int, sizes: Sequence[int], dtype: ScalarType | None = None, device: Device | None = None
    ) -> None:
        """Declare an output that the kernel writes contiguously only."""
        self._set(index, sizes, contiguous_strides(sizes), dtype, device, exact=True)

    def _set(
        self,
        index: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: ScalarType | None,
        device: Device | None,
        exact: bool,
    ) -> None:
        sizes = tuple(sizes)
        strides = tuple(strides) if len(strides) or not sizes else contiguous_strides(sizes)
        device = self.device if device is None else device
        out_spec = self.maybe_get_output(index)
        if dtype is None:
            dtype = out_spec.dtype if out_spec is not None else self._missing_dtype(index)
        expected = TensorSpec.of(sizes, strides, dtype, device)
        if out_spec is None:
            if self.outputs and device not in {spec.device for spec in self.outputs.values()}:
                raise RuntimeError(f"{self.name}: structured kernels don't support multi-device outputs")
            self.outputs[index] = expected
            return
        if out_spec.device is not device and (out_spec.device.type, out_spec.device.resolved_index) != (
            device.type,
            device.resolved_index,
        ):
            raise out_on_another_device(self.name, device, out_spec.device)
        if out_spec.dtype is not dtype:
            if not self.casts:
                raise RuntimeError(
                    f"Expected out tensor to have dtype {dtype}, but got {out_spec.dtype} instead"
                )
            if not can_cast(dtype, out_spec.dtype):
                name = self.name.replace("linalg_", "torch.linalg.")
                raise uncastable_out(name, self.casts[index], dtype, out_spec.dtype)
        self.adopt(index, out_spec, expected, exact)
        if out_spec.dtype is not dtype:
            self.proxy[index] = expected

    def _missing_dtype(self, index: int) -> ScalarType:
        internal_assert(False, f"{self.name}: meta function names no dtype for output {index}")

    def adopt(self, index: int, out_spec: TensorSpec, expected: TensorSpec, exact: bool) -> None:
        """Check the tensor given for an output, and record whether it needs a resize or a proxy."""
        if out_spec.sizes != expected.sizes and self.form == "inplace":
            raise RuntimeError(
                f"output with shape {list(out_spec.sizes)} doesn't match the broadcast shape {list(expected.sizes)}"
            )
        if out_spec.overlaps and not self.may_overlap:
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        if out_spec.sizes != expected.sizes:
            self.resized.add(index)
            self.outputs[index] = out_spec.replace(sizes=expected.sizes, strides=expected.strides)
            return
        if out_spec.read_only:
            raise RuntimeError(
                f"{self.name}(): the tensor to be written to is read-only; clone() it before performing the operation"
            )
        self.outputs[index] = out_spec
        if exact and out_spec.strides != expected.strides and out_spec.numel:
            self.proxy[index] = expected

    def build(self, iterator: TensorIterator) -> None:
        """Declare the outputs of an iterator, which has done broadcasting, promotion and strides."""
        self.iterator = iterator
        self.built = True
        for index, spec in enumerate(iterator.output_specs()):
            out_spec = self.maybe_get_output(index)
            if out_spec is None:
                self.outputs[index] = spec
            else:
                self.adopt(index, out_spec, spec, exact=False)
