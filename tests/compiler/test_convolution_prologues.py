"""Convolutions fuse with the producers of inputs and weights, bitwise identical to eager."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.tests.compiler.beside_eager import agree, drawn
from triten.tests.compiler.test_epilogues import launches, operands, steps_of

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.products import write_product_kernel
from triten.triton_kernels.convolution import convolution, layout_copies

F = tt.nn.functional
LAST = {4: tt.channels_last, 5: tt.channels_last_3d}


def last(made: list[tt.Tensor]) -> list[tt.Tensor]:
    return [one.to(memory_format=LAST[one.ndim]) if one.ndim in LAST else one for one in made]


def normed(x: tt.Tensor, w: tt.Tensor, m: tt.Tensor, v: tt.Tensor, s: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.conv2d(F.relu(F.batch_norm(x, m, v, s, b)), w)


ONE_TAP: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "relu": (lambda x, w, b: F.conv2d(F.relu(x), w, b), ((2, 8, 6, 5), (12, 8, 1, 1), (12,))),
    "a scale and a shift of channels": (
        lambda x, w, s, b: F.conv2d(x * s + b, w),
        ((2, 8, 6, 5), (12, 8, 1, 1), (8, 1, 1), (8, 1, 1)),
    ),
    "a batch norm and relu": (normed, ((2, 8, 6, 5), (12, 8, 1, 1), (8,), (8,), (8,), (8,))),
    "a batch norm alone": (
        lambda x, w, m, v: F.conv2d(F.batch_norm(x, m, v, eps=0.25), w),
        ((2, 8, 6, 5), (12, 8, 1, 1), (8,), (8,)),
    ),
    "steps before a batch norm": (
        lambda x, w, m, v: F.conv2d(F.batch_norm(x * 2, m, v).sigmoid(), w),
        ((2, 8, 6, 5), (12, 8, 1, 1), (8,), (8,)),
    ),
    "numbers of images and channels": (
        lambda x, w, s: F.conv2d(x * s.sigmoid(), w),
        ((3, 8, 6, 5), (12, 8, 1, 1), (3, 8, 1, 1)),
    ),
    "an epilogue, too": (
        lambda x, w, m, v, b, r: (
            F.relu6(F.batch_norm(F.conv2d(F.relu(F.batch_norm(x, m, v)), w), b, b * b)) + r
        ),
        ((2, 8, 6, 5), (12, 8, 1, 1), (8,), (8,), (12,), (2, 12, 6, 5)),
    ),
    "a line": (lambda x, w: F.conv1d(F.silu(x), w), ((3, 8, 9), (6, 8, 1))),
    "a volume": (lambda x, w: F.conv3d(x + 1, w), ((2, 8, 3, 4, 5), (6, 8, 1, 1, 1))),
    "what is infinite where there is nothing": (
        lambda x, w: F.conv2d(1 / x, w),
        ((2, 9, 3, 5), (5, 9, 1, 1)),
    ),
    "the weight": (lambda x, w, s: F.conv2d(x, w * s), ((1, 8, 6, 5), (12, 8, 1, 1), (12, 1, 1, 1))),
}
"""Functions of a convolution of one tap, and the shapes of their arguments; variances are made positive."""


@pytest.mark.parametrize("name", ONE_TAP)
@pytest.mark.parametrize("is_last", [False, True], ids=["planes", "channels last"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_one_tap(name: str, is_last: bool, dtype: Any) -> None:
    function, shapes = ONE_TAP[name]
    made = [one.abs() if i == 3 else one for i, one in enumerate(operands(*shapes, dtype=dtype))]
    if is_last:
        made = last(made)
    compiled = agree(function, lambda: tuple(made), calls=1)
    small = 1 if name in ("an epilogue, too", "numbers of images and channels") else 0
    assert launches(lambda: compiled(*made)) == 1 + small < launches(lambda: function(*made))


@pytest.mark.parametrize("is_last", [False, True], ids=["planes", "channels last"])
def test_a_cast(is_last: bool) -> None:
    x, w = operands((2, 16, 6, 8), (12, 16, 1, 1), dtype=tt.bfloat16)
    x = (x * 8).to(tt.int8)
    if is_last:
        x = x.to(memory_format=tt.channels_last)
    compiled = agree(lambda x, w: F.conv2d(x.to(tt.bfloat16) * 0.5, w), lambda: (x, w), calls=1)
    assert launches(lambda: compiled(x, w)) == 1


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: (F.conv2d(y := F.relu(x), w), y), ((2, 8, 6, 5), (12, 8, 1, 1))),
        (lambda x, w: F.conv2d(y := x * 2, w) + y.sum(), ((2, 8, 6, 5), (12, 8, 1, 1))),
        (lambda x, w: F.conv2d(x * 2, w, stride=2), ((2, 8, 6, 5), (12, 8, 1, 1))),
        (lambda x, w: F.conv2d(x * 2, w, groups=2), ((2, 8, 6, 5), (12, 4, 1, 1))),
        (lambda x, y, w: F.conv2d(x * y, w), ((2, 8, 6, 5), (2, 8, 6, 5), (12, 8, 1, 1))),
        (lambda x, w: F.conv2d(x, w * 2), ((2, 8, 6, 5), (12, 8, 1, 1))),
        (lambda x, w: F.conv_transpose2d(x * 2, w), ((2, 8, 6, 5), (8, 12, 1, 1))),
    ],
    ids=[
        "a result", "read by a sum", "a stride", "groups", "two sources",
        "a weight of several images", "a transposed one",
    ],
)  # fmt: skip
def test_what_stays_apart(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    made = operands(*shapes)
    agree(function, lambda: tuple(made), calls=1)
    steps = [each for each in steps_of(function, *made) if isinstance(each, list)]
    assert not any("convolution" in each and each[0] != "convolution" for each in steps)


def test_a_vector_that_is_read_in_two_ways() -> None:
    """Fuse only what follows the norm: the norm reads the vector by channels, the later step reads it along
    rows.
    """
    function = lambda x, w, m: F.conv2d(F.batch_norm(x, m, m * m) * m, w)  # noqa: E731
    made = operands((2, 8, 6, 8), (12, 8, 1, 1), (8,))
    agree(function, lambda: tuple(made), calls=1)
    assert ["mul", "convolution"] in steps_of(function, *made)


def test_a_layer_of_a_dense_network_is_two_launches_of_convolutions() -> None:
    """Fuse inference-mode batch norm before each convolution: the second norm is an epilogue of the first
    convolution.
    """

    def layer(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor, s: tt.Tensor, t: tt.Tensor) -> tt.Tensor:
        y = F.conv2d(F.relu(F.batch_norm(x, s, s, s, s)), w)
        return F.conv2d(F.relu(F.batch_norm(y, t, t, t, t)), v, padding=1)

    x, w, v, s, t = operands((2, 16, 6, 5), (24, 16, 1, 1), (8, 24, 3, 3), (16,), (24,))
    made = x, w, v, s.abs(), t.abs()
    compiled = agree(layer, lambda: made, calls=1)
    assert (launches(lambda: compiled(*made)), launches(lambda: layer(*made))) == (2, 6)


def test_the_source_says_what_it_computes() -> None:
    made = operands((2, 8, 6, 5), (12, 8, 1, 1), (8,), (8,), (8,), (8,))
    made[3] = made[3].abs()
    (kernel,) = tt.compiler.explain(normed, *made).schedules[0].kernels
    text = write_product_kernel(kernel)
    assert "# aten._native_batch_norm_legit_no_training(y, q" in text and "rsqrt(" in text
    assert "# aten.relu(y_0)" in text


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert the layout of operands of any size."""
    monkeypatch.setattr(layout_copies, "COPY_THRESHOLD", 0)
    monkeypatch.setattr(convolution, "COPY_THRESHOLD", 0)


