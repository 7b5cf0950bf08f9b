"""A Gaussian process by its exact marginal likelihood."""

import gpytorch
import torch


class Model(gpytorch.models.ExactGP):
    def __init__(self, inputs, targets, likelihood):
        super().__init__(inputs, targets, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


points = torch.linspace(0.0, 1.0, 32)
targets = torch.sin(6 * points)
inputs = (points,)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(points, targets, likelihood)
likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
