"""Dropout in matmul epilogues: eager's random numbers, in one launch."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import drawn, same
from triten.tests.compiler.test_epilogues import launches, operands, steps_of

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.products import write_product_kernel

F = tt.nn.functional
nn = tt.nn


def agree(function: Callable[..., Any], *made: tt.Tensor) -> Callable[..., Any]:
    """Assert that compiled random ops sample eager's numbers and leave the device's generator in eager's
    state.
    """
    compiled = tt.compile(function, fullgraph=True)
    found = []
    for each in (function, compiled, compiled):
        tt.manual_seed(7)
        found.append((each(*made), tt.rand(1, device="cuda")))
    same(found[1], found[0])
    same(found[2], found[0])
    return compiled


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "alone": (lambda x, w, b: F.dropout(F.linear(x, w, b), 0.3), ((6, 20), (24, 20), (24,))),
    "an activation before": (
        lambda x, w, b: F.dropout(F.relu(F.linear(x, w, b)), 0.5),
        ((2, 3, 20), (24, 20), (24,)),
    ),
    "a residual": (
        lambda x, w, b, r: r + F.dropout(F.linear(x, w, b), 0.1),
        ((2, 3, 20), (24, 20), (24,), (2, 3, 24)),
    ),
    "two of them": (
        lambda x, w, r: F.dropout(F.dropout(x @ w, 0.2) + r, 0.7),
        ((6, 20), (20, 24), (6, 24)),
    ),
    "the mask and the product, too": (
        lambda x, w: ((y := x @ w), *tt.native_dropout(y * 2, 0.4, True)),
        ((6, 20), (20, 24)),
    ),
    "the mask alone": (lambda x, w: tt.native_dropout(x @ w, 0.4, True)[1], ((6, 20), (20, 24))),
    "the mask is read": (
        lambda x, w: (d := tt.native_dropout(x @ w, 0.4, True))[0] + d[1],
        ((6, 20), (20, 24)),
    ),
    "matrices": (lambda x, w, r: F.dropout(x @ w, 0.1) * r, ((3, 6, 20), (3, 20, 24), (3, 6, 24))),
    "of an operand that is computed": (
        lambda x, w: F.dropout(F.silu(x) @ (w * 2), 0.1) + 1,
        ((6, 20), (20, 24)),
    ),
    "everything dropped": (lambda x, w: tt.native_dropout(x @ w, 1.0, True)[0] + 1, ((6, 20), (20, 24))),
    "several tiles": (lambda x, w: F.dropout(x @ w, 0.1), ((130, 20), (20, 260))),
}
"""Functions of one launch, and the shapes of their arguments."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_numbers_are_eager(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    made = operands(*shapes, dtype=dtype)
    compiled = agree(function, *made)
    assert launches(lambda: compiled(*made)) == 1 < launches(lambda: function(*made))


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
def test_parts_are_added_with_draws(dtype: Any) -> None:
    """Fuse dropout into the launch that adds the partial sums of a long K dimension."""
    function = lambda x, w, c: F.dropout(tt.addmm(c, x, w * 2), 0.3) + 1  # noqa: E731
    made = operands((16, 2048), (2048, 16), (16,), dtype=dtype)
    compiled = agree(function, *made)
    is_split = dtype is tt.float32  # Stream-K serves 16-bit floats in one launch.
    assert launches(lambda: compiled(*made)) == (2 if is_split else 1)
    (kernel,) = tt.compiler.explain(function, *made).schedules[0].kernels
    text = write_product_kernel(kernel)
    kernel_name = "add_parts(" if is_split else "matmul_stream_k("
    assert all(each in text for each in ("convert(y, tl.float", kernel_name, "aten.native_dropout("))


def test_tiles_by_descriptors_and_by_pointers() -> None:
    function = lambda x, w: F.dropout(x @ w, 0.3)  # noqa: E731
    x, w = operands((40, 64), (64, 48), dtype=tt.bfloat16)
    compiled = agree(function, x, w)
    shifted = drawn(40 * 64 + 1, device="cuda", dtype=tt.bfloat16)[1:].view(40, 64)
    found = []
    for each in (function, compiled):
        tt.manual_seed(3)
        found.append(each(shifted, w))
    same(found[1], found[0])


