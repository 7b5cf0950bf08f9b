"""A small ResNet of timm: loss and gradients."""

import json

import torch

# The operators that torchvision's library in C++ would define, and that its Python code names at import.
for name in ("nms", "qnms"):
    torch.library.define(
        f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )

import timm  # noqa: E402
from deterministic import fill, normal  # noqa: E402

model = fill(timm.create_model("resnet10t", num_classes=10))
loss = torch.nn.functional.cross_entropy(model(normal(2, 3, 64, 64)), torch.tensor([1, 7]))
loss.backward()
gradients = sum(p.grad.double().square().sum() for p in model.parameters()).sqrt().item()
print(json.dumps({"loss": loss.item(), "gradients": gradients}))
