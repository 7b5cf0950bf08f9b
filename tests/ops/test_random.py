"""Random numbers: Philox's known answers, the mapping from elements to words, distributions, generators."""

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.random.box_muller import normal_pairs
from triten.cpu_fallback.random.choices import order_of
from triten.cpu_fallback.random.philox import draws32, draws64, philox, words

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
N = 20000


@pytest.fixture(autouse=True)
def _seeded():
    with tt.random.fork_rng():
        tt.manual_seed(11)
        yield


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_random123(counter, key, answer):
    arrays = [np.array([word], np.uint64) for word in counter]
    assert tuple(int(word[0]) for word in philox(*arrays, key)) == answer


def reference_words(seed, counter):
    """Compute Philox 4x32-10 with Python integers."""
    c = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize("seed", [0, 1, 0x123456789ABCDEF0, 2**64 - 1])
@pytest.mark.parametrize("first", [0, 250, 255, 2**32 - 2, 2**40 + 7])
def test_words_of_counters(seed, first):
    made = words(seed, first, 12)
    assert made.tolist() == [reference_words(seed, first + i) for i in range(12)]


def test_draws_of_elements():
    flat = [word for counter in range(5, 9) for word in reference_words(3, counter)]
    assert draws32(3, 5, 13).tolist() == flat[:13]
    assert draws64(3, 5, 7).tolist() == [flat[2 * i] | flat[2 * i + 1] << 32 for i in range(7)]


def test_large_draws_are_the_small_ones_together():
    whole = words(9, 3, 40000)
    assert (whole[20000:20010] == words(9, 20003, 10)).all()


@pytest.mark.parametrize(("dtype", "bits"), [(tt.float32, 24), (tt.float16, 11), (tt.bfloat16, 8)], ids=str)
def test_rand_takes_the_upper_bits(dtype, bits):
    g = tt.Generator().manual_seed(5)
    made = tt.rand(13, dtype=dtype, generator=g)
    assert made.tolist() == [(int(w) >> (32 - bits)) * 2.0**-bits for w in draws32(5, 0, 13)]
    assert g.get_offset() == 4


