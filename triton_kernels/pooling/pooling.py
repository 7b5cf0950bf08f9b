"""Pooling over planes: windows are gathered in both directions, so that nothing is added atomically."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from ..reduction.reduction import lowest
from .pooling_kernels import average_pool, average_pool_backward, max_pool, max_pool_backward

BLOCK = 256
INTERPRETED_BLOCK = 8192


def with_batch(spec: TensorSpec) -> TensorSpec:
    """(C, H, W) as (1, C, H, W)."""
    return spec if spec.ndim == 4 else spec.replace(sizes=(1, *spec.sizes), strides=(0, *spec.strides))


def check_floating(call: StructuredCall, integers: bool = False) -> TensorSpec:
    """The spec of `self`. Refuses dtypes that pooling does not have."""
    spec: TensorSpec = call.args["self"]
    check_dtypes(call, [spec])
    if not (spec.dtype.is_floating_point or (integers and spec.dtype.is_integral)):
        raise call.refuse(spec)
    return spec


def plan(
    call: StructuredCall,
    kernel: Any,
    tensors: Mapping[str, tuple[str, TensorSpec]],
    over: TensorSpec,
    constants: Mapping[str, object],
) -> Any:
    """``launch(*addresses)`` of a program over the elements of `over`.

    Args:
        tensors: parameter names of the pointers, in the kernel's order, with the letter of their strides.
        constants: what this kernel has beside the window; among them a divisor of None or a number.
    """
    pool, spec = call.extra["pool"], with_batch(call.args["self"])
    over = with_batch(over)
    n = over.numel
    block = min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK) if interpreted() else BLOCK
    strides: dict[str, int] = {}
    reach = n + block
    for letter, tensor in tensors.values():
        own = with_batch(tensor)
        strides |= {letter + dim: stride for dim, stride in zip("nchw", own.strides, strict=True)}
        reach = max(reach, 4 * sum(s * (size + 64) for size, s in zip(own.sizes, own.strides, strict=True)))
    kind = integer_type(reach)
    values = {
        "n": n,
        "channels": spec.sizes[1],
        "h": spec.sizes[2],
        "w": spec.sizes[3],
        "oh": pool.out[0],
        "ow": pool.out[1],
        **{name: stride for name, stride in strides.items() if stride not in (0, 1)},
    }
    fixed = {name: stride for name, stride in strides.items() if stride in (0, 1)}
    window = zip("KSPD", (pool.kernel, pool.stride, pool.padding, pool.dilation), strict=True)
    every = {name: f"*{tensor.dtype.triton_name}" for name, (_, tensor) in tensors.items()}
    every |= dict.fromkeys(values, kind)
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **{
                letter + side: size
                for letter, sizes in window
                for side, size in zip("HW", sizes, strict=True)
            },
            "TYPE": compute_type(spec.dtype),
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "LAST": over.strides[1] == 1 and not over.is_contiguous,
            "BLOCK": block,
        },
    )
    grid = (cdiv(n, block), 1, 1)
    numbers = tuple(values[name] for name in kernel.arg_names if name in values)
    return lambda *addresses: launch(grid, *addresses, *numbers)


def max_pool2d(call: StructuredCall) -> PlannedKernel:
    """The largest element under each window; of equals the first, of NaNs the last."""
    spec = check_floating(call, integers=True)
    values, indices = call.outputs
    if values.numel == 0:
        return PlannedKernel(launch_nothing)
    run = plan(
        call,
        max_pool,
        {"x": ("x", spec), "out": ("y", values), "index": ("s", indices)},
        values,
        {"LOWEST": lowest(compute_type(spec.dtype))},
    )
    return PlannedKernel(lambda to, where, x: run(x.address, to.address, where.address))


def max_pool2d_backward(call: StructuredCall) -> PlannedKernel:
    """Each element adds up the gradients of the windows whose index names it."""
    check_floating(call)
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    grad, indices = call.args["grad_output"], call.args["indices"]
    run = plan(
        call, max_pool_backward, {"g": ("g", grad), "index": ("s", indices), "out": ("y", out)}, out, {}
    )
    return PlannedKernel(lambda to, g, _, where: run(g.address, where.address, to.address))


def averaging(call: StructuredCall) -> dict[str, object]:
    """The constants of averages."""
    return {"divisor": call.args["divisor_override"], "WITH_PAD": call.args["count_include_pad"]}


def avg_pool2d(call: StructuredCall) -> PlannedKernel:
    """The mean under each window; integers are divided as C divides them."""
    spec = check_floating(call, integers=True)
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    run = plan(call, average_pool, {"x": ("x", spec), "out": ("y", out)}, out, averaging(call))
    return PlannedKernel(lambda to, x: run(x.address, to.address))


def avg_pool2d_backward(call: StructuredCall) -> PlannedKernel:
    """Each element adds up its shares of the gradients of the windows that it lies in."""
    check_floating(call)
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    grad = call.args["grad_output"]
    run = plan(call, average_pool_backward, {"g": ("g", grad), "out": ("y", out)}, out, averaging(call))
    return PlannedKernel(lambda to, g, _: run(g.address, to.address))


register_stub("max_pool2d_with_indices_stub", "cuda", max_pool2d)
register_stub("max_pool2d_with_indices_backward_stub", "cuda", max_pool2d_backward)
register_stub("avg_pool2d_stub", "cuda", avg_pool2d)
register_stub("avg_pool2d_backward_stub", "cuda", avg_pool2d_backward)
