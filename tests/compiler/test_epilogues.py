"""Matmuls and convolutions fuse with their epilogues: one launch, bitwise identical to eager, and the
exceptions.
"""

import operator
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.element_places import grouped_terms
from triten.compiler.pipeline import run_passes, schedule_of
from triten.compiler.product_kernel import ProductKernel
from triten.compiler.schedule import OperatorCall
from triten.tests.compiler.beside_eager import agree, drawn, same

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.products import write_product_kernel
from triten.runtime.cuda.driver import driver
from triten.triton_kernels.convolution import convolution, layout_copies

F = tt.nn.functional
VIEWS = ("t", "view", "expand", "transpose", "_unsafe_view")


def launches(run: Callable[[], Any]) -> int:
    before = driver().launches
    run()
    return driver().launches - before


def steps_of(function: Callable[..., Any], *args: tt.Tensor) -> list[Any]:
    """Return a schedule's steps without views: a list of operators for a kernel, one operator for a call."""
    schedule = schedule_of(run_passes(tt.func.make_graph(function, "fake")(*args).graph))
    schedule.check()
    names = []
    for step in schedule.steps:
        if not isinstance(step, OperatorCall):
            names.append([call.node.target._opname for call in step.computed])
        elif step.node.target is not operator.getitem and step.node.target._opname not in VIEWS:
            names.append(step.node.target._opname)
    return names


def operands(*shapes: tuple[int, ...], dtype: Any = tt.float32) -> list[tt.Tensor]:
    return [drawn(*shape, device="cuda", dtype=dtype, seed=i) for i, shape in enumerate(shapes)]


def attention_scores(q: tt.Tensor, k: tt.Tensor, mask: tt.Tensor) -> tt.Tensor:
    return (q @ k.transpose(-1, -2) * 0.125).masked_fill(mask > 0, -1e9)


