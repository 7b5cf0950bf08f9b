"""Inference-mode batch norm fuses with adjacent pointwise steps: one kernel, bitwise identical to eager."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import agree
from triten.tests.compiler.test_epilogues import launches, operands, steps_of

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.pointwise import write_kernel

F = tt.nn.functional
LAST = {4: tt.channels_last, 5: tt.channels_last_3d}
PICTURE, CHANNELS = (2, 6, 5, 4), (6,)


def norm(x: tt.Tensor, m: tt.Tensor, v: tt.Tensor, *of_channels: tt.Tensor) -> tt.Tensor:
    return F.batch_norm(x, m, v, *of_channels)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "behind": (lambda x, m, v, s, b: F.relu(norm(x, m, v, s, b)), (PICTURE, *[CHANNELS] * 4)),
    "before": (lambda x, m, v, y: norm(x * 2 + y, m, v), (PICTURE, CHANNELS, CHANNELS, PICTURE)),
    "both": (
        lambda x, m, v, s: F.silu(norm(x.exp(), m, v, s)) * 0.5 + x,
        (PICTURE, *[CHANNELS] * 3),
    ),
    "two norms": (
        lambda x, m, v, s, y: F.relu(norm(x, m, v, s) + norm(y, s, v)),
        (PICTURE, *[CHANNELS] * 3, PICTURE),
    ),
    "one behind the other": (
        lambda x, m, v, s: norm(F.relu(norm(x, m, v)), s, v).tanh(),
        (PICTURE, *[CHANNELS] * 3),
    ),
    "the norm, too": (lambda x, m, v: ((y := norm(x, m, v)), y.sigmoid()), (PICTURE, CHANNELS, CHANNELS)),
    "a vector that is read in two ways": (
        lambda x, m, v: norm(x, m, v) * m,
        ((2, 6, 3, 6), CHANNELS, CHANNELS),
    ),
    "a volume": (lambda x, m, v: F.gelu(norm(x, m, v)), ((2, 6, 3, 2, 4), CHANNELS, CHANNELS)),
}
"""Functions of one launch, and the shapes of their arguments; the third one is made positive."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_last", [False, True], ids=["planes", "channels last"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_results_are_those_of_eager_calls(name: str, is_last: bool, dtype: Any) -> None:
    function, shapes = CASES[name]
    made = [one.abs() if i == 2 else one for i, one in enumerate(operands(*shapes, dtype=dtype))]
    if is_last:
        made = [one.to(memory_format=LAST[one.ndim]) if one.ndim in LAST else one for one in made]
    compiled = agree(function, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == 1 < launches(lambda: function(*made))


def test_a_row_and_a_line() -> None:
    """Normalize matrices and 3-d tensors."""
    for shape in ((5, 6), (5, 6, 7)):
        made = operands(shape, CHANNELS, CHANNELS)
        made[2] = made[2].abs()
        compiled = agree(lambda x, m, v: F.relu(norm(x * 2, m, v)), lambda made=made: tuple(made), calls=1)
        assert launches(lambda compiled=compiled, made=made: compiled(*made)) == 1


def test_what_stays_apart() -> None:
    """Keep apart a lone norm, a norm whose consumer needs all of it, and a norm with a dependent step
    between.
    """
    m, v = operands(CHANNELS, CHANNELS)
    (x,) = operands(PICTURE)
    v = v.abs()

    def between(x: tt.Tensor, m: tt.Tensor, v: tt.Tensor) -> tt.Tensor:
        y = norm(x, m, v)
        return y * y.cumsum(0)

    for function, wanted in (
        (norm, ["_native_batch_norm_legit_no_training"]),
        (lambda x, m, v: norm(x, m, v).softmax(-1), ["_native_batch_norm_legit_no_training", "_softmax"]),
        (between, ["_native_batch_norm_legit_no_training", "cumsum", "mul"]),
    ):
        agree(function, lambda: (x, m, v), calls=1)
        assert steps_of(function, x, m, v) == wanted


def test_a_product_has_it_first() -> None:
    x, w, s = operands((2, 6, 6, 5), (6, 6, 3, 3), CHANNELS)
    s = s.abs()
    function = lambda x, w, s: F.relu(norm(F.conv2d(F.relu(norm(x, s, s)).cumsum(0), w), s, s))  # noqa: E731
    agree(function, lambda: (x, w, s), calls=1)
    name = "_native_batch_norm_legit_no_training"
    assert steps_of(function, x, w, s) == [[name, "relu"], "cumsum", ["convolution", name, "relu"]]


def test_channels_that_lie_innermost_are_read_in_order() -> None:
    x, m, v = operands(PICTURE, CHANNELS, CHANNELS)
    x = x.to(memory_format=tt.channels_last)
    (kernel,) = tt.compiler.explain(lambda x, m, v: F.relu(norm(x, m, v)), x, m, v.abs()).schedules[0].kernels
    text = write_kernel(kernel).text
    assert "i0 = index % 6" in text and "tl.load(a1 + (i0)" in text and "tl.load(a0 + index" in text
