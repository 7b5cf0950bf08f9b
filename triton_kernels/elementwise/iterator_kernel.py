"""A user's scalar function over a `TensorIterator`: what `library.gpu_kernel` launches."""

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..conversion import compute_type
from ..geometry import coalesced
from .elementwise import Operand, check_devices, check_dtypes, over_geometry


def iterator_kernel(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``call.extra["function"]`` over the part of the operands that the iterator covers."""
    iterator = call.iterator
    inputs = [call.args[name] for name in call.runtime]
    out = call.outputs[0]
    check_dtypes(call, [out, *inputs])
    check_devices(out, inputs)
    for operand in iterator.inputs:
        if operand.target_dtype.triton_name is None:
            raise NotImplementedError(
                f"\"{call.kernel_name()}\" not implemented for '{operand.target_dtype.scalar_name}'"
            )
    types = [compute_type(operand.target_dtype) for operand in iterator.inputs]
    operands = [Operand(input_, type_) for input_, type_ in zip(inputs, types, strict=True)]
    sizes = iterator.shape[::-1]
    strides = [
        [0 if each.number is not None else stride // each.itemsize for stride in each.stride_bytes[::-1]]
        for each in iterator.operands
    ]
    return over_geometry(call, call.extra["function"], operands, coalesced(sizes, strides))


register_stub("gpu_kernel", "cuda", iterator_kernel)
