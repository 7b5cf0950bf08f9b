"""A neural ordinary differential equation, solved by steps of adapting size."""

import torch
from torch import nn
from torchdiffeq import odeint


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dynamics = Dynamics()

    def forward(self, start, times):
        return odeint(self.dynamics, start, times, method="dopri5", rtol=1e-4, atol=1e-5)


model = Model()
inputs = (normal(8, 3), torch.linspace(0.0, 1.0, 4))
