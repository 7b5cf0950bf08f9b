"""Random numbers on CUDA equal the CPU's for the same seed, or differ by a stated bound."""

import math

import numpy as np
import pytest

import triten as tt

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
INTEGERS = [tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64]
N = 1001


@pytest.fixture(autouse=True)
def kept_state():
    with tt.random.fork_rng():
        yield


@pytest.fixture
def on_both(same):
    """Return ``on_both(draw, ulps)``, which compares two successive random samples of ``draw(device)`` on both
    devices.
    """

    def check(draw, ulps=0):
        made = []
        for where in ("cpu", "cuda"):
            tt.manual_seed(2**63 + 11)
            made.append([draw(where) for _ in range(2)])
        for expected, got in zip(*made, strict=True):
            epsilon = tt.finfo(expected.dtype).eps if ulps else 0.0
            same(got, expected, ulps * epsilon)
        if expected.numel() > 50 and not ulps:
            assert made[0][0].tolist() != made[0][1].tolist(), "the second draw is another one"

    return check


@pytest.mark.parametrize("dtype", [*FLOATS, tt.complex64, tt.complex128], ids=lambda d: d.name)
@pytest.mark.parametrize("bounds", [(0, 1), (-2, 3.3)], ids=str)
@pytest.mark.parametrize("sizes", [(0,), (1,), (5,), (N,), (7, 0), (40000,)], ids=str)
def test_uniform(on_both, sizes, bounds, dtype):
    on_both(lambda d: tt.empty(sizes, dtype=dtype, device=d).uniform_(*bounds))


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64], ids=lambda d: d.name)
def test_strides_do_not_matter(on_both, launches, dtype):
    on_both(lambda d: tt.empty(33, 7, dtype=dtype, device=d).t().uniform_())
    on_both(lambda d: tt.empty(33, 7, dtype=dtype, device=d)[::2, 1:].bernoulli_(0.4))
    before = launches.count
    tt.rand(33, 7, dtype=dtype, device="cuda")
    assert launches.count - before == 1


def test_uniform_never_gives_its_end(on_both):
    on_both(lambda d: tt.empty(20000, dtype=tt.float16, device=d).uniform_(0, 100))
    made = tt.empty(20000, dtype=tt.bfloat16, device="cuda").uniform_(0, 3)
    assert not (made == 3).any().item()


@pytest.mark.parametrize("dtype", [*FLOATS, tt.complex64], ids=lambda d: d.name)
def test_normal(on_both, dtype):
    ulps = 0 if dtype.is_complex else 2
    on_both(lambda d: tt.randn(N, dtype=dtype, device=d), ulps)
    # 2 units of the three times as large number before 2 is added, whose sum may be small.
    on_both(lambda d: tt.empty(N, dtype=dtype, device=d).normal_(2, 3), 4 * ulps)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "name, arguments",
    [("exponential_", (0.7,)), ("cauchy_", (1, 2)), ("log_normal_", (0.1, 0.5)), ("geometric_", (0.3,))],
)
def test_distributions(on_both, name, arguments, dtype):
    on_both(lambda d: getattr(tt.empty(N, dtype=dtype, device=d), name)(*arguments), 2)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, tt.bool, tt.uint64], ids=lambda d: d.name)
def test_integers(on_both, dtype):
    on_both(lambda d: tt.empty(N, dtype=dtype, device=d).random_())
    on_both(lambda d: tt.empty(N, dtype=dtype, device=d).random_(2))
    if dtype.is_signed:
        on_both(lambda d: tt.empty(N, dtype=dtype, device=d).random_(-7, 9))


@pytest.mark.parametrize(
    "span", [(0, 65536), (0, 65537), (-(2**40), 2**60), (-(2**63), 2**63 - 1), (5, 1 << 33)]
)
def test_spans(on_both, span):
    on_both(lambda d: tt.randint(*span, (N,), device=d))


def test_all_of_int64(on_both):
    on_both(lambda d: tt.empty(N, dtype=tt.int64, device=d).random_(-(2**63), None))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, tt.bool], ids=lambda d: d.name)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_bernoulli(on_both, dtype, p):
    if 0 < p < 1:
        on_both(lambda d: tt.empty(N, dtype=dtype, device=d).bernoulli_(p))
    else:
        made = tt.empty(N, dtype=dtype, device="cuda").bernoulli_(p)
        assert (made == p).all().item()


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_bernoulli_by_tensor(on_both, dtype):
    chances = tt.linspace(0, 1, 90, dtype=dtype).view(9, 10)
    on_both(lambda d: tt.bernoulli(chances.to(d)))
    on_both(lambda d: tt.empty(9, 9, 10, device=d).bernoulli_(chances.to(d)))
    on_both(lambda d: tt.empty(10, 9, device=d).bernoulli_(chances.to(d).t()))
    for wrong in (1.5, -0.1, math.nan):
        with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
            tt.bernoulli(tt.tensor([0.5, wrong], dtype=dtype, device="cuda"))


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_normal_by_tensor(random, on_both, dtype):
    mean, std = random((11, 31), dtype), random((31,), dtype).abs()
    on_both(lambda d: tt.normal(mean.to(d), std.to(d)), 2)
    on_both(lambda d: tt.normal(mean.to(d), 2.0), 2)
    on_both(lambda d: tt.normal(0.5, std.to(d)), 2)
    with pytest.raises(RuntimeError, match="std >= 0"):
        tt.normal(0.0, (std - 1).to("cuda"))


