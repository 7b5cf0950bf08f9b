"""Write a Triton kernel, make it an operator with a derivative, test it, and benchmark it.

    python examples/triton_kernel.py                                   # on a GPU
    TRITEN_CUDA=interpret python examples/triton_kernel.py --rows 64   # without one: the times say nothing about a GPU

The kernel adds a residual and computes the RMS norm of the sum in one pass: y = h / sqrt(mean(h^2) + eps) * w with
h = x + residual (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019). Separate operators read and write
the rows several times; this kernel reads two tensors and writes two, which bounds its time by memory bandwidth.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import triton
import triton.language as tl

import triten as tt
import triten.nn.functional as F

EPS = 1e-6


@triton.jit
def add_rms_norm_kernel(x, residual, weight, h_out, y_out, columns, eps, BLOCK: tl.constexpr):
    """Compute one row in each program. BLOCK is a power of two that is not below the number of columns."""
    row = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    mask = column < columns
    h = tl.load(x + row + column, mask=mask, other=0.0) + tl.load(
        residual + row + column, mask=mask, other=0.0
    )
    tl.store(h_out + row + column, h, mask=mask)
    wide = h.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide) / columns + eps)
    y = wide * scale * tl.load(weight + column, mask=mask, other=0.0)
    tl.store(y_out + row + column, y.to(h.dtype), mask=mask)


@tt.library.custom_op("examples::add_rms_norm", mutates_args=(), device_types="cuda")
def add_rms_norm(x: tt.Tensor, residual: tt.Tensor, weight: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """Return h = x + residual and its RMS norm, both (rows, columns)."""
    x, residual, weight = x.contiguous(), residual.contiguous(), weight.contiguous()
    h, y = tt.empty_like(x), tt.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = min(max(block // 256, 1), 16)
    add_rms_norm_kernel[(rows,)](x, residual, weight, h, y, columns, EPS, BLOCK=block, num_warps=warps)
    return h, y


def reference(x: tt.Tensor, residual: tt.Tensor, weight: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """Compute the same by separate operators; this is also the kernel for the CPU."""
    h = x + residual
    return h, F.rms_norm(h, h.shape[-1:], weight, EPS)


add_rms_norm.register_kernel("cpu")(reference)


@add_rms_norm.register_fake
def _(x: tt.Tensor, residual: tt.Tensor, weight: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    return tt.empty_like(x), tt.empty_like(x)


def setup_context(ctx, inputs, output) -> None:
    """Save what the derivative needs."""
    ctx.save_for_backward(output[0], inputs[2])


def backward(ctx, grad_h: tt.Tensor, grad_y: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor, tt.Tensor]:
    """Return the gradients of x, residual and weight."""
    h, weight = ctx.saved_tensors
    scale = (h.square().mean(-1, keepdim=True) + EPS).rsqrt()
    normalized, scaled = h * scale, grad_y * weight
    grad = scale * (scaled - normalized * (scaled * normalized).mean(-1, keepdim=True)) + grad_h
    return grad, grad, (grad_y * normalized).sum(0)


add_rms_norm.register_autograd(backward, setup_context=setup_context)


def arguments_of(rows: int, columns: int, device: str, dtype: tt.dtype) -> list[tt.Tensor]:
    """Return x, residual and weight."""
    shapes = (rows, columns), (rows, columns), (columns,)
    return [tt.randn(shape, device=device).to(dtype).requires_grad_() for shape in shapes]


def check(device: str) -> None:
    """Compare outputs and gradients with the reference, for columns that fill a block and that do not."""
    for columns in (64, 100):
        results = []
        for function in (add_rms_norm, reference):
            tt.manual_seed(0)
            arguments = arguments_of(4, columns, device, tt.float32)
            h, y = function(*arguments)
            (h.square() + y.sin()).sum().backward()
            results.append([h, y, *(each.grad for each in arguments)])
        tt.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)
    tt.library.opcheck(add_rms_norm, arguments_of(3, 20, device, tt.float32))
    print("outputs, gradients and opcheck: right")


def milliseconds(function: Callable[..., object], arguments: list[tt.Tensor], seconds: float) -> float:
    """Return the median time of a call, with the GPU's work."""
    timer = tt.utils.benchmark.Timer(
        "function(*arguments)", globals={"function": function, "arguments": arguments}
    )
    return timer.blocked_autorange(min_run_time=seconds).median * 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the kernel and print the table of times."""
    parser = argparse.ArgumentParser(description="Check and benchmark a Triton kernel.")
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--columns", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="of measuring for each number. Default: 0.3"
    )
    options = parser.parse_args(arguments)
    if not tt.cuda.is_available():
        parser.error("no GPU was found; TRITEN_CUDA=interpret runs the kernel in Triton's interpreter")
    check("cuda")
    print(f"{'columns':>8} {'separate, ms':>13} {'compiled, ms':>13} {'kernel, ms':>11} {'kernel, GB/s':>13}")
    for columns in options.columns:
        with tt.no_grad():
            data = arguments_of(options.rows, columns, "cuda", tt.bfloat16)
            contenders = reference, tt.compile(reference, fullgraph=True), add_rms_norm
            separate, compiled, kernel = (milliseconds(each, data, options.seconds) for each in contenders)
        moved = 4 * data[0].nbytes / 1e6  # MB that the kernel reads and writes
        print(f"{columns:8} {separate:13.4f} {compiled:13.4f} {kernel:11.4f} {moved / kernel:13.1f}")


if __name__ == "__main__":
    main()
