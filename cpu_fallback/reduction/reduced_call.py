"""What the kernels of reductions ask of a call, and how they are registered."""

from __future__ import annotations

from collections.abc import Mapping

from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall, register_stub


def keeps_dims(call: StructuredCall) -> bool:
    """Whether the output has the reduced dimensions, with a size of 1."""
    return call.outputs[0].ndim == call.args["self"].ndim and call.outputs[0].ndim > 0


def in_order(factory: KernelFactory) -> KernelFactory:
    """The factory without `fresh` for permuted inputs, whose order NumPy gives its new results too."""

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