def test_rand_of_float64():
    g = tt.Generator().manual_seed(5)
    assert tt.rand(5, dtype=tt.float64, generator=g).tolist() == [
        (int(q) >> 11) * 2.0**-53 for q in draws64(5, 0, 5)
    ]
    assert g.get_offset() == 3


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
def test_randn_is_box_muller(dtype):
    made = tt.randn(7, dtype=dtype, generator=tt.Generator().manual_seed(5)).tolist()
    wide = dtype is tt.float64
    draws = [int(w) for w in (draws64 if wide else draws32)(5, 0, 8)]
    for i, value in enumerate(made):
        a, b = draws[i - i % 2], draws[i - i % 2 + 1]
        u, v = (
            (((a >> 11) + 1) * 2.0**-53, (b >> 11) * 2.0**-53) if wide else ((a + 1) * 2.0**-32, b * 2.0**-32)
        )
        wanted = math.sqrt(-2 * math.log(u)) * (math.sin if i % 2 else math.cos)(2 * math.pi * v)
        assert abs(value - wanted) <= 2 * np.spacing(dtype.np.type(abs(wanted)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_strides_do_not_matter(dtype):
    def drawn(x):
        return x.uniform_(generator=tt.Generator().manual_seed(3)).tolist()

    assert drawn(tt.empty(3, 5, dtype=dtype)) == drawn(tt.empty(5, 3, dtype=dtype).t())
    assert drawn(tt.empty(3, 5, dtype=dtype)) == drawn(tt.empty(3, 10, dtype=dtype)[:, ::2])
    last = tt.empty(2, 3, 4, 5, dtype=dtype, memory_format=tt.channels_last)
    assert drawn(last) == drawn(tt.empty(2, 3, 4, 5, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_stays_below_its_upper_bound(dtype):
    x = tt.empty(N, dtype=dtype).uniform_(1.0, 1.5)
    array = x.numpy().astype(np.float64)
    assert array.min() >= 1.0 and array.max() < 1.5 and abs(array.mean() - 1.25) < 0.02
    assert tt.empty(3, dtype=dtype).uniform_(2.0, 2.0).tolist() == [2.0] * 3


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal_moments(dtype):
    array = tt.empty(N, dtype=dtype).normal_(2.0, 3.0).numpy().astype(np.float64)
    assert abs(array.mean() - 2) < 0.1 and abs(array.std() - 3) < 0.1
    assert abs((((array - 2) / 3) ** 3).mean()) < 0.1 and abs((((array - 2) / 3) ** 4).mean() - 3) < 0.3


def test_complex_draws():
    z = tt.randn(N, dtype=tt.complex64).numpy()
    assert abs(z.real.std() - math.sqrt(0.5)) < 0.02 and abs(z.imag.std() - math.sqrt(0.5)) < 0.02
    assert abs((z.real * z.imag).mean()) < 0.02
    assert tt.rand(3, dtype=tt.complex128).dtype is tt.complex128


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda x: x.exponential_(2.0), 0.5, 0.5),
        (lambda x: x.geometric_(0.25), 4.0, math.sqrt(12)),
        (
            lambda x: x.log_normal_(0.0, 0.5),
            math.exp(0.125),
            math.sqrt((math.exp(0.25) - 1) * math.exp(0.25)),
        ),
        (lambda x: x.bernoulli_(0.3), 0.3, math.sqrt(0.21)),
        (lambda x: x.random_(10, 20), 14.5, math.sqrt(99 / 12)),
    ],
)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
def test_moments(draw, mean, deviation, dtype):
    array = draw(tt.empty(N, dtype=dtype)).numpy().astype(np.float64)
    assert abs(array.mean() - mean) < 5 * deviation / math.sqrt(N)
    assert abs(array.std() - deviation) < 0.06 * deviation + 0.01


def test_cauchy_quartiles():
    array = np.sort(tt.empty(N).cauchy_(1.0, 2.0).numpy())
    assert abs(array[N // 2] - 1) < 0.15 and abs(array[N // 4] + 1) < 0.2 and abs(array[3 * N // 4] - 3) < 0.2


@pytest.mark.parametrize(
    "dtype", [tt.int8, tt.uint8, tt.int16, tt.int32, tt.int64, tt.float32, tt.bfloat16], ids=str
)
def test_randint(dtype):
    array = tt.randint(3, 11, (N,), dtype=dtype).numpy().astype(np.int64)
    counts = np.bincount(array, minlength=11)
    assert (
        counts[:3].sum() == 0 and len(counts) == 11 and (abs(counts[3:] - N / 8) < 6 * math.sqrt(N / 8)).all()
    )


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1 << 16), (-5, 1 << 17), (0, 3 << 30), (-(1 << 62), 1 << 62), (0, (1 << 63) - 1)]
)
def test_randint_multiplies_and_shifts(low, high):
    span = high - low
    made = tt.randint(low, high, (9,), generator=tt.Generator().manual_seed(2)).tolist()
    draws, bits = (draws32, 32) if span <= 1 << 16 else (draws64, 64)
    assert made == [low + (int(d) * span >> bits) for d in draws(2, 0, 9)]


def test_random_without_bounds():
    assert set(tt.empty(200, dtype=tt.bool).random_().tolist()) == {False, True}
    assert tt.empty(N, dtype=tt.uint8).random_().numpy().max() == 255
    small = tt.empty(N, dtype=tt.int8).random_().numpy()
    assert small.min() == 0 and small.max() == 127
    whole = tt.empty(N, dtype=tt.int64).random_(-(2**63), None).numpy()
    assert whole.min() < -(2**61) and whole.max() > 2**61
    assert tt.empty(N).random_().numpy().max() <= 2**24


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("dtype", [tt.int64, tt.int32, tt.float32], ids=str)
def test_randperm(n, dtype):
    made = tt.randperm(n, dtype=dtype, generator=tt.Generator().manual_seed(4))
    assert sorted(made.tolist()) == list(range(n)) and made.dtype is dtype
    keys = draws64(4, 0, n)
    assert made.tolist() == np.argsort(keys, kind="stable").tolist()


