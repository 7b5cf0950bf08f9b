"""Planners of random operators with parameter tensors, each element with its own counters, and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.errors import two_devices
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...iterator.broadcast import broadcast_sizes
from ...tensor import Tensor
from ..allocation import allocator_of
from ..meta_base import MetaBase
from .draws import kernel_of, stream_of
from .pointwise import promoting

if TYPE_CHECKING:
    from ....runtime.generator import Generator

__all__ = [
    "_dirichlet_grad",
    "_sample_dirichlet",
    "_standard_gamma",
    "_standard_gamma_grad",
    "binomial",
    "poisson",
]


def _by_parameters(name: str, stub: str, parameters: dict[str, TensorSpec]) -> Plan:
    """Return a plan ``(parameters..., generator)``: one random number for each element of the broadcast parameters."""
    specs = list(parameters.values())
    sizes = broadcast_sizes(*(spec.sizes for spec in specs))
    out = TensorSpec.contiguous(sizes, specs[0].dtype, specs[0].device)
    allocate, count, device = allocator_of(out), out.numel, out.device
    into = None if out.is_meta else kernel_of(name, stub, (out,), parameters)

    def plan(*args: Any) -> Tensor:
        data = allocate()
        generator: Generator | None = args[-1]
        if into is not None and count:
            seed, first = stream_of(generator, device).reserve(count)
            into(data, *(tensor._data for tensor in args[:-1]), seed, first)
        return Tensor.from_data(data, out)

    return plan


def _floating(kernel: str, spec: TensorSpec) -> TensorSpec:
    if not spec.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{spec.dtype.scalar_name}'")
    return spec.detached


def _standard_gamma(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_standard_gamma(self, generator)``."""
    spec: TensorSpec = args[0]._spec
    kernel = f"gamma_{spec.device.type}"
    return _by_parameters("_standard_gamma", "standard_gamma_stub", {"alpha": _floating(kernel, spec)})


def _sample_dirichlet(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_sample_dirichlet(self, generator)``: rows along the last dimension."""
    alpha = _floating("dirichlet", args[0]._spec)
    return _by_parameters("_sample_dirichlet", "sample_dirichlet_stub", {"alpha": alpha})


def poisson(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``poisson(self, generator)``."""
    spec: TensorSpec = args[0]._spec
    return _by_parameters("poisson", "poisson_stub", {"rate": _floating(f"poisson_{spec.device.type}", spec)})


def binomial(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``binomial(count, prob, generator)`` of tensors of one dtype that broadcast."""
    specs: dict[str, TensorSpec] = {"count": args[0]._spec.detached, "prob": args[1]._spec.detached}
    for name, spec in specs.items():
        if not spec.dtype.is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {spec.dtype.scalar_name}"
            )
    _same_dtype(*specs.values())
    _same_device("binomial", *specs.values())
    return _by_parameters("binomial", "binomial_stub", specs)


def _same_dtype(*specs: TensorSpec) -> None:
    for spec in specs[1:]:
        if spec.dtype is not specs[0].dtype:
            raise RuntimeError(
                f"Found dtype {spec.dtype.scalar_name} but expected {specs[0].dtype.scalar_name}"
            )


def _same_device(name: str, *specs: TensorSpec) -> None:
    for spec in specs[1:]:
        if spec.device is not specs[0].device:
            raise RuntimeError(f"{name}: {two_devices(specs[0].device, spec.device)}")


def _gradient(meta: MetaBase, kernel: str, inputs: Sequence[TensorSpec]) -> None:
    _same_dtype(*inputs)
    _floating(kernel, inputs[0])
    meta.build(promoting(meta, inputs))


def _standard_gamma_grad(meta: MetaBase, self: TensorSpec, output: TensorSpec) -> None:
    """Infer the gradient from shapes and samples, of one floating dtype."""
    _gradient(meta, f"_standard_gamma_grad_{self.device.type}", [self, output])


def _dirichlet_grad(meta: MetaBase, x: TensorSpec, alpha: TensorSpec, total: TensorSpec) -> None:
    """Infer the gradient from samples, shapes and sums of shapes, of one floating dtype."""
    _gradient(meta, f"_dirichlet_grad_{x.device.type}", [x, alpha, total])
