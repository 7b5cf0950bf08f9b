"""A training loop by `Accelerator`: prepared model, optimizer and loader."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
inputs = (normal(32, 16),)
prepared = []


def forward(x):
    if not prepared:
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        prepared.extend(accelerator.prepare(model, optimizer, loader))
    with accelerator.accumulate(prepared[0]):
        outputs = [prepared[0](batch) for (batch,) in prepared[2]]
    return accelerator.gather(torch.cat(outputs))
