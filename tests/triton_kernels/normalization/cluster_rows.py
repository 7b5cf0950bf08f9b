"""Rows in clusters of thread blocks on an emulated sm_90, compared with the CPU in float64.

Run it in a process of its own with ``TRITEN_CUDA=emulate TRITEN_EMULATE=90``; it prints a line for each case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt
from triten.triton_kernels.launch import planned

F = tt.nn.functional
ROWS = 2
CLASSES = [8200, 8208]
"""Of each row; the second one is at the end of rows of 8,209, behind their last whole vector."""


def loss(x: tt.Tensor, reduction: str = "mean", smoothing: float = 0.0) -> tt.Tensor:
    """Return the cross entropy of a class for each row, weighted if smoothed."""
    weight = tt.arange(x.shape[1], device=x.device).remainder(4).add(1).to(x.dtype) if smoothing else None
    target = tt.tensor(CLASSES, device=x.device)
    return F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing)


def loss_of_probabilities(x: tt.Tensor) -> tt.Tensor:
    """Return the sum of the cross entropies of probabilities that every dtype represents."""
    likely = tt.arange(x.shape[1], device=x.device).remainder(8).to(x.dtype) / 32768
    return F.cross_entropy(x, likely.expand(ROWS, -1).contiguous(), reduction="sum")


CASES: dict[str, tuple[tt.dtype, int, Callable[..., Any], int]] = {
    "softmax with edges": (tt.float32, 16401, lambda x: tt.softmax(x, 1), 1),
    "log_softmax": (tt.float32, 16400, lambda x: tt.log_softmax(x, 1), 1),
    "layer_norm with edges": (tt.bfloat16, 8209, lambda x, w, b: F.layer_norm(x, [8209], w, b), 3),
    "rms_norm": (tt.float32, 16400, lambda x, w: F.rms_norm(x, [16400], w), 2),
    "cross_entropy with edges": (tt.bfloat16, 8209, loss, 1),
    "cross_entropy, smoothed": (tt.float32, 16400, lambda x: loss(x, "none", 0.1), 1),
    "cross_entropy of probabilities": (tt.float32, 8209, loss_of_probabilities, 1),
}


def run(function: Callable[..., Any], operands: list[tt.Tensor], grad: tt.Tensor) -> list[Any]:
    """Return the result and the gradients of the operands; `grad` has elements for any result."""
    operands = [each.detach().requires_grad_(True) for each in operands]
    result = function(*operands)
    result.backward(grad.reshape(-1)[: result.numel()].reshape(result.shape))
    return [each.detach().cpu().double().numpy() for each in (result, *(each.grad for each in operands))]


def main() -> None:
    """Run each case and report its kernels' clusters and its largest error, in units of the dtype's epsilon."""
    rng = np.random.default_rng(0)
    for name, (dtype, n, function, count) in CASES.items():
        values = [rng.standard_normal(size).astype(np.float32) for size in ((ROWS, n), (n,), (n,))]
        operands = [tt.from_numpy(each).to(dtype) for each in values[:count]]
        grad = tt.from_numpy(rng.standard_normal((ROWS, n)).astype(np.float32)).to(dtype)
        planned.launches = []
        found = run(function, [each.cuda() for each in operands], grad.cuda())
        clusters = {launch._kernel.fn.__name__: launch._options[2][2] for launch in planned.launches}
        exact = run(function, [each.double() for each in operands], grad.double())
        errors = [
            float(np.abs(a - b).max() / np.abs(b).max()) / tt.finfo(dtype).eps
            for a, b in zip(found, exact, strict=True)
        ]
        print(json.dumps({"case": name, "clusters": clusters, "errors": errors}), flush=True)


if __name__ == "__main__":
    main()
