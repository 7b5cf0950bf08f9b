"""How gamma and beta numbers move with their shapes; `cpu_fallback/random/implicit_gradients.py` has the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_devices, check_dtypes
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from ..special.gamma import digamma
from .rejection import laid_out

NODES = tl.constexpr(72)
BEGIN = tl.constexpr(-3.6)
STEP = tl.constexpr(7.8 / 72)
NEWTON_STEPS = tl.constexpr(5)
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def standard_gamma_grad(a, x, unused):
    """dx/da of a gamma number x of shape a."""
    low = x <= a
    above = a - 1.0
    slope = tl.where(low, a - x, (x - above) / x)
    curvature = tl.where(low, x, above / (x * x))
    scale = 2.0 / (slope + tl.sqrt(slope * slope + 2.0 * curvature))
    for _ in range(NEWTON_STEPS):
        fall = libdevice.expm1(-scale)
        below = (a * scale + x * fall - 1.0) / (a - x - x * fall)
        beyond = (scale - above * libdevice.log1p(scale / x) - 1.0) / (1.0 - above / (x + scale))
        scale = scale - tl.where(low, below, beyond)
    scale = tl.where(low | (a > 1.0), scale, 1.0)
    base = libdevice.log(x) - digamma(a)
    total = x * 0.0
    for k in range(NODES + 1):
        t = BEGIN + tl.full(x.shape, STEP, tl.float64) * k  # a number times `k` is single precision
        far = libdevice.exp(-t)
        place = libdevice.exp(t - far)
        s = scale * place
        rise = tl.where(low, -s, libdevice.log1p(s / x))
        height = libdevice.exp(tl.where(low, -a * s - x * libdevice.expm1(-s), above * rise - s))
        term = STEP * (1.0 + far) * place * height * (base + rise)
        total += tl.where(height > 0.0, term, 0.0)
    found = tl.where(low, -x, 1.0) * total * scale
    found = tl.where((x == 0.0) & (a > 0.0), 0.0, found)
    return tl.where((a > 0.0) & (x < INFINITY) & (a < INFINITY), found, float("nan"))


@triton.jit
def dirichlet_grad(x, a, both):
    """dx/da / (1 - x) of a beta number x of shapes a and both - a, where the second one stays."""
    y = 1.0 - x
    b = both - a
    low = x * both <= a
    sign = tl.where(low, -1.0, 1.0).to(tl.float64)
    part = tl.where(low, x, y)
    rate = tl.where(low, a, b)
    distance = tl.abs(a * y - b * x)
    scale = 2.0 / (distance + tl.sqrt(distance * distance + 2.0 * both * x * y))
    for _ in range(NEWTON_STEPS):
        moved = part * libdevice.expm1(-scale)
        slope = rate - both * (part + moved) / (1.0 + moved)
        scale = scale - (rate * scale + both * libdevice.log1p(moved) - 1.0) / slope
    ends = digamma(both) - digamma(a)
    base = libdevice.log(x) + ends
    total = x * 0.0
    for k in range(NODES + 1):
        t = BEGIN + tl.full(x.shape, STEP, tl.float64) * k  # a number times `k` is single precision
        far = libdevice.exp(-t)
        place = libdevice.exp(t - far)
        s = scale * place
        moved = libdevice.log1p(part * libdevice.expm1(-s))
        height = libdevice.exp(-(rate * s + both * moved))
        rise = tl.where(low, moved + s, moved)
        term = STEP * (1.0 + far) * place * height * (base - rise)
        total += tl.where(height > 0.0, term, 0.0)
    found = sign * x * total * scale
    found = tl.where((x == 0.0) & (a > 0.0), 0.0, found)
    found = tl.where((x == 1.0) & (b > 0.0), ends / b, found)
    return tl.where((a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0), found, float("nan"))


@triton.jit
def shape_gradients(out, a, b, c, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    """Compute implicit gradients of up to three parameters, one element per thread: the sums need its registers."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    one = convert(tl.load(a + index, mask=inside, other=0.5), tl.float64)
    two = convert(tl.load(b + index, mask=inside, other=0.5), tl.float64)
    three = convert(tl.load(c + index, mask=inside, other=1.0), tl.float64)
    tl.store(out + index, convert(FUNCTION(one, two, three), out.dtype.element_ty), mask=inside)


ELEMENTS = 128


def gradient_of(function: Any) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel of a function of two or three parameters."""

    def factory(call: StructuredCall) -> PlannedKernel:
        inputs = [call.args[name] for name in call.runtime]
        out = call.outputs[0]
        check_dtypes(call, [out, *inputs])
        check_devices(out, inputs)
        n = out.numel
        if n == 0:
            return PlannedKernel(launch_nothing)
        laid = [laid_out(call, input_spec) for input_spec in inputs]
        specs, gathers = [spec for spec, _ in laid], [gather for _, gather in laid]
        block = min(max(next_power_of_2(n), 16), 4096) if interpreted() else ELEMENTS
        launch = Launch(
            call.device,
            shape_gradients,
            {
                "out": f"*{out.dtype.triton_name}",
                "a": f"*{specs[0].dtype.triton_name}",
                "b": f"*{specs[1].dtype.triton_name}",
                "c": f"*{specs[-1].dtype.triton_name}",
                "n": "i64",
            },
            {"FUNCTION": function, "BLOCK": block},
        )
        grid = (cdiv(n, block), 1, 1)
        gapless = TensorSpec.contiguous(out.sizes, out.dtype, out.device)
        scatter = None if out.is_contiguous else copy_kernel(out, gapless)
        allocate = get_allocator("cuda").allocate

        def into(data: Any, *inputs_data: Any) -> None:
            target = data if scatter is None else allocate(gapless.nbytes, gapless.device)
            # Held until the launch: what was gathered has no other owner.
            held = [gather(value) for gather, value in zip(gathers, inputs_data, strict=True)]
            addresses = held[0].address, held[1].address, held[-1].address
            launch(grid, target.address, *addresses, n)
            if scatter is not None:
                scatter(data, target)

        return PlannedKernel(into)

    return factory


register_stub("_standard_gamma_grad_stub", "cuda", gradient_of(standard_gamma_grad))
register_stub("_dirichlet_grad_stub", "cuda", gradient_of(dirichlet_grad))

declare(
    shape_gradients,
    warps=16,
    why="16 warps, four for each scheduler, hide the latency of float64 arithmetic: seventy exponentials an element",
    dtypes=("fp32", "fp64", "fp16", "bf16"),
    configurations=(Configuration((128,)),),
    operations="for each element 73 nodes of three or four exponentials and logarithms in float64",
    traffic="n (itemsize + parameters' itemsizes)",
)
