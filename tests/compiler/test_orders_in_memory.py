"""Pointwise steps over non-contiguous layouts: one kernel, in memory order."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.schedule import FusedKernel
from triten.tests.compiler.beside_eager import agree, same
from triten.tests.compiler.test_epilogues import launches, operands, steps_of

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.pointwise import write_kernel

F = tt.nn.functional
PICTURE, VOLUME = (2, 6, 5, 4), (2, 6, 3, 2, 4)


def turned(one: tt.Tensor) -> tt.Tensor:
    """Return 4-d and 5-d tensors as channels-last, and matrices as column-major."""
    if one.ndim in (4, 5) and one.shape[0] > 1:
        return one.to(memory_format=tt.channels_last if one.ndim == 4 else tt.channels_last_3d)
    return one.t().contiguous().t() if one.ndim == 2 else one


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "a chain": (lambda x, y: F.silu(x * 2 + y) - 1, (PICTURE, PICTURE)),
    "a vector of channels first": (lambda s, x: (s + x).relu() * s, ((6, 1, 1), PICTURE)),
    "numbers of images, of places, and one": (
        lambda x, i, p, s: x * i + p - s,
        (PICTURE, (2, 1, 1, 1), (5, 4), (1,)),
    ),
    "several results": (lambda x, y: ((z := x + y), z > 0, z.to(tt.float64)), (PICTURE, PICTURE)),
    "volumes": (lambda x, y: (x * y).exp() + y, (VOLUME, VOLUME)),
    "columns": (lambda x, y: (x * y).tanh() + x, ((7, 5), (7, 5))),
    "a wide step": (lambda x: F.gelu(x) * x.sigmoid(), (PICTURE,)),
}
"""Functions of one launch, and the shapes of their arguments."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_results_are_those_of_eager_calls(name: str, dtype: Any) -> None:
    function, shapes = CASES[name]
    made = [turned(one) for one in operands(*shapes, dtype=dtype)]
    compiled = agree(function, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == 1 < launches(lambda: function(*made))
    results = function(*made)
    last = results[-1] if isinstance(results, tuple) else results
    assert not last.is_contiguous()


def test_the_index_goes_over_memory() -> None:
    """Index elements in memory order; the channel is the index's remainder."""
    s, x, y = operands((6, 1, 1), PICTURE, PICTURE)
    (kernel,) = tt.compiler.explain(lambda s, x, y: s * x + y, s, turned(x), turned(y)).schedules[0].kernels
    assert isinstance(kernel, FusedKernel)
    text = write_kernel(kernel).text
    assert all(
        each in text for each in ("a1 + index,", "a2 + index,", "b0 + index,", "i0 = index % 6", "a0 + (i0)")
    )
    (kernel,) = tt.compiler.explain(lambda x, y: (x * y) + y, turned(x), turned(y)).schedules[0].kernels
    assert "index %" not in write_kernel(kernel).text


def test_steps_of_two_orders_are_two_kernels() -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        z = (x * 2 + 1).contiguous()
        return (z * y + 1).relu(), z

    x, y = operands(PICTURE, PICTURE)
    agree(f, lambda: (turned(x), y), calls=1)
    assert steps_of(f, turned(x), y) == [["mul", "add"], ["clone", "mul", "add", "relu"]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x * 2 + y).softmax(-1),
        lambda x, y: (x * 2 + y).sum((0, 2)),
        lambda x, y: F.layer_norm(x * y + 1, x.shape[-1:]),
        lambda x, y: tt.cat([x * 2 + 1, y], 1) * 3,
        lambda x, y: (x * 2 + y).amax(),
        lambda x, y: F.dropout(x * 2 + y, 0.5) + 1,
        lambda x, y: (x * y + 1)[:, :, 1:3] * 2,
        lambda x, y: (x * y + 1).permute(0, 2, 3, 1).relu() - 1,
    ],
    ids=["softmax", "sums", "layer norm", "cat", "everything", "dropout", "a slice", "permuted"],
)
def test_other_steps_read_them(function: Callable[..., Any]) -> None:
    x, y = operands(PICTURE, PICTURE)
    agree(function, lambda: (turned(x), turned(y)), calls=2)


def test_gradients() -> None:
    def f(x: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
        return F.silu(x * s) + x

    def step(function: Callable[..., tt.Tensor]) -> list[Any]:
        x, s = operands(PICTURE, (6, 1, 1))
        leaves = [turned(x).requires_grad_(), s.requires_grad_()]
        result = function(*leaves)
        result.backward(turned(operands(PICTURE)[0]))
        return [result.detach(), *[leaf.grad for leaf in leaves]]

    found, expected = step(tt.compile(f, fullgraph=True)), step(f)
    same(found[:2], expected[:2])
    assert tt.allclose(found[2], expected[2], rtol=1e-6, atol=1e-5)


def test_steps_behind_a_convolution_are_its_epilogue() -> None:
    """Fuse the pointwise steps after a convolution into its epilogue, also if they read another kernel's
    steps.
    """

    def f(x: tt.Tensor, w: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        return F.relu(F.conv2d(x, w) + y * 2 + y.sigmoid()) - 1

    x, w, y = operands((2, 8, 6, 5), (12, 8, 3, 3), (2, 12, 4, 3))
    made = turned(x), w, turned(y)
    compiled = agree(f, lambda: made, calls=1)
    assert launches(lambda: compiled(*made)) == 1