def test_randperm_is_uniform():
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(1200):
        order = tuple(tt.randperm(3).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6 and all(abs(count - 200) < 80 for count in seen.values())


def test_bernoulli_compares_words():
    p = tt.rand(9)
    made = tt.bernoulli(p, generator=tt.Generator().manual_seed(6))
    assert made.tolist() == [
        float(int(w) < c * 2.0**32) for w, c in zip(draws32(6, 0, 9), p.tolist(), strict=True)
    ]
    assert (
        tt.empty(50).bernoulli_(1.0).tolist() == [1.0] * 50
        and tt.empty(50).bernoulli_(0.0).tolist() == [0.0] * 50
    )
    assert set(tt.empty(2, 50, dtype=tt.int8).bernoulli_(tt.tensor([[0.0], [1.0]]))[0].tolist()) == {0}
    assert tt.bernoulli(tt.zeros(3), 1.0).tolist() == [1.0] * 3


def test_normal_of_tensors():
    mean, std = tt.tensor([0.0, 100.0]), tt.tensor([[1.0], [0.0]])
    made = tt.normal(mean, std)
    assert made.shape == (2, 2) and made.tolist()[1] == [0.0, 100.0]
    assert tt.normal(mean, 0.0).tolist() == [0.0, 100.0] and tt.normal(5.0, tt.zeros(2)).tolist() == [
        5.0,
        5.0,
    ]
    assert tt.normal(0.0, 1.0, (2, 3), dtype=tt.float64).dtype is tt.float64
    z = tt.normal(mean, tt.ones(2), generator=tt.Generator().manual_seed(1)).tolist()
    plain = tt.randn(2, generator=tt.Generator().manual_seed(1)).tolist()
    assert z[0] == plain[0] and abs(z[1] - 100 - plain[1]) < 1e-4


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement):
    weights = tt.tensor([[0.0, 1.0, 3.0, 6.0], [5.0, 0.0, 5.0, 0.0]])
    made = tt.multinomial(weights.to(tt.float64), 2, replacement)
    assert made.shape == (2, 2) and made.dtype is tt.int64 and set(made[1].tolist()) <= {0, 2}
    first = np.array([tt.multinomial(weights[0], 1, replacement).item() for _ in range(1500)])
    counts = np.bincount(first, minlength=4) / 1500
    assert counts[0] == 0 and (abs(counts - [0, 0.1, 0.3, 0.6]) < 0.06).all()
    if not replacement:
        assert sorted(tt.multinomial(tt.ones(6), 6).tolist()) == list(range(6))


@pytest.mark.usefixtures("launch_blocking")
def test_multinomial_without_replacement_gives_weights_of_zero_last(device):
    made = tt.multinomial(tt.tensor([[0.0, 1.0, 0.0, 6.0], [0.0, 0.0, 5.0, 0.0]], device=device), 3)
    assert sorted(made[0, :2].tolist()) == [1, 3] and made[0, 2].item() in (0, 2)
    assert made[1, 0].item() == 2 and len(set(made[1].tolist())) == 3
    with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
        tt.multinomial(tt.tensor([[1.0, 0.0], [0.0, 0.0]], device=device), 1)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16], ids=str)
def test_native_dropout(dtype):
    x = tt.ones(N, dtype=dtype)
    out, mask = tt.native_dropout(x, 0.25, True)
    kept = mask.numpy()
    assert mask.dtype is tt.bool and abs(kept.mean() - 0.75) < 0.02
    assert (out.numpy()[~kept] == 0).all() and (out.numpy()[kept] == dtype.np.type(4 / 3)).all()
    same, everything = tt.native_dropout(x, 0.25, False)
    assert same.tolist() == x.tolist() and all(everything.tolist())
    assert tt.dropout(x, 0.5, False) is x and tt.dropout(x, 1.0, True).tolist() == [0.0] * N


def test_dropout_backward_of_whole_numbers_is_floating_point(device):
    mask = tt.tensor([True, False, True], device=device)
    for dtype, made in ((tt.int64, tt.float32), (tt.bool, tt.float32), (tt.bfloat16, tt.bfloat16)):
        scaled = tt.native_dropout_backward(tt.ones(3, dtype=dtype, device=device), mask, 1.5)
        assert scaled.dtype is made and scaled.tolist() == [1.5, 0.0, 1.5]


