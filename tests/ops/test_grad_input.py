"""Operators of derivatives write into ``grad_input=``, as `tt.ops` calls them."""

from __future__ import annotations

from typing import Any

import pytest

import triten as tt

F = tt.nn.functional
X = tt.linspace(-2, 2, 16).reshape(1, 1, 4, 4)
X3 = tt.linspace(-2, 2, 64).reshape(1, 1, 4, 4, 4)
ONES = tt.ones_like(X)
POOLED, INDICES = F.max_pool2d(X, 2, return_indices=True)
POOLED3, INDICES3 = F.max_pool3d(X3, 2, return_indices=True)

CALLS: dict[str, tuple[Any, ...]] = {
    "adaptive_max_pool2d_backward": (POOLED, X, INDICES),
    "adaptive_max_pool3d_backward": (POOLED3, X3, INDICES3),
    "avg_pool2d_backward": (POOLED, X, [2, 2], [2, 2], [0, 0], False, True, None),
    "avg_pool3d_backward": (POOLED3, X3, [2] * 3, [2] * 3, [0] * 3, False, True, None),
    "elu_backward": (ONES, 1.0, 1.0, 1.0, False, X),
    "gelu_backward": (ONES, X),
    "glu_backward": (tt.ones(4, 2), X[0, 0], 1),
    "leaky_relu_backward": (ONES, X, 0.1, False),
    "log_sigmoid_backward": (ONES, X, ONES),
    "logit_backward": (ONES, X.sigmoid(), None),
    "max_pool2d_with_indices_backward": (POOLED, X, [2, 2], [2, 2], [0, 0], [1, 1], False, INDICES),
    "max_pool3d_with_indices_backward": (POOLED3, X3, [2] * 3, [2] * 3, [0] * 3, [1] * 3, False, INDICES3),
    "mse_loss_backward": (ONES, X, ONES, 0),
    "sigmoid_backward": (ONES, X.sigmoid()),
    "silu_backward": (ONES, X),
    "smooth_l1_loss_backward": (ONES, X, ONES, 0, 0.5),
    "softplus_backward": (ONES, X, 1, 20),
    "tanh_backward": (ONES, X.tanh()),
    "threshold_backward": (ONES, X, 0.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_gradient_is_written_where_it_is_wanted(name: str) -> None:
    packet = getattr(tt.ops.aten, name)
    wanted = packet.default(*CALLS[name])
    given = tt.full_like(wanted, 7)
    assert packet.grad_input(*CALLS[name], grad_input=given) is given
    assert tt.equal(given, wanted)
    assert tt.equal(packet(*CALLS[name], grad_input=tt.empty(0)), wanted)
    assert packet.grad_input._schema.arguments[-1].name == "grad_input"
