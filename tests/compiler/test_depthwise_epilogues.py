"""Depthwise convolutions fuse with their epilogues: one launch, bitwise identical to eager."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import agree
from triten.tests.compiler.test_epilogues import launches, operands

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.products import write_product_kernel
from triten.triton_kernels.convolution import depthwise

F = tt.nn.functional
LAST = {4: tt.channels_last, 5: tt.channels_last_3d}
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "bias and relu": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1, groups=8)),
        ((2, 8, 6, 5), (8, 1, 3, 3), (8,)),
    ),
    "a batch norm and relu6": (
        lambda x, w, m, v, s, b: F.relu6(F.batch_norm(F.conv2d(x, w, groups=6), m, v * v, s, b)),
        ((2, 6, 7, 5), (6, 1, 3, 3), (6,), (6,), (6,), (6,)),
    ),
    "several outputs of a group, a scale and a residual": (
        lambda x, w, s, r: F.conv2d(x, w, stride=2, groups=5) * s + r,
        ((2, 5, 7, 9), (10, 1, 3, 2), (10, 1, 1), (2, 10, 3, 4)),
    ),
    "several inputs of a group": (
        lambda x, w, b: F.silu(F.conv2d(x, w, b, groups=3)) + 1,
        ((2, 6, 5, 5), (3, 2, 2, 3), (3,)),
    ),
    "numbers of images and of places": (
        lambda x, w, i, p: F.conv1d(x, w, groups=4) * i + p,
        ((3, 4, 9), (4, 1, 3), (3, 1, 1), (7,)),
    ),
    "a volume": (
        lambda x, w, b: F.gelu(F.conv3d(x, w, b, dilation=(1, 2, 1), groups=4)),
        ((2, 4, 3, 5, 5), (4, 1, 2, 2, 3), (4,)),
    ),
    "a transposed one": (
        lambda x, w, b: F.silu(F.conv_transpose2d(x, w, b, stride=2, padding=1, groups=6)),
        ((2, 6, 4, 4), (6, 2, 3, 3), (12,)),
    ),
    "one tap": (lambda x, w: F.conv2d(x, w, groups=8).tanh(), ((2, 8, 3, 5), (8, 1, 1, 1))),
    "a result one pixel wide": (
        lambda x, w, r: F.conv2d(x, w, groups=8) * r,
        ((2, 8, 6, 3), (8, 1, 3, 3), (2, 8, 4, 1)),
    ),
    "the result, too": (
        lambda x, w: ((y := F.conv2d(x, w, groups=8)), y.sigmoid() * 2),
        ((2, 8, 6, 5), (8, 1, 3, 3)),
    ),
}
"""Functions of one launch, and the shapes of their arguments."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_last", [False, True], ids=["planes", "channels last"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_results_are_those_of_eager_calls(name: str, is_last: bool, dtype: Any) -> None:
    function, shapes = CASES[name]
    made = operands(*shapes, dtype=dtype)
    if is_last:
        made = [one.to(memory_format=LAST[one.ndim]) if one.ndim in LAST else one for one in made]
    compiled = agree(function, lambda: tuple(made), calls=1)
    count = 2 if "batch norm" in name else 1  # of which one makes variances
    assert launches(lambda: compiled(*made)) == count < launches(lambda: function(*made))


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_pixels_of_a_column_lie_apart(groups: int) -> None:
    """Compute a channels-last result that is one pixel wide, in which each pixel is a row."""
    x, w, b = operands((2, 8, 9, 3), (8, 8 // groups, 3, 3), (8,))
    x = x.to(memory_format=tt.channels_last)
    agree(lambda x, w, b: F.relu(F.conv2d(x, w, b, groups=groups)), lambda: (x, w, b), calls=1)


@pytest.mark.parametrize("seed", range(12))
def test_windows(seed: int) -> None:
    draw = random.Random(seed)
    groups, width = draw.choice([2, 3, 7, 16]), draw.choice([1, 1, 2])
    size, taps = (draw.randint(5, 12), draw.randint(5, 12)), (draw.randint(1, 3), draw.randint(1, 3))
    window: dict[str, Any] = {
        name: (draw.randint(1, 2), draw.randint(1, 2)) for name in ("stride", "dilation")
    }
    window["padding"] = (draw.randint(0, 2), draw.randint(0, 2))
    dtype = draw.choice([tt.float32, tt.float16, tt.bfloat16])

    def f(x: tt.Tensor, w: tt.Tensor, b: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
        return F.hardtanh(F.conv2d(x, w, b, groups=groups, **window) * s)

    count = groups * width
    x, w, b, s = operands((2, groups, *size), (count, 1, *taps), (count,), (count, 1, 1), dtype=dtype)
    if draw.random() < 0.5:
        x = x.to(memory_format=tt.channels_last)
    compiled = agree(f, lambda: (x, w, b, s), calls=1)
    assert launches(lambda: compiled(x, w, b, s)) == 1


@pytest.mark.parametrize("is_last", [False, True], ids=["planes", "channels last"])
def test_a_block_of_a_mobile_network_is_a_launch_for_each_convolution(is_last: bool) -> None:
    def block(
        x: tt.Tensor, u: tt.Tensor, v: tt.Tensor, w: tt.Tensor, s: tt.Tensor, t: tt.Tensor
    ) -> tt.Tensor:
        y = F.relu6(F.batch_norm(F.conv2d(x, u), s, s, s, s))
        y = F.relu6(F.batch_norm(F.conv2d(y, v, padding=1, groups=24), s, s, s, s))
        return F.batch_norm(F.conv2d(y, w), t, t, t, t) + x

    made = operands((2, 8, 6, 5), (24, 8, 1, 1), (24, 1, 3, 3), (8, 24, 1, 1), (24,), (8,))
    made = [*made[:4], made[4].abs(), made[5].abs()]
    if is_last:
        made[0] = made[0].to(memory_format=tt.channels_last)
    compiled = agree(block, lambda: tuple(made), calls=1)
    assert (launches(lambda: compiled(*made)), launches(lambda: block(*made))) == (3, 9)


def test_a_weight_is_copied_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy a weight whose taps are contiguous for a channels-last convolution, as eager does."""
    monkeypatch.setattr(depthwise, "COPY_THRESHOLD", 0)
    x, w = operands((2, 8, 6, 5), (8, 1, 3, 3))
    x = x.to(memory_format=tt.channels_last)
    function = lambda x, w: F.relu(F.conv2d(x, w, groups=8)) * 0.5  # noqa: E731
    compiled = agree(function, lambda: (x, w), calls=1)
    assert (launches(lambda: compiled(x, w)), launches(lambda: function(x, w))) == (2, 4)


def test_the_source_is_that_of_all_sizes() -> None:
    texts = set()
    for n in (2, 3):
        x, w = operands((n, 8, 6, 5 + n), (8, 1, 3, 3))
        f = lambda x, w: F.relu(F.conv2d(x, w, groups=8)) * 0.5  # noqa: E731
        (kernel,) = tt.compiler.explain(f, x, w).schedules[0].kernels
        texts.add(write_product_kernel(kernel))
    (text,) = texts
    assert "# aten.relu(product)" in text and "def convolution_relu_mul(" in text


PROGRAM = """
import json

import triten as tt
from triten.compiler.product_kernel import ProductKernel
from triten.tests.compiler.beside_eager import drawn, same

F = tt.nn.functional


def f(x, w, b, s, r):
    return F.relu6(F.batch_norm(F.conv2d(x, w, b, padding=1, groups=16), s, s, s, s)) * 0.3 + r


found = []
for dtype in (tt.float32, tt.bfloat16, tt.float16):
    for form in (tt.contiguous_format, tt.channels_last):
        shapes = (2, 16, 9, 7), (16, 1, 3, 3), (16,), (16,), (2, 16, 9, 7)
        x, w, b, s, r = [drawn(*each, device="cuda", dtype=dtype, seed=i) for i, each in enumerate(shapes)]
        given = x.to(memory_format=form), w, b, s.abs(), r.to(memory_format=form)
        same(tt.compile(f, fullgraph=True)(*given), f(*given), f"{dtype} {form}")
        kernels = tt.compiler.explain(f, *given).schedules[0].kernels
        found.append([isinstance(each, ProductKernel) for each in kernels])
print(json.dumps(found))
"""


@pytest.mark.parametrize("target", ["80", "90"])
def test_sums_round_as_eager_ones_do(target: str) -> None:
    """Execute code compiled for devices: each step of the epilogue rounds, and each sum rounds once."""
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, env=clean | variables
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == [[True]] * 6
