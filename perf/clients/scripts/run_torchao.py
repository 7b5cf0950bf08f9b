"""torchao's int8 weight-only quantization of a model, on the CPU."""

import json

import torch
from deterministic import fill, normal
from torchao.quantization import Int8WeightOnlyConfig, quantize_

model = fill(
    torch.nn.Sequential(
        torch.nn.Linear(32, 64, bias=False), torch.nn.ReLU(), torch.nn.Linear(64, 8, bias=False)
    )
)
x = normal(4, 32)
before = model(x)
quantize_(model, Int8WeightOnlyConfig())
after = model(x)
print(json.dumps({"sum": after.sum().item(), "error": (after - before).abs().max().item()}))