def gated(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor) -> tt.Tensor:
    return F.silu(F.linear(x, w)) * F.linear(x, v)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = {
    "bias and relu": (lambda x, w, b: tt.relu(x @ w + b), ((6, 20), (20, 24), (24,)), 1),
    "linear and gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), ((6, 20), (24, 20), (24,)), 1),
    "linear of a batch and gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
        ((2, 3, 20), (24, 20), (24,)),
        1,
    ),
    "a residual": (lambda x, w, b, r: r + F.linear(x, w, b), ((2, 3, 20), (24, 20), (24,), (2, 3, 24)), 1),
    "a residual that rows share": (
        lambda x, w, r: F.linear(x, w) * 2 + r,
        ((2, 3, 20), (24, 20), (1, 3, 24)),
        1,
    ),
    "a column and a number": (
        lambda x, w, c, s: (x @ w) * c + s,
        ((6, 20), (20, 24), (6, 1), (1,)),
        1,
    ),
    "scores and a mask": (attention_scores, ((2, 3, 8, 16), (2, 3, 8, 16), (8, 8)), 2),
    "a number for each head": (
        lambda q, k, s: tt.tanh(q @ k * s),
        ((2, 3, 4, 16), (2, 3, 16, 8), (3, 1, 1)),
        1,
    ),
    "a gate": (gated, ((6, 20), (24, 20), (24, 20)), 2),
    "addmm with numbers": (
        lambda c, x, w: tt.addmm(c, x, w, beta=0.5, alpha=2).sigmoid(),
        ((6, 24), (6, 20), (20, 24)),
        1,
    ),
    "an addend that does not count": (
        lambda c, x, w: tt.addmm(c, x, w, beta=0).sigmoid(),
        ((6, 24), (6, 20), (20, 24)),
        1,
    ),
    "baddbmm": (
        lambda c, x, w: tt.baddbmm(c, x, w).exp() + 1,
        ((3, 6, 24), (3, 6, 20), (3, 20, 24)),
        1,
    ),
    "columns in two": (
        lambda x, w, s: F.linear(x, w).view(6, 2, 12) * s,
        ((6, 20), (24, 20), (2, 1)),
        1,
    ),
    "a cast": (lambda x, w: (x @ w).to(tt.float64) * 3, ((6, 20), (20, 24)), 1),
    "the product, too": (lambda x, w: ((y := x @ w), F.relu(y)), ((6, 20), (20, 24)), 1),
    "several results": (
        lambda x, w, b: ((z := F.linear(x, w, b)) > 0, z.relu(), z * 2),
        ((2, 3, 20), (24, 20), (24,)),
        1,
    ),
    "an operand of the product, too": (lambda x: (x @ x) * x, ((16, 16),), 1),
}
"""Functions, the shapes of their arguments, and how many launches they take."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
def test_results_are_those_of_eager_calls(name: str, dtype: Any) -> None:
    function, shapes, count = CASES[name]
    made = operands(*shapes, dtype=dtype)
    compiled = agree(function, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == count < launches(lambda: function(*made))


CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "bias and relu": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)),
        ((2, 8, 6, 5), (12, 8, 3, 3), (12,)),
    ),
    "a scale and a shift of channels, and a residual": (
        lambda x, w, s, b, r: F.relu(F.conv2d(x, w, stride=2) * s + b + r),
        ((2, 8, 7, 7), (12, 8, 3, 3), (12, 1, 1), (12, 1, 1), (2, 12, 3, 3)),
    ),
    "numbers of images and of places": (
        lambda x, w, i, p: F.conv1d(x, w) * i + p,
        ((3, 4, 9), (6, 4, 3), (3, 1, 1), (7,)),
    ),
    "a volume, in groups": (
        lambda x, w, b: F.gelu(F.conv3d(x, w, b, groups=2)),
        ((2, 8, 3, 4, 5), (6, 4, 2, 2, 2), (6,)),
    ),
    "a transposed one": (
        lambda x, w, b: F.silu(F.conv_transpose2d(x, w, b, stride=2, padding=1)),
        ((2, 6, 4, 4), (6, 8, 3, 3), (8,)),
    ),
    "a batch norm and a residual": (
        lambda x, w, m, v, s, b, r: F.relu(F.batch_norm(F.conv2d(x, w, padding=1), m, v.abs(), s, b) + r),
        ((2, 8, 6, 5), (12, 8, 3, 3), (12,), (12,), (12,), (12,), (2, 12, 6, 5)),
    ),
    "a batch norm of one tap": (
        lambda x, w, m, v: F.batch_norm(F.conv2d(x, w), m, v.abs(), eps=0.25),
        ((2, 8, 6, 5), (12, 8, 1, 1), (12,), (12,)),
    ),
    "one tap": (
        lambda x, w, b, r: F.relu(F.conv2d(x, w, b) + r),
        ((2, 8, 6, 5), (12, 8, 1, 1), (12,), (2, 12, 6, 5)),
    ),
    "the result, too": (
        lambda x, w: ((y := F.conv2d(x, w)), y.sigmoid() * 2),
        ((2, 8, 6, 5), (12, 8, 3, 3)),
    ),
}
"""Functions of one launch, and the shapes of their arguments."""
LAST = {4: tt.channels_last, 5: tt.channels_last_3d}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
def test_convolutions_have_epilogues(name: str, dtype: Any) -> None:
    function, shapes = CONVOLUTIONS[name]
    made = operands(*shapes, dtype=dtype)
    compiled = agree(function, lambda: tuple(made), calls=1)
    count = 2 if "batch norm" in name else 1  # of which one makes variances
    assert launches(lambda: compiled(*made)) == count < launches(lambda: function(*made))


@pytest.mark.parametrize(
    "name", [name for name, (_, shapes) in CONVOLUTIONS.items() if len(shapes[0]) in LAST]
)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
def test_convolutions_of_channels_last_have_epilogues(name: str, dtype: Any) -> None:
    function, shapes = CONVOLUTIONS[name]
    made = operands(*shapes, dtype=dtype)
    made = [one.to(memory_format=LAST[one.ndim]) if one.ndim in LAST else one for one in made]
    compiled = agree(function, lambda: tuple(made), calls=1)
    count = 2 if "batch norm" in name else 1
    assert launches(lambda: compiled(*made)) == count < launches(lambda: function(*made))
    results = function(*made)
    last = results[-1] if isinstance(results, tuple) else results
    assert last.is_contiguous(memory_format=LAST[last.ndim]) and not last.is_contiguous()


@pytest.mark.parametrize("columns", [5, 8])
def test_an_epilogue_does_not_change_the_kernel(columns: int) -> None:
    """Accumulate through pointers, as eager does, if the result has no tensor map."""
    f = lambda x, w: F.relu(F.conv2d(x, w, padding=1)) * 0.3  # noqa: E731
    x, w = operands((2, 16, 7, 9), (columns, 16, 3, 3), dtype=tt.float16)
    made = [one.to(memory_format=tt.channels_last) for one in (x, w)]
    agree(f, lambda: tuple(made), calls=1)
    (kernel,) = tt.compiler.explain(f, *made).schedules[0].kernels
    by_descriptors = columns == 8 and driver().properties(0).design >= 90
    assert ("convolve_bulk(" in write_product_kernel(kernel)) == by_descriptors


def test_a_residual_block_is_a_launch_for_each_convolution() -> None:
    def block(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
        y = F.relu(F.batch_norm(F.conv2d(x, w, padding=1), s, v, s, s))
        return F.relu(F.batch_norm(F.conv2d(y, w, padding=1), s, v, s, s) + x)

    x, w, v, s = operands((2, 16, 6, 5), (16, 16, 3, 3), (16,), (16,))
    made = x.to(memory_format=tt.channels_last), w.to(memory_format=tt.channels_last), v.abs(), s
    compiled = agree(block, lambda: made, calls=1)
    assert (launches(lambda: compiled(*made)), launches(lambda: block(*made))) == (2, 7)


def test_an_epilogue_reads_operands_in_another_order() -> None:
    def f(x: tt.Tensor, w: tt.Tensor, r: tt.Tensor, p: tt.Tensor) -> tt.Tensor:
        return F.silu(F.conv2d(x, w) + r) * p

    x, w, r, p = operands((2, 8, 6, 5), (12, 8, 3, 3), (2, 12, 4, 3), (4, 1))
    x = x.to(memory_format=tt.channels_last)
    compiled = agree(f, lambda: (x, w, r, p), calls=1)
    assert launches(lambda: compiled(x, w, r, p)) == 1


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
@pytest.mark.parametrize("is_last", [False, True], ids=["planes", "channels last"])
def test_convolutions_by_descriptors(dtype: Any, is_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read channels-last operands by descriptors, also for a contiguous (NCHW) result."""
    monkeypatch.setattr(layout_copies, "COPY_THRESHOLD", 0)
    monkeypatch.setattr(convolution, "COPY_THRESHOLD", 0)

    def f(x: tt.Tensor, w: tt.Tensor, b: tt.Tensor, r: tt.Tensor) -> tt.Tensor:
        return F.relu(F.conv2d(x, w, b, padding=1) * 0.5 + r)

    made = operands((2, 16, 8, 12), (40, 16, 3, 3), (40,), (2, 40, 8, 12), dtype=dtype)
    if is_last:
        made = [one.to(memory_format=tt.channels_last) if one.ndim == 4 else one for one in made]
    compiled = agree(f, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == launches(lambda: f(*made)) - 3
    (kernel,) = tt.compiler.explain(f, *made).schedules[0].kernels
    assert kernel.name == "convolution_mul_add_relu"
    if dtype is tt.bfloat16 and driver().properties(0).design >= 90:
        assert "convolve_bulk(" in write_product_kernel(kernel)


@pytest.mark.parametrize(
    "function, shapes",
    [
        (
            lambda x, w: F.conv2d(x.contiguous(memory_format=tt.channels_last), w).contiguous() * 2,
            ((2, 8, 6, 5), (8, 8, 3, 3)),
        ),
    ],
    ids=["turned round"],
)
def test_convolutions_that_stay_apart(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
) -> None:
    made = operands(*shapes)
    agree(function, lambda: tuple(made), calls=1)
    assert "convolution" in steps_of(function, *made)


@pytest.mark.parametrize("dtype", [tt.float16, tt.float64], ids=str)
def test_other_dtypes(dtype: Any) -> None:
    made = operands((6, 20), (20, 24), (24,), dtype=dtype)
    compiled = agree(lambda x, w, b: tt.relu(x @ w + b) * 0.1, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == 1


@pytest.mark.parametrize("m, n, k", [(1, 24, 20), (24, 1, 20), (17, 33, 1), (130, 140, 150), (16, 16, 2048)])
def test_sizes(m: int, n: int, k: int) -> None:
    made = operands((m, k), (k, n), (n,))
    agree(lambda x, w, b: tt.relu(x @ w + b), lambda: tuple(made), calls=1)


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_parts_are_added_with_the_epilogue(batch: tuple[int, ...], dtype: Any) -> None:
    """Split a long K dimension: one launch for the parts, and one for their sum with the epilogue.

    Stream-K multiplies few rows of 16-bit floats and applies the epilogue in one launch.
    """

    def f(x: tt.Tensor, w: tt.Tensor, c: tt.Tensor, r: tt.Tensor) -> tuple[tt.Tensor, ...]:
        y = (x @ w if x.ndim == 3 else tt.addmm(c, x, w, alpha=0.5)) * c
        return y, F.gelu(y) + r

    made = operands((*batch, 16, 2048), (*batch, 2048, 16), (16,), (*batch, 16, 16), dtype=dtype)
    compiled = agree(f, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == (2 if dtype is tt.float32 else 1)
    (kernel,) = tt.compiler.explain(f, *made).schedules[0].kernels
    assert "add_parts(" in write_product_kernel(kernel)


def test_tiles_by_descriptors_and_by_pointers() -> None:
    """Use descriptors for 16-bit operands whose addresses allow it."""

    def f(x: tt.Tensor, w: tt.Tensor, c: tt.Tensor) -> tt.Tensor:
        return F.gelu(tt.addmm(c, x, w))

    x, w, c = operands((40, 64), (64, 48), (40, 48), dtype=tt.bfloat16)
    compiled = agree(f, lambda: (x, w, c), calls=1)
    shifted = drawn(40 * 64 + 1, device="cuda", dtype=tt.bfloat16)[1:].view(40, 64)
    same(compiled(shifted, w, c), f(shifted, w, c))
    assert launches(lambda: compiled(shifted, w, c)) == 1


def test_gradients_have_epilogues() -> None:
    def f(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor) -> tt.Tensor:
        return F.relu(x @ w) @ v

    def step(function: Callable[..., tt.Tensor]) -> list[Any]:
        leaves = [a.clone().requires_grad_() for a in operands((6, 20), (20, 24), (24, 8))]
        result = function(*leaves)
        (result * 2).sum().backward()
        return [result.detach(), *[leaf.grad for leaf in leaves]]

    same(step(tt.compile(f, fullgraph=True)), step(f))
    leaves = [a.requires_grad_() for a in operands((6, 20), (20, 24), (24, 8))]
    forward, backward = tt.compiler.explain(f, *leaves).schedules
    kernels = [k.name for s in (forward, backward) for k in s.kernels if isinstance(k, ProductKernel)]
    assert kernels == ["mm_relu", "mm_threshold_backward"]


def test_what_is_between_comes_before_or_after() -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tuple[tt.Tensor, ...]:
        y = x @ w
        total = y.cumsum(0)
        other = x.sum(0)
        return y.relu(), total, other

    made = operands((20, 20), (20, 20))
    compiled = agree(f, lambda: tuple(made), calls=1)
    assert launches(lambda: compiled(*made)) == launches(lambda: f(*made)) - 1
    names = steps_of(f, *made)
    assert ["mm", "relu"] in names and names.index(["mm", "relu"]) < names.index("cumsum")


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x, w: (x @ w).t().relu(), ((6, 20), (20, 24))),
        (lambda x, w: (y := x @ w) / y.sum(), ((6, 20), (20, 24))),
        (lambda x, w, b: (x @ w).view(-1) + b, ((6, 20), (20, 24), (144,))),
        (lambda x, w, b: (x @ w) + b, ((6, 20), (20, 24), (5, 6, 24))),
        (lambda x, w: (x @ w * 0.5).softmax(-1), ((6, 20), (20, 24))),
        (lambda x, w: tt.digamma(x @ w), ((6, 20), (20, 24))),
        (lambda x, *r: sum(r, x @ x), ((8, 8),) * 6),
    ],
    ids=["turned round", "needs all of it", "flat", "broadcast", "rows", "many registers", "many operands"],
)
def test_what_stays_apart(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    made = operands(*shapes)
    agree(function, lambda: tuple(made), calls=1)
    assert not any(isinstance(s, list) and "mm" in s for s in steps_of(function, *made))


def test_steps_of_rows_stay_together() -> None:
    q, k = operands((2, 8, 16), (2, 16, 8))
    assert steps_of(lambda q, k: (q @ k * 0.125).softmax(-1), q, k) == ["bmm", ["mul", "_softmax"]]


def test_writes_to_a_result_do_not_reach_another() -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tuple[tt.Tensor, ...]:
        y = x @ w
        return y.clone(), y.view(2, 3, 24), y.relu()

    made = operands((6, 20), (20, 24))
    compiled = tt.compile(f, fullgraph=True)
    found = compiled(*made)
    same(found, f(*made))
    found[1].zero_()
    same(found[2], f(*made)[2])


def test_the_source_names_operators_and_is_that_of_all_sizes_and_layers() -> None:
    def f(x: tt.Tensor, w: tt.Tensor, r: tt.Tensor) -> tt.Tensor:
        return F.gelu(x @ w) + r

    texts = set()
    for m in (32, 48):
        x, w, r = operands((m, 24), (24, 24), (m, 24))
        kernels = tt.compiler.explain(lambda x, w, r: f(f(x, w, r), w, r), x, w, r).schedules[0].kernels
        assert len(kernels) == 2
        texts.update(map(write_product_kernel, kernels))
    (text,) = texts
    assert (
        "# aten.gelu(product)" in text and "# aten.add.Tensor(v0, l0)" in text and "def mm_gelu_add(" in text
    )


@pytest.mark.parametrize(
    "sizes, domain, product, found",
    [
        ((24,), (6, 24), (1, 6, 24), ((), (), ((1, 24, 1),))),
        ((6, 24), (6, 24), (1, 6, 24), ((), ((1, 6, 24),), ((1, 24, 1),))),
        ((2, 3, 24), (2, 3, 24), (1, 6, 24), ((), ((1, 6, 24),), ((1, 24, 1),))),
        ((3, 24), (2, 3, 24), (1, 6, 24), ((), ((1, 3, 24),), ((1, 24, 1),))),
        ((2, 1, 4, 1), (2, 3, 4, 5), (6, 4, 5), (((3, 2, 4),), ((1, 4, 1),), ())),
        ((2, 1), (6, 2, 12), (1, 6, 24), ((), (), ((12, 2, 1),))),
        ((1,), (6, 24), (1, 6, 24), ((), (), ())),
        ((144,), (144,), (1, 6, 24), None),
        ((4, 36), (4, 36), (1, 6, 24), None),
    ],
)
def test_places_of_operands(sizes: Any, domain: Any, product: Any, found: Any) -> None:
    assert grouped_terms(tt.ones(*sizes)._spec, domain, product) == found
