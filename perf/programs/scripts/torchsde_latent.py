"""A stochastic differential equation along a given Brownian path."""

import torch
import torchsde
from torch import nn


class Equation(nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self):
        super().__init__()
        self.drift = nn.Linear(3, 3)
        self.diffusion = nn.Linear(3, 3)

    def f(self, t, y):
        return torch.sin(self.drift(y))

    def g(self, t, y):
        return torch.sigmoid(self.diffusion(y))


class Path(torchsde.BaseBrownian):
    """Increments that are drawn once, of steps of 0.1."""

    def __init__(self, increments):
        super().__init__()
        self.increments = increments

    def __call__(self, ta, tb=None, return_U=False, return_A=False):
        return self.increments[round(float(ta) * 10)]

    def __repr__(self):
        return "Path()"

    dtype = property(lambda self: self.increments.dtype)
    device = property(lambda self: self.increments.device)
    shape = property(lambda self: self.increments.shape[1:])
    levy_area_approximation = "none"


class Model(nn.Module):
    def __init__(self, path):
        super().__init__()
        self.equation = Equation()
        self.path = path

    def forward(self, start, times):
        return torchsde.sdeint(self.equation, start, times, bm=self.path, dt=0.1, method="euler")


model = Model(Path(normal(11, 8, 3) * 0.3))
inputs = (normal(8, 3), torch.linspace(0.0, 1.0, 3))
