"""gemlite's matmul with 4-bit weights beside a matmul with the weights restored."""

import torch
from gemlite.core import DType, GemLiteLinearTriton, set_autotune

set_autotune(False)
torch.manual_seed(0)
n, k, group = 64, 128, 64
weight = torch.randint(0, 16, (n, k), dtype=torch.uint8, device="cuda")
scales = torch.rand(n, k // group, dtype=torch.float16, device="cuda") * 0.1
zeros = torch.full((n, k // group), 8.0, dtype=torch.float16, device="cuda")
layer = GemLiteLinearTriton(4, group_size=group, in_features=k, out_features=n,
                            input_dtype=DType.FP16, output_dtype=DType.FP16)  # fmt: skip
layer.pack(weight, scales.reshape(-1, 1), zeros.reshape(-1, 1), None)
x = torch.randn(2, k, dtype=torch.float16, device="cuda")
restored = (weight.float().reshape(n, -1, group) - zeros.float()[..., None]) * scales.float()[..., None]
torch.testing.assert_close(layer(x).float(), x.float() @ restored.reshape(n, k).T, atol=5e-2, rtol=5e-2)
