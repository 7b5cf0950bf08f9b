"""Reductions with several accumulators agree with the host over layouts, dtypes, splits and edges."""

import itertools
import math

import numpy as np
import pytest

import triten as tt

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
TOLERANCE = {tt.float16: 2e-3, tt.bfloat16: 1.6e-2, tt.float32: 3e-6, tt.float64: 1e-13}
FUNCTIONS = {
    "var": lambda x, dims, keepdim: (tt.var(x, dims, keepdim=keepdim),),
    "std": lambda x, dims, keepdim: (tt.std(x, dims, correction=0, keepdim=keepdim),),
    "var_mean": lambda x, dims, keepdim: tt.var_mean(x, dims, keepdim=keepdim),
    "std_mean": lambda x, dims, keepdim: tt.std_mean(x, dims, keepdim=keepdim),
    "logsumexp": lambda x, dims, keepdim: (tt.logsumexp(x, dims, keepdim),),
}
ONE_DIMENSION = {
    "aminmax": lambda x, dim: tt.aminmax(x, dim=dim),
    "max": lambda x, dim: tt.max(x, dim),
    "min": lambda x, dim: tt.min(x, dim),
    "argmax": lambda x, dim: (tt.argmax(x, dim),),
    "argmin": lambda x, dim: (tt.argmin(x, dim),),
}
SHAPES = [(), (1,), (7,), (3, 5), (3, 1, 5), (2, 3, 4, 5), (3, 9000), (9000, 3)]


def vector(*values, dtype=np.float32):
    return tt.from_numpy(np.array(values, dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_every_choice_of_dimensions(random, same, name, dtype):
    function = FUNCTIONS[name]
    for shape in SHAPES:
        a = random(shape, dtype)
        x = a.to("cuda")
        for count in range(1, len(shape) + 1):
            for dims in itertools.combinations(range(len(shape)), count):
                for got, expected in zip(function(x, dims, True), function(a, dims, True), strict=True):
                    same(got, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("name", ONE_DIMENSION)
@pytest.mark.parametrize(
    "dtype", [tt.int8, tt.uint8, tt.int64, tt.bfloat16, tt.float64], ids=lambda d: d.name
)
def test_extremes_along_one_dimension(random, same, name, dtype):
    for shape in ((7,), (5, 70), (70, 5), (3, 9, 4)):
        a = random(shape, dtype)
        for dim in range(len(shape)):
            pairs = zip(ONE_DIMENSION[name](a.to("cuda"), dim), ONE_DIMENSION[name](a, dim), strict=True)
            for got, expected in pairs:
                same(got, expected)


@pytest.mark.parametrize("name", ONE_DIMENSION)
def test_extremes_of_long_lines_are_one_launch(random, same, launches, name):
    a = random((200_000,), tt.int8)
    x = a.to("cuda")
    before = launches.count
    got = ONE_DIMENSION[name](x, 0)
    assert launches.count - before == 1
    for left, right in zip(got, ONE_DIMENSION[name](a, 0), strict=True):
        same(left, right)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_long_lines_are_accurate_and_reproducible(random, launches, name):
    a = random((200_000,)) * 0.001 + 1000
    x = a.to("cuda")
    before = launches.count
    first = FUNCTIONS[name](x, (0,), False)
    assert launches.count - before == 1
    exact = FUNCTIONS[name](a.to(tt.float64), (0,), False)
    for got, expected, again in zip(first, exact, FUNCTIONS[name](x, (0,), False), strict=True):
        assert got.item() == again.item()
        assert abs(got.item() - expected.item()) <= 2e-5 * abs(expected.item())


@pytest.mark.parametrize("name", [*FUNCTIONS, *ONE_DIMENSION])
def test_permuted_and_more_dimensions_than_the_program_has(random, same, name):
    def run(x):
        order = (9, 1, 8, 2, 7, 3, 6, 4, 5, 0)
        x = x.permute(order)
        return FUNCTIONS[name](x, (1, 3, 5, 7, 9), False) if name in FUNCTIONS else ONE_DIMENSION[name](x, 3)

    a = random((2, 1, 2, 2, 2, 3, 2, 1, 2, 2), tt.float64)
    for got, expected in zip(run(a.to("cuda")), run(a), strict=True):
        same(got, expected, 1e-13)


def test_argmax_over_everything_is_logical(random, same):
    for a in (
        random((6, 7, 5)).permute((2, 0, 1)),
        random((2, 3) * 5).permute((9, 1, 8, 2, 7, 3, 6, 4, 5, 0)),
    ):
        same(a.to("cuda").argmax(), a.argmax())


def test_outputs_of_different_strides(random, same):
    a = random((4, 5, 6))
    values = tt.empty(6, 4, device="cuda").t()
    indices = tt.empty(4, 6, dtype=tt.int64, device="cuda")
    tt.max(a.to("cuda"), 1, out=(values, indices))
    expected = a.max(1)
    same(values, expected[0])
    same(indices, expected[1])


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinities_and_nan(same, name, dtype):
    inf, nan = math.inf, math.nan
    rows = [
        [1, 2, 3],
        [inf, 1, 2],
        [-inf, 1, 2],
        [-inf] * 3,
        [inf] * 3,
        [inf, -inf, 0],
        [nan, 1, 2],
        [0, inf, nan],
    ]
    a = tt.from_numpy(np.array(rows, dtype.np))
    for got, expected in zip(
        FUNCTIONS[name](a.to("cuda"), (1,), False), FUNCTIONS[name](a, (1,), False), strict=True
    ):
        same(got, expected, TOLERANCE[dtype])


def test_logsumexp_neither_overflows_nor_underflows(same):
    a = vector(1000, 999, -1000)
    same(a.to("cuda").logsumexp(0), a.logsumexp(0), 1e-7)
    same((-a).to("cuda").logsumexp(0), (-a).logsumexp(0), 1e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_to_reduce(same, name):
    for shape in ((0,), (3, 0), (0, 3)):
        a = tt.zeros(shape)
        for dim in range(len(shape)):
            pairs = zip(
                FUNCTIONS[name](a.to("cuda"), (dim,), False), FUNCTIONS[name](a, (dim,), False), strict=True
            )
            for got, expected in pairs:
                same(got, expected)


@pytest.mark.parametrize("correction", [0, 1, 2.5, 3, 5])
def test_the_correction(random, same, correction):
    a = random((4, 3))
    same(a.to("cuda").var(1, correction=correction), a.var(1, correction=correction), 1e-6)


def test_nan_has_the_first_index():
    a = vector(1, math.nan, 3, math.nan).to("cuda")
    assert [a.argmax().item(), a.argmin().item()] == [1, 1]
    assert vector(*[-math.inf] * 5).to("cuda").argmax().item() == 0
    low, high = tt.aminmax(a)
    assert math.isnan(low.item()) and math.isnan(high.item())


@pytest.mark.parametrize("name", ["var", "std", "logsumexp", "max"])
def test_gradients(random, same, name):
    a = random((5, 6), tt.float64)
    gradients = []
    for device in ("cuda", "cpu"):
        x = a.to(device).requires_grad_()
        y = tt.max(x, 1)[0] if name == "max" else FUNCTIONS[name](x, (1,), False)[0]
        (y * y).sum().backward()
        gradients.append(x.grad)
    same(*gradients, 1e-12)
