"""Liger-Kernel's Triton kernels beside torch.nn.functional on the CPU."""

import torch
import torch.nn.functional as F
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction


def compare(kernel, reference, *inputs):
    """Compare result and gradients of a kernel on CUDA with those of a function on the CPU."""
    cuda_inputs = [x.cuda().requires_grad_(x.is_floating_point()) for x in inputs]
    expected = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    got, want = kernel(*cuda_inputs), reference(*expected)
    torch.testing.assert_close(got.cpu(), want, atol=1e-4, rtol=1e-4)
    grad = torch.randn_like(want)
    got.backward(grad.cuda())
    want.backward(grad)
    for a, b in zip(cuda_inputs, expected, strict=True):
        if b.grad is not None:
            torch.testing.assert_close(a.grad.cpu(), b.grad, atol=1e-4, rtol=1e-4)


torch.manual_seed(0)
x, weight, bias = torch.randn(6, 40), torch.randn(40), torch.randn(40)
target = torch.randint(0, 40, (6,))
compare(
    lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
    lambda x, w: F.rms_norm(x, (40,), w, 1e-6),
    x, weight,
)  # fmt: skip
compare(
    lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, 1e-5),
    lambda x, w, b: F.layer_norm(x, (40,), w, b, 1e-5),
    x, weight, bias,
)  # fmt: skip
compare(LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, x, x.flip(0))
compare(LigerGELUMulFunction.apply, lambda a, b: F.gelu(a, approximate="tanh") * b, x, x.flip(0))
compare(
    lambda x, y: LigerCrossEntropyFunction.apply(x, y, None)[0],
    F.cross_entropy,
    x, target,
)  # fmt: skip
compare(
    lambda x, w, y: LigerFusedLinearCrossEntropyFunction.apply(x, w, y)[0],
    lambda x, w, y: F.cross_entropy(x @ w.T, y),
    x, torch.randn(50, 40), target,
)  # fmt: skip
