"""unsloth's kernels of RMS norm and SwiGLU beside torch.nn.functional."""

import importlib.util
import sys
import types

import torch
import torch.nn.functional as F

# The kernels alone: the package's own __init__ wants a GPU, patches transformers and trl, and asks the network.
for name in ("unsloth", "unsloth.kernels", "unsloth_zoo"):
    package = types.ModuleType(name)
    package.__path__ = list(importlib.util.find_spec(name).submodule_search_locations)
    sys.modules[name] = package

from unsloth.kernels.rms_layernorm import Fast_RMS_Layernorm  # noqa: E402
from unsloth.kernels.swiglu import swiglu_fg_kernel  # noqa: E402

torch.manual_seed(0)
x, weight = torch.randn(2, 3, 32), torch.randn(32)
cuda_x, scale = x.cuda().requires_grad_(), weight.cuda()
expected = x.clone().requires_grad_()
got = Fast_RMS_Layernorm.apply(cuda_x, scale, 1e-6, False)
want = F.rms_norm(expected, (32,), weight, 1e-6)
torch.testing.assert_close(got.cpu(), want, atol=1e-4, rtol=1e-4)
grad = torch.randn_like(want)
got.backward(grad.cuda())
want.backward(grad)
torch.testing.assert_close(cuda_x.grad.cpu(), expected.grad, atol=1e-4, rtol=1e-4)

e, g = torch.randn(2, 3, 32), torch.randn(2, 3, 32)
torch.testing.assert_close(swiglu_fg_kernel(e.cuda(), g.cuda()).cpu(), F.silu(e) * g, atol=1e-4, rtol=1e-4)
