"""Clipping of gradients, and parameters as one vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import triten as tt

utils = tt.nn.utils


def parameters(device: str) -> tuple[list[Any], np.ndarray]:
    rng = np.random.default_rng(4)
    made, grads = [], []
    for shape in ((3, 2), (5,), ()):
        weight = tt.zeros(shape, device=device, requires_grad=True)
        grads.append(rng.standard_normal(shape).astype(np.float32))
        weight.grad = tt.tensor(grads[-1], device=device)
        made.append(weight)
    made.append(tt.zeros(2, device=device, requires_grad=True))
    return made, np.concatenate([np.ravel(g) for g in grads])


def gradients(of: list[Any]) -> np.ndarray:
    return np.concatenate([p.grad.cpu().numpy().ravel() for p in of if p.grad is not None])


@pytest.mark.parametrize("order", [1, 2, 3.5, math.inf])
def test_norms_are_those_of_all_elements(device: str, order: float) -> None:
    for bound in (0.5, 100.0):
        given, before = parameters(device)
        norm = np.linalg.norm(before.astype(np.float64), order)
        assert math.isclose(utils.clip_grad_norm_(iter(given), bound, order).item(), norm, rel_tol=1e-5)
        np.testing.assert_allclose(gradients(given), before * min(1, bound / (norm + 1e-6)), rtol=1e-5)
        assert given[3].grad is None


def test_values_are_held_in_a_range(device: str) -> None:
    given, before = parameters(device)
    utils.clip_grad_value_(given, 0.5)
    np.testing.assert_array_equal(gradients(given), before.clip(-0.5, 0.5))


def test_norms_that_are_no_numbers() -> None:
    weight = tt.zeros(2, requires_grad=True)
    weight.grad = tt.tensor([math.inf, 1.0])
    with pytest.raises(
        RuntimeError, match=r"The total norm of order 2.0 for gradients from `parameters` is non-finite"
    ):
        utils.clip_grad_norm_(weight, 1.0, error_if_nonfinite=True)
    assert weight.grad.tolist() == [math.inf, 1.0]
    assert utils.clip_grad_norm_(weight, 1.0).item() == math.inf
    assert math.isnan(weight.grad[0].item()) and weight.grad[1].item() == 0
    assert utils.clip_grad_norm_([], 1.0).item() == 0 and utils.get_total_norm([]).item() == 0


def test_a_vector_and_back(device: str) -> None:
    layer = tt.nn.Linear(3, 2, device=device)
    vector = utils.parameters_to_vector(layer.parameters())
    assert vector.requires_grad and vector.shape == (8,)
    utils.vector_to_parameters(tt.arange(8.0, device=device), layer.parameters())
    assert layer.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and layer.bias.tolist() == [6, 7]
    with pytest.raises(TypeError, match="Found two parameters on different devices"):
        utils.parameters_to_vector([tt.ones(1), tt.ones(1, device="meta")])
    with pytest.raises(TypeError, match=r"expected torch.Tensor, but got"):
        utils.vector_to_parameters([1.0], [tt.ones(1)])
