"""Matmuls fuse with the producers of their operands: one launch, bitwise identical to eager, and the
exceptions.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.product_kernel import ProductKernel
from triten.compiler.prologues import most_repeats
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_epilogues import launches, operands, steps_of

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.products import write_product_kernel

F = tt.nn.functional
bf16, int8 = tt.bfloat16, tt.int8


def by_groups(x: tt.Tensor, w: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
    """Multiply by an int8 weight whose rows have a scale for each group of 16 elements."""
    n, k = w.shape
    weight = (w.view(n, k // 16, 16).to(x.dtype) * s.view(n, k // 16, 1)).view(n, k)
    return F.linear(x, weight)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "a scale": (lambda x, w: (x * 0.125) @ w, ((6, 20), (20, 24))),
    "relu of the right one": (lambda x, w: x @ F.relu(w), ((6, 20), (20, 24))),
    "both": (lambda x, w: (x * 2) @ (w + 1), ((6, 20), (20, 24))),
    "both of one input": (lambda x: (x * 2) @ (x + 1), ((16, 16),)),
    "a row and a column": (
        lambda x, w, r, c: (x * r + c) @ w,
        ((6, 20), (20, 24), (20,), (6, 1)),
    ),
    "a number": (lambda x, w, s: (x * s) @ w, ((6, 20), (20, 24), (1,))),
    "what is not zero where there is nothing": (lambda x, w: x.exp() @ w.cos(), ((6, 20), (20, 24))),
    "infinite where there is nothing": (lambda x, w: (1 / x) @ w, ((6, 20), (20, 24))),
    "a linear layer of a batch, and its epilogue": (
        lambda x, w, b, s: F.relu(F.linear(F.silu(x), w * s, b)),
        ((2, 3, 20), (24, 20), (24,), (24, 1)),
    ),
    "turned round before": (lambda x, w: F.silu(x.t()) @ w, ((20, 6), (20, 24))),
    "scores of heads": (
        lambda q, k: (q * 0.125) @ (k * 0.5).transpose(-1, -2),
        ((2, 3, 8, 16), (2, 3, 8, 16)),
    ),
    "addmm with numbers": (
        lambda c, x, w: tt.addmm(c, x * 2, w, beta=0.5, alpha=2),
        ((6, 24), (6, 20), (20, 24)),
    ),
    "baddbmm": (lambda c, x, w: tt.baddbmm(c, x, w.abs()).exp(), ((3, 6, 24), (3, 6, 20), (3, 20, 24))),
    "a source of one row": (lambda r, w: (r.expand(6, 20) * 2) @ w, ((20,), (20, 24))),
    "scales of groups": (by_groups, ((6, 32), (24, 32), (24, 2))),
    "a source that is addend, too": (lambda x: tt.addmm(x, x * 2, x.abs()), ((16, 16),)),
}
"""Functions of one launch, and the shapes of their arguments."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [tt.float32, bf16], ids=str)
def test_results_are_those_of_eager_calls(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    made = operands(*shapes, dtype=dtype)
    compiled = agree(function, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == 1 < launches(lambda: function(*made))


@pytest.mark.parametrize(
    "given, count",
    [
        (tt.float32, 1),
        (tt.float16, 1),
        (int8, 1),
        (tt.uint8, 1),
        (tt.int32, 1),
        (tt.float64, 2),
        (tt.int64, 2),
    ],
    ids=str,
)
def test_casts(given: Any, count: int) -> None:
    """Convert a source of more than twice the operand's bytes in a launch of its own: it does not fit shared
    memory.
    """

    def f(x: tt.Tensor, w: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
        return F.linear(x, w.to(bf16) * s)

    x, s = operands((6, 32), (24, 1), dtype=bf16)
    w = (drawn(24, 32, device="cuda") * 8).to(given)
    compiled = agree(f, lambda: (x, w, s), calls=1)
    assert launches(lambda: compiled(x, w, s)) == count


@pytest.mark.parametrize("dtype", [tt.float32, bf16], ids=str)
def test_parts_are_made_of_computed_operands(dtype: Any) -> None:
    """Compute the operands of a split-K matmul in one launch, and the consumers of the sums in the next.

    Stream-K takes one launch for both, of few rows of 16-bit floats.
    """

    def f(x: tt.Tensor, w: tt.Tensor, s: tt.Tensor, r: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        return F.gelu(F.linear(x * r, (w.view(16, 64, -1).to(dtype) * s).view(16, -1), b)) + x[:, :16]

    x, s, r, b = operands((16, 2112), (16, 64, 1), (2112,), (16,), dtype=dtype)
    w = (drawn(16, 2112, device="cuda") * 8).to(int8)
    compiled = agree(f, lambda: (x, w, s, r, b), calls=1)
    assert launches(lambda: compiled(x, w, s, r, b)) == (2 if dtype is tt.float32 else 1)
    kernel = tt.compiler.explain(f, x, w, s, r, b).schedules[0].kernels[-1]
    kernel_name = "add_parts(" if dtype is tt.float32 else "matmul_stream_k("
    assert all(each in write_product_kernel(kernel) for each in ("convert(y, tl.int8)", kernel_name))


def test_tiles_by_descriptors_and_by_pointers() -> None:
    """Choose descriptors by the tensor that the prologue loads."""

    def f(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return F.relu(x) @ w.to(bf16)

    x, w = operands((40, 64), (64, 48), dtype=bf16)
    w = w.float()
    compiled = agree(f, lambda: (x, w), calls=1)
    shifted = drawn(40 * 64 + 1, device="cuda", dtype=bf16)[1:].view(40, 64)
    same(compiled(shifted, w), f(shifted, w))
    assert launches(lambda: compiled(shifted, w)) == 1


@pytest.mark.parametrize("m, n, k", [(17, 33, 1), (130, 140, 150), (5, 304, 40), (16, 16, 144)])
@pytest.mark.parametrize("dtype", [tt.float32, bf16], ids=str)
def test_sizes(m: int, n: int, k: int, dtype: Any) -> None:
    made = operands((m, k), (k, n), (k,), dtype=dtype)
    compiled = agree(lambda x, w, s: (x * s) @ (w + 1), lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == 1


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: ((y := x * 2) @ w, y), ((6, 20), (20, 24))),
        (lambda x, w: ((y := x * 2) @ w) + y.sum(), ((6, 20), (20, 24))),
        (lambda x: (y := x * 2) @ y, ((16, 16),)),
        (lambda x: (y := x * 2) @ y.t(), ((6, 16),)),
        (lambda x, w: (y := x * 2) @ w + y, ((16, 16), (16, 16))),
        (lambda x, y, w: (x * y) @ w, ((6, 20), (6, 20), (20, 24))),
        (lambda x, w: x.softmax(-1) @ w, ((6, 20), (20, 24))),
        (lambda x, w: tt.digamma(x) @ w, ((6, 20), (20, 24))),
        (lambda x, w: (x > 0) .to(x.dtype)[:, :20] @ w, ((6, 24), (20, 24))),
        (lambda x, w: (x * 2) @ w, ((1, 20), (20, 24))),
    ],
    ids=[
        "a result", "read by a sum", "both operands", "read turned round", "read behind", "two sources", "rows",
        "many registers", "a part", "a vector",
    ],
)  # fmt: skip
def test_what_stays_apart(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    made = operands(*shapes)
    agree(function, lambda: tuple(made), calls=1)
    names = steps_of(function, *made)
    assert not any(isinstance(each, list) and each[0] != "mm" and "mm" in each for each in names)


def test_an_epilogue_comes_before_a_prologue() -> None:
    """Compute the step between two matmuls once, in the epilogue of the first."""
    made = operands((6, 20), (20, 24), (24, 8))
    function = lambda x, w, v: F.relu(x @ w) @ v  # noqa: E731
    agree(function, lambda: tuple(made), calls=1)
    assert steps_of(function, *made) == [["mm", "relu"], "mm"]


def test_a_write_between_comes_after() -> None:
    """Write a buffer after the steps that read it."""

    def f(buffer: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        y = buffer * 2
        buffer.add_(1)
        return y @ w

    made = operands((6, 20), (20, 24))
    agree(f, lambda: (made[0].clone(), made[1]), calls=2)


def test_how_often_an_operand_may_be_computed() -> None:
    """Recompute an operand only while that costs no more than another launch; wide sources and long
    functions cost more.
    """

    def most(function: Callable[..., Any], given: Any) -> int:
        x = drawn(32, 32, device="cuda", dtype=bf16)
        w = drawn(32, 32, device="cuda").to(given)
        (kernel,) = tt.compiler.explain(function, x, w).schedules[0].kernels
        assert isinstance(kernel, ProductKernel)
        return most_repeats(kernel.prologues[0])

    assert most(lambda x, w: x @ (w * 2), bf16) == 8
    assert most(lambda x, w: x @ w.to(bf16), tt.float32) == 2
    assert most(lambda x, w: x @ (w.to(bf16) * 2), int8) == 3
    assert most(lambda x, w: x @ F.silu(w), bf16) == 1


def test_the_source_names_operators_and_is_that_of_all_sizes() -> None:
    texts = set()
    for m in (32, 48):
        x, w, s = operands((m, 24), (24, 24), (24,))
        (kernel,) = tt.compiler.explain(lambda x, w, s: (x * s) @ w, x, w, s).schedules[0].kernels
        texts.add(write_product_kernel(kernel))
    (text,) = texts
    assert "# aten.mul.Tensor(x, p0_tile)" in text and "def mul_mm_prologue(" in text


PROGRAM = """
import json

import numpy as np
import triten as tt
from triten.compiler.product_kernel import ProductKernel
from triten.runtime.cuda.driver import driver
from triten.tests.compiler.beside_eager import same

F = tt.nn.functional
rng = np.random.default_rng(5)
order = rng.permutation(256)
halves = rng.integers(-99, 100, (2, 64, 128)) * np.array([2.0 ** rng.integers(-8, 9, (64, 128)), np.ones((64, 128))])
# Each sum is zero but for roundings, which tell the order in which it was made.
x = np.concatenate([halves[0], -halves[0]], 1)[:, order]
w = np.concatenate([halves[1], halves[1]], 1)[:, order]


def drawn(numbers, dtype):
    return tt.tensor(numbers.tolist(), dtype=tt.float64).to("cuda", dtype)


kernels = {}
cases = {
    "scale": (lambda x, w: (x * 0.3) @ (w + 0.7).t(), tt.bfloat16, tt.bfloat16),
    "wide": (lambda x, w: F.linear(x, (w * 0.3).to(x.dtype)), tt.bfloat16, tt.float32),
    "narrow": (lambda x, w: F.linear(x, w.to(x.dtype) * 0.3), tt.bfloat16, tt.int8),
}
for name, (function, left, right) in cases.items():
    operands = drawn(x * 0.3, left), drawn(w, right)
    same(tt.compile(function, fullgraph=True)(*operands), function(*operands), name)
    steps = tt.compiler.explain(function, *operands).schedules[0].kernels
    kernels[name] = sum(len(each.prologues) for each in steps if isinstance(each, ProductKernel))
print(json.dumps(kernels))
"""


@pytest.mark.parametrize("target, narrow", [("80", 0), ("90", 1)])
def test_tensor_cores_keep_the_order_of_sums(target: str, narrow: int) -> None:
    """Execute code compiled for devices and compare it with eager on sums that cancel."""
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, env=clean | variables
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"scale": 2, "wide": 1, "narrow": narrow}
