"""Parameters and inputs that are the same under every library: those of a NumPy generator, not of the library's own."""

import numpy as np
import torch

_generator = np.random.default_rng(0)


def normal(*sizes):
    """Return a float32 tensor of normal numbers."""
    return torch.from_numpy(_generator.standard_normal(sizes).astype(np.float32))


def fill(model):
    """Set the matrices of a model to small normal numbers and its biases to 0. Returns the model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.copy_(normal(*parameter.shape) / parameter[0].numel() ** 0.5)
            elif name.endswith("bias"):
                parameter.zero_()
    return model
