"""bitsandbytes' Triton kernels of 4-bit numbers beside its own kernels for the CPU."""

import bitsandbytes.functional as F
import torch
from bitsandbytes.backends.triton.kernels_4bit import dequantize_4bit_impl, quantize_4bit_blockwise_triton

torch.manual_seed(0)
x = torch.randn(4, 128)
packed, state = F.quantize_4bit(x, blocksize=64, quant_type="nf4")
restored = F.dequantize_4bit(packed, state)
assert (restored - x).abs().max() < 0.6

cuda_x = x.cuda()
absmax = torch.empty(8, device="cuda")
out = torch.empty(256, 1, dtype=torch.uint8, device="cuda")
quantize_4bit_blockwise_triton(cuda_x, 64, "nf4", 8, absmax, 512, quantized_out=out)
torch.testing.assert_close(absmax.cpu(), x.reshape(8, 64).abs().amax(1))
result = torch.empty_like(cuda_x)
dequantize_4bit_impl(out, absmax, 64, "nf4", torch.float32, result)
torch.testing.assert_close(result.cpu(), restored)