def test_draws_come_in_the_order_of_the_program() -> None:
    """Keep the program's order of two random ops in epilogues, though the second matmul is ready first."""

    def f(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor) -> tuple[tt.Tensor, ...]:
        late, early = x @ w, x @ v
        first = F.dropout(early * 2, 0.4)
        return F.dropout(late.relu() + first.sum(), 0.5), first, F.dropout(v, 0.5)

    made = operands((6, 20), (20, 24), (20, 24))
    agree(f, *made)
    assert ["mm", "mul", "native_dropout"] in steps_of(f, *made)


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: F.dropout(x @ w, 0.5), ((6, 20), (20, 23))),
        (lambda x, w: F.dropout((x @ w).t().contiguous(), 0.5), ((8, 20), (20, 24))),
        (lambda x, w: F.dropout(F.conv2d(x, w), 0.5), ((2, 4, 5, 6), (8, 4, 2, 3))),
        (
            lambda x, w: F.layer_norm(F.dropout(x @ w, 0.5) + 1, (24,)),
            ((6, 20), (20, 24)),
        ),
    ],
    ids=["rows of odd length", "turned round", "a convolution", "rows"],
)
def test_what_stays_apart(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    made = operands(*shapes)
    agree(function, *made)
    steps = steps_of(function, *made)
    assert "mm" in steps or "convolution" in steps


class Perceptron(nn.Module):
    """Feed-forward block of a transformer in training, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        return x + F.dropout(self.down(F.dropout(F.relu(self.up(x)), 0.2)), 0.1)


def test_a_training_step_reads_the_masks() -> None:
    """Run eager's backward, with masks that the matmul kernels return."""
    found, counts = [], []
    tt.manual_seed(0)
    model = Perceptron().cuda()
    x = drawn(2, 6, 16, device="cuda")
    for run in (model, tt.compile(model, fullgraph=True)):
        for _ in range(2):
            model.zero_grad()
            tt.manual_seed(3)
            before = launches(lambda run=run: found.append(run(x)))  # type: ignore[misc]
            result = found.pop()
            result.square().sum().backward()
        gradients = [each.grad.clone() for each in model.parameters() if each.ndim == 2]
        counts.append(before)
        found.append([result.detach(), *gradients])
    same(found[1], found[0])
    assert counts == [6, 2]


PROGRAM = """
import json

import triten as tt
from triten.compiler.product_kernel import ProductKernel
from triten.tests.compiler.beside_eager import drawn, same

F = tt.nn.functional
CASES = {
    "tiles": (
        lambda x, w, b, r: F.dropout(F.relu(F.linear(x, w, b)), 0.3) + r,
        ((40, 24), (136, 24), (136,), (40, 136)),
    ),
    "parts": (lambda x, w, b, r: F.dropout(F.linear(x, w, b), 0.3) * r, ((16, 1024), (16, 1024), (16,), (16, 16))),
}
found = {}
for name, (function, shapes) in CASES.items():
    for dtype in (tt.bfloat16, tt.float32):
        made = [drawn(*shape, device="cuda", dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
        results = []
        for each in (function, tt.compile(function, fullgraph=True)):
            tt.manual_seed(5)
            results.append((each(*made), tt.rand(1, device="cuda")))
        same(results[1], results[0], f"{name} {dtype}")
        kernels = tt.compiler.explain(function, *made).schedules[0].kernels
        found[f"{name} {dtype}"] = [len(each.draws) for each in kernels if isinstance(each, ProductKernel)]
print(json.dumps(found))
"""


@pytest.mark.parametrize("target", ["80", "90"])
def test_what_is_compiled_draws_the_same(target: str) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, env=clean | variables
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert set(map(tuple, json.loads(done.stdout).values())) == {(1,)}
