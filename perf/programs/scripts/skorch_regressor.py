"""A network as an estimator of scikit-learn's; each forward pass is a fit from the same weights."""

import numpy as np
import torch
from skorch import NeuralNetRegressor
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
inputs = (normal(64, 16), normal(64, 4))


class Network(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self.load_state_dict(model.state_dict())


def fit(x, y):
    estimator = NeuralNetRegressor(
        Network,
        max_epochs=2,
        lr=0.1,
        optimizer=torch.optim.SGD,
        iterator_train__shuffle=False,
        train_split=None,
        verbose=0,
    )
    estimator.fit(x.numpy(), y.numpy())
    predicted = estimator.predict(x.numpy())
    return [torch.from_numpy(np.asarray(predicted)), model(x)]