LAID_OUT: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "relu": (lambda x, w: F.conv2d(F.relu(x), w), ((2, 5, 7, 6), (9, 5, 3, 3))),
    "what is not zero beyond the border": (
        lambda x, w, b: F.conv2d(x.exp() + 1, w, b, padding=2),
        ((2, 5, 7, 6), (9, 5, 3, 3), (9,)),
    ),
    "a batch norm, and an epilogue": (
        lambda x, w, m, v, s: F.relu(F.conv2d(F.silu(F.batch_norm(x, m, v, s, m)), w, padding=1)) * 0.5,
        ((2, 5, 7, 6), (9, 5, 3, 3), (5,), (5,), (5,)),
    ),
    "a norm of both sides": (
        lambda x, w, m, v, s: F.batch_norm(F.conv2d(F.relu(F.batch_norm(x, m, v)), w, padding=1), s, s * s),
        ((2, 5, 7, 6), (9, 5, 3, 3), (5,), (5,), (9,)),
    ),
    "strides and dilation": (
        lambda x, w, s: F.conv2d(x * s, w, stride=(2, 1), dilation=(1, 2), padding=(0, 3)),
        ((2, 5, 9, 8), (9, 5, 3, 2), (5, 1, 1)),
    ),
    "groups": (lambda x, w: F.conv2d(x - 1, w, groups=2, padding=1), ((2, 16, 5, 6), (6, 8, 3, 3))),
    "numbers of images and channels, and of places": (
        lambda x, w, s, p: F.conv2d(x * s + p, w, padding=1),
        ((2, 5, 7, 6), (9, 5, 3, 3), (2, 5, 1, 1), (7, 1)),
    ),
    "a line": (lambda x, w: F.conv1d(F.silu(x), w, padding=1), ((3, 5, 9), (6, 5, 3))),
    "a volume": (lambda x, w: F.conv3d(x * 2, w, padding=1), ((2, 3, 3, 4, 5), (6, 3, 2, 1, 3))),
    "a transposed one": (
        lambda x, w: F.conv_transpose2d(F.relu(x), w, stride=2, padding=1),
        ((2, 5, 4, 5), (5, 7, 3, 3)),
    ),
    "the weight": (lambda x, w, s: F.conv2d(x, w * s, padding=1), ((2, 5, 7, 6), (9, 5, 3, 3), (9, 1, 1, 1))),
    "both operands": (
        lambda x, w, s: F.relu(F.conv2d(x.sigmoid(), (w * s).tanh(), padding=1)),
        ((2, 5, 7, 6), (9, 5, 3, 3), (3, 3)),
    ),
    "one tap and a stride": (lambda x, w: F.conv2d(x.cos(), w, stride=2), ((2, 5, 7, 6), (9, 5, 1, 1))),
}
"""Functions of a convolution whose operands are copied; variances, of five channels, are made positive."""


