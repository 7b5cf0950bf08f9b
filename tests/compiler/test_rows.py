"""Row reductions fuse with adjacent pointwise steps: results, layouts, dtypes, and the exceptions.

CPU results are bitwise identical to eager. CUDA results are as close to float64 as eager's: the fused
kernel's tiles differ from the reduction's, so sums have another order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import pointwise, rows
from triten.compiler.pipeline import run_passes
from triten.compiler.schedule import OperatorCall, fused_schedule
from triten.dispatch.layers.pytree import tree_flatten
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional


def softmax(x: tt.Tensor) -> tt.Tensor:
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def residual_norm(x: tt.Tensor, r: tt.Tensor, mask: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    return F.layer_norm(r + x * mask * 1.25, w.shape, w, b)


def rms_by_hand(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
    return x * tt.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def norm_by_hand(x: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt() * w + b


def standardized(x: tt.Tensor) -> tt.Tensor:
    y = x * 2
    spread, mean = tt.var_mean(y, -1, keepdim=True)
    return (y - mean) / (spread + 1e-5).sqrt()


def scores(x: tt.Tensor, mask: tt.Tensor) -> tt.Tensor:
    return tt.softmax((x * 0.125).masked_fill(mask, float("-inf")), -1)


def entropy(x: tt.Tensor, target: tt.Tensor) -> tt.Tensor:
    return -(tt.log_softmax(x * 2, -1) * target).sum(-1)


def statistics(x: tt.Tensor) -> tuple[tt.Tensor, ...]:
    y = x + 1
    return (
        y.sum(-1), y.mean(-1, keepdim=True), y.amax(-1), y.amin(-1, keepdim=True), (y * 0.5).prod(-1), (y > 0).all(-1),
        (y > 2).any(-1), y.var(-1, correction=0), y.std(-1), tt.logsumexp(y, -1),
    )  # fmt: skip


def softmax_by_max(x: tt.Tensor) -> tt.Tensor:
    e = (x - x.max(-1, keepdim=True).values).exp()
    return e / e.sum(-1)[..., None]


CHAINS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "softmax by hand": (softmax, ("rows",)),
    "softmax by hand with max": (softmax_by_max, ("rows",)),
    "unit vectors": (lambda x, w: F.normalize(x, dim=-1) * w, ("rows", "row")),
    "layer_norm of a residual": (residual_norm, ("rows", "rows", "mask", "row", "row")),
    "rms_norm by hand": (rms_by_hand, ("rows", "row")),
    "layer_norm by hand": (norm_by_hand, ("rows", "row", "row")),
    "var_mean": (standardized, ("rows",)),
    "scores": (scores, ("rows", "mask")),
    "cross entropy": (entropy, ("rows", "rows")),
    "logsumexp": (lambda x: tt.logsumexp(x * 2, -1) * 3, ("rows",)),
    "rms_norm": (lambda x, w: F.rms_norm(F.silu(x), w.shape, w) + x, ("rows", "row")),
    "layer_norm without weights": (lambda x: F.gelu(F.layer_norm(x, x.shape[-1:])), ("rows",)),
    "softmax and its entropy": (
        lambda x: (x.softmax(-1) * x.log_softmax(-1)).sum(-1, keepdim=True),
        ("rows",),
    ),
}
"""Functions of one kernel, and what their arguments are."""


def operand(kind: str, shape: tuple[int, ...], seed: int, device: str, dtype: Any) -> tt.Tensor:
    made = drawn(*(shape[-1:] if kind == "row" else shape), device=device, dtype=dtype, seed=seed)
    return made > 0.5 if kind == "mask" else made


def operands_of(name: str, shape: tuple[int, ...], device: str, dtype: Any = tt.float32) -> list[tt.Tensor]:
    return [operand(kind, shape, i, device, dtype) for i, kind in enumerate(CHAINS[name][1])]


def steps_of(function: Callable[..., Any], *args: tt.Tensor) -> list[Any]:
    """Return a schedule's steps: a list of operators for a kernel, one operator for a call."""
    schedule = fused_schedule(run_passes(tt.func.make_graph(function, "fake")(*args).graph))
    schedule.check()
    return [
        getattr(step.node.target, "_opname", "getitem")
        if isinstance(step, OperatorCall)
        else [c.node.target._opname for c in step.computed]
        for step in schedule.steps
    ]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of four rows of 64 floats, shared among threads from 256 elements on."""
    monkeypatch.setattr(rows, "BLOCK_BYTES", 1024)
    monkeypatch.setattr(pointwise, "WHOLE_UP_TO", 4)
    monkeypatch.setattr(pointwise, "SHARED_FROM", 256)


def nearly(found: Any, expected: Any, exact: Any, note: str = "") -> None:
    """Raise AssertionError unless results are as near to those in float64 as eager's are.

    That is at most twice as far, and two units in the last place of the largest where eager happens to hit the number.
    """
    for own, eager, wanted in zip(*(tree_flatten(each)[0] for each in (found, expected, exact)), strict=True):
        looks = [(x.dtype, x.shape, x.stride(), x.device) for x in (own, eager)]
        assert looks[0] == looks[1], note
        unit = float(tt.finfo(own.dtype).eps) if own.is_floating_point() else 0.0
        own, eager, wanted = (x.detach().cpu().double().numpy() for x in (own, eager, wanted))
        farthest = np.abs(eager - wanted).max(initial=0.0)
        allowed = 2 * farthest + 2 * unit * np.abs(wanted).max(initial=0.0)
        assert np.abs(own - wanted).max(initial=0.0) <= allowed, note


def alike(function: Callable[..., Any], make: Callable[[], Sequence[Any]]) -> None:
    """Raise AssertionError unless a function compiled gives what it gives eagerly: the same bits on the CPU."""
    given = make()
    if given[0].device.type == "cpu":
        agree(function, lambda: tuple(make()), calls=1)
        return
    exact = function(*[x.double() if x.is_floating_point() else x for x in given])
    nearly(tt.compile(function, fullgraph=True)(*make()), function(*given), exact)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_kernel(name: str, device: str) -> None:
    function, _ = CHAINS[name]
    (kernel,) = steps_of(function, *operands_of(name, (6, 20), device))
    assert isinstance(kernel, list) and len(kernel) > 1


@pytest.mark.parametrize("shape", [(2, 3, 16), (3, 130), (1, 2, 2)])
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str, shape: tuple[int, ...], device: str) -> None:
    alike(CHAINS[name][0], lambda: operands_of(name, shape, device))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 33])
@pytest.mark.parametrize("name", ["softmax by hand", "layer_norm of a residual", "var_mean"])
@pytest.mark.usefixtures("small_blocks")
def test_edges_of_small_blocks(name: str, count: int) -> None:
    args = operands_of(name, (count, 64), "cpu")
    function, _ = CHAINS[name]
    found = tt.compile(function, fullgraph=True)(*args)
    nearly(found, function(*args), function(*[x if x.dtype is tt.bool else x.double() for x in args]))


@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("name", CHAINS)
def test_blocks_that_programs_have(name: str, offset: int) -> None:
    """Use rows long enough that eager kernels add them in blocks, too."""
    n = 260
    count = 2 * rows.BLOCK_BYTES // (4 * n) + offset
    kinds = CHAINS[name][1]
    args = [
        tt.randn(n) if k == "row" else tt.randn(count, n) > 0.5 if k == "mask" else tt.randn(count, n)
        for k in kinds
    ]
    same(tt.compile(CHAINS[name][0], fullgraph=True)(*args), CHAINS[name][0](*args))


@pytest.mark.usefixtures("small_blocks")
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    args = operands_of("layer_norm of a residual", (50, 40), "cpu")
    before = tt.get_num_threads()
    found = tt.compile(residual_norm, fullgraph=True)(*args)
    tt.set_num_threads(3)
    same(tt.compile(residual_norm, fullgraph=True)(*args), found)
    tt.set_num_threads(before)


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64])
@pytest.mark.parametrize("name", CHAINS)
def test_dtypes(name: str, dtype: Any, device: str) -> None:
    alike(CHAINS[name][0], lambda: operands_of(name, (5, 24), device, dtype))


def test_dtypes_are_mixed(device: str) -> None:
    def f(x: tt.Tensor, w: tt.Tensor, i: tt.Tensor) -> Any:
        total = (x * w).float().sum(-1, keepdim=True)
        return (
            (x / total).softmax(-1, dtype=tt.float32),
            (i * 2).sum(-1),
            (x > 0).sum(-1),
            (i + 1).amax(-1, keepdim=True) * w,
        )

    agree(
        f,
        lambda: (
            drawn(4, 9, device=device, dtype=tt.bfloat16),
            drawn(9, device=device, seed=1).half(),
            (drawn(4, 9, device=device, seed=2) * 9).to(tt.int32),
        ),
        calls=1,
    )


@pytest.mark.parametrize("size", [12, 40])
def test_several_results(size: int, device: str) -> None:
    x = drawn(6, size, device=device)
    kernels = [step for step in steps_of(statistics, x) if isinstance(step, list)]
    assert len(kernels) == 1 and len(kernels[0]) >= 9, "all but what nobody joins"
    alike(statistics, lambda: (drawn(6, size, device=device),))


LAYOUTS: dict[str, Callable[[str], tt.Tensor]] = {
    "contiguous": lambda device: drawn(2, 6, 20, device=device),
    "transposed": lambda device: drawn(20, 6, 2, device=device).permute(2, 1, 0),
    "sliced": lambda device: drawn(4, 12, 50, device=device)[::2, ::2, 7:47:2],
    "a row": lambda device: drawn(20, device=device),
    "a column": lambda device: drawn(2, 6, 1, device=device),
    "a column of all batches": lambda device: drawn(6, 1, device=device),
    "a row of each batch": lambda device: drawn(2, 1, 20, device=device),
    "a matrix of all batches": lambda device: drawn(1, 6, 20, device=device),
    "expanded": lambda device: drawn(2, 6, 1, device=device).expand(2, 6, 20),
    "one element": lambda device: drawn(1, 1, device=device),
    "a scalar": lambda device: drawn(device=device),
    "an offset": lambda device: drawn(241, device=device)[1:].view(2, 6, 20),
}


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", ["contiguous", "transposed"])
def test_layouts(left: str, right: str, device: str) -> None:
    agree(
        lambda x, y: softmax(x * 2 + y) - y, lambda: (LAYOUTS[left](device), LAYOUTS[right](device)), calls=1
    )


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.usefixtures("small_blocks")
def test_layouts_in_blocks(right: str) -> None:
    x, y = LAYOUTS["contiguous"]("cpu"), LAYOUTS[right]("cpu")
    f = lambda x, y: softmax(x * 2 + y) - y  # noqa: E731
    nearly(tt.compile(f, fullgraph=True)(x, y), f(x, y), f(x.double(), y.double()))


@pytest.mark.parametrize("dims", [(-1,), (1, 2), (-1, -2), (2,)])
def test_the_last_dimensions_are_reduced(dims: tuple[int, ...], device: str) -> None:
    def f(x: tt.Tensor) -> Any:
        return x * 2 - (x * 2).mean(dims, keepdim=True)

    x = drawn(3, 4, 5, device=device)
    assert steps_of(f, x) == [["mul", "mean", "sub"]]
    agree(f, lambda: (drawn(3, 4, 5, device=device),), calls=1)


APART: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "columns": (lambda x: x * 2 - (x * 2).mean(0, keepdim=True), (4, 6)),
    "everything": (lambda x: x * 2 - (x * 2).mean(), (4, 6)),
    "one row": (lambda x: x * 2 - (x * 2).mean(-1, keepdim=True), (1, 6)),
    "rows of one element": (lambda x: x * 2 - (x * 2).mean(-1, keepdim=True), (6, 1)),
    "numbers of rows as a row": (lambda x: x * 2 - (x * 2).sum(-1), (6, 6)),
    "nothing": (lambda x: x * 2 - (x * 2).sum(-1, keepdim=True), (3, 0)),
    "no rows": (lambda x: x * 2 - (x * 2).sum(-1, keepdim=True), (0, 3)),
}


@pytest.mark.parametrize("name", APART)
def test_what_stays_apart(name: str, device: str) -> None:
    function, shape = APART[name]
    found = steps_of(function, drawn(*shape, device=device))
    assert not [step for step in found if isinstance(step, list) and {"sub", "mean"} <= {*step}]
    agree(function, lambda: (drawn(*shape, device=device),), calls=1)


def test_what_has_no_neighbour_keeps_its_own_kernel(device: str) -> None:
    x, w = drawn(4, 6, device=device), drawn(6, device=device)
    assert steps_of(lambda x: x.softmax(-1), x) == ["_softmax"]
    assert steps_of(lambda x, w: F.layer_norm(x, (6,), w), x, w) == ["native_layer_norm", "getitem"]
    assert steps_of(lambda x, w: x.softmax(-1) @ w, x, w)[0] == "_softmax"


def test_sums_that_read_the_same_go_together_where_launches_cost() -> None:
    f = lambda x: (x.sum(-1), x.amax(-1) * 2 + 1)  # noqa: E731
    assert steps_of(f, drawn(4, 6, device="cuda")) == [["sum", "amax", "mul", "add"]]
    assert steps_of(f, drawn(4, 6)) == ["sum", "amax", ["mul", "add"]], (
        "nothing of a row is kept in the cache"
    )


def test_statistics_may_be_results(device: str) -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> Any:
        y, mean, rstd = tt.native_layer_norm(x + 1, (6,), w, None, 1e-5)
        spread, middle = tt.var_mean(x + 1, -1)
        return y * 2, mean, rstd + 1, spread, middle

    alike(f, lambda: (drawn(4, 6, device=device), drawn(6, device=device, seed=1)))


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.int32])
def test_places_of_extrema(dtype: Any, device: str) -> None:
    """Return the first of equal elements, a NaN before all numbers, and the actual zero of -0.0 and 0.0."""

    def f(x: tt.Tensor) -> Any:
        y = x * 1
        return *y.max(-1), *y.min(-1, keepdim=True), y.argmax(-1) + 1, y.argmin(-1, keepdim=True)

    x = drawn(7, 30) * 5
    x[1, 3], x[1, 20] = 50, 50
    if dtype.is_floating_point:
        x[2, 5], x[2, 9], x[3], x[4], x[5] = float("nan"), float("nan"), 0.0, float("-inf"), float("inf")
        x[6] = tt.tensor([0.0, -0.0] * 15)
    x = x.to(dtype)
    expected = f(x)
    assert isinstance(steps_of(f, x.to(device))[0], list)
    same([found.cpu() for found in tt.compile(f, fullgraph=True)(x.to(device))], list(expected))


def test_a_vector_may_be_a_row_and_numbers_of_rows(device: str) -> None:
    def f(x: tt.Tensor, v: tt.Tensor) -> Any:
        y = x * v
        return y, y.sum(-1) * v, (y - v).softmax(-1)

    agree(f, lambda: (drawn(6, 6, device=device), drawn(6, device=device, seed=1)), calls=1)


def test_a_tensor_of_one_element_takes_part_in_promotion(device: str) -> None:
    make = lambda: (drawn(3, 6, device=device, dtype=tt.float16), drawn(1, device=device))  # noqa: E731
    agree(lambda x, y: (x * y).softmax(-1), make, calls=1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e38, 0.0, -0.0])
def test_special_numbers(value: float, device: str) -> None:
    def made() -> tuple[tt.Tensor]:
        x = drawn(5, 8, device=device)
        x[1] = value
        x[2, 3] = value
        return (x,)

    def f(x: tt.Tensor) -> list[tt.Tensor]:
        y = x * 1.0
        over = (
            softmax,
            lambda y: y.softmax(-1),
            lambda y: F.layer_norm(y, (8,)),
            lambda y: y.amax(-1, keepdim=True),
        )
        return [
            each(y) for each in (*over, lambda y: y.sum(-1), lambda y: y.logsumexp(-1), lambda y: y.std(-1))
        ]

    if device == "cpu":
        agree(f, made, calls=1)
    for found, expected in zip(tt.compile(f, fullgraph=True)(*made()), f(*made()), strict=True):
        np.testing.assert_allclose(found.cpu().numpy(), expected.cpu().numpy(), rtol=2e-6, atol=1e-6)


def test_gradients(device: str) -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return F.layer_norm(F.gelu(x) * 2, (8,), w, None).softmax(-1) * x

    def gradient(g: Any) -> Any:
        x, w = drawn(4, 8, device=device, grad=True), drawn(8, device=device, seed=1, grad=True)
        return tt.autograd.grad(g(x, w), (x, w), drawn(4, 8, device=device, seed=3))

    for found, expected in zip(gradient(tt.compile(f, fullgraph=True)), gradient(f), strict=True):
        np.testing.assert_allclose(found.cpu().numpy(), expected.cpu().numpy(), rtol=1e-5, atol=1e-6)


def test_what_is_written_to_may_be_read_before(device: str) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        made = (x * y).softmax(-1)
        x.copy_(made - made.amax(-1, keepdim=True))
        return made + x

    agree(f, lambda: (drawn(4, 8, device=device), drawn(4, 8, device=device, seed=1)))


def test_no_warning_of_floating_point_errors(recwarn: pytest.WarningsRecorder) -> None:
    for count in (4, 4000):
        tt.compile(lambda x: (x / 0).sum(-1, keepdim=True) * 1e38 * x, fullgraph=True)(tt.ones(count, 32))
    assert not recwarn.list


def test_printing() -> None:
    graph = run_passes(tt.func.make_graph(softmax, "fake")(drawn(3, 4)).graph)
    assert str(fused_schedule(graph)).split("\n")[:3] == [
        "kernel amax_sub_exp_sum_div(%x) -> %div over rows [4] of [3, 4] on cpu:",
        "    %amax : float32[3, 1] = aten.amax(%x, [-1], True)",
        "    %sub : float32[3, 4] = aten.sub.Tensor(%x, %amax)",
    ]


@pytest.mark.parametrize("has_loops", [True, False])
@pytest.mark.parametrize("shape", [(64, 257, 13), (40, 50, 33), (9000, 16)])
def test_many_short_rows_are_added_as_eager_adds_them(
    shape: tuple[int, ...], has_loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_loops:
        monkeypatch.setattr(rows, "is_possible", lambda: False)
    x = tt.tensor(np.random.default_rng(0).standard_normal(shape, np.float32))
    agree(lambda x: ((x * 2).softmax(-1), (x + 1).log_softmax(-1) * 2), lambda: (x,), calls=1)


@pytest.mark.parametrize("shape", [(33, 257, 11), (9000, 16)])
def test_norms_of_many_short_rows_beside_what_no_loop_does(shape: tuple[int, ...]) -> None:
    x = tt.tensor(np.random.default_rng(0).standard_normal(shape, np.float32))

    def f(x: tt.Tensor) -> Any:
        y = F.layer_norm(x, x.shape[-1:])
        return y, y.max(-1), F.rms_norm(x + 1, x.shape[-1:]).argmin(-1)

    agree(f, lambda: (x,), calls=1)