def test_dropout_gradient():
    x = tt.ones(100, dtype=tt.float64, requires_grad=True)
    y = tt.dropout(x, 0.5, True)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    z = tt.ones(10)
    assert tt.dropout_(z, 1.0, True) is z and z.tolist() == [0.0] * 10


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x.uniform_(),
        lambda x: x.normal_(),
        lambda x: x.exponential_(),
        lambda x: x.bernoulli_(),
        lambda x: x.random_(),
        lambda x: x.bernoulli_(tt.tensor(0.5)),
        lambda x: x.geometric_(0.5),
    ],
)
def test_draws_in_place(draw):
    x = tt.zeros(4)
    address, version = x.data_ptr(), x.current_version()
    assert draw(x) is x and x.data_ptr() == address and x.current_version() == version + 1
    leaf = tt.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        draw(leaf)
    inner = leaf.clone()
    draw(inner)
    inner.sum().backward()
    assert leaf.grad.tolist() == [0.0] * 4
    with pytest.raises(RuntimeError, match="single memory location"):
        draw(tt.zeros(1).expand(4))
    assert draw(tt.zeros(4, device="meta")).is_meta


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tt.randint(5, 5, (2,)), RuntimeError, "expects 'from' to be less than 'to'"),
        (lambda: tt.randint(-1, (2,)), RuntimeError, "expects 'from' to be less than 'to'"),
        (lambda: tt.randint(0, 300, (2,), dtype=tt.int8), RuntimeError, "out of bounds for Char"),
        (lambda: tt.zeros(2).uniform_(1, 0), RuntimeError, "to return a .from, to. range"),
        (lambda: tt.zeros(2).normal_(0, -1), RuntimeError, "std >= 0"),
        (lambda: tt.normal(tt.zeros(2), tt.full((2,), -1.0)), RuntimeError, "std >= 0"),
        (lambda: tt.normal(tt.zeros(2), tt.ones(3)), RuntimeError, "must match the size"),
        (lambda: tt.zeros(2).exponential_(0.0), RuntimeError, "lambda > 0"),
        (lambda: tt.zeros(2).geometric_(1.0), RuntimeError, r"\(0, 1\)"),
        (lambda: tt.zeros(2).cauchy_(0.0, 0.0), RuntimeError, "sigma > 0"),
        (lambda: tt.zeros(2).log_normal_(0.0, 0.0), RuntimeError, "std > 0"),
        (lambda: tt.zeros(2).bernoulli_(1.5), RuntimeError, r"p to be in \[0, 1\]"),
        (lambda: tt.bernoulli(tt.tensor([2.0])), RuntimeError, "p_in"),
        (lambda: tt.rand(2, dtype=tt.int64), NotImplementedError, "Long"),
        (lambda: tt.randn(2, dtype=tt.int64), NotImplementedError, "Long"),
        (lambda: tt.randperm(-1), RuntimeError, "non-negative"),
        (lambda: tt.randperm(300, dtype=tt.uint8), RuntimeError, "too large"),
        (lambda: tt.multinomial(tt.ones(2), 3), RuntimeError, "without replacement"),
        (lambda: tt.multinomial(tt.zeros(2), 2), RuntimeError, "sum of prob"),
        (lambda: tt.multinomial(tt.tensor([1.0, -1.0]), 1), RuntimeError, "element < 0"),
        (lambda: tt.multinomial(tt.ones(2, 2, 2), 1), RuntimeError, "1 or 2 dim"),
        (lambda: tt.dropout(tt.ones(2), 1.5, True), RuntimeError, "between 0 and 1"),
        (lambda: tt.rand(2, generator=tt.Generator("meta")), RuntimeError, "'cpu' device type"),
        (lambda: tt.zeros(2).requires_grad_().bernoulli(generator=3), TypeError, "generator"),
    ],
)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_out_forms():
    out = tt.empty(0)
    assert tt.rand(3, out=out) is out and out.shape == (3,)
    assert tt.randn(2, 2, out=out) is out and out.shape == (2, 2)
    whole = tt.empty(0, dtype=tt.int64)
    assert tt.randint(1, 2, (4,), out=whole) is whole and whole.tolist() == [1] * 4
    assert tt.randperm(3, out=whole) is whole and sorted(whole.tolist()) == [0, 1, 2]
    assert tt.normal(tt.ones(2), 0.0, out=out) is out and out.tolist() == [1.0, 1.0]
    assert tt.bernoulli(tt.ones(2), out=out) is out
    assert tt.multinomial(tt.ones(2), 2, out=whole) is whole