@pytest.mark.parametrize("name", LAID_OUT)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_operands_are_computed_as_they_are_laid_out(name: str, dtype: Any, copying: None) -> None:
    function, shapes = LAID_OUT[name]
    made = [one.abs() if one.shape == (5,) else one for one in operands(*shapes, dtype=dtype)]
    compiled = agree(function, lambda: tuple(made), calls=1)
    small = 1 if name == "a norm of both sides" else 0
    assert launches(lambda: compiled(*made)) == 2 + small < launches(lambda: function(*made))


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
def test_a_weight_is_computed_where_channels_lie_innermost(dtype: Any, copying: None) -> None:
    """Fuse the producer of the input, which needs no copy; compute the weight in a launch that copies it."""
    x, w = operands((2, 16, 7, 6), (8, 16, 3, 3), dtype=dtype)
    x = x.to(memory_format=tt.channels_last)
    function = lambda x, w: F.conv2d(x * 2, w * 3, padding=1)  # noqa: E731
    compiled = agree(function, lambda: (x, w), calls=1)
    assert launches(lambda: compiled(x, w)) == 3
    assert "mul" in steps_of(function, x, w) and ["mul", "convolution"] in steps_of(function, x, w)


@pytest.mark.parametrize(
    "given, count", [(tt.float32, 2), (tt.int8, 2), (tt.uint8, 2), (tt.float64, 4)], ids=str
)
def test_casts_of_both(given: Any, count: int, copying: None) -> None:
    """Launch the cast separately if it reads eight bytes for each bfloat16 element."""

    def f(x: tt.Tensor, w: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
        return F.conv2d(x.to(tt.bfloat16), w.to(tt.bfloat16) * s, padding=1)

    x, w = ((drawn(*each, device="cuda") * 8).to(given) for each in ((2, 5, 7, 6), (9, 5, 3, 3)))
    (s,) = operands((9, 1, 1, 1), dtype=tt.bfloat16)
    compiled = agree(f, lambda: (x, w, s), calls=1)
    assert launches(lambda: compiled(x, w, s)) == count


@pytest.mark.parametrize("seed", range(10))
def test_windows(seed: int, copying: None) -> None:
    draw = random.Random(seed)
    groups = draw.choice([1, 1, 2])
    channels, filters = groups * draw.randint(2, 5), groups * draw.randint(2, 9)
    taps = (draw.randint(1, 3), draw.randint(2, 3))
    window: dict[str, Any] = {
        name: (draw.randint(1, 2), draw.randint(1, 2)) for name in ("stride", "dilation")
    }
    window["padding"] = (draw.randint(0, 2), draw.randint(0, 2))
    dtype = draw.choice([tt.float32, tt.float16, tt.bfloat16])

    def f(x: tt.Tensor, w: tt.Tensor, s: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
        return F.relu6(F.conv2d((x * s).exp(), w + 1, b, groups=groups, **window))

    size = (draw.randint(5, 9), draw.randint(5, 9))
    shapes = (2, channels, *size), (filters, channels // groups, *taps), (channels, 1, 1), (filters,)
    made = [each * 0.25 for each in operands(*shapes, dtype=dtype)]
    if draw.random() < 0.5:
        made[0] = made[0].transpose(2, 3).contiguous().transpose(2, 3)
    compiled = agree(f, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) < launches(lambda: f(*made))


def test_the_source_of_copies(copying: None) -> None:
    made = operands((2, 5, 7, 6), (9, 5, 3, 3), (5, 1, 1))
    (kernel,) = tt.compiler.explain(lambda x, w, s: F.conv2d(x * s, w), *made).schedules[0].kernels
    text = write_product_kernel(kernel)
    assert "# aten.mul.Tensor(made, p0_tile)" in text and "def mul_convolution_prologue0(" in text
    assert "def convolve" not in text  # the eager kernel serves what has no epilogue


PROGRAM = """
import json

import triten as tt
from triten.compiler.product_kernel import ProductKernel
from triten.tests.compiler.beside_eager import drawn, same
from triten.triton_kernels.convolution import convolution, layout_copies

F = tt.nn.functional


def f(x, w, m, v, r):
    return F.relu(F.conv2d(F.relu(F.batch_norm(x, m, v, v, m)), w)) + r


def g(x, w, m, v, r):
    return F.relu(F.conv2d(F.relu(F.batch_norm(x, m, v, v, m)), w * 2, padding=1)) + r


x, w, m, v, r = [
    drawn(*each, device="cuda", dtype=tt.bfloat16, seed=i)
    for i, each in enumerate(((1, 20, 9, 8), (24, 20, 3, 3), (20,), (20,), (1, 24, 9, 8)))
]
layout_copies.COPY_THRESHOLD = convolution.COPY_THRESHOLD = 0
same(tt.compile(g, fullgraph=True)(x, w, m, v.abs(), r), g(x, w, m, v.abs(), r), "laid out")
(kernel,) = tt.compiler.explain(g, x, w, m, v.abs(), r).schedules[0].kernels
found = [[len(kernel.prologues)]]
for dtype in (tt.bfloat16, tt.float32):
    for form in (tt.contiguous_format, tt.channels_last):
        shapes = (2, 64, 9, 8), (24, 64, 1, 1), (64,), (64,), (2, 24, 9, 8)
        x, w, m, v, r = [drawn(*each, device="cuda", dtype=dtype, seed=i) for i, each in enumerate(shapes)]
        given = x.to(memory_format=form), w, m, v.abs(), r.to(memory_format=form)
        same(tt.compile(f, fullgraph=True)(*given), f(*given), f"{dtype} {form}")
        kernels = tt.compiler.explain(f, *given).schedules[0].kernels
        found.append([len(each.prologues) for each in kernels if isinstance(each, ProductKernel)])
print(json.dumps(found))
"""


@pytest.mark.parametrize("target", ["80", "90"])
def test_what_is_compiled_adds_up_in_the_same_order(target: str) -> None:
    """Check the order of sums: by default a float32 convolution rounds to TF32 and a matmul does not.

    The convolution of float32 therefore copies planes and reads pixels without a copy.
    """
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, env=clean | variables
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == [[2], [1], [1], [1], [0]]
