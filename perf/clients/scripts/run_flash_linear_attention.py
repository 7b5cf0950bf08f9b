"""flash-linear-attention's kernels beside their naive forms."""

import torch
from fla.modules.layernorm import RMSNorm
from fla.ops.gla import fused_recurrent_gla
from fla.ops.gla.naive import naive_recurrent_gla

torch.manual_seed(0)
q, k, v = (torch.randn(1, 8, 2, 16, device="cuda", requires_grad=True) for _ in range(3))
g = torch.nn.functional.logsigmoid(torch.randn(1, 8, 2, 16, device="cuda")).requires_grad_()
got, _ = fused_recurrent_gla(q, k, v, g)
want, _ = naive_recurrent_gla(q, k, v, g)
torch.testing.assert_close(got, want, atol=1e-3, rtol=1e-3)
grad = torch.randn_like(want)
for a, b in zip(
    torch.autograd.grad(got, (q, k, v), grad), torch.autograd.grad(want, (q, k, v), grad), strict=True
):
    torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)

norm = RMSNorm(16).cuda()
x = torch.randn(3, 16, device="cuda")
torch.testing.assert_close(
    norm(x), torch.nn.functional.rms_norm(x, (16,), norm.weight, 1e-5), atol=1e-4, rtol=1e-4
)
