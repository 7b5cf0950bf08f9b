"""Queries of reduction kernels about a call, and the kernels' registration."""

from __future__ import annotations

from collections.abc import Mapping

from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall, register_stub


def keeps_dims(call: StructuredCall) -> bool:
    """Return True if the output keeps the reduced dimensions with size 1."""
    return call.outputs[0].ndim == call.args["self"].ndim and call.outputs[0].ndim > 0


def in_order(factory: KernelFactory) -> KernelFactory:
    """Drop `fresh` for permuted inputs, whose order NumPy would give its new results too."""

    def made(call: StructuredCall) -> PlannedKernel:
        kernel = factory(call)
        if kernel.fresh is None:
            return kernel
        strides = call.args["self"].strides
        return kernel if sorted(strides, reverse=True) == list(strides) else kernel._replace(fresh=None)

    return made


def register_in_order(factories: Mapping[str, KernelFactory]) -> None:
    """Register the host's kernels of stubs, by `in_order`."""
    for stub, factory in factories.items():
        register_stub(stub, "cpu", in_order(factory))
