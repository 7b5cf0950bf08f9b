"""A trainer and an evaluator of ignite's; each forward pass is an epoch from the same weights."""

import copy

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Loss, MeanAbsoluteError
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
inputs = (normal(64, 16), normal(64, 4))


def fit(x, y):
    fitted = copy.deepcopy(model)
    batches = list(zip(x.split(16), y.split(16), strict=True))
    optimizer = torch.optim.SGD(fitted.parameters(), lr=0.1)
    trainer = create_supervised_trainer(fitted, optimizer, nn.MSELoss())
    evaluator = create_supervised_evaluator(
        fitted, {"loss": Loss(nn.MSELoss()), "error": MeanAbsoluteError()}
    )
    metrics = []
    trainer.add_event_handler(
        Events.EPOCH_COMPLETED, lambda engine: metrics.append(evaluator.run(batches).metrics)
    )
    trainer.run(batches, max_epochs=1)
    return [*fitted.parameters(), metrics[0]["loss"], metrics[0]["error"], model(x)]