@pytest.mark.parametrize("n", [0, 1, 2, 17, 2048, 2049, 6000])
def test_randperm(on_both, n):
    on_both(lambda d: tt.randperm(n, device=d))
    on_both(lambda d: tt.randperm(min(n, 100), dtype=tt.float32, device=d))
    on_both(lambda d: tt.randperm(n, out=tt.empty(2 * n, dtype=tt.int32, device=d)[::2]))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_dropout(random, same, launches, dtype):
    x = random((37, 11), dtype)
    for layout in (lambda t: t, lambda t: t.t()):
        for p in (0.0, 0.3, 1.0):
            results = []
            for where in ("cpu", "cuda"):
                tt.manual_seed(3)
                given = layout(x.to(where)).detach().requires_grad_()
                made, mask = tt.native_dropout(given, p, True)
                made.sum().backward()
                results.append((made.detach(), mask, given.grad))
            for expected, got in zip(*results, strict=True):
                same(got, expected)
    same(tt.native_dropout(x.to("cuda"), 0.5, False)[0], x)
    before = launches.count
    tt.native_dropout(x.to("cuda"), 0.5, True)
    assert launches.count - before == 1


@pytest.mark.parametrize("dtype", [tt.float16, tt.float32, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("sizes", [(7,), (3, 1000), (1, 5000)], ids=str)
def test_multinomial(rng, on_both, sizes, dtype):
    weights = np.maximum(rng.standard_normal(sizes), 0).astype(dtype.np)
    weights[..., :2] = 1
    least = int((weights > 0).sum(-1).min())
    host = tt.from_numpy(weights)
    for samples, replacement in ((1, False), (2, False), (min(300, least), False), (1, True), (300, True)):
        made = []
        for where in ("cpu", "cuda"):
            tt.manual_seed(9)
            made.append(tt.multinomial(host.to(where), samples, replacement).tolist())
        assert made[0] == made[1]


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize(
    "weights, replacement, message",
    [
        ([1, -1.0], False, "either `inf`, `nan` or element < 0"),
        ([math.nan, 1], True, "either `inf`, `nan` or element < 0"),
        ([math.inf, 1], True, "either `inf`, `nan` or element < 0"),
        ([0, 0.0], False, "sum of probabilities <= 0"),
        ([0, 0.0], True, "sum of probabilities <= 0"),
    ],
)
def test_faults_of_weights(weights, replacement, message):
    with pytest.raises(RuntimeError, match=message):
        tt.multinomial(tt.tensor(weights, device="cuda"), 2, replacement)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=lambda d: d.name)
def test_ranges(same, dtype):
    ulps = 2 * tt.finfo(dtype).eps if dtype.is_floating_point else 0.0
    for arguments in ((0, 100, 3), (100, 2, -7), (5, 5), (40,)):
        same(tt.arange(*arguments, dtype=dtype, device="cuda"), tt.arange(*arguments, dtype=dtype))
    if dtype.is_floating_point:
        same(tt.arange(0.5, 10, 0.1, dtype=dtype, device="cuda"), tt.arange(0.5, 10, 0.1, dtype=dtype), ulps)
    out = tt.empty(3, 2, dtype=dtype, device="cuda").t()
    same(tt.arange(0, 6, out=out), tt.arange(0, 6, dtype=dtype).view(2, 3))
    for steps in (0, 1, 2, 9, 33):
        same(
            tt.linspace(3.5, 100, steps, dtype=dtype, device="cuda"),
            tt.linspace(3.5, 100, steps, dtype=dtype),
            ulps,
        )


def test_refusals():
    for draw in (
        lambda: tt.empty(3, dtype=tt.int32, device="cuda").uniform_(),
        lambda: tt.empty(3, dtype=tt.int32, device="cuda").normal_(),
        lambda: tt.empty(3, dtype=tt.bool, device="cuda").geometric_(0.5),
        lambda: tt.empty(3, dtype=tt.complex64, device="cuda").random_(),
    ):
        with pytest.raises((NotImplementedError, RuntimeError)):
            draw()
