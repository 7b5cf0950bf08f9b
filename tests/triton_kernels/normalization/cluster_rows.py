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
CASES: dict[str, tuple[tt.dtype, int, Callable[..., Any], int]] = {
    "softmax with edges": (tt.float32, 16401, lambda x: tt.softmax(x, 1), 1),
    "log_softmax": (tt.float32, 16400, lambda x: tt.log_softmax(x, 1), 1),
    "layer_norm with edges": (tt.bfloat16, 8209, lambda x, w, b: F.layer_norm(x, [8209], w, b), 3),
    "rms_norm": (tt.float32, 16400, lambda x, w: F.rms_norm(x, [16400], w), 2),
}


def run(function: Callable[..., Any], operands: list[tt.Tensor], grad: tt.Tensor) -> list[Any]:
    """Return the result and the gradients of the operands."""
    operands = [each.detach().requires_grad_(True) for each in operands]
    result = function(*operands)
    result.backward(grad)
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
