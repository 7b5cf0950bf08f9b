"""Parameters that step together have the bits that they have one by one, whatever their dtypes and counts are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt

Make = Callable[..., tt.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "Adadelta": lambda p, **o: tt.optim.Adadelta(p, weight_decay=0.1, **o),
    "Adagrad": lambda p, **o: tt.optim.Adagrad(p, lr_decay=0.1, initial_accumulator_value=0.5, **o),
    "Adamax": lambda p, **o: tt.optim.Adamax(p, maximize=True, **o),
    "ASGD": lambda p, **o: tt.optim.ASGD(p, t0=2, lambd=0.1, **o),
    "NAdam": lambda p, **o: tt.optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True, **o),
    "RAdam": lambda p, **o: tt.optim.RAdam(p, weight_decay=0.1, **o),
    "RMSprop": lambda p, **o: tt.optim.RMSprop(p, **o),
    "RMSprop, centered, with momentum": lambda p, **o: tt.optim.RMSprop(p, centered=True, momentum=0.9, **o),
    "Rprop": lambda p, **o: tt.optim.Rprop(p, **o),
}
STEPS = 8
DTYPES = [tt.float32, tt.bfloat16, tt.float64]


def parameters(device: str) -> list[tt.Tensor]:
    rng = np.random.default_rng(3)
    shapes = [(3,), (2, 5), (), (0,), (7,), (4, 3)]
    made = [
        tt.from_numpy(np.asarray(rng.standard_normal(shape))).to(DTYPES[place % 3]).to(device)
        for place, shape in enumerate(shapes)
    ]
    made[-1] = made[-1].t()  # lies otherwise than its gradients
    return [each.requires_grad_() for each in made]


def run(make: Make, device: str, **options: Any) -> list[Any]:
    """Run some steps, of which one parameter misses the first; return the parameters and their states."""
    given = parameters(device)
    optimizer = make(given, **options)
    rng = np.random.default_rng(5)
    for step in range(STEPS):
        for place, parameter in enumerate(given):
            values = tt.from_numpy(np.asarray(rng.standard_normal(tuple(parameter.shape))))
            gradient = values.to(parameter.dtype).to(device)
            parameter.grad = None if place == 1 and step == 0 else gradient
        optimizer.step()
    states = [state[name] for state in optimizer.state.values() for name in sorted(state)]
    return [*given, *states]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bits_are_those_of_single_steps(name, device):
    together, single = (run(OPTIMIZERS[name], device, foreach=foreach) for foreach in (None, False))
    for got, expected in zip(together, single, strict=True):
        assert got.dtype is expected.dtype
        assert got.device == expected.device
        np.testing.assert_array_equal(
            got.detach().cpu().to(tt.float64).numpy(), expected.detach().cpu().to(tt.float64).numpy()
        )


def test_capturable_and_complex_parameters_step_one_by_one():
    weights = [
        tt.ones(2, device="cuda", dtype=dtype, requires_grad=True) for dtype in (tt.complex64, tt.float32)
    ]
    for options in ({"capturable": True}, {}):
        optimizer = tt.optim.RAdam(weights, lr=0.1, **options)
        for weight in weights:
            weight.grad = tt.ones_like(weight)
        optimizer.step()
    for weight in weights:
        np.testing.assert_allclose(weight.detach().cpu().numpy().real, [0.8, 0.8], rtol=1e-6)