def test_like_forms():
    source = tt.zeros(2, 3, dtype=tt.float64)
    assert tt.randint_like(source, 5, 6).tolist() == [[5.0] * 3] * 2
    assert tt.randint_like(source, tt.tensor(1)).tolist() == [[0.0] * 3] * 2
    assert tt.rand_like(source, generator=tt.Generator().manual_seed(1)).tolist() == (
        tt.rand(2, 3, dtype=tt.float64, generator=tt.Generator().manual_seed(1)).tolist()
    )


def test_generator_states():
    g = tt.Generator().manual_seed(2**64 - 1)
    tt.rand(5, generator=g)
    state = g.get_state()
    assert state.dtype is tt.uint8 and state.shape == (16,)
    twin = g.clone_state()
    a, b = tt.rand(3, generator=g), tt.rand(3, generator=twin)
    assert a.tolist() == b.tolist() == tt.rand(3, generator=g.set_state(state)).tolist()
    assert g.initial_seed() == 2**64 - 1 and g.device == tt.device("cpu")
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(TypeError, match="uint8"):
        g.set_state(tt.zeros(16))
    with pytest.raises(RuntimeError, match="16 bytes"):
        g.set_state(tt.zeros(3, dtype=tt.uint8))
    with pytest.raises(ValueError, match="64-bit"):
        g.manual_seed(2**64)


def test_default_generator():
    assert tt.manual_seed(7) is tt.default_generator and tt.initial_seed() == 7
    state = tt.get_rng_state()
    a = tt.randn(4).tolist()
    tt.set_rng_state(state)
    assert tt.randn(4).tolist() == a
    with tt.random.fork_rng():
        tt.rand(100)
    b = tt.rand(2).tolist()
    tt.manual_seed(7)
    assert tt.randn(4).tolist() == a and tt.rand(2).tolist() == b
    assert tt.seed() == tt.initial_seed()


def test_numpy_error_state_is_left_alone():
    with np.errstate(all="raise"):
        for made in (
            tt.rand(5),
            tt.randn(5, dtype=tt.float16),
            tt.randint(0, 2**63 - 1, (5,)),
            tt.randperm(5),
        ):
            assert made.shape == (5,)
        tt.empty(100).exponential_()
        tt.multinomial(tt.tensor([0.0, 1.0]), 1)


@pytest.mark.parametrize("p", [(2,), (2, 3), (1, 3)])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_probabilities_that_do_not_broadcast_are_refused(p, device):
    x = tt.zeros(3, device=device)
    with pytest.raises(RuntimeError, match="expand"):
        x.bernoulli_(tt.ones(p, device=device))


@pytest.mark.parametrize("largest", [3, 1 << 20, 1 << 34, (1 << 64) - 1])
def test_the_order_of_keys_is_stable(largest: int, rng: np.random.Generator) -> None:
    """Keys are ordered by halves of their bits, and equal ones by their places."""
    keys = rng.integers(0, largest, 3000, np.uint64)
    assert order_of(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_normal_numbers_are_near_the_functions_they_stand_for(rng: np.random.Generator) -> None:
    """Box-Muller's cosine and sine, beside the C library's."""
    draws = rng.integers(0, 1 << 32, 20_000, np.uint32)
    radius = np.sqrt(-2 * np.log((draws[0::2] + 1.0) * 2.0**-32))
    angle = 6.283185307179586 * (draws[1::2] * 2.0**-32)
    made = normal_pairs(draws).reshape(-1, 2)
    for column, wanted in ((0, radius * np.cos(angle)), (1, radius * np.sin(angle))):
        assert np.abs((made[:, column] - wanted) / np.spacing(wanted)).max() < 5


@pytest.mark.parametrize(("device_type", "is_restored"), [("cpu", True), ("cuda", True), ("meta", False)])
def test_fork_rng_of_a_device_type(device_type, is_restored):
    tt.manual_seed(0)
    with tt.random.fork_rng(device_type=device_type):
        inside = tt.rand(2).tolist()
    assert (tt.rand(2).tolist() == inside) is is_restored


def test_fork_rng_restores_the_generators_of_its_device_type(device):
    tt.manual_seed(0)
    tt.rand(1, device=device)
    for options in (
        {"device_type": tt.device(device).type},
        {"device_type": tt.device(device).type, "devices": [0]},
    ):
        if device == "cpu":
            options.pop("devices", None)
        with tt.random.fork_rng(**options):
            inside = tt.rand(2, device=device).tolist()
        assert tt.rand(2, device=device).tolist() == inside
