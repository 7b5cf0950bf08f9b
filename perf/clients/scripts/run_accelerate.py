"""A training loop by accelerate's `Accelerator`, with accumulated gradients."""

import json

import torch
from accelerate import Accelerator
from deterministic import fill, normal
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = fill(
    torch.nn.Sequential(
        torch.nn.Linear(8, 16, bias=False), torch.nn.Tanh(), torch.nn.Linear(16, 1, bias=False)
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = normal(64, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for _ in range(3):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).mean().item())
print(json.dumps({f"loss {i}": loss for i, loss in enumerate(losses)}))
